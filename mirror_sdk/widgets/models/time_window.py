"""The time interval of a plot, which is fixed or follows the newest events."""

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
        """Return an interval with the same middle and ``factor`` times the length."""
        half = min(max(self.length * factor, SHORTEST), LONGEST) / 2
        middle = self.begin + self.length / 2
        return Interval(middle - half, middle + half)

    def shifted(self, lengths: float) -> Interval:
        """Return the interval shifted by ``lengths`` times its length."""
        return Interval(self.begin + self.length * lengths, self.end + self.length * lengths)

    @property
    def length(self) -> timedelta:
        """The length of the interval."""
        return self.end - self.begin


def plotted_instant(seconds: float) -> datetime:
    """Return the instant of these seconds since 1970, or the nearest that a plot can show."""
    return datetime.fromtimestamp(min(max(seconds, EARLIEST.timestamp()), LATEST.timestamp()), UTC)


class TimeWindow:
    """The time interval that a plot displays.

    Attributes:
        length: The length of the interval while it follows the newest events; ``None`` for all events.
        staying: The fixed interval; ``None`` while the interval follows the newest events.
    """

    def __init__(self) -> None:
        self.length: timedelta | None = None
        self.staying: Interval | None = None

    def follow(self, length: timedelta | None) -> None:
        """Follow the newest events with an interval of this length. ``None`` displays all events."""
        self.length, self.staying = length, None

    def of(self, there: Interval) -> Interval:
        """Return the displayed interval, based on the interval in which there are events."""
        if self.staying is not None:
            return self.staying
        there = Interval(*(min(max(at, EARLIEST), LATEST) for at in there))
        begin = there.begin
        if self.length is not None and self.length < there.length:
            begin = there.end - self.length
        return Interval(begin, max(there.end, begin + SHORTEST))
