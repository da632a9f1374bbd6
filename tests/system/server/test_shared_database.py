"""Servers on one PostgreSQL database: a transaction whose end was not told, leading that is lost and taken again."""

import base64
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import databases
import psycopg
import pytest
from ports import free_port

from mirror_server.cluster.forwarding import Call
from mirror_server.config import ListenAddress, Settings
from mirror_server.core.commands import CommandRequest
from mirror_server.core.errors import Refusal
from mirror_server.devices.link import Registration
from mirror_server.devices.simulator.bench import SimulatedResource
from mirror_server.service import keys
from mirror_server.service.commands import Placement
from mirror_server.service.keys import Scope
from mirror_server.services import Services
from mirror_server.store import devices, history, revisions, settings
from mirror_server.store import resources as stored_resources
from mirror_server.store.database import Database
from mirror_server.store.descriptions import Description
from mirror_server.store.devices import DeviceRow
from mirror_server.store.failures import DatabaseError, NotLeader, StorageFailed
from mirror_server.store.history import HistoryRow
from mirror_server.store.maintenance import violations
from mirror_server.store.resources import ReportedValue
from mirror_server.store.session import Session
from mirror_server.web.app import create_app
from mirror_server.web.forwarded_requests import answer_forwarded

PATH = "/3311/0/5850"


@pytest.fixture
def url() -> str:
    return databases.new_postgresql_url()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


@pytest.fixture
def open_services(url: str) -> Iterator[Callable[[], Services]]:
    opened: list[Services] = []

    def start() -> Services:
        services = Services(Settings(database_url=url, simulate=0))
        answer_forwarded(services, create_app(services))
        opened.append(services)
        services.start()
        return services

    yield start
    for services in opened:
        if not services._leadership._is_closing.is_set():
            services.close()


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    end_at = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end_at
        threading.Event().wait(0.01)
    return value


def count_up(session: Any) -> int:
    number = int(settings.get(session, "counted") or 0) + 1
    settings.put(session, "counted", str(number))
    return number


def counted(database: Database) -> int:
    with database.read() as session:
        return int(settings.get(session, "counted") or 0)


def cut_once(database: Database, when: str) -> None:
    """Lose the connection at the next COMMIT, before or after PostgreSQL did it."""
    connection = database._backend._connection
    run = connection.run

    def cut(command: str) -> None:
        if command.endswith("COMMIT"):
            if when == "after":
                run(command)
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        run(command)

    connection.run = cut


@pytest.mark.parametrize("insists", [True, False])
def test_what_was_stored_though_nobody_said_so_is_not_stored_again(database, insists):
    cut_once(database, "after")
    submit = database.insist if insists else database.submit
    assert submit(count_up).result(60) == 1
    assert counted(database) == 1
    assert database.write(count_up) == 2


def test_what_was_not_stored_is_refused_or_done_again(database, monkeypatch):
    monkeypatch.setattr("mirror_server.store.writer._RETRY_SECONDS", 0.02)
    cut_once(database, "before")
    with pytest.raises(StorageFailed):
        database.submit(count_up).result(60)
    assert counted(database) == 0
    cut_once(database, "before")
    assert database.insist(count_up).result(60) == 1
    assert counted(database) == 1


def test_writers_take_turns_and_lose_no_change_of_each_other(url):
    opened = [Database(url) for _ in range(3)]
    futures = [database.submit(count_up) for _ in range(50) for database in opened]
    assert sorted(future.result(60) for future in futures) == list(range(1, 151))
    for database in opened:
        database.close()


def test_of_servers_that_saw_the_same_rules_one_changes_them(open_services):
    services = [open_services() for _ in range(3)]
    rounds = 20
    for number in range(rounds):
        _, tag = services[0].subscriptions.rules("app")
        futures = [
            one.subscriptions.put_rules(
                "app", f'[{{"endpoint-name":"{number}-{at}"}}]', apply_now=False, was_seen=tag.__eq__
            )
            for at, one in enumerate(services)
        ]
        changed = [at for at, future in enumerate(futures) if future.exception(60) is None]
        assert len(changed) == 1
        assert services[0].subscriptions.rules("app")[0] == f'[{{"endpoint-name":"{number}-{changed[0]}"}}]'


