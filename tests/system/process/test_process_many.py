"""Several server processes on one PostgreSQL database: any may answer, one may die, and the database may restart."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import databases
import httpx
import pytest
from process_load import SWITCH, Load, Reader, check_load, pending_without_command
from process_receiver import Receiver, check_webhook, register
from process_server import (
    PATIENCE_SECONDS,
    Application,
    ServerProcess,
    decoded,
    run_command,
    wait_for,
    wait_until,
)
from resource_paths import TEMPERATURE

from mirror_sdk.wire.history import HistoryEnd
from mirror_sdk.wire.routes import HISTORY
from mirror_sdk.wire.snapshot import NDJSON
from tests.system.process.conftest import clients, start_all

pytestmark = pytest.mark.process

EVENTS = "/v2/notification/events"
BEFORE_THE_END_SECONDS = 30
"""Less than a poll is held here: what happens in this time is not its end."""
BEFORE_A_HEARTBEAT_SECONDS = 10


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(5)
    yield made
    made.close()


def device(application: Application, name: str = "d") -> str:
    return application.add_device(
        f"{name}-of-{application.key.split('_')[1]}",
        {"path": SWITCH, "value": "0", "writable": True, "observable": True},
        {"path": TEMPERATURE, "value": "21", "observable": True},
    )


def held_poll(application: Application) -> Any:
    """The answer of a long plain poll; who looks whether it is open may be in its way for a moment."""
    return wait_until(lambda: (answer := application.poll(hold=55)).status_code != 409 and answer, "a poll")


def test_either_process_answers_and_the_device_is_asked_by_the_one_that_holds_it(applications) -> None:
    first, second = applications
    device_id = device(second)
    assert second.simulated_values(device_id) == first.simulated_values(device_id)
    assert second.write(device_id, SWITCH, "1", "w").status_code == 202
    assert second.response("w")["status"] == first.response("w")["status"] == 200
    assert first.simulated_values(device_id)[SWITCH] == "1"
    assert decoded(second.resource(device_id, SWITCH)["desired"]["value"]) == "1"
    second.json("PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
    wait_until(lambda: second.resource(device_id, TEMPERATURE)["subscribed"], "the subscription")
    second.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": "22"})
    assert decoded(first.resource(device_id, TEMPERATURE)["reported"]["value"]) == "22"
    assert second.http.patch("/sim/v1/devices/none", json={"online": True}).status_code == 404
    first.patch_device(device_id, online=False)
    told = [each.json("GET", f"/v3/devices/{device_id}/connection") for each in (first, second)]
    assert told[0] == told[1]
    assert (told[0]["protocol"], told[0]["reachable"]) == ("simulated", False)


def test_a_request_waits_for_its_device_at_any_process_and_expires_in_time(applications) -> None:
    first, second = applications
    device_id = device(second)
    second.patch_device(device_id, online=False)
    second.write(device_id, SWITCH, "1", "late", expiry_seconds=60)
    second.write(device_id, SWITCH, "2", "never", expiry_seconds=1)
    assert second.response("never")["error"] == "REQUEST_EXPIRED"
    second.patch_device(device_id, online=True, latency_seconds=4)

    def in_hand(application: Application) -> Any:
        listed = application.json("GET", "/v2/device-requests")["data"]
        return listed if all(entry["state"] == "with_device" for entry in listed) else None

    listed = wait_until(lambda: in_hand(second), "the request to be with its device")
    assert [entry["async_response_id"] for entry in listed] == ["late"]
    assert listed == in_hand(first)
    assert second.response("late")["status"] == 200


def test_who_waits_at_one_process_is_woken_by_another(applications) -> None:
    first, second = applications
    device_id = device(first)
    with ThreadPoolExecutor(4) as pool:
        for asked, other in ((first, second), (second, first)):
            after = int(asked.poll(after="latest", hold=0).headers["Mirror-Cursor"])
            held = [pool.submit(each.poll, after=after, hold=55) for each in (asked, other)]
            other.read(device_id, SWITCH, f"read-{after}")
            assert [each.result(BEFORE_THE_END_SECONDS).json()["async-responses"][0]["id"] for each in held] == [
                f"read-{after}"
            ] * 2


def test_plain_polls_of_a_key_have_one_position_at_all_processes(applications) -> None:
    first, second = applications
    device_id = device(first)
    while second.poll(hold=0).status_code == 200:
        pass
    got: list[str] = []
    for number in range(6):
        first.read(device_id, SWITCH, f"r{number}")
        first.response(f"r{number}")
        asked = (first, second)[number % 2]
        got += [entry["id"] for entry in asked.poll(hold=55).json()["async-responses"]]
    assert got == [f"r{number}" for number in range(6)]
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(held_poll, second)
        wait_until(lambda: first.poll(hold=0).status_code == 409, "the poll to be open")
        assert second.poll(hold=0).status_code == 409
        assert first.json("GET", "/v2/notification/channel") == second.json("GET", "/v2/notification/channel")
        second.json("DELETE", "/v2/notification/pull")
        assert held.result(BEFORE_THE_END_SECONDS).status_code == 410
        left = pool.submit(second.http.get, "/v2/notification/pull?hold=55", timeout=0.5)
        assert left.exception(PATIENCE_SECONDS) is not None
        wait_until(lambda: first.poll(hold=0).status_code == 204, "its poll to be closed", BEFORE_THE_END_SECONDS)


def test_snapshots_of_either_process_miss_no_change_while_both_write(pair, applications) -> None:
    device_ids = [device(applications[0], f"d{number}") for number in range(4)]
    loads = [Load(pair[n % 2], applications[0].key, device_id, n) for n, device_id in enumerate(device_ids)]
    seen: dict[str, Any] = {}
    revision = 0
    for number in range(60):
        asked = applications[number % 2]
        changed, end = snapshot(asked, changed_after=revision)
        assert end["revision"] >= revision, "a process showed less than the other one before"
        seen |= changed
        revision = end["revision"]
        # What each process holds of a device is never older than what the other one just showed.
        for device_id, shown in list(changed.items())[:1]:
            later = applications[(number + 1) % 2].json("GET", f"/v3/devices/{device_id}/echo")
            assert later.get("last_reported_at", "") >= shown.get("last_reported_at", "")
    wait_until(lambda: sum(len(load.accepted) for load in loads) > 50, "some load")
    for load in loads:
        load.stop()
    wait_until(lambda: not applications[0].json("GET", "/v2/device-requests")["data"], "all requests to be answered")
    changed, end = snapshot(applications[1], changed_after=revision)
    for application in applications:
        assert snapshot(application, changed_after=0)[0] == seen | changed
        for device_id in device_ids:
            shown = application.json("GET", f"/v3/devices/{device_id}/echo")
            assert {**shown, "created_at": None} == (seen | changed)[device_id]
    assert snapshot(applications[0], changed_after=end["revision"])[0] == {}


def snapshot(application: Application, **query: Any) -> tuple[dict[str, Any], Any]:
    """The changed devices of a snapshot by id, without the time at which they were shown, and its end."""
    answer = application.http.get("/v3/device-echo", params=query, headers={"Accept": NDJSON})
    *lines, end = map(json.loads, answer.text.splitlines())
    assert end["object"] == "snapshot-end"
    changed = [line for line in lines if line["object"] == "device-echo"]
    return {line["device_id"]: {**line, "created_at": None} for line in changed}, end


def test_either_process_gives_any_page_of_the_history(applications) -> None:
    first, second = applications
    device_id = device(second)
    second.json("PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
    for number in range(9):
        second.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": f"{number:06}"})
    whole, _ = history(first, device_id=device_id)
    assert len(whole) >= 9
    rows, end = history(second, device_id=device_id, limit=3)
    for application in cycle(applications):
        if end.after is None:
            break
        more, end = history(application, device_id=device_id, limit=3, after=end.after)
        rows += more
    assert rows == whole
    query = {"as_of": whole[-1]["received_at"]}
    told = [each.http.get("/v3/device-echo", params=query, headers={"Accept": NDJSON}) for each in applications]
    assert told[0].content == told[1].content
    assert b'"value":"MDAwMDA4"' in told[0].content


def history(application: Application, **query: Any) -> tuple[list[Any], HistoryEnd]:
    """The rows, without the cursors among them, and the end."""
    answer = application.http.get(HISTORY, params=query, headers={"Accept": NDJSON})
    assert answer.status_code == 200, answer.text
    *lines, end = [json.loads(line) for line in answer.text.splitlines()]
    return [line for line in lines if line["object"] == "history-row"], HistoryEnd.model_validate(end)


def polls_open(application: Application) -> bool:
    return "mirror_open_polls 1.0" in application.http.get("/metrics").text


def test_a_key_and_its_rules_are_the_same_everywhere(pair: list[ServerProcess], applications) -> None:
    first, second = applications
    rules = [{"endpoint-type": "x"}]
    second.json("PUT", "/v2/subscriptions", json=rules)
    assert first.json("GET", "/v2/subscriptions") == rules
    key_id = first.key.split("_")[1]
    device(first)
    with ThreadPoolExecutor(2) as pool:
        streams = [pool.submit(each.http.get, EVENTS, params={"after": 1}) for each in applications]
        wait_until(lambda: all(polls_open(each) for each in applications), "the streams to be open")
        assert run_command("keys", "revoke", key_id, "--database", pair[0].database_url).returncode == 0
        # Sooner than the next sign of life would show it.
        assert {stream.result(BEFORE_A_HEARTBEAT_SECONDS).status_code for stream in streams} == {200}
    assert {each.http.get("/v3/devices").status_code for each in applications} == {401}


def test_polls_outlive_the_process_that_passed_them_on_and_the_leader(start_servers, receiver) -> None:
    servers = start_servers(2, databases.new_postgresql_url())
    first, second = clients(servers)
    device_id = device(first)
    while second.poll(hold=0).status_code == 200:
        pass
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(held_poll, second)
        wait_until(lambda: first.poll(hold=0).status_code == 409, "the poll to be open")
        servers[1].kill()
        assert held.exception(BEFORE_THE_END_SECONDS) is not None
    first.read(device_id, SWITCH, "r")
    first.response("r")
    (response,) = first.poll(hold=55).json()["async-responses"]
    assert response["id"] == "r", "who passed the poll on took something with it"

    servers[1].start()
    second.patch_device(device_id, online=False)
    second.write(device_id, SWITCH, "1", "w")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(held_poll, second)
        wait_until(lambda: second.poll(hold=0).status_code == 409, "the poll to be open")
        servers[0].kill()
        assert held.result(BEFORE_THE_END_SECONDS).status_code in {204, 503}
    wait_until(lambda: second.http.get("/sim/v1/devices").status_code == 200, "the other process to take over")
    second.patch_device(device_id, online=True)
    (response,) = second.poll(hold=55).json()["async-responses"]
    assert (response["id"], response["status"]) == ("w", 200)
    second.json("DELETE", "/v2/notification/pull")
    register(second, receiver, 0)
    second.read(device_id, SWITCH, "by-the-webhook")
    wait_until(lambda: receiver.batches, "the webhook to be called by the process that is left")


def test_processes_that_start_together_make_one_schema_and_one_leads(tmp_path_factory) -> None:
    url = databases.new_postgresql_url("template0")
    servers = [ServerProcess(tmp_path_factory.mktemp("together"), database_url=url) for _ in range(4)]
    try:
        start_all(servers)
        key = servers[0].key()
        clients = [server.client(key).http for server in servers]

        def leading() -> list[bool]:
            return ["mirror_leader 1.0" in http.get("/metrics").text for http in clients]

        wait_for([False, False, False, True], lambda: sorted(leading()))
        leader = servers[leading().index(True)]
        assert leader.stop() == 0
        left = [server.client(key).http for server in servers if server is not leader]
        wait_until(lambda: sum("mirror_leader 1.0" in http.get("/metrics").text for http in left) == 1, "a successor")
    finally:
        for server in servers:
            server.close()


@pytest.mark.parametrize(
    ("options", "refused_options"),
    [
        (("--simulate", "0"), ["", "--clock manual"]),
        (("--clock", "manual", "--simulate", "0"), ["--clock manual --simulate 0"]),
    ],
)
def test_processes_that_do_not_fit_together_are_refused(start_servers, options, refused_options) -> None:
    url = databases.new_postgresql_url()
    start_servers(1, url, *options)
    for refused_option in refused_options:
        refused = run_command("run", "--port", "0", "--database", url, *refused_option.split())
        assert refused.returncode == 1
        assert "another process serves" in refused.stderr
        assert refused.stderr.count("\n") == 1


class Fleet:
    """Processes under load: an application at each, a device for each, a reader, and a webhook of another one."""

    def __init__(self, servers: list[ServerProcess], receiver: Receiver) -> None:
        self.servers = servers
        self.key = servers[0].key()
        self.application = servers[-1].client(self.key)
        self.listening = servers[-1].application()
        register(self.listening, receiver, 0)
        self.receiver = receiver
        device_ids = [device(self.application, f"load-{number}") for number in range(4)]
        self.application.patch_device(device_ids[1], latency_seconds=0.01)
        self.application.patch_device(device_ids[2], latency_seconds=0.05)
        for key in (self.application, self.listening):
            key.json("PUT", f"/v2/subscriptions/{device_ids[0]}{SWITCH}")
        self.readers = [Reader(server, self.key) for server in servers]
        self.loads = [
            Load(servers[number % len(servers)], self.key, device_id, number)
            for number, device_id in enumerate(device_ids)
        ]

    def accepted(self) -> int:
        return sum(len(load.accepted) for load in self.loads)

    def go_on(self, count: int) -> None:
        """Wait until so many more requests were accepted."""
        wanted = self.accepted() + count
        wait_until(lambda: self.accepted() >= wanted, "requests to be accepted")

    def check(self) -> None:
        """Let everything end, and see that nothing was lost or doubled."""
        check_load(self.application, self.loads, self.readers)
        check_webhook(self.listening, self.receiver)
        assert pending_without_command(self.servers[0]) == []
        assert run_command("check", "--database", self.servers[0].database_url).stdout == "all is well\n"
        assert [server.stderr.count("Traceback") for server in self.servers] == [0] * len(self.servers)


def test_kills_of_any_process_under_load_lose_nothing_and_double_nothing(start_servers, receiver) -> None:
    chance = random.Random(2)
    servers = start_servers(3, databases.new_postgresql_url())
    fleet = Fleet(servers, receiver)
    # Each dies twice; where two of three die at a time, the other goes on alone.
    for killed in ([0], [1, 2], [2], [0, 1]):
        fleet.go_on(chance.randint(20, 100))
        for number in killed:
            servers[number].kill()
        assert pending_without_command(servers[0]) == []
        wait_until(
            # What only the leader knows.
            lambda: any(
                server.child.running and ask(server, fleet.key, "/sim/v1/devices").is_success for server in servers
            ),
            "a take-over",
        )
        start_all([servers[number] for number in killed])
    fleet.go_on(50)
    fleet.check()


def ask(server: ServerProcess, key: str, path: str) -> httpx.Response:
    return httpx.get(server.url + path, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=30)


@pytest.fixture
def durable() -> Iterator[databases.Cluster]:
    """A PostgreSQL of the test's own, which writes to the disk before it answers."""
    cluster = databases.Cluster()
    yield cluster
    cluster.remove()


def test_restarts_of_postgresql_under_load_are_survived(start_servers, durable, receiver) -> None:
    servers = start_servers(2, durable.url("postgres"))
    fleet = Fleet(servers, receiver)
    for mode in ("fast", "immediate"):
        fleet.go_on(60)
        durable.stop(mode)
        answers = [ask(server, fleet.key, "/v3/devices") for server in servers]
        assert [answer.status_code for answer in answers] == [503, 503]
        assert all("database" in answer.json()["message"] for answer in answers)
        assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
        durable.start()
    fleet.go_on(60)
    fleet.check()
