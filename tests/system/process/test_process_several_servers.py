"""Several server processes on one PostgreSQL database: any can respond, and kills and restarts lose nothing."""

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
"""Less than the time limit of a poll: a response within this time has another cause."""
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


def long_poll(application: Application) -> Any:
    """Return the response of a long plain poll. A concurrent check whether it is open may cause a 409 first."""
    return wait_until(lambda: (response := application.poll(hold=55)).status_code != 409 and response, "a poll")


def test_any_process_serves_requests_and_the_leader_reaches_the_device(applications) -> None:
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
    connections = [each.json("GET", f"/v3/devices/{device_id}/connection") for each in (first, second)]
    assert connections[0] == connections[1]
    assert (connections[0]["protocol"], connections[0]["reachable"]) == ("simulated", False)


def test_request_to_offline_device_waits_or_expires_at_any_process(applications) -> None:
    first, second = applications
    device_id = device(second)
    second.patch_device(device_id, online=False)
    second.write(device_id, SWITCH, "1", "late", expiry_seconds=60)
    second.write(device_id, SWITCH, "2", "never", expiry_seconds=1)
    assert second.response("never")["error"] == "REQUEST_EXPIRED"
    # Long enough for a slow machine to see the request there.
    second.patch_device(device_id, online=True, latency_seconds=10)

    def requests_with_device(application: Application) -> Any:
        listed = application.json("GET", "/v2/device-requests")["data"]
        return listed if all(entry["state"] == "with_device" for entry in listed) else None

    listed = wait_until(lambda: requests_with_device(second), "the request to be with its device")
    assert [entry["async_response_id"] for entry in listed] == ["late"]
    assert listed == requests_with_device(first)
    assert second.response("late")["status"] == 200


def test_poll_at_one_process_returns_events_of_another(applications) -> None:
    first, second = applications
    device_id = device(first)
    with ThreadPoolExecutor(4) as pool:
        for polled, other in ((first, second), (second, first)):
            after = int(polled.poll(after="latest", hold=0).headers["Mirror-Cursor"])
            polls = [pool.submit(each.poll, after=after, hold=55) for each in (polled, other)]
            other.read(device_id, SWITCH, f"read-{after}")
            assert [each.result(BEFORE_THE_END_SECONDS).json()["async-responses"][0]["id"] for each in polls] == [
                f"read-{after}"
            ] * 2


def test_plain_polls_share_one_position_across_processes(applications) -> None:
    first, second = applications
    device_id = device(first)
    while second.poll(hold=0).status_code == 200:
        pass
    got: list[str] = []
    for number in range(6):
        first.read(device_id, SWITCH, f"r{number}")
        first.response(f"r{number}")
        polled = (first, second)[number % 2]
        got += [entry["id"] for entry in polled.poll(hold=55).json()["async-responses"]]
    assert got == [f"r{number}" for number in range(6)]
    with ThreadPoolExecutor(2) as pool:
        poll = pool.submit(long_poll, second)
        wait_until(lambda: first.poll(hold=0).status_code == 409, "the poll to be open")
        assert second.poll(hold=0).status_code == 409
        assert first.json("GET", "/v2/notification/channel") == second.json("GET", "/v2/notification/channel")
        second.json("DELETE", "/v2/notification/pull")
        assert poll.result(BEFORE_THE_END_SECONDS).status_code == 410
        left = pool.submit(second.http.get, "/v2/notification/pull?hold=55", timeout=0.5)
        assert left.exception(PATIENCE_SECONDS) is not None
        wait_until(lambda: first.poll(hold=0).status_code == 204, "its poll to be closed", BEFORE_THE_END_SECONDS)