def test_who_reads_what_changed_after_a_number_misses_nothing_that_is_stored_later(url):
    """Three write at once, and a fourth keeps a copy by asking for what is newer than it has seen."""
    opened = [Database(url) for _ in range(3)]
    reading = Database(url)
    reading.write(lambda session: [devices.put(session, device_row(f"d{number}")) for number in range(8)])
    chance = random.Random(0)
    copied: dict[str, int] = {}
    seen = 0
    under_way: set[Any] = set()
    for number in range(400):
        device_id = f"d{chance.randrange(8)}"
        under_way.add(chance.choice(opened).submit(partial(report_number, device_id=device_id, number=number)))
        if number % 3 == 0:
            with reading.read(with_revision=True) as session:
                last = revisions.last(session)
                newer = "SELECT d.device_id, d.revision FROM devices d WHERE d.revision > :seen"
                copied |= dict(session.rows(newer, seen=seen))
            assert max(copied.values(), default=0) <= last, "a device is ahead of the counter"
            assert last >= seen
            seen = last
    assert {future.result(60) for future in under_way}
    with reading.read(with_revision=True) as session:
        everything = dict(session.rows("SELECT device_id, revision FROM devices"))
        newest = dict(session.rows("SELECT device_id, revision FROM devices WHERE revision > :seen", seen=seen))
        assert max(everything.values()) == revisions.last(session)
    assert copied | newest == everything
    for database in (*opened, reading):
        database.close()


def device_row(device_id: str) -> DeviceRow:
    return DeviceRow(device_id, device_id, "x", 1, 0, 60, 0, 0, 0, 0)


def report_number(session: Any, *, device_id: str, number: int) -> int:
    value = ReportedValue(str(number).encode(), "text/plain", "read", number, None, device_id, PATH)
    stored_resources.report(session, [value])
    return number


def test_rows_are_taken_a_few_at_a_time_and_the_others_are_not_made_before(database):
    late_failure = "SELECT 1 / (10000 - number) FROM generate_series(1, 20000) AS number"
    with database.read() as session:
        some = session.each(late_failure, 100)
        assert [len(next(some)) for _ in range(3)] == [100, 100, 100]
        with pytest.raises(psycopg.errors.DivisionByZero):
            list(some)


def test_what_was_begun_to_be_read_is_refused_in_words_when_the_database_goes(url, database):
    with database.read() as session:
        some = session.each("SELECT number FROM generate_series(1, 20000) AS number", 100)
        next(some)
        databases.query(url, f"SELECT pg_terminate_backend({session.scalar('SELECT pg_backend_pid()')}, 5000)")
        with pytest.raises(StorageFailed):
            list(some)
    with database.read() as session:
        assert session.scalar("SELECT 1") == 1


def test_who_still_reads_when_it_is_closed_holds_no_connection(url):
    opened = Database(url)
    reading = opened.read()
    session = reading.__enter__()
    opened.close()
    with pytest.raises(StorageFailed):
        session.scalar("SELECT 1")
    reading.__exit__(None, None, None)


def test_many_messages_of_one_transaction_all_arrive(open_services, monkeypatch):
    first, second = open_services(), open_services()
    heard: list[str] = []
    monkeypatch.setattr(second, "receive", lambda *told: heard.extend(told))
    messages = [f"log {number:040}" for number in range(1000)]
    first.database.write(lambda session: [session.notify(message) for message in messages])
    wait_for(lambda: len(heard) >= len(messages))
    assert heard == messages


