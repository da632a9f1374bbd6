"""Lines over time: points, breaks, and thinning to fewer points that look the same."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

from mirror_sdk._visible import visible
from mirror_sdk.frames.legend import label_of
from mirror_sdk.object_table import lookup
from mirror_sdk.wire.declarations import NUMBERS, display_unit

SILENT_RHYTHMS = 10
"""A line has a break if its resource was silent for more than this many times its usual interval."""
INTERVALS_JUDGED = 100
FEWEST_INTERVALS = 5


class SeriesKey(NamedTuple):
    """A resource of a device."""

    device_id: str
    path: str


class Point(NamedTuple):
    """A number at a time; ``is_connected`` is false where the line is broken before it."""

    at: datetime
    number: float
    is_connected: bool = True


@dataclass(frozen=True, slots=True)
class Series:
    """A line of the plot. Texts come from devices and may contain anything. Points are ordered by time.

    ``unit`` is the code of the unit, empty if it is unknown.
    """

    key: SeriesKey
    name: str
    unit: str
    points: Sequence[Point]

    @property
    def unit_text(self) -> str:
        """The unit as people write it; empty for a pure number, and if it is unknown."""
        return visible(display_unit(self.unit))

    @property
    def axis(self) -> str:
        """The axis of the line: its unit, or its object if there is none, since such values cannot be compared."""
        object_name = label_of(self.key.path).partition(" · ")[0]
        definition = lookup(self.key.path)
        is_unknown = not self.unit and (definition is None or definition.type in NUMBERS)
        return self.unit_text or (f"{object_name}, unit unknown" if is_unknown else object_name)


def broken_by_silence(points: Iterable[Point]) -> list[Point]:
    """Return the points ordered by time, with breaks where the resource was silent for unusually long."""
    line = sorted(points, key=_at)
    intervals = [(after.at - before.at).total_seconds() for before, after in pairwise(line)]
    if len(intervals) < FEWEST_INTERVALS:
        return line
    longest_seconds = median(intervals[-INTERVALS_JUDGED:]) * SILENT_RHYTHMS
    return line[:1] + [
        point._replace(is_connected=False) if 0 < longest_seconds < interval else point
        for point, interval in zip(line[1:], intervals, strict=True)
    ]


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Return fewer points that look the same: the ends, the lowest and the highest of each interval, and all breaks."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / (most // 2 - 1))
    selected = {0, len(points) - 1}
    for begin in range(0, len(points), size):
        interval = range(begin, min(begin + size, len(points)))
        selected.add(min(interval, key=lambda index: points[index].number))
        selected.add(max(interval, key=lambda index: points[index].number))
    breaks = list(accumulate(not point.is_connected for point in points))
    indexes = sorted(selected)
    return [points[0]] + [
        points[index]._replace(is_connected=breaks[index] == breaks[before]) for before, index in pairwise(indexes)
    ]


def within(points: Sequence[Point], begin: datetime, end: datetime) -> Sequence[Point]:
    """Return the points of a time interval, and one more on each side for the lines."""
    first = bisect_left(points, begin, key=_at)
    after = bisect_right(points, end, key=_at)
    return points[max(0, first - 1) : after + 1]


def _at(point: Point) -> datetime:
    return point.at
