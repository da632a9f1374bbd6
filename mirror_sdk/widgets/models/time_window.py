"""Which interval a plot shows: one that follows the newest events, or one that stays."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

SHORTEST, LONGEST = timedelta(milliseconds=10), timedelta(days=3660)
WINDOWS: dict[str, timedelta | None] = {
    "1 min": timedelta(minutes=1),
    "5 min": timedelta(minutes=5),
    "1 h": timedelta(hours=1),
    "All": None,
}
"""How much of the newest a window shows that follows; ``None`` is all there is."""


class Interval(NamedTuple):
    """An interval of time."""

    begin: datetime
    end: datetime

    def zoomed(self, factor: float) -> Interval:
        """So many times as long, around the same middle."""
        half = min(max(self.length * factor, SHORTEST), LONGEST) / 2
        middle = self.begin + self.length / 2
        return Interval(middle - half, middle + half)

    def shifted(self, lengths: float) -> Interval:
        """Later by so many times its length."""
        return Interval(self.begin + self.length * lengths, self.end + self.length * lengths)

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.begin


class TimeWindow:
    """The interval that is shown.

    Attributes:
        length: How much of the newest is shown while it follows; ``None`` for all.
        staying: The interval it stays at; ``None`` while it follows.
    """

    def __init__(self) -> None:
        self.length: timedelta | None = None
        self.staying: Interval | None = None

    def follow(self, length: timedelta | None) -> None:
        """Show the newest of this length from now on; ``None`` for all."""
        self.length, self.staying = length, None

    def of(self, there: Interval) -> Interval:
        """What is shown of what there is."""
        if self.staying is not None:
            return self.staying
        begin = there.begin if self.length is None else max(there.begin, there.end - self.length)
        return Interval(begin, max(there.end, begin + SHORTEST))
