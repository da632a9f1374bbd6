"""The clock of a mirror under test. It stands still until it is advanced."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from mirror_sdk.simulator.simulator import Simulator

Duration = float | str | timedelta
"""Seconds, a string such as ``"1h 30min"``, or a timedelta."""

_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_DURATION_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h|d)(?![a-z])\s*", re.ASCII)


def seconds_of(duration: Duration) -> float:
    """Return the seconds of a duration.

    Raises:
        ValueError: The text is not a duration; the message shows the format.
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if not isinstance(duration, str):
        return duration
    position, seconds = 0, 0.0
    while match := _DURATION_UNIT.match(duration, position):
        position, seconds = match.end(), seconds + float(match[1]) * _SECONDS[match[2]]
    if not position or position < len(duration):
        raise ValueError(f"{duration!r} is not a duration; write numbers with ms, s, min, h or d, such as '1h 30min'")
    return seconds


class Clock:
    """The time of a mirror under test. It stands still until you call :meth:`advance`.

    Timestamps, expiry, retention and simulated devices follow it. Only open polls follow real time, because the client
    waits for them.
    """

    def __init__(self, simulator: Simulator, moved: Callable[[], object]) -> None:
        self._simulator = simulator
        self._moved = moved

    def __repr__(self) -> str:
        return f"<Clock {self.now().isoformat()}>"

    def now(self) -> datetime:
        """Return the current time of the mirror, in UTC."""
        return self._simulator.get_clock()

    def advance(self, duration: Duration) -> datetime:
        """Advance the clock. Everything that becomes due happens before this returns.

        Args:
            duration: Seconds, a string such as ``"1h"``, or a timedelta; more than 0 and at most 366 days.

        Returns:
            The new time, in UTC.

        Raises:
            ValueError: ``duration`` is not a duration, or out of this range.
        """
        now = self._simulator.advance(seconds_of(duration))
        self._moved()
        return now