def test_an_id_from_outside_can_neither_break_a_transaction_nor_add_messages_to_it(open_services, monkeypatch):
    first, second = open_services(), open_services()
    heard: list[str] = []
    monkeypatch.setattr(second, "receive", lambda *told: heard.extend(told))
    for device_id in ("x" * 9000, "\N{SNOWMAN}" * 3000, "x\nduty ", "a\0b", "\N{SNOWMAN}" * 300):
        first.subscriptions.unsubscribe("app", device_id).result(60)
    first.database.write(lambda session: session.notify("log end"))
    wait_for(lambda: "log end" in heard)
    assert heard == ["waiting a\N{SYMBOL FOR NULL}b", "waiting " + "\N{SNOWMAN}" * 300, "log end"]


def stop_reconnecting(services: Services) -> threading.Event:
    """Cut off a server's connection to the other servers until the event is set."""
    leadership = services._leadership
    go_on = threading.Event()
    reconnect = leadership._reconnect

    def wait_first() -> bool:
        go_on.wait(60)
        return reconnect()

    leadership._reconnect = wait_first
    pid = leadership._election._connection._raw.info.backend_pid
    databases.execute(services.settings.database_url, f"SELECT pg_terminate_backend({pid})")
    return go_on


@pytest.fixture
def device(open_services):
    """A server that leads, with a device, and an application."""
    services = open_services()
    key = keys.create(services.database, "test", tuple(Scope), services.clock.now())
    app_id = key.split("_")[1]
    services.log.keep_for(app_id)
    resource = SimulatedResource(
        path=PATH, value="0", observable=True, auto_observable=True, writable=True, executable=False
    )
    device_id = services.bench.simulator.add("d", "", False, [resource])
    assert services.database.settle(60)
    return services, app_id, device_id


def reported(services: Services, device_id: str) -> bytes:
    encoded = services.devices.device_object(
        "", device_id, lambda _device, resources, _app: resources[0].reported_value or b""
    )
    return encoded.content


def test_a_server_that_leads_no_more_stores_nothing_of_it_and_goes_on_as_one_of_the_others(open_services, device):
    first, app_id, device_id = device
    second = open_services()
    go_on = stop_reconnecting(first)
    wait_for(lambda: second.is_leader() and second.bench.simulator.list_states())
    # It does not know yet: its device goes on, and what that says must not reach the mirror.
    first.bench.simulator.set_value(device_id, PATH, value="old")
    with pytest.raises(NotLeader):
        first.database.insist(lambda session: None).result(60)
    assert first.database.settle(60)
    second.bench.simulator.set_value(device_id, PATH, value="new")
    assert second.database.settle(60)
    assert reported(first, device_id) == b"new"

    go_on.set()
    wait_for(lambda: not first.is_leader() and not first.bench.simulator.list_states())
    request = CommandRequest("PUT", PATH, payload=b"1", content_type="text/plain")
    first.commands.place(Placement(app_id, device_id, request, async_id="w")).result(60)
    wait_for(lambda: first.log.last_seq(app_id) >= 2)
    assert second.bench.simulator.list_states()[0].resources[0].value == "1"
    second.close()
    wait_for(lambda: first.is_leader() and first.bench.simulator.list_states(), 60)
    assert first.bench.simulator.list_states()[0].resources[0].value == "1"
    kinds = [entry.kind for entry in first.log.read(app_id, 0).entries]
    assert kinds.count("async-responses") == 1
    with first.database.read() as session:
        assert list(violations(session)) == []


def test_a_server_that_takes_over_invents_no_event(open_services, device):
    first, app_id, device_id = device
    first.subscriptions.subscribe(app_id, device_id, PATH).result(60)
    assert first.database.settle(60)
    first.bench.simulator.set_value(device_id, PATH, value="1")
    assert first.database.settle(60)
    second = open_services()

    def seen() -> tuple[Any, ...]:
        with second.database.read() as session:
            resources = stored_resources.of_device(session, device_id)
        entries = [(entry.seq, entry.kind, entry.body) for entry in second.log.read(app_id, 0).entries]
        return resources, second.devices.device(device_id).last_contact_at, entries

    before = seen()
    assert [kind for _, kind, _ in before[-1]] == ["registrations", "notifications", "notifications"]
    first.close()
    wait_for(lambda: second.is_leader() and second.bench.simulator.list_states())
    assert second.database.settle(60)
    assert seen() == before
    second.bench.simulator.set_value(device_id, PATH, value="2")
    assert second.database.settle(60)
    assert len(seen()[-1]) == len(before[-1]) + 1


