"""The clocks of a machine that is set or sleeps."""

from __future__ import annotations

from mirror_server.clock import SystemClock

BEGIN = 1_800_000_000_000


class Machine:
    """A machine with a wall clock and a monotonic clock, which change only by its methods."""

    def __init__(self) -> None:
        self.clocks = (BEGIN, 5_000)

    def set_clock(self, seconds: float) -> None:
        """Set the wall clock ahead or back. A sleep looks the same, because the monotonic clock does not count it."""
        wall_at, steady_at = self.clocks
        self.clocks = (wall_at + round(seconds * 1000), steady_at)

    def run(self, seconds: float) -> None:
        """Advance both clocks."""
        wall_at, steady_at = self.clocks
        self.clocks = (wall_at + round(seconds * 1000), steady_at + round(seconds * 1000))

    def clock(self, *, newest_stored_at: int | None = None) -> SystemClock:
        return SystemClock(lambda: self.clocks, newest_stored_at=newest_stored_at)
