"""The time interval of a plot: it follows the newest events or is fixed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SHORTEST, LONGEST = timedelta(milliseconds=10), timedelta(days=3660)
# Times have years from 1 to 9999. A day is missing at both ends, so that a plot can have margins.
EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


class Interval(NamedTuple):
    """An interval of time."""

    begin: datetime
    end: datetime

    def zoomed(self, factor: float) -> Interval:
        """Return an interval that is ``factor`` times as long, with the same middle."""
        half = min(max(self.length * factor, SHORTEST), LONGEST) / 2
        middle = self.begin + self.length / 2
        return Interval(middle - half, middle + half)

    def shifted(self, lengths: float) -> Interval:
        """Return the interval shifted by this many times its length."""
        return Interval(self.begin + self.length * lengths, self.end + self.length * lengths)

    @property
    def length(self) -> timedelta:
        """The length of the interval."""
        return self.end - self.begin


def plotted_instant(seconds: float) -> datetime:
    """Return the instant of these seconds since 1970, or the nearest that a plot can show."""
    return datetime.fromtimestamp(min(max(seconds, EARLIEST.timestamp()), LATEST.timestamp()), UTC)


class TimeWindow:
    """The displayed interval.

    Attributes:
        length: The length of the window while it follows the newest events. ``None`` for all events.
        staying: The fixed interval; ``None`` while it follows.
    """

    def __init__(self) -> None:
        self.length: timedelta | None = None
        self.staying: Interval | None = None

    def follow(self, length: timedelta | None) -> None:
        """Follow the newest events with this length; ``None`` for all events."""
        self.length, self.staying = length, None

    def of(self, there: Interval) -> Interval:
        """Return the displayed interval, from the interval that has events."""
        if self.staying is not None:
            return self.staying
        there = Interval(*(min(max(at, EARLIEST), LATEST) for at in there))
        begin = there.begin
        if self.length is not None and self.length < there.length:
            begin = there.end - self.length
        return Interval(begin, max(there.end, begin + SHORTEST))
