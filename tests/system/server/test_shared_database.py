"""Servers on one PostgreSQL database: commits without confirmation, and changes of the leader."""

import base64
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import uuid4

import databases
import psycopg
import pytest
from devices_on_loopback import until as wait_for
from flask import Response
from histories import tail

from mirror_server.config import ListenAddress
from mirror_server.core.commands import CommandRequest
from mirror_server.devices.interface import Registration
from mirror_server.extensions.compat.delayed_requests import DelayedRequests
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.extensions.postgresql.forwarding import Call
from mirror_server.extensions.simulator.control import SimulatorControl
from mirror_server.extensions.simulator.device import SimulatedResource
from mirror_server.hooks import Extensions, open_database, read_settings
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.keys import Scope
from mirror_server.store import devices
from mirror_server.store.backend import DatabaseError, NotLeader, StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.maintenance import violations
from mirror_server.store.session import Session
from mirror_server.views.deferred_responses import DeferredResponse

PATH = "/3311/0/5850"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


def increment(session: Any) -> int:
    number = int(session.setting("counted") or 0) + 1
    session.put_setting("counted", str(number))
    return number


def stored_count(database: Database) -> int:
    with database.read() as session:
        return int(session.setting("counted") or 0)


def disconnect_at_commit(database: Database, when: str) -> None:
    """Lose the connection at the next COMMIT, before or after its execution."""
    connection = database.backend._connection
    run = connection.run

    def disconnect(command: str) -> None:
        if command.endswith("COMMIT"):
            if when == "after":
                run(command)
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        run(command)

    connection.run = disconnect


@pytest.mark.parametrize("until_stored", [True, False])
def test_commit_without_confirmation_is_not_repeated(database, until_stored):
    disconnect_at_commit(database, "after")
    submit = database.submit_durable if until_stored else database.submit
    assert submit(increment).result(60) == 1
    assert stored_count(database) == 1
    assert database.write(increment) == 2


def test_failed_commit_raises_or_is_retried(database, monkeypatch):
    monkeypatch.setattr("mirror_server.store.writer._RETRY_SECONDS", 0.02)
    disconnect_at_commit(database, "before")
    with pytest.raises(StorageFailed):
        database.submit(increment).result(60)
    assert stored_count(database) == 0
    disconnect_at_commit(database, "before")
    assert database.submit_durable(increment).result(60) == 1
    assert stored_count(database) == 1


def test_rows_are_fetched_in_batches_and_lost_connection_raises_storage_failed(url, database):
    with database.read() as session:
        batches = session.each("SELECT 1 / (10000 - number) FROM generate_series(1, 20000) AS number", 100)
        assert [len(next(batches)) for _ in range(3)] == [100, 100, 100]
        with pytest.raises(psycopg.errors.DivisionByZero):
            list(batches)
    with database.read() as session:
        batches = session.each("SELECT number FROM generate_series(1, 20000) AS number", 100)
        next(batches)
        end_backend(url, session.scalar("SELECT pg_backend_pid()"))
        with pytest.raises(StorageFailed):
            list(batches)
    with database.read() as session:
        assert session.scalar("SELECT 1") == 1


def end_backend(url: str, backend: int) -> None:
    databases.query(url, f"SELECT pg_terminate_backend({backend}, 5000)")


def test_close_ends_open_reads(url):
    opened = open_database(url)
    reading = opened.read()
    session = reading.__enter__()
    opened.close()
    with pytest.raises(StorageFailed):
        session.scalar("SELECT 1")
    reading.__exit__(None, None, None)


def test_all_published_messages_arrive_and_malformed_ids_cannot_forge_any(open_services, monkeypatch):
    first, second = open_services(), open_services()
    received: list[str] = []
    monkeypatch.setattr(second.coordinator.leadership, "_receive", received.extend)
    messages = [f"log {number:040}" for number in range(1000)]
    first.database.write(lambda session: [session.publish(*message.split()) for message in messages])
    for device_id in ("x" * 9000, "\N{SNOWMAN}" * 3000, "x\nduty ", "a\0b", "\N{SNOWMAN}" * 300):
        first.subscriptions.unsubscribe("app", device_id).result(60)
    first.database.write(lambda session: session.publish("log", "end"))
    wait_for(lambda: "log end" in received)
    assert received == [*messages, "waiting a\N{SYMBOL FOR NULL}b", "waiting " + "\N{SNOWMAN}" * 300, "log end"]


