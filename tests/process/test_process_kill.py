"""``kill -9`` at any moment: accepted requests get one response, notifications repeat, and nothing is lost."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from functools import partial

import databases
import pytest
from process_load import SWITCH, Load, Reader, check_load, pending_without_command
from process_receiver import Receiver, check_webhook, register
from process_server import (
    CALLS_THIS_MACHINE,
    PATIENCE_SECONDS,
    Application,
    ServerProcess,
    decoded,
    run_command,
    wait_until,
)
from resource_paths import TEMPERATURE

pytestmark = pytest.mark.process

KILLS = 3


def pending(server: ServerProcess) -> int:
    ((count,),) = databases.query(server.database_url, "SELECT count(*) FROM resources WHERE desired_status = 0")
    return int(count)


def test_pending_requests_continue_after_the_server_is_killed(start_server) -> None:
    server: ServerProcess = start_server("--simulate", "2")
    application = server.application()
    device_id = application.add_device(
        "killed",
        {"path": TEMPERATURE, "value": "21", "observable": True},
        {"path": SWITCH, "value": "0", "writable": True},
    )
    seeded = application.json("GET", "/sim/v1/devices")["data"]
    rules = [{"endpoint-name": "later", "resource-path": ["/3303/*"]}]
    application.json("PUT", "/v2/subscriptions", json=rules)
    application.json("PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
    wait_until(lambda: application.resource(device_id, TEMPERATURE)["subscribed"], "the subscription")
    application.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": "22"})
    application.patch_device(device_id, online=False)
    assert application.write(device_id, SWITCH, "1", "queued-write").status_code == 202
    assert application.read(device_id, TEMPERATURE, "queued-read").status_code == 202
    entries_before = list(application.entries())
    while application.poll(hold=0).status_code == 200:
        pass
    requested_at = application.resource(device_id, SWITCH)["desired"]["requested_at"]
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)) as open_poll:
        open_poll.sendall(
            f"GET /v2/notification/pull?hold=55 HTTP/1.1\r\nAuthorization: Bearer {application.key}\r\n\r\n".encode()
        )
        wait_until(lambda: "mirror_open_polls 1.0" in application.http.get("/metrics").text, "the poll to be open")

        server.kill()

    assert pending_without_command(server) == []
    server.start()
    desired = application.resource(device_id, SWITCH)["desired"]
    assert (desired["status"], decoded(desired["value"]), desired["requested_at"]) == (0, "1", requested_at)
    assert application.json("GET", "/v2/subscriptions") == rules
    assert application.json("GET", f"/v3/devices/{device_id}/echo")["resources"]
    subscribed = application.http.get(f"/v2/subscriptions/{device_id}")
    assert subscribed.text == TEMPERATURE
    assert [device["id"] for device in application.json("GET", "/sim/v1/devices")["data"]] == [
        device["id"] for device in seeded
    ]
    assert application.simulated_values(device_id) == {TEMPERATURE: "22", SWITCH: "0"}
    assert list(application.entries())[: len(entries_before)] == entries_before
    assert application.responses() == {}

    application.patch_device(device_id, online=True)

    assert application.response("queued-write")["status"] == 200
    assert decoded(application.response("queued-read")["payload"]) == "22"
    assert application.resource(device_id, SWITCH)["desired"]["status"] == 1
    assert application.simulated_values(device_id)[SWITCH] == "1"
    application.json("PUT", f"/sim/v1/devices/{device_id}/resources{TEMPERATURE}", json={"value": "23"})
    observed = [decoded(entry["payload"]) for kind, entry in application.entries() if kind == "notifications"]
    assert observed[-1] == "23"
    later_id = application.add_device("later", {"path": TEMPERATURE, "value": "5", "observable": True})
    wait_until(lambda: application.resource(later_id, TEMPERATURE)["subscribed"], "the presubscription")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(3)
    yield made
    made.close()


def test_kills_at_random_moments_under_load_lose_nothing_and_double_nothing(start_server, receiver: Receiver) -> None:
    """Neither for a reader of the log, nor for a webhook, nor in the history."""
    chance = random.Random(20)
    server: ServerProcess = start_server("--simulate", "0", "--keep-history", "1d", *CALLS_THIS_MACHINE)
    application = server.application()
    device_ids = [
        application.add_device(f"load-{number}", {"path": SWITCH, "value": "0", "writable": True, "observable": True})
        for number in range(4)
    ]
    application.patch_device(device_ids[1], latency_seconds=0.01)
    application.patch_device(device_ids[2], latency_seconds=0.05)
    application.json("PUT", f"/v2/subscriptions/{device_ids[0]}{SWITCH}")
    callback = register(application, receiver, 0)
    reader = Reader(server, application.key)
    loads = [Load(server, application.key, device_id, seed) for seed, device_id in enumerate(device_ids)]

    def accepted() -> int:
        return sum(len(load.accepted) for load in loads)

    def enough(minimum: int) -> bool:
        return accepted() >= minimum

    saw_pending = 0
    dead: list[tuple[float, float]] = []
    for number in range(KILLS):
        rules = [{"endpoint-type": f"round-{number}"}]
        application.json("PUT", "/v2/subscriptions", json=rules)
        wait_until(partial(enough, accepted() + chance.randint(20, 120)), "requests to be accepted")
        threading.Event().wait(chance.random() * 0.02)
        server.kill()
        killed_at = time.time()
        assert pending_without_command(server) == []
        saw_pending += pending(server) > 0
        server.start()
        dead.append((killed_at, time.time()))
        assert application.json("GET", "/v2/subscriptions") == rules
        assert application.json("GET", "/v2/notification/callback") == callback
    entries = check_load(application, loads, [reader])
    assert saw_pending > 0
    assert {kind for kind, _ in entries} == {"async-responses", "notifications", "registrations"}
    logged = {entry["id"]: entry for kind, entry in entries if kind == "async-responses"}
    for load, has_immediate_responses in zip(loads, [False, True] * 2, strict=True):
        assert bool(load.immediate_responses) == has_immediate_responses
        assert {async_id: logged[async_id] for async_id in load.immediate_responses} == load.immediate_responses
    assert check_webhook(application, receiver) <= KILLS
    check_history(application, loads, dead)
    assert "Traceback" not in server.stderr
    assert server.stop() == 0
    assert run_command("check", "--database", server.database_url).stdout.endswith("no problems found\n")


def check_history(application: Application, loads: list[Load], dead: list[tuple[float, float]]) -> None:
    """Check that the history has each end of a write once, notifications in order, and a gap for each downtime."""
    answer = application.http.get("/v3/device-echo/history", headers={"Accept": "application/x-ndjson"})
    *lines, end = map(json.loads, answer.text.splitlines())
    assert end["object"] == "history-end"
    rows = sorted((line for line in lines if line["object"] == "history-row"), key=lambda row: row["revision"])
    for load in loads:
        ends = [row for row in rows if row["what"] == "desired" and row["device_id"] == load.device_id]
        assert [decoded(row["value"]) for row in ends] == load.written
        assert {row["status"] for row in ends} == {1}
    first = loads[0].device_id
    reported = [decoded(row["value"]) for row in rows if row["what"] == "reported" and row["device_id"] == first]
    notified = {decoded(entry["payload"]) for kind, entry in application.entries() if kind == "notifications"}
    assert notified <= set(reported)
    assert reported == sorted(reported, key=int)
    gaps = [row for row in rows if row["what"] == "gap"]
    for gap, (killed_at, back_at) in zip(gaps, dead, strict=True):
        begin, until = (datetime.fromisoformat(gap[name]).timestamp() for name in ("changed_at", "until"))
        assert begin <= killed_at <= until <= back_at
