"""Jumps of the system clock: due work is done within seconds after a change or a sleep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jumping_clocks import BEGIN, Machine
from waits import PATIENCE_SECONDS, wait_until

from mirror_sdk.webhook import WebhookReceiver
from mirror_server.clock import SystemClock
from mirror_server.server import _clock
from mirror_server.store import logs

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def clock(machine: Machine) -> Iterator[SystemClock]:
    running = machine.clock()
    yield running
    running.close()


def called(clock: SystemClock, seconds: float) -> threading.Event:
    """Return an event that is set by a call with this delay."""
    event = threading.Event()
    clock.call_at(clock.now() + round(seconds * 1000), event.set)
    return event


SET, RUN = Machine.set_clock, Machine.run
DUE = {
    # The delay of the call; the changes of the clocks before it is scheduled, before it is due, and until it is due.
    "passed by a jump ahead": (3600, [], [(RUN, 1)], [(SET, 3600)]),
    "not passed by a jump ahead": (3 * 3600, [], [(SET, 2 * 3600)], [(RUN, 3601)]),
    "the clock is set back": (60, [], [(SET, -DAY_SECONDS), (RUN, 59)], [(RUN, 2)]),
    "set back and right again": (120, [], [(SET, -3600), (RUN, 1), (SET, 3600), (RUN, 118)], [(RUN, 2)]),
    "scheduled while it lagged": (1800, [(SET, -3600)], [], [(SET, 3600)]),
    "scheduled after a jump": (60, [(SET, DAY_SECONDS)], [(RUN, 59)], [(RUN, 2)]),
    "not before its instant": (1, [], [(RUN, 0.999)], [(RUN, 0.001)]),
    # Each clock may be truncated by up to a millisecond.
    "not early by the clock that runs steadily": (1, [], [(SET, -DAY_SECONDS), (RUN, 1)], [(RUN, 0.001)]),
}


@pytest.mark.parametrize(("seconds", "before", "not_yet", "till_due"), DUE.values(), ids=DUE)
def test_call_is_made_at_its_instant_despite_clock_jumps(
    clock, machine, seconds, before, not_yet, till_due, monkeypatch
):
    monkeypatch.setattr("mirror_server.clock._CHECK_SECONDS", 0.01)

    def take(steps):
        for change, by in steps:
            change(machine, by)
            # All due calls are made.
            assert called(clock, -1).wait(PATIENCE_SECONDS)

    take(before)
    event = called(clock, seconds)
    take(not_yet)
    assert not event.is_set()
    # The clock notices the jump by itself.
    for change, by in till_due:
        change(machine, by)
    assert event.wait(PATIENCE_SECONDS)


def test_steady_now_ignores_a_forward_jump_for_an_hour(clock, machine):
    machine.set_clock(3 * DAY_SECONDS)
    machine.run(60)
    assert clock.steady_now() == BEGIN + 60_000
    machine.run(HOUR_SECONDS - 120)
    assert clock.steady_now() == BEGIN + (HOUR_SECONDS - 60) * 1000
    machine.run(120)
    assert clock.steady_now() == clock.now() == BEGIN + (3 * DAY_SECONDS + HOUR_SECONDS + 60) * 1000


def test_corrected_jump_never_counts(clock, machine, caplog):
    for jumps in ([DAY_SECONDS, -DAY_SECONDS], [3 * DAY_SECONDS, -DAY_SECONDS, -2 * DAY_SECONDS]):
        for jump in jumps:
            machine.set_clock(jump)
            assert clock.steady_now() == BEGIN
    machine.run(2 * HOUR_SECONDS)
    assert clock.steady_now() == clock.now() == BEGIN + 2 * HOUR_SECONDS * 1000
    ahead, back = [record.message for record in caplog.records][:2]
    assert ahead == "the system clock was set forward (or the machine slept) by 1 day, 0:00:00"
    assert back == "the system clock was set back by 1 day, 0:00:00"


@given(
    st.lists(st.tuples(st.integers(-(10**8), 10**8) | st.integers(-90, 90), st.integers(0, 3 * HOUR_SECONDS))),
    st.none() | st.integers(-(10**8), 10**8),
)
def test_steady_now_never_exceeds_now_and_catches_up_an_hour_after_the_last_jump(jumps, known):
    machine = Machine()
    with closing(machine.clock(newest_stored_at=None if known is None else BEGIN + known * 1000)) as clock:
        for jump, seconds in jumps:
            machine.set_clock(jump)
            assert clock.steady_now() <= clock.now()
            machine.run(seconds)
            assert clock.steady_now() <= clock.now()
        machine.run(HOUR_SECONDS)
        assert clock.steady_now() == clock.now()


def test_small_clock_adjustments_count_at_once(clock, machine, caplog):
    for step in (2, -3, 5):
        machine.set_clock(step)
        assert clock.steady_now() == clock.now()
    assert not caplog.records


def test_clock_far_ahead_at_startup_counts_after_an_hour(machine):
    known_at = BEGIN - 400 * DAY_SECONDS * 1000
    with closing(machine.clock(newest_stored_at=known_at)) as clock:
        assert clock.steady_now() == known_at
        machine.run(HOUR_SECONDS)
        assert clock.steady_now() == machine.clocks[0]


@pytest.fixture
def running(new_server: Callable[..., Any], machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server with the clock of this machine."""
    monkeypatch.setattr("mirror_server.server.SystemClock", machine.clock)
    return new_server(manual_clock=False)


