"""The clocks of a machine, which are set, or stand still while it sleeps."""

from __future__ import annotations

from mirror_server.clock import SystemClock

BEGIN = 1_800_000_000_000


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

    def clock(self, *, newest_stored_at: int | None = None) -> SystemClock:
        return SystemClock(lambda: self.clocks, newest_stored_at=newest_stored_at)
