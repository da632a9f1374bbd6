"""The system clock jumps: the history is correct again when the clock is."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from jumping_clocks import Machine
from resource_paths import HUMIDITY, TEMPERATURE

from mirror_server.extensions.history.maintenance import Retention

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
SET, RUN = Machine.set_clock, Machine.run


@pytest.fixture
def machine() -> Machine:
    return Machine()


class WithHistory:
    """A server on a machine's clock with a history of a week, and a device whose values are read."""

    def __init__(self, server: Any, machine: Machine) -> None:
        self.server, self.machine, self.key = server, machine, server.key()
        resources = {"path": TEMPERATURE, "value": "21"}, {"path": HUMIDITY, "value": "40"}
        self.device_id = server.add_device(self.key, "sensor-1", *resources)
        self._read = 0

    def read(self, *paths: str) -> None:
        for path in paths:
            self._read += 1
            self.server.submit(self.key, self.device_id, f"r{self._read}", "GET", path)

    def steps(self, *steps: tuple[Callable[[Machine, float], None], float]) -> None:
        """Let the clocks jump, and run a round of maintenance after each step."""
        for change, seconds in steps:
            change(self.machine, seconds)
            self.server.services.part(Retention).round()

    def as_of(self, instant: int | None = None) -> dict[str, Any]:
        """Return the reported values of the device in the history at an instant, or now, by path."""
        at = datetime.fromtimestamp((instant or self.machine.clocks[0]) / 1000, UTC).isoformat(timespec="milliseconds")
        query, headers = {"as_of": at.replace("+00:00", "Z")}, {"Accept": "application/x-ndjson"}
        answer = self.server.call(self.key, "GET", "/v3/device-echo", headers, query_string=query)
        assert answer.status_code == 200, answer.get_data()
        device, _ = (orjson.loads(line) for line in answer.get_data().splitlines())
        values = {each["resource_path"]: each["reported"].get("value") for each in device["resources"]}
        return {path: int(b64decode(value)) for path, value in values.items() if value}


@pytest.fixture
def with_history(new_server: Callable[..., Any], machine: Machine, monkeypatch: pytest.MonkeyPatch) -> WithHistory:
    monkeypatch.setattr("mirror_server.server.SystemClock", machine.clock)
    return WithHistory(new_server(manual_clock=False, keep_history_seconds=7 * DAY_SECONDS), machine)


@pytest.mark.parametrize("ahead_seconds", [DAY_SECONDS, 40 * DAY_SECONDS])
def test_present_is_returned_after_clock_that_was_ahead_is_corrected(with_history, machine, ahead_seconds):
    """Otherwise all checkpoints would be in the future, and each query of the present would be rejected."""
    with_history.read(TEMPERATURE, HUMIDITY)
    with_history.steps((RUN, 0))
    machine.set_clock(ahead_seconds)
    with_history.steps((RUN, 2 * HOUR_SECONDS))
    machine.set_clock(-ahead_seconds)
    machine.run(1)
    with_history.read(TEMPERATURE)
    with_history.steps((RUN, 0))
    for _ in range(2):
        with_history.steps((RUN, HOUR_SECONDS))
        machine.run(1)
        assert with_history.as_of() == {TEMPERATURE: 21, HUMIDITY: 40}


def test_clock_temporarily_ahead_does_not_trim_history(with_history, machine):
    with_history.read(TEMPERATURE)
    then, ahead = machine.clocks[0], 400 * DAY_SECONDS
    with_history.steps((RUN, DAY_SECONDS), (SET, ahead), (RUN, HOUR_SECONDS - 1), (SET, -ahead))
    assert with_history.as_of(then) == {TEMPERATURE: 21}


def test_clock_temporarily_slow_keeps_history(with_history, machine):
    """Like a machine whose clock stops while it is off, until NTP corrects it."""
    with_history.read(HUMIDITY)
    for _ in range(20):
        # The humidity is no longer in any row, only in the checkpoints.
        machine.run(DAY_SECONDS)
        with_history.read(TEMPERATURE)
        with_history.steps((RUN, 0))
    then, lag_seconds = machine.clocks[0], 400 * DAY_SECONDS
    machine.run(HOUR_SECONDS)
    with_history.server.set_value(with_history.key, with_history.device_id, "41", HUMIDITY)
    with_history.read(HUMIDITY)
    before = with_history.as_of(then)
    machine.set_clock(-lag_seconds)
    with_history.server.restart()
    with_history.steps((RUN, 0), (RUN, HOUR_SECONDS - 1), (SET, lag_seconds))
    assert with_history.as_of(then) == before == {TEMPERATURE: 21, HUMIDITY: 40}
    assert with_history.as_of() == {TEMPERATURE: 21, HUMIDITY: 41}