def test_snapshots_of_any_process_miss_no_change_under_concurrent_writes(pair, applications) -> None:
    device_ids = [device(applications[0], f"d{number}") for number in range(4)]
    loads = [Load(pair[n % 2], applications[0].key, device_id, n) for n, device_id in enumerate(device_ids)]
    received: dict[str, Any] = {}
    revision = 0
    for number in range(60):
        polled = applications[number % 2]
        changed, end = snapshot(polled, changed_after=revision)
        assert end["revision"] >= revision, "a process returned an older revision than the other one before"
        received |= changed
        revision = end["revision"]
        # The state of a device at one process is never older than a previous response of the other one.
        for device_id, echo in list(changed.items())[:1]:
            later = applications[(number + 1) % 2].json("GET", f"/v3/devices/{device_id}/echo")
            assert later.get("last_reported_at", "") >= echo.get("last_reported_at", "")
    wait_until(lambda: sum(len(load.accepted) for load in loads) > 50, "some load")
    for load in loads:
        load.stop()
    wait_until(lambda: not applications[0].json("GET", "/v2/device-requests")["data"], "the responses to all requests")
    changed, end = snapshot(applications[1], changed_after=revision)
    for application in applications:
        assert snapshot(application, changed_after=0)[0] == received | changed
        for device_id in device_ids:
            echo = application.json("GET", f"/v3/devices/{device_id}/echo")
            assert {**echo, "created_at": None} == (received | changed)[device_id]
    assert snapshot(applications[0], changed_after=end["revision"])[0] == {}


def snapshot(application: Application, **query: Any) -> tuple[dict[str, Any], Any]:
    """Return the changed devices of a snapshot by id, without the time of the snapshot, and the end record."""
    response = application.http.get("/v3/device-echo", params=query, headers={"Accept": NDJSON})
    *lines, end = map(json.loads, response.text.splitlines())
    assert end["object"] == "snapshot-end"
    changed = [line for line in lines if line["object"] == "device-echo"]
    return {line["device_id"]: {**line, "created_at": None} for line in changed}, end


def test_any_process_returns_any_page_of_the_history(applications) -> None:
    first, second = applications
    device_id = device(second)
    second.json("PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
    for number in range(9):
        second.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": f"{number:06}"})
    all_rows, _ = history(first, device_id=device_id)
    assert len(all_rows) >= 9
    rows, end = history(second, device_id=device_id, limit=3)
    for application in cycle(applications):
        if end.after is None:
            break
        more, end = history(application, device_id=device_id, limit=3, after=end.after)
        rows += more
    assert rows == all_rows
    query = {"as_of": all_rows[-1]["received_at"]}
    snapshots = [each.http.get("/v3/device-echo", params=query, headers={"Accept": NDJSON}) for each in applications]
    assert snapshots[0].content == snapshots[1].content
    assert b'"value":"MDAwMDA4"' in snapshots[0].content


def history(application: Application, **query: Any) -> tuple[list[Any], HistoryEnd]:
    """Return the rows without the cursors, and the end record."""
    response = application.http.get(HISTORY, params=query, headers={"Accept": NDJSON})
    assert response.status_code == 200, response.text
    *lines, end = [json.loads(line) for line in response.text.splitlines()]
    return [line for line in lines if line["object"] == "history-row"], HistoryEnd.model_validate(end)


def polls_open(application: Application) -> bool:
    return "mirror_open_polls 1.0" in application.http.get("/metrics").text


def test_keys_and_rules_are_the_same_at_all_processes(pair: list[ServerProcess], applications) -> None:
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
        # Before the next heartbeat.
        assert {stream.result(BEFORE_A_HEARTBEAT_SECONDS).status_code for stream in streams} == {200}
    assert {each.http.get("/v3/devices").status_code for each in applications} == {401}


def test_polls_survive_kills_of_forwarding_process_and_leader(start_servers, receiver) -> None:
    servers = start_servers(2, databases.new_postgresql_url())
    first, second = clients(servers)
    device_id = device(first)
    while second.poll(hold=0).status_code == 200:
        pass
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(long_poll, second)
        wait_until(lambda: first.poll(hold=0).status_code == 409, "the poll to be open")
        servers[1].kill()
        assert poll.exception(BEFORE_THE_END_SECONDS) is not None
    first.read(device_id, SWITCH, "r")
    first.response("r")
    (response,) = first.poll(hold=55).json()["async-responses"]
    assert response["id"] == "r", "the killed process lost an event of the poll"

    servers[1].start()
    second.patch_device(device_id, online=False)
    second.write(device_id, SWITCH, "1", "w")
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(long_poll, second)
        wait_until(lambda: second.poll(hold=0).status_code == 409, "the poll to be open")
        servers[0].kill()
        assert poll.result(BEFORE_THE_END_SECONDS).status_code in {204, 503}
    wait_until(lambda: second.http.get("/sim/v1/devices").status_code == 200, "the other process to take over")
    second.patch_device(device_id, online=True)
    (response,) = second.poll(hold=55).json()["async-responses"]
    assert (response["id"], response["status"]) == ("w", 200)
    second.json("DELETE", "/v2/notification/pull")
    register(second, receiver, 0)
    second.read(device_id, SWITCH, "by-the-webhook")
    wait_until(lambda: receiver.batches, "the webhook to be called by the process that is left")


def test_concurrently_started_processes_create_one_schema_and_elect_one_leader(tmp_path_factory) -> None:
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
    ("options", "rejected_options"),
    [
        (("--simulate", "0"), ["", "--clock manual"]),
        (("--clock", "manual", "--simulate", "0"), ["--clock manual --simulate 0"]),
    ],
)
def test_processes_with_different_options_are_rejected(start_servers, options, rejected_options) -> None:
    url = databases.new_postgresql_url()
    start_servers(1, url, *options)
    for option in rejected_options:
        ended = run_command("run", "--port", "0", "--database", url, *option.split())
        assert ended.returncode == 1
        assert "another process serves" in ended.stderr
        assert ended.stderr.count("\n") == 1