def stop_reconnecting(services: Services) -> threading.Event:
    """End the connection of a server to the others. It reconnects after the event is set."""
    leadership = services.coordinator.leadership
    may_reconnect = threading.Event()
    reconnect = leadership._reconnect

    def reconnect_later() -> bool:
        may_reconnect.wait(60)
        return reconnect()

    leadership._reconnect = reconnect_later
    pid = leadership._election._connection._raw.info.backend_pid
    databases.execute(services.settings.database_url, f"SELECT pg_terminate_backend({pid})")
    return may_reconnect


@pytest.fixture
def device(open_services):
    """A leader, the id of an application, and the id of a device."""
    services = open_services()
    key = keys.create(services.database, "test", tuple(Scope), services.clock.now())
    app_id = key.split("_")[1]
    services.log.ensure_log(app_id)
    resource = SimulatedResource(
        path=PATH, value="0", observable=True, auto_observable=True, writable=True, executable=False
    )
    device_id = services.part(SimulatorControl).backend.add("d", "", False, [resource])
    assert services.database.settle(60)
    return services, app_id, device_id


def test_former_leader_stores_nothing_and_continues_as_follower(open_services, device):
    first, app_id, device_id = device
    second = open_services()
    may_reconnect = stop_reconnecting(first)
    wait_for(lambda: second.is_leader() and second.part(SimulatorControl).backend.list_states())
    # It still believes to lead. Values of its devices must not reach the mirror.
    first.part(SimulatorControl).backend.set_value(device_id, PATH, value="old")
    with pytest.raises(NotLeader):
        first.database.submit_durable(lambda session: None).result(60)
    assert first.database.settle(60)
    second.part(SimulatorControl).backend.set_value(device_id, PATH, value="new")
    assert second.database.settle(60)
    with first.database.read() as session:
        assert devices.object_of(session, device_id)[1][0].reported_value == b"new"

    may_reconnect.set()
    wait_for(lambda: not first.is_leader() and not first.part(SimulatorControl).backend.list_states())
    request = CommandRequest("PUT", PATH, payload=b"1", content_type="text/plain")
    first.commands.submit(CommandSubmission(app_id, device_id, request, async_id="w")).result(60)
    wait_for(lambda: first.log.last_seq(app_id) >= 2)
    assert second.part(SimulatorControl).backend.list_states()[0].resources[0].value == "1"
    second.close()
    wait_for(lambda: first.is_leader() and first.part(SimulatorControl).backend.list_states())
    assert first.part(SimulatorControl).backend.list_states()[0].resources[0].value == "1"
    kinds = [entry.kind for entry in first.log.read(app_id, 0).entries]
    assert kinds.count("async-responses") == 1
    with first.database.read() as session:
        assert list(violations(session, Extensions().storages)) == []


def test_takeover_creates_no_events(open_services, device):
    first, app_id, device_id = device
    first.subscriptions.subscribe(app_id, device_id, PATH).result(60)
    assert first.database.settle(60)
    first.part(SimulatorControl).backend.set_value(device_id, PATH, value="1")
    assert first.database.settle(60)
    second = open_services()

    def state() -> tuple[Any, ...]:
        with second.database.read() as session:
            _, resources = devices.object_of(session, device_id)
        entries = [(entry.seq, entry.kind, entry.body) for entry in second.log.read(app_id, 0).entries]
        return resources, second.devices.device(device_id).last_contact_at, entries

    before = state()
    assert [kind for _, kind, _ in before[-1]] == ["registrations", "notifications", "notifications"]
    first.close()
    wait_for(lambda: second.is_leader() and second.part(SimulatorControl).backend.list_states())
    assert second.database.settle(60)
    assert state() == before
    second.part(SimulatorControl).backend.set_value(device_id, PATH, value="2")
    assert second.database.settle(60)
    assert len(state()[-1]) == len(before[-1]) + 1


