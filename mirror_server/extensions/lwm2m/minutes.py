"""What is counted by the minute, and how many warnings of one may be in the log: devices may not fill the disk."""

from __future__ import annotations

from logging import Logger

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant, after_seconds

MINUTE_SECONDS = 60
_LINES_SHOWN = 60
"""So many warnings of a minute have a line."""


class Minutes:
    """One minute after the other, each from when it is first asked about.

    Args:
        clock: Domain time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at: Instant = 0

    def is_over(self) -> bool:
        """Whether the last minute is over, or the clock was set back; then the next one begins."""
        now = self._clock.now()
        if self._began_at <= now < after_seconds(self._began_at, MINUTE_SECONDS):
            return False
        self._began_at = now
        return True


class LimitedWarnings:
    """Warnings that devices cause at will: so many of a minute are in the log, then one says where the rest is.

    Args:
        log: Where they are written.
        clock: Domain time.
        what: What they tell of, in the plural; ``/metrics`` counts it.
    """

    def __init__(self, log: Logger, clock: Clock, what: str) -> None:
        self._log = log
        self._what = what
        self._minutes = Minutes(clock)
        self._count = 0

    def warn(self, message: str, *arguments: object) -> None:
        """Write a warning as :meth:`logging.Logger.warning` does, unless there were enough in this minute."""
        if self._minutes.is_over():
            self._count = 0
        self._count += 1
        if self._count <= _LINES_SHOWN:
            self._log.warning(message, *arguments)
        if self._count == _LINES_SHOWN:
            self._log.warning("further %s of this minute are counted in /metrics alone", self._what)
