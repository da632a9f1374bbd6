"""The clock of the system jumps, when it is set or the machine slept: what became due is done within seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import orjson
import pytest

from mirror_sdk.webhook import WebhookReceiver
from mirror_server.clock import SystemClock
from mirror_server.store import callbacks

PATIENCE_SECONDS = 60
BEGIN = 1_800_000_000_000
HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
_PAUSE = threading.Event()


class Machine:
    """Its two clocks, which stand still but for what the test does to them."""

    def __init__(self) -> None:
        self.clocks = (BEGIN, 5_000)

    def set_clock(self, seconds: float) -> None:
        """The clock of the system is set ahead or back; or the machine slept, which the other one does not count."""
        wall_at, steady_at = self.clocks
        self.clocks = (wall_at + round(seconds * 1000), steady_at)

    def run(self, seconds: float) -> None:
        """Time passes."""
        wall_at, steady_at = self.clocks
        self.clocks = (wall_at + round(seconds * 1000), steady_at + round(seconds * 1000))

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.clocks)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def clock(machine: Machine) -> Iterator[SystemClock]:
    running = machine.clock()
    yield running
    running.close()


def called(clock: SystemClock, seconds: float) -> threading.Event:
    """Set when a call that is due so much later was made."""
    event = threading.Event()
    clock.call_at(clock.now() + round(seconds * 1000), event.set)
    return event


def made_before(clock: SystemClock) -> None:
    """All that is due has been called."""
    assert called(clock, -1).wait(PATIENCE_SECONDS)


def wait_until(condition: Callable[[], Any]) -> None:
    end_at = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end_at
        _PAUSE.wait(0.01)


def test_a_jump_ahead_makes_due_what_it_passes_and_nothing_else(clock, machine):
    passed, other = called(clock, HOUR_SECONDS), called(clock, 3 * HOUR_SECONDS)
    machine.set_clock(2 * HOUR_SECONDS)
    assert passed.wait(PATIENCE_SECONDS)
    made_before(clock)
    assert not other.is_set()
    machine.run(HOUR_SECONDS + 1)
    assert other.wait(PATIENCE_SECONDS)


def test_nothing_waits_longer_because_the_clock_was_set_back(clock, machine):
    event = called(clock, 60)
    machine.set_clock(-DAY_SECONDS)
    machine.run(59)
    made_before(clock)
    assert not event.is_set()
    machine.run(2)
    assert event.wait(PATIENCE_SECONDS)


def test_a_clock_that_is_set_back_and_right_again_makes_nothing_due_early(clock, machine):
    event = called(clock, 120)
    machine.set_clock(-HOUR_SECONDS)
    made_before(clock)
    machine.run(1)
    machine.set_clock(HOUR_SECONDS)
    machine.run(118)
    made_before(clock)
    assert not event.is_set()
    machine.run(2)
    assert event.wait(PATIENCE_SECONDS)


def test_what_was_asked_for_while_the_clock_was_behind_is_due_when_it_is_right_again(clock, machine):
    machine.set_clock(-HOUR_SECONDS)
    made_before(clock)
    event = called(clock, 1800)
    machine.set_clock(HOUR_SECONDS)
    assert event.wait(PATIENCE_SECONDS)


def test_what_is_due_after_a_jump_is_counted_from_there(clock, machine):
    machine.set_clock(DAY_SECONDS)
    made_before(clock)
    event = called(clock, 60)
    machine.set_clock(-DAY_SECONDS)
    machine.set_clock(DAY_SECONDS)
    machine.run(59)
    made_before(clock)
    assert not event.is_set()
    machine.run(2)
    assert event.wait(PATIENCE_SECONDS)


def test_nothing_is_called_before_its_instant(clock, machine):
    event = called(clock, 1)
    machine.run(0.999)
    made_before(clock)
    assert not event.is_set()
    machine.run(0.001)
    assert event.wait(PATIENCE_SECONDS)


def test_nothing_is_called_early_by_the_clock_that_runs_steadily(clock, machine):
    event = called(clock, 1)
    machine.set_clock(-DAY_SECONDS)
    machine.run(1)
    made_before(clock)
    # Either clock may have been cut by up to a millisecond.
    assert not event.is_set()
    machine.run(0.001)
    assert event.wait(PATIENCE_SECONDS)


@pytest.fixture
def running(new_server: Callable[..., Any], machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server by the clock of this machine."""
    monkeypatch.setattr("mirror_server.services.SystemClock", machine.clock)
    return new_server(manual_clock=False)