def test_what_any_process_stores_of_the_directory_all_tell(open_services, device):
    first, _, device_id = device
    second = open_services()
    told = Description("Lamp", attributes={"room": "B12"})
    second.devices.describe(device_id, lambda _: told).result(60)
    saved = second.directory.save_query("lamps", "name=Lamp").result(60)
    assert first.directory.query(saved.query_id) == saved
    found = first.devices.described(device_id).description
    assert (found.name, found.attributes) == ("Lamp", {"room": "B12"})
    with pytest.raises(Refusal, match="already"):
        first.directory.save_query("lamps", "").result(60)
    events = [
        each.directory.events((), after=None, descending=False, limit=100, count=True) for each in (first, second)
    ]
    assert events[0] == events[1]
    assert [row.device_id for row in events[0][0]] == [device_id]
    first.close()
    wait_for(lambda: second.is_leader() and second.bench.simulator.list_states())
    assert second.database.settle(60)
    assert second.directory.events((), after=None, descending=False, limit=100, count=True) == events[1]


def test_of_processes_that_save_under_one_name_one_does(open_services):
    processes = [open_services(), open_services()]
    saves = [process.directory.save_query("lamps", f"id={number}") for number, process in enumerate(processes)]
    refused = [future.exception(60) for future in saves]
    assert refused.count(None) == 1
    assert sum("already" in str(error) for error in refused) == 1
    _, count = processes[0].directory.queries((), after=None, descending=False, limit=10, count=True)
    assert count == 1


def test_a_server_that_was_cut_off_for_a_moment_goes_on_where_it_was(open_services, device):
    services, app_id, device_id = device
    token = services._leadership._election.token
    services.bench.simulator.set_behaviour(device_id, latency_seconds=0.5)
    before = services.log.last_seq(app_id)
    services.commands.place(Placement(app_id, device_id, CommandRequest("GET", PATH), async_id="r")).result(60)
    stop_reconnecting(services).set()
    wait_for(lambda: services.log.last_seq(app_id) > before)
    wait_for(lambda: services._leadership._holds_lock)
    assert services._leadership._election.token == token
    entries = services.log.read(app_id, 0).entries
    assert [entry.kind for entry in entries].count("async-responses") == 1


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("PUT", 204)])
def test_what_a_leader_was_asked_while_it_was_cut_off_is_answered_afterwards(open_services, device, method, status):
    first, app_id, device_id = device
    second = open_services()
    go_on = stop_reconnecting(first)
    wait_for(lambda: not first._leadership._holds_lock)
    path = f"/sim/v1/devices/{device_id}/resources{PATH}" if method == "PUT" else "/sim/v1/clock"
    body = base64.b64encode(b'{"value":"7"}' if method == "PUT" else b"").decode()
    headers = (("Content-Type", "application/json"),)
    scopes = tuple(scope.value for scope in Scope)
    asked = Call(second.database.process_id, app_id, scopes, method, path, "", headers, "127.0.0.1", body)
    _, future = second.forwarder.ask(asked)
    assert second.database.settle(60)
    go_on.set()
    assert future.result(60).status == status
    assert first.is_leader()


def _backend(database: Database, way: str) -> int:
    def statement(session: Session) -> int:
        return int(session.scalar("SELECT pg_backend_pid()"))

    if way == "look":
        return database.look(statement)
    with database.read() as session:
        return statement(session)


@pytest.mark.parametrize("way", ["read", "look"])
def test_a_connection_that_ended_while_it_was_idle_is_replaced_unseen(url, database, way):
    for _ in range(2):
        backend = _backend(database, way)
        databases.query(url, f"SELECT pg_terminate_backend({backend}, 5000)")
    assert _backend(database, way) != backend


