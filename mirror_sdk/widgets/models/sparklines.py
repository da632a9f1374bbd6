"""Sparklines, which show the mean of each half hour in the last day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import numpy as np

from mirror_sdk.widgets.models.past_values import PastValues

SPARKLINE_LENGTH = timedelta(hours=24)
BUCKETS = 48
_BUCKET_MS = round(SPARKLINE_LENGTH / timedelta(milliseconds=1)) // BUCKETS
_DIGITS = 5


@dataclass(slots=True)
class _Line:
    """The sums, counts and last values of a line in each bucket, and the time of the newest value."""

    sums: np.ndarray = field(default_factory=lambda: np.zeros(BUCKETS))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BUCKETS))
    last: np.ndarray = field(default_factory=lambda: np.zeros(BUCKETS))
    newest: int = 0


class Sparklines:
    """The sparklines of one resource for each device, or of one device for each resource path.

    Args:
        now: The current time by the mirror's clock, in milliseconds since 1970.
    """

    def __init__(self, now: int) -> None:
        self._last = now // _BUCKET_MS
        self._lines: dict[str, _Line] = {}

    def advance(self, now: int) -> None:
        """Move the end of the day to the current time, which removes the oldest half hours."""
        steps = now // _BUCKET_MS - self._last
        if steps <= 0:
            return
        self._last += steps
        for line in self._lines.values():
            for cells in (line.sums, line.counts, line.last):
                cells[:-steps] = cells[steps:]
                cells[-steps:] = 0

    def set_past(self, past: PastValues, keys: Sequence[str]) -> None:
        """Replace the lines of these keys by the values. Lines without such values remain unchanged.

        Args:
            past: The values.
            keys: The key of the line for each value.
        """
        earlier, self._lines = self._lines, {}
        is_number = ~np.isnan(past.numbers)
        ids, rows = np.unique(np.asarray(keys, dtype=object)[is_number], return_inverse=True)
        at, numbers = past.at[is_number], past.numbers[is_number]
        columns = at // _BUCKET_MS - self._first
        is_inside = (columns >= 0) & (columns < BUCKETS)
        cells = rows[is_inside] * BUCKETS + columns[is_inside]
        shape = len(ids), BUCKETS
        sums = np.bincount(cells, numbers[is_inside], minlength=len(ids) * BUCKETS).reshape(shape)
        counts = np.bincount(cells, minlength=len(ids) * BUCKETS).reshape(shape).astype("float64")
        last = np.zeros(len(ids) * BUCKETS)
        order = np.argsort(at[is_inside], kind="stable")
        # Of several values in a bucket, the last one is assigned last.
        last[cells[order]] = numbers[is_inside][order]
        last = last.reshape(shape)
        newest = np.zeros(len(ids), dtype="int64")
        np.maximum.at(newest, rows, at)
        for row, key in enumerate(ids):
            self._lines[str(key)] = _Line(sums[row], counts[row], last[row], int(newest[row]))
        self._lines = earlier | self._lines

    def add(self, key: str, at: int, number: float) -> None:
        """Add a value.

        It is ignored if it is outside the day, or not newer than the newest value of the line.
        """
        line = self._lines.setdefault(key, _Line())
        column = at // _BUCKET_MS - self._first
        if at <= line.newest or not 0 <= column < BUCKETS:
            return
        line.newest = at
        line.sums[column] += number
        line.counts[column] += 1
        line.last[column] = number

    def drop(self, key: str) -> None:
        """Remove a line."""
        self._lines.pop(key, None)

    def line(self, key: str, *, is_state: bool = False) -> Mapping[str, list[float | None]] | None:
        """Return a line as a cell of a table, with half hours since the start, and numbers.

        Args:
            key: The key of the line.
            is_state: Whether each value lasts until the next one, as for a switch. In this case, the line has steps.

        Returns:
            ``{"at": [...], "values": [...]}``, from the start to the end of the day. The result is ``None`` if the line
            has no values.
        """
        line = self._lines.get(key)
        filled = [] if line is None else np.flatnonzero(line.counts).tolist()
        if line is None or not filled:
            return None
        if is_state:
            values = line.last[filled].tolist()
            # Each value is drawn until the next one, and the last one until now.
            at = [half_hour for one, end in pairwise([*filled, BUCKETS - 1]) for half_hour in (one, end)]
            points = list(zip(at, [value for value in values for _ in range(2)], strict=True))
        else:
            means = line.sums[filled] / line.counts[filled]
            points = [(one, float(f"{mean:.{_DIGITS}g}")) for one, mean in zip(filled, means.tolist(), strict=True)]
        # These points have no value. They give all lines the same time axis.
        begin = [] if points[0][0] == 0 else [(0, None)]
        end = [] if points[-1][0] == BUCKETS - 1 else [(BUCKETS - 1, None)]
        every: list[tuple[int, float | None]] = [*begin, *points, *end]
        return {"at": [at for at, _ in every], "values": [value for _, value in every]}

    @property
    def _first(self) -> int:
        return self._last - BUCKETS + 1