def wait_for(server: Any, key: str, found: Callable[[tuple[str, Any]], bool]) -> None:
    wait_until(lambda: any(map(found, server.log(key))))


def test_commands_and_registrations_expire(running, machine):
    key = running.key()
    device_id = running.add_device(key, "sensor-1")
    running.patch(key, device_id, online=False)
    running.place(key, device_id, "r1", "GET", "/3303/0/5700", expiry_seconds=HOUR_SECONDS)
    machine.set_clock(HOUR_SECONDS + 1)
    wait_for(running, key, lambda entry: entry[1].get("error") == "REQUEST_EXPIRED")
    machine.set_clock(30 * DAY_SECONDS)
    wait_for(running, key, lambda entry: entry[0] == "registrations-expired")


def test_a_request_never_ends_before_it_began(running, machine):
    key = running.key()
    switch = {"path": "/3311/0/5850", "value": "0", "writable": True}
    device_id = running.add_device(key, "light-1", switch)
    running.patch(key, device_id, online=False)
    placed = running.place(key, device_id, "w", "PUT", switch["path"], value="1")
    machine.set_clock(-HOUR_SECONDS)
    running.patch(key, device_id, online=True)
    wait_for(running, key, lambda entry: entry[1].get("id") == "w")
    (ended,) = [body for _, body in running.log(key) if body.get("id") == "w"]
    desired = running.resource(key, device_id, switch["path"])["desired"]
    requested_at = datetime.fromisoformat(placed.headers["Mirror-Requested-At"])
    assert (desired["status"], datetime.fromisoformat(desired["requested_at"])) == (1, requested_at)
    assert datetime.fromisoformat(desired["status_updated_at"]) >= requested_at
    assert ended["timestamp"] >= requested_at.timestamp() * 1000


def test_what_was_kept_long_enough_goes(running, machine):
    key = running.key()
    device_id = running.add_device(key, "sensor-1")
    running.patch(key, device_id, online=False)
    assert running.log(key)
    machine.set_clock(200 * DAY_SECONDS)
    wait_until(lambda: running.call(key, "GET", f"/v3/devices/{device_id}").status_code == 404)
    wait_until(lambda: "registrations" not in dict(running.log(key)))


class Webhook:
    """The webhook of an application that failed before the server started."""

    def __init__(self, server: Any, receiver: WebhookReceiver) -> None:
        self.server = server
        self.receiver = receiver
        self.key = server.key()

    def restart_after(self, failures: int, pause_seconds: float) -> None:
        """Begin in a pause, with something to send when it is over."""
        app_id, now = self.key.split("_")[1], self.server.now
        registration = orjson.dumps({"url": self.receiver.url, "headers": dict(self.receiver.headers)}).decode()
        next_attempt_at = now + round(pause_seconds * 1000)
        put = partial(callbacks.put, app_id=app_id, registration=registration, at=now)
        fail = partial(
            callbacks.failed, app_id=app_id, failures=failures, error="", at=now, next_attempt_at=next_attempt_at
        )
        self.server.services.database.write(put)
        self.server.services.database.write(fail)
        self.server.restart()
        self.server.add_device(self.key, "sensor-1")
        # Done one after the other, so that it waits by now.
        self.server.services.webhooks.delete("nobody").result(PATIENCE_SECONDS)

    def was_called(self) -> bool:
        return bool(self.receiver.wait(0, PATIENCE_SECONDS).entries)


@pytest.fixture
def webhook(running: Any) -> Iterator[Webhook]:
    with WebhookReceiver() as receiver:
        yield Webhook(running, receiver)


def test_a_webhook_is_called_when_its_pause_was_jumped_over(webhook, machine):
    webhook.restart_after(8, 120)
    machine.set_clock(121)
    assert webhook.was_called()


def test_a_webhook_does_not_wait_longer_because_the_clock_was_set_back(webhook, machine):
    webhook.restart_after(8, 120)
    machine.set_clock(-DAY_SECONDS)
    machine.run(119)
    made_before(webhook.server.services.clock)
    assert webhook.receiver.last == 0
    machine.run(2)
    assert webhook.was_called()


def test_a_pause_that_began_before_the_clock_was_set_back_is_over_in_time_after_a_restart(webhook, machine):
    webhook.restart_after(1, 365 * DAY_SECONDS)
    machine.run(2)
    assert webhook.was_called()