class LoadTest:
    """Processes under load: readers and writers at each process, and a webhook of another application."""

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

    def wait_for_requests(self, count: int) -> None:
        """Wait until a number of further requests is accepted."""
        target = self.accepted() + count
        wait_until(lambda: self.accepted() >= target, "requests to be accepted")

    def check(self) -> None:
        """Wait for the end of all requests, and check that nothing was lost or duplicated."""
        check_load(self.application, self.loads, self.readers)
        check_webhook(self.listening, self.receiver)
        assert pending_without_command(self.servers[0]) == []
        assert run_command("check", "--database", self.servers[0].database_url).stdout == "no problems found\n"
        assert [server.stderr.count("Traceback") for server in self.servers] == [0] * len(self.servers)


def test_kills_under_load_lose_and_duplicate_nothing(start_servers, receiver) -> None:
    chance = random.Random(2)
    servers = start_servers(3, databases.new_postgresql_url())
    fleet = LoadTest(servers, receiver)
    # Each process is killed twice. If two of three are killed at once, the other one continues.
    for killed in ([0], [1, 2], [2], [0, 1]):
        fleet.wait_for_requests(chance.randint(20, 100))
        for number in killed:
            servers[number].kill()
        assert pending_without_command(servers[0]) == []
        wait_until(
            # Only the leader can respond to this.
            lambda: any(
                server.child.running and get(server, fleet.key, "/sim/v1/devices").is_success for server in servers
            ),
            "a take-over",
        )
        start_all([servers[number] for number in killed])
    fleet.wait_for_requests(50)
    fleet.check()


def get(server: ServerProcess, key: str, path: str) -> httpx.Response:
    return httpx.get(server.url + path, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=30)


@pytest.fixture
def cluster() -> Iterator[databases.Cluster]:
    """A separate PostgreSQL that syncs to disk before it confirms a commit."""
    cluster = databases.Cluster()
    yield cluster
    cluster.remove()


def test_postgresql_restarts_under_load_lose_nothing(start_servers, cluster, receiver) -> None:
    servers = start_servers(2, cluster.url("postgres"))
    fleet = LoadTest(servers, receiver)
    for mode in ("fast", "immediate"):
        fleet.wait_for_requests(60)
        cluster.stop(mode)
        responses = [get(server, fleet.key, "/v3/devices") for server in servers]
        assert [response.status_code for response in responses] == [503, 503]
        assert all("database" in response.json()["message"] for response in responses)
        assert all(int(response.headers["Retry-After"]) > 0 for response in responses)
        cluster.start()
    fleet.wait_for_requests(60)
    fleet.check()