def test_request_never_ends_before_it_started(running, machine):
    key = running.key()
    switch = {"path": "/3311/0/5850", "value": "0", "writable": True}
    device_id = running.add_device(key, "light-1", switch)
    running.patch(key, device_id, online=False)
    response = running.submit(key, device_id, "w", "PUT", switch["path"], value="1")
    machine.set_clock(-HOUR_SECONDS)
    running.patch(key, device_id, online=True)
    (ended,) = wait_until(lambda: [body for _, body in running.log(key) if body.get("id") == "w"])
    desired = running.resource(key, device_id, switch["path"])["desired"]
    requested_at = datetime.fromisoformat(response.headers["Mirror-Requested-At"])
    assert (desired["status"], datetime.fromisoformat(desired["requested_at"])) == (1, requested_at)
    assert datetime.fromisoformat(desired["status_updated_at"]) >= requested_at
    assert ended["timestamp"] >= requested_at.timestamp() * 1000


def run_housekeeping(server: Any) -> None:
    """Wait until the due run of the housekeeping is done."""
    server.services._housekeeping._clean_up()
    assert server.services.database.settle(60)


def test_expired_data_is_deleted_an_hour_after_a_clock_jump(running, machine):
    """Deletion cannot be undone, and the clock may be wrong."""
    key = running.key()
    device_id = running.add_device(key, "sensor-1")
    running.patch(key, device_id, online=False)
    assert running.log(key)
    machine.set_clock(200 * DAY_SECONDS)
    run_housekeeping(running)
    machine.run(HOUR_SECONDS - 1)
    run_housekeeping(running)
    assert running.call(key, "GET", f"/v3/devices/{device_id}").status_code == 200
    assert "registrations" in dict(running.log(key))
    machine.run(HOUR_SECONDS)
    wait_until(lambda: running.call(key, "GET", f"/v3/devices/{device_id}").status_code == 404)
    wait_until(lambda: "registrations" not in dict(running.log(key)))


def test_webhook_pause_from_before_a_backward_jump_ends_in_time_after_a_restart(running, machine):
    key = running.key()
    app_id, now = key.split("_")[1], running.now
    with WebhookReceiver() as receiver:
        registration = orjson.dumps({"url": receiver.url, "headers": dict(receiver.headers)}).decode()
        put = partial(logs.put_webhook, app_id=app_id, registration=registration, at=now)
        next_attempt_at = now + 365 * DAY_SECONDS * 1000
        fail = partial(
            logs.webhook_failed, app_id=app_id, failures=1, error="", at=now, next_attempt_at=next_attempt_at
        )
        running.services.database.write(put)
        running.services.database.write(fail)
        running.restart()
        running.add_device(key, "sensor-1")
        # Work is done in order, so it waits now.
        running.services.webhooks.delete("nobody").result(PATIENCE_SECONDS)
        machine.run(2)
        assert receiver.wait(0, PATIENCE_SECONDS).entries


def test_stored_times_in_the_future_are_logged_at_startup(running, machine, caplog):
    running.add_device(running.key(), "sensor-1")
    machine.set_clock(-DAY_SECONDS)
    running.restart()
    assert [record.levelname for record in caplog.records if "is in the future" in record.message] == ["WARNING"]
    caplog.clear()
    machine.set_clock(DAY_SECONDS)
    running.restart()
    assert "is in the future" not in caplog.text


def test_manual_clock_starts_after_the_newest_stored_time(running, machine):
    key = running.key()
    device_id = running.add_device(key, "sensor-1")
    running.patch(key, device_id, online=False)
    machine.run(DAY_SECONDS)
    running.submit(key, device_id, "r", "GET", "/3303/0/5700")
    clock = _clock(replace(running.settings, manual_clock=True), running.services.database)
    assert clock.now() == machine.clocks[0]
