"""The clock of a mirror under test. It stands still until the test advances it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from mirror_sdk.simulator.simulator import Simulator

Duration = float | str | timedelta
"""A duration: a number of seconds, a string such as ``"1h 30min"``, or a timedelta."""

_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_DURATION_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h|d)(?![a-z])\s*", re.ASCII)


def seconds_of(duration: Duration) -> float:
    """Convert a duration to seconds.

    Raises:
        ValueError: The string is not a duration. The message shows the format.
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
    """The clock of a mirror under test. It stands still until you call :meth:`advance`.

    Timestamps, expiry, retention and simulated devices follow this clock. Only open polls follow real time, because the
    client waits for them in real time.
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
        """Advance the clock. Everything that becomes due happens before the method returns.

        Args:
            duration: A number of seconds, a string such as ``"1h"``, or a timedelta. It must be more than 0 and at most
                366 days.

        Returns:
            The new time, in UTC.

        Raises:
            ValueError: ``duration`` is not a duration, or it is out of range.
        """
        now = self._simulator.advance(seconds_of(duration))
        self._moved()
        return now
