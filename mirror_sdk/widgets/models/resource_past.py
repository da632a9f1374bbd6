"""The values of a device's resources over time."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mirror_sdk.widgets.models.past_values import PastValues

MOST_POINTS = 20_000
"""The maximum number of values of a resource. If there are more, the newest ones are stored."""


class Moment(NamedTuple):
    """A value at a time in milliseconds since 1970. ``text`` is ``None`` for a number."""

    at: int
    number: float
    text: str | None


@dataclass(frozen=True, slots=True)
class StateSpan:
    """A string that a resource had from ``begin`` to ``end``.

    ``end`` is ``None`` if the resource still has it. Times are in milliseconds since 1970.
    """

    begin: int
    end: int | None
    text: str


class ResourcePast:
    """The values of each resource of one device, sorted by time."""

    def __init__(self) -> None:
        self._moments: defaultdict[str, list[Moment]] = defaultdict(list)

    def set_past(self, past: PastValues) -> None:
        """Add these values to the existing ones."""
        rows = zip(past.paths, past.at.tolist(), past.numbers.tolist(), past.texts, strict=True)
        found: defaultdict[str, dict[int, Moment]] = defaultdict(dict)
        for path, at, number, text in rows:
            found[path][at] = Moment(at, number, text)
        for path, moments in found.items():
            every = moments | {moment.at: moment for moment in self._moments[path]}
            self._moments[path] = sorted(every.values())[-MOST_POINTS:]

    def add(self, path: str, at: int, number: float, text: str | None) -> None:
        """Add a value, unless there already is a value at the same time."""
        moments = self._moments[path]
        index = bisect_left(moments, (at,))
        if index == len(moments) or moments[index].at != at:
            moments.insert(index, Moment(at, number, text))
            del moments[:-MOST_POINTS]

    def line(self, path: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """Return the times and the numbers of a resource.

        The result is ``None`` if the resource has strings or no values.
        """
        moments = self._moments.get(path, [])
        if not moments or any(moment.text is not None for moment in moments):
            return None
        times = np.array([moment.at for moment in moments], dtype="float64")
        return times, np.array([moment.number for moment in moments], dtype="float64")

    def states(self, path: str) -> list[StateSpan]:
        """Return the strings of a resource without repetitions.

        The list is empty if the resource has numbers or no values.
        """
        moments = self._moments.get(path, [])
        if not moments or any(moment.text is None for moment in moments):
            return []
        changes = [
            moment for index, moment in enumerate(moments) if not index or moments[index - 1].text != moment.text
        ]
        ends = [*(moment.at for moment in changes[1:]), None]
        return [StateSpan(moment.at, end, str(moment.text)) for moment, end in zip(changes, ends, strict=True)]
