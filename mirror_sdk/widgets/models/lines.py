"""Lines over time. They have points and breaks, and can be reduced to fewer points without a visible difference."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mirror_sdk._formatting import visible
from mirror_sdk.frames.plot_legend import label_of
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.wire.object_definitions import display_unit

SILENT_RHYTHMS = 10
"""The number of usual intervals for which a resource may be silent before its line has a break."""
INTERVALS_JUDGED = 100
FEWEST_INTERVALS = 5
_INTEGERS = frozenset({ResourceType.INTEGER, ResourceType.UNSIGNED})
_MAIN_RESOURCE = "Sensor Value"


class SeriesKey(NamedTuple):
    """A resource of a device."""

    device_id: str
    path: str


Numbers: TypeAlias = npt.NDArray[np.float64]


class Point(NamedTuple):
    """A number and its time. ``is_connected`` is false if the line is interrupted before the point."""

    at: datetime
    number: float
    is_connected: bool = True


@dataclass(frozen=True, slots=True)
class Series:
    """A line of the plot.

    Strings come from devices and may contain any characters. Points are sorted by time.

    Attributes:
        key: The resource of the line.
        name: The name of the line.
        unit: The unit code. It is empty if the unit is unknown.
        at: The time of each point, in milliseconds since 1970.
        numbers: The number at each point.
        is_connected: Whether the line leads to each point, instead of being interrupted before it.
    """

    key: SeriesKey
    name: str
    unit: str
    at: Numbers
    numbers: Numbers
    is_connected: npt.NDArray[np.bool_]

    @property
    def points(self) -> list[Point]:
        """The points of the line."""
        columns = self.at.tolist(), self.numbers.tolist(), self.is_connected.tolist()
        return [
            Point(datetime.fromtimestamp(at / 1000, UTC), number, is_connected)
            for at, number, is_connected in zip(*columns, strict=True)
        ]

    @property
    def with_breaks(self) -> tuple[Numbers, Numbers]:
        """The times and the numbers of the line. A break is a ``NaN`` at the time of the next point."""
        breaks = np.flatnonzero(~self.is_connected[1:]) + 1
        return np.insert(self.at, breaks, self.at[breaks]), np.insert(self.numbers, breaks, np.nan)

    @property
    def unit_text(self) -> str:
        """The unit in readable form. It is empty for a number without a unit, and if the unit is unknown."""
        return visible(display_unit(self.unit))

    @property
    def panel(self) -> str:
        """The panel of the line. All lines of a panel have the same quantity and unit.

        The quantity is the object, such as Temperature. Values without a unit cannot be compared with values of another
        resource. So each resource without a unit has a separate panel.
        """
        label = label_of(self.key.path)
        return f"{label.partition(' · ')[0]} {self.unit_text}" if self.unit_text else label


def panel_title(lines: Sequence[Series]) -> str:
    """Return the title of a panel with these lines.

    It contains the object, and also the resource if all lines have the same resource.
    """
    labels = {label_of(line.key.path) for line in lines}
    if len(labels) == 1:
        (label,) = labels
        return short_name(label)
    return label_of(lines[0].key.path).partition(" · ")[0]


def short_name(name: str) -> str:
    """Return a name without "Sensor Value", which is the main resource of every sensor."""
    return name.replace(f" · {_MAIN_RESOURCE}", "")


def is_set_point(path: str) -> bool:
    """Return whether a resource can be written. Such a resource keeps each value until the next one."""
    definition = lookup(path)
    return definition is not None and "W" in definition.access


def is_stepped(path: str) -> bool:
    """Return whether the line of a resource has steps. This is true for set points and for integers."""
    definition = lookup(path)
    return definition is not None and (is_set_point(path) or definition.type in _INTEGERS)


def after_silence(at: Numbers) -> npt.NDArray[np.bool_]:
    """Return, for each time, whether the resource had been silent for an unusually long time before it.

    The times are sorted and in milliseconds.
    """
    intervals = np.diff(at)
    if len(intervals) < FEWEST_INTERVALS:
        return np.zeros(len(at), dtype=bool)
    longest = np.median(intervals[-INTERVALS_JUDGED:]) * SILENT_RHYTHMS
    return np.concatenate([[False], (longest > 0) & (longest < intervals)])


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Return fewer points, which look the same when they are drawn.

    They include the ends, the lowest and the highest point of each interval, and all breaks.
    """
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
    """Return the points of a time interval. One more point on each side is included, so that lines reach the edges."""
    first = bisect_left(points, begin, key=_at)
    after = bisect_right(points, end, key=_at)
    return points[max(0, first - 1) : after + 1]


def _at(point: Point) -> datetime:
    return point.at