def test_briefly_disconnected_leader_continues_to_lead(open_services, device):
    services, app_id, device_id = device
    token = services.coordinator.leadership._election.token
    services.part(SimulatorControl).backend.set_behavior(device_id, latency_seconds=0.5)
    before = services.log.last_seq(app_id)
    services.commands.submit(CommandSubmission(app_id, device_id, CommandRequest("GET", PATH), async_id="r")).result(60)
    stop_reconnecting(services).set()
    wait_for(lambda: services.log.last_seq(app_id) > before)
    wait_for(lambda: services.coordinator.leadership._holds_lock)
    assert services.coordinator.leadership._election.token == token
    entries = services.log.read(app_id, 0).entries
    assert [entry.kind for entry in entries].count("async-responses") == 1


def test_forwarded_request_is_handled_after_leader_reconnects(open_services, device):
    first, app_id, device_id = device
    second = open_services()
    may_reconnect = stop_reconnecting(first)
    wait_for(lambda: not first.coordinator.leadership._holds_lock)
    path = f"/sim/v1/devices/{device_id}/resources{PATH}"
    headers = (("Content-Type", "application/json"),)
    scopes = tuple(scope.value for scope in Scope)
    body = base64.b64encode(b'{"value":"7"}').decode()
    call = Call(second.database.process_id, app_id, scopes, "PUT", path, "", headers, "127.0.0.1", body)
    _, future = second.coordinator.forwarder.forward(call)
    assert second.database.settle(60)
    may_reconnect.set()
    assert future.result(60).status == 204
    assert first.is_leader()


def _backend(database: Database, method: str) -> int:
    def statement(session: Session) -> int:
        return int(session.scalar("SELECT pg_backend_pid()"))

    if method == "query":
        return database.query(statement)
    with database.read() as session:
        return statement(session)


def test_ended_idle_connection_is_replaced_transparently(url, database):
    before = database.version()
    for method in ("read", "query"):
        for _ in range(2):
            backend = _backend(database, method)
            end_backend(url, backend)
            # One of the methods also reads the version.
            assert database.version() == before
        assert _backend(database, method) != backend


def test_version_changes_after_postgresql_crash(url, database):
    before = database.version()
    # PostgreSQL does this after a recovery. A kill would affect the databases of other tests.
    databases.query(url, "SELECT pg_stat_reset_shared('bgwriter')")
    end_backend(url, _backend(database, "query"))
    after = database.version()
    assert after != before
    assert database.version() == after


def test_each_of_two_concurrent_transactions_changes_the_version(url, database):
    for first in (0, 1):
        with closing(psycopg.connect(url)) as one, closing(psycopg.connect(url)) as other:
            for connection in (one, other):
                connection.execute("SELECT pg_current_xact_id()")
            state = [database.version()]
            for connection in ((one, other), (other, one))[first]:
                connection.commit()
                state.append(database.version())
        assert len(set(state)) == 3