def test_the_version_is_told_on_though_the_connections_that_told_it_ended(url, database):
    before = database.version()
    for _ in range(2):
        databases.query(url, f"SELECT pg_terminate_backend({_backend(database, 'look')}, 5000)")
        assert database.version() == before


def test_the_version_after_a_crash_of_postgresql_is_another_though_its_transactions_are_numbered_anew(url, database):
    before = database.version()
    # What it does when it has recovered; to kill it here would end the databases of other tests.
    databases.query(url, "SELECT pg_stat_reset_shared('bgwriter')")
    databases.query(url, f"SELECT pg_terminate_backend({_backend(database, 'look')}, 5000)")
    after = database.version()
    assert after != before
    assert database.version() == after


def test_each_of_two_transactions_at_the_same_time_makes_another_version_in_either_order(url, database):
    for first in (0, 1):
        with closing(psycopg.connect(url)) as one, closing(psycopg.connect(url)) as other:
            for connection in (one, other):
                connection.execute("SELECT pg_current_xact_id()")
            seen = [database.version()]
            for connection in ((one, other), (other, one))[first]:
                connection.commit()
                seen.append(database.version())
        assert len(set(seen)) == 3


def test_while_the_database_takes_nobody_the_version_is_refused_in_words_and_told_afterwards(url, database):
    before, name = database.version(), url.partition("@/")[2].partition("?")[0]
    databases.cluster().execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    databases.cluster().execute(
        f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    with pytest.raises(StorageFailed):
        database.version()
    databases.cluster().execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    database._backend._connect_again_at = 0
    assert database.version() != before


def test_what_one_process_gave_a_reader_is_known_to_the_one_that_registers_webhooks(open_services, device):
    first, app_id, _ = device
    second = open_services()
    assert first.webhooks.backlog(app_id) == 1
    second.log.note_read(app_id, second.log.last_seq(app_id))
    assert second.database.settle(60)
    first.database.write(lambda session: first.log.pass_over_read(session, app_id))
    assert first.webhooks.backlog(app_id) == 0


def test_what_a_leader_gave_a_reader_is_known_to_the_one_that_takes_over(url, open_services, device):
    """The leader stores what it gave with the next entry only, and where it learns that another one leads."""
    first, app_id, _ = device
    second = open_services()
    last_seq = first.log.last_seq(app_id)
    first.log.note_read(app_id, last_seq)
    assert first.database.settle(60)
    read_seq = f"SELECT read_seq FROM logs WHERE app_id = '{app_id}'"
    assert databases.query(url, read_seq) == [(0,)]
    go_on = stop_reconnecting(first)
    wait_for(second.is_leader)
    go_on.set()
    wait_for(lambda: databases.query(url, read_seq) == [(last_seq,)])


def test_what_came_first_is_the_same_for_all_servers_whichever_of_them_stored_it(open_services, device):
    first, app_id, device_id = device
    second = open_services()
    told = []
    for turn, services in enumerate([first, second] * 4):
        placement = Placement(app_id, device_id, CommandRequest("PUT", PATH, payload=b"%d" % turn), f"w{turn}")
        services.commands.place(placement).result(60)
        wait_for(lambda: not first.commands.waiting(app_id, device_id=None, after=None, limit=1))
        placement = Placement(app_id, device_id, CommandRequest("GET", PATH), f"r{turn}")
        services.commands.place(placement).result(60)
        wait_for(lambda: not first.commands.waiting(app_id, device_id=None, after=None, limit=1))
        seen = {numbers_of(each, device_id) for each in (first, second)}
        assert len(seen) == 1
        told.append(seen.pop())
    assert [number for pair in told for number in pair] == sorted({number for pair in told for number in pair})


def numbers_of(services: Services, device_id: str) -> tuple[int | None, int | None]:
    """The numbers of the write and of the read after it."""
    with services.database.read() as session:
        (row,) = stored_resources.of_device(session, device_id)
    return row.desired_revision, row.reported_revision


def test_a_process_that_listens_for_no_real_devices_does_not_join_those_that_do(url: str) -> None:
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    address = ListenAddress("127.0.0.1", 0)
    with closing(Services(Settings(database_url=url, coap=address))) as services:
        services.start()
        wait_for(services.device_urls)
        with pytest.raises(DatabaseError, match=r"with --coap, this one is to do so without.* all or none with --coap"):
            Services(Settings(database_url=url))
        with closing(Services(Settings(database_url=url, coap=address))) as second:
            second.start()
            assert second.device_urls() == [], "the port is the leader's"


def test_the_process_that_takes_over_listens_for_real_devices_on_the_same_port(url: str) -> None:
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    address = ListenAddress("127.0.0.1", free_port(socket.SOCK_DGRAM))
    first, second = (Services(Settings(database_url=url, coap=address)) for _ in range(2))
    with closing(second):
        with closing(first):
            first.start()
            second.start()
            assert wait_for(first.device_urls) == [f"coap://{address}"]
            assert second.device_urls() == []
        assert wait_for(second.device_urls) == [f"coap://{address}"]


def test_a_process_without_a_history_does_not_join_those_that_keep_one(url: str) -> None:
    with closing(Services(Settings(database_url=url, keep_history_seconds=3600))) as services:
        services.start()
        with pytest.raises(DatabaseError, match=r"with --keep-history, this one is to do so without"):
            Services(Settings(database_url=url))


def rows_in(services: Services) -> list[HistoryRow]:
    with services.database.read() as session:
        return [row for some in history.tail(session, 0, 100) for row in some]


def test_the_history_goes_on_with_the_process_that_takes_over(url: str) -> None:
    settings = Settings(database_url=url, keep_history_seconds=3600)
    registration = Registration("sensor", "Sensor", False, 3600, ())
    first, second = (Services(settings) for _ in range(2))
    with closing(second):
        with closing(first):
            first.start()
            second.start()
            device_id = first.devices.registered(registration).result(60)
            with pytest.raises(NotLeader):
                second.devices.deregistered(device_id).result(60)
        # No device comes in before it is told.
        wait_for(lambda: len(rows_in(second)) == 2)
        second.devices.deregistered(device_id).result(60)
        rows = rows_in(second)
    assert [row.what for row in rows] == ["registration", "gap", "deregistration"]
    registered, gap, deregistered = rows
    assert gap.until is not None
    assert registered.received_at <= gap.changed_at < gap.until <= deregistered.received_at


def responses(services: Services, app_id: str) -> list[Any]:
    return [entry for entry in services.log.read(app_id, 0).entries if entry.kind == "async-responses"]


@pytest.mark.parametrize("placed_by", ["leader", "other"])
def test_a_request_waits_until_the_process_that_took_it_told_its_id(open_services, device, monkeypatch, placed_by):
    monkeypatch.setattr("mirror_server.service.untold._LONGEST_SECONDS", 600)
    leader, app_id, device_id = device
    other = open_services()
    assert leader.is_leader()
    process = leader if placed_by == "leader" else other
    for number in range(1, 4):
        placed, told = process.commands.place_untold(Placement(app_id, device_id, CommandRequest("GET", PATH)))
        async_id = placed.result(60).async_id
        wait_for(partial(leader._untold.is_held, async_id))
        leader._dispatcher.wake_all()
        assert leader.database.settle(60)
        assert len(responses(leader, app_id)) == number - 1
        told()
        wait_for(lambda number=number: len(responses(leader, app_id)) == number)
        wait_for(lambda async_id=async_id: not (leader._untold.is_held(async_id) or other._untold.is_held(async_id)))


@pytest.mark.parametrize("ends", ["never told", "leader ended"])
def test_a_request_whose_id_nobody_tells_is_delivered_all_the_same(open_services, device, ends):
    leader, app_id, device_id = device
    other = open_services()
    placed, _ = other.commands.place_untold(Placement(app_id, device_id, CommandRequest("GET", PATH)))
    placed.result(60)
    if ends == "leader ended":
        leader.close()
    assert wait_for(lambda: responses(other, app_id))
