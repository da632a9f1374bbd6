"""A manual clock stops before the year 9999, and later times are still valid."""

from __future__ import annotations

from functools import partial

import pytest

from mirror_server.extensions.simulator.clock_pacer import ClockPacer
from mirror_server.extensions.simulator.control import CLOCK_ENDS_AT, SimulatorControl
from mirror_server.store.session import MANUAL_CLOCK, Session
from mirror_server.views.serialize import timestamp

DAY_SECONDS = 24 * 3600
LAST = "9998-12-31T23:59:59.999Z"


@pytest.fixture
def server(simulated_server):
    return simulated_server


@pytest.fixture
def late(server):
    """A server whose clock is ten days before the latest supported time."""
    begin_at = CLOCK_ENDS_AT - 10 * DAY_SECONDS * 1000
    server.services.database.write(partial(Session.put_setting, name=MANUAL_CLOCK, value=str(begin_at)))
    server.restart()
    return server


def advance(server, key, seconds):
    return server.call(key, "POST", "/sim/v1/clock", json={"advance_seconds": seconds})


def test_clock_stops_with_400_and_is_unchanged(late):
    key = late.key()
    for _ in range(2):
        rejected = advance(late, key, 11 * DAY_SECONDS)
        assert rejected.status_code == 400
        assert [field["name"] for field in rejected.json["fields"]] == ["advance_seconds"]
        assert f"pass at most {10 * DAY_SECONDS - 1}" in rejected.json["message"]
    assert advance(late, key, 10 * DAY_SECONDS - 0.001).json["now"] == LAST
    assert advance(late, key, 0.001).status_code == 400
    late.restart()
    assert late.call(key, "GET", "/sim/v1/clock").json["now"] == LAST


def test_times_after_end_of_clock_are_returned(late):
    key = late.key()
    device_id = late.add_device(key, "sensor-1", queue_mode=True)
    assert advance(late, key, 10 * DAY_SECONDS - 0.001).status_code == 200
    late.patch(key, device_id, online=False)
    assert late.submit(key, device_id, "r1", "GET", "/3303/0/5700", expiry_seconds=30 * DAY_SECONDS).status_code == 202
    (waiting,) = late.waiting(key)
    assert timestamp(waiting.expires_at) == "9999-01-30T23:59:59.999Z"
    for path in (f"/v3/devices/{device_id}/echo", "/v3/devices", f"/v3/devices/{device_id}"):
        assert late.call(key, "GET", path).status_code == 200


def test_paced_clock_stops_at_its_end(late, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.simulator.clock_pacer._TICK_SECONDS", 0)
    errors = []
    run = late.services.part(SimulatorControl).run

    def watched(act):
        future = run(act)
        errors.append(future.exception(60))
        if len(errors) == 2:
            pacing._closed.set()
        return future

    monkeypatch.setattr(late.services.part(SimulatorControl), "run", watched)
    pacing = ClockPacer(late.services.part(SimulatorControl), pace=1e12)
    pacing.start()
    pacing._thread.join(60)
    assert all(errors)
    assert late.now == CLOCK_ENDS_AT - 10 * DAY_SECONDS * 1000