def test_version_fails_while_database_rejects_connections(url, database):
    before, name = database.version(), url.partition("@/")[2].partition("?")[0]
    databases.cluster().execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    databases.cluster().execute(
        f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    with pytest.raises(StorageFailed):
        database.version()
    databases.cluster().execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    database.backend._connect_again_at = 0
    assert database.version() != before


def test_read_position_of_one_process_is_visible_to_webhook_registration_at_another(open_services, device):
    first, app_id, _ = device
    second = open_services()
    assert first.webhooks.backlog(app_id) == 1
    second.log.note_read(app_id, second.log.last_seq(app_id))
    assert second.database.settle(60)
    first.database.write(lambda session: first.log.skip_read(session, app_id))
    assert first.webhooks.backlog(app_id) == 0


def test_read_position_is_stored_when_leadership_ends(url, open_services, device):
    """The leader stores the read position with the next entry, or when its leadership ends."""
    first, app_id, _ = device
    second = open_services()
    last_seq = first.log.last_seq(app_id)
    first.log.note_read(app_id, last_seq)
    assert first.database.settle(60)
    read_seq = f"SELECT read_seq FROM logs WHERE app_id = '{app_id}'"
    assert databases.query(url, read_seq) == [(0,)]
    may_reconnect = stop_reconnecting(first)
    wait_for(second.is_leader)
    may_reconnect.set()
    wait_for(lambda: databases.query(url, read_seq) == [(last_seq,)])


@pytest.mark.parametrize(
    ("option", "settings"),
    [("--coap", {"coap": ListenAddress("127.0.0.1", 0)}), ("--keep-history", {"keep_history_seconds": 3600})],
)
def test_process_without_required_option_cannot_join(url: str, option: str, settings: Any) -> None:
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    with closing(Services(read_settings(database_url=url, **settings))) as services:
        services.start()
        with pytest.raises(
            DatabaseError, match=rf"other options: --clock system, {option}; this process has: --clock system\."
        ):
            Services(read_settings(database_url=url))
        with closing(Services(read_settings(database_url=url, **settings))) as second:
            second.start()
            assert "coap:" not in "".join(second.extensions.hook.device_address()), "only the leader listens"


def history_rows(services: Services) -> list[StoredHistoryRow]:
    with services.database.read() as session:
        return tail(session)


def test_history_continues_after_takeover_with_a_gap(url: str) -> None:
    settings = read_settings(database_url=url, keep_history_seconds=3600)
    registration = Registration("sensor", "Sensor", False, 3600, (), "test")
    first, second = (Services(settings) for _ in range(2))
    with closing(second):
        with closing(first):
            first.start()
            second.start()
            device_id = first.devices.registered(registration).result(60)
            with pytest.raises(NotLeader):
                second.devices.deregistered(device_id).result(60)
        # No device can connect before the gap is recorded.
        wait_for(lambda: len(history_rows(second)) == 2)
        second.devices.deregistered(device_id).result(60)
        rows = history_rows(second)
    assert [row.what for row in rows] == ["registration", "gap", "deregistration"]
    registered, gap, deregistered = rows
    assert gap.until is not None
    assert registered.received_at <= gap.changed_at < gap.until <= deregistered.received_at


def responses(services: Services, app_id: str) -> list[Any]:
    return [entry for entry in services.log.read(app_id, 0).entries if entry.kind == "async-responses"]


def submit_with_generated_id(services: Services, app_id: str, device_id: str) -> DeferredResponse:
    """Submit a read with a generated async-id."""
    submission = CommandSubmission(app_id, device_id, CommandRequest("GET", PATH), uuid4().hex)
    handling = services.part(DelayedRequests).delay(submission)
    assert handling.check is not None
    assert handling.respond is not None
    stored = services.commands.submit(replace(submission, checks=(handling.check,)))
    response = handling.respond(stored, lambda _: Response())
    assert isinstance(response, DeferredResponse)
    return response


def test_command_is_delayed_until_its_generated_id_is_sent(open_services, device, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.compat.delayed_requests._LONGEST_SECONDS", 600)
    leader, app_id, device_id = device
    other = open_services()
    response = submit_with_generated_id(other, app_id, device_id)
    async_id = response.future.result(60).async_id
    wait_for(lambda: async_id in leader.dispatcher.delayed)
    leader.dispatcher.wake_all()
    assert leader.database.settle(60)
    assert not responses(leader, app_id)
    response.sent()
    wait_for(lambda: responses(leader, app_id))
    wait_for(lambda: async_id not in leader.dispatcher.delayed | other.dispatcher.delayed)


@pytest.mark.parametrize("ends", ["never sent", "leader ended"])
def test_command_whose_generated_id_is_never_sent_is_delivered_after_timeout(open_services, device, ends):
    leader, app_id, device_id = device
    other = open_services()
    submit_with_generated_id(other, app_id, device_id).future.result(60)
    if ends == "leader ended":
        leader.close()
    assert wait_for(lambda: responses(other, app_id))
