"""Statistics of each resource in time bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk.arrow_tables.columns import TableColumn
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.bins import Bins, bins_of, check_count
from mirror_sdk.frames.analysis.history_rows import BOOLEAN, NEVER, NONE, NUMBER, TEXT, Floats, Ints, T, is_start
from mirror_sdk.frames.analysis.result_columns import BIN_COLUMNS, COVERED, numbers_of
from mirror_sdk.frames.analysis.timeline import Segments, Timeline, warn_of_units

Statistic: TypeAlias = Literal["time_weighted_mean", "last", "min", "max", "count", "duration"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
_OF_NUMBERS = ("time_weighted_mean", "min", "max")

RESAMPLED_COLUMNS = (
    *BIN_COLUMNS,
    TableColumn("time_weighted_mean", pa.float64(), "the mean, weighted by time; NA if no value is known"),
    TableColumn("last", pa.float64(), "the last value; a boolean or string if the resource has such values"),
    TableColumn("min", pa.float64(), "the smallest value; NA if no value is known"),
    TableColumn("max", pa.float64(), "the largest value; NA if no value is known"),
    TableColumn("count", pa.int64(), "how many values have a time in the bin"),
    COVERED,
)
"""The columns of all statistics. A table has the columns of the requested statistics."""

VALUE_DURATION_COLUMNS = (
    *BIN_COLUMNS,
    TableColumn("value", pa.float64(), "the value; a boolean or string if the resource has such values"),
    TableColumn("duration", pa.duration("ms"), "how long the resource had this value in the bin"),
    COVERED,
)
"""The columns of the table with the duration of each value in each bin."""


def resample(timeline: Timeline, span: int, how: Statistic | Sequence[Statistic]) -> pd.DataFrame:
    """Compute statistics in bins of ``span`` milliseconds; see :meth:`mirror_sdk.frames.MirrorAccessor.resample`.

    Raises:
        InvalidValue: A statistic is unknown or not defined for the values, or the result would have too many rows.
    """
    names = checked(how)
    warn_of_units(timeline)
    binned = binned_segments(timeline, bins_of(span, timeline.begin, timeline.end, timeline.tz), names)
    return timeline.to_frame(binned.durations() if names == ["duration"] else binned.statistics(names))


def checked(how: Statistic | Sequence[Statistic]) -> list[Statistic]:
    """Return the requested statistics without duplicates.

    Raises:
        InvalidValue: A statistic is unknown, the list is empty, or ``duration`` is combined with other statistics.
    """
    names: list[Statistic] = [how] if isinstance(how, str) else list(dict.fromkeys(how))
    if not names or not set(names) <= set(STATISTICS):
        raise InvalidValue(f"how={how!r} must be one of {', '.join(STATISTICS)}, or a list of these")
    if "duration" in names and len(names) > 1:
        raise InvalidValue(f'how={how!r}: "duration" cannot be combined with other statistics; pass it alone')
    return names


def binned_segments(timeline: Timeline, bins: Bins, how: Sequence[Statistic]) -> BinnedSegments:
    """Cut the segments of a timeline at the edges of bins, to compute the statistics ``how``.

    Raises:
        InvalidValue: A statistic is not defined for the values, or the result would have too many rows.
    """
    check_count(len(timeline.segments.of_device) * len(bins))
    _check_kinds(timeline, how)
    return BinnedSegments(timeline, bins)


class BinnedSegments:
    """Segments that are cut at the edges of bins.

    They are in the order of the cells, which are the bins of the first resource, then those of the next one. A value
    whose time is in a bin has a segment there, even if the segment has length 0.
    """

    def __init__(self, timeline: Timeline, bins: Bins) -> None:
        self._timeline, self._bins = timeline, bins
        self._cell_count = len(timeline.segments.of_device) * len(bins)
        segments = _within(timeline)
        self.segments: Segments = segments
        first = bins.index(np.maximum(segments.at, timeline.begin))
        until = np.minimum(segments.until, timeline.end)
        # The end is exclusive. A segment of length 0 ends in the bin in which it begins.
        last = np.maximum(first, bins.index(until - 1))
        count = last - first + 1
        self.segment: Ints = np.repeat(np.arange(len(segments)), count)
        # The bins count up from the first bin of each segment, without a loop over segments.
        bin_ = np.arange(len(self.segment)) - np.repeat(np.cumsum(count) - count, count) + first[self.segment]
        self.cell: Ints = segments.resource[self.segment] * len(bins) + bin_
        begin = np.maximum(np.maximum(segments.at, timeline.begin)[self.segment], bins.edges[bin_])
        end = np.minimum(until[self.segment], bins.edges[bin_ + 1])
        self.length: Ints = np.where(segments.is_known[self.segment], np.maximum(end - begin, 0), 0)
        self._starts = np.flatnonzero(is_start(self.cell))
        self.known: Ints = self._scatter(self._reduced(np.add, self.length), 0)

    def table(self, columns: Sequence[TableColumn], cell: Ints | None = None, **cells: Any) -> pa.Table:
        """Build a table with one row for each of these cells. The default is all cells.

        Args:
            columns: The columns, which include ``BIN_COLUMNS`` and ``COVERED``.
            cell: The index of the cell of each row.
            cells: The other columns, as for :meth:`Timeline.table`.
        """
        if cell is None:
            cell = np.arange(self._cell_count)
        resource, bin_ = np.divmod(cell, max(len(self._bins), 1))
        cells |= {"bin": self._bins.begins[bin_], "covered": self.known[cell] / self._bins.lengths[bin_]}
        segments = self.segments
        return self._timeline.table(
            columns, device=segments.of_device, path=segments.of_path, positions=resource, **cells
        )

    def statistics(self, how: Sequence[Statistic]) -> pa.Table:
        """Compute statistics of each cell."""
        columns = {column.name: column for column in RESAMPLED_COLUMNS}
        chosen = [*BIN_COLUMNS, *(columns[name] for name in how), COVERED]
        return self.table(chosen, **{name: self._statistic(name) for name in how})

    def durations(self) -> pa.Table:
        """Compute how long each value held in each cell."""
        has_length = self.length > 0
        cell, segment, length = self.cell[has_length], self.segment[has_length], self.length[has_length]
        segments = self.segments
        value = segments.text[segment] if segments.kinds == {TEXT} else segments.number[segment]
        order = np.lexsort((value, cell))
        starts = np.flatnonzero(is_start(cell[order], value[order]))
        lengths = np.add.reduceat(length[order], starts) if len(starts) else length
        first = order[starts]
        return self.table(VALUE_DURATION_COLUMNS, cell[first], value=self._values_of(segment[first]), duration=lengths)

    def _statistic(self, name: Statistic) -> npt.NDArray[Any] | pa.Array:
        match name:
            case "count":
                return self._count()
            case "last":
                return self._last()
            case "min":
                return self._of_one_unit(self._reduced(np.fmin, self._numbers()))
            case "max":
                return self._of_one_unit(self._reduced(np.fmax, self._numbers()))
            case _:
                return self.mean()

    def _numbers(self) -> Floats:
        return self.segments.number[self.segment]

    def mean(self) -> Floats:
        """Compute the time-weighted mean of each cell. It is NaN if no value is known."""
        numbers, known = self._numbers(), self.known[self.cell]
        has_length = self.length > 0
        # Because of rounding, a sum may exceed the largest number.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            weighted = np.where(has_length, numbers * (self.length / known), 0.0)
            mean = self._of_one_unit(self._reduced(np.add, weighted))
        valid = np.where(has_length, numbers, np.nan)
        low, high = (self._scatter(self._reduced(extreme, valid), np.nan) for extreme in (np.fmin, np.fmax))
        # Sums are rounded, but the mean of a constant must be exactly that constant.
        clipped: Floats = np.minimum(np.maximum(mean, low), high)
        return clipped

    def unit(self) -> Ints:
        """Return the unit of the numbers of each cell.

        It is -1 if the unit is unknown or there are no numbers, and -2 if there are several units. An unknown unit
        counts as a separate unit, because it may be any unit.
        """
        return self._scatter(self._units(), -1)

    def _units(self) -> Ints:
        segments = self.segments
        is_same = (segments.unit[1:] == segments.unit[:-1]) | (segments.resource[1:] != segments.resource[:-1])
        if is_same.all():
            # In the usual case, all segments of a cell have the same unit.
            return np.where(segments.kind == NUMBER, segments.unit, -1)[self.segment[self._starts]]
        # Here 0 means an unknown unit, and -1 a value that is not a number.
        unit = np.where(self.segments.kind == NUMBER, self.segments.unit + 1, -1)[self.segment]
        least, greatest = self._reduced(np.minimum, np.where(unit < 0, NEVER, unit)), self._reduced(np.maximum, unit)
        units: Ints = np.where(least < greatest, -2, np.maximum(greatest - 1, -1))
        return units

    def _of_one_unit(self, values: Floats) -> Floats:
        """Return the numbers of all cells. In a cell with several units, the number is NaN."""
        return self._scatter(np.where(self._units() == -2, np.nan, values), np.nan)

    def _count(self) -> Ints:
        segments = self.segments
        is_in = segments.is_counted & (segments.at >= self._timeline.begin)
        cells = segments.resource[is_in] * len(self._bins) + self._bins.index(segments.at[is_in])
        return np.bincount(cells, minlength=self._cell_count)

    def _last(self) -> pa.Array:
        # A value that was replaced at once, or that became unknown at once, does not count.
        last = self._reduced(np.maximum, np.where(self.length > 0, np.arange(len(self.segment)), -1))
        return self._values_of(np.append(self.segment, -1)[self._scatter(last, -1)])

    def _values_of(self, segment: Ints) -> pa.Array:
        """Return the values of segments; the index -1 gives a missing value.

        The result has numbers, booleans or strings, depending on the values of the table. Booleans become numbers if
        the table also has numbers.
        """
        segments = self.segments
        number = np.append(segments.number, np.nan)[segment]
        if segments.kinds == {TEXT}:
            text = np.append(segments.text, -1)[segment]
            return pa.array(self._timeline.rows.texts, pa.string()).take(pa.array(text, mask=text < 0))
        if segments.kinds == {BOOLEAN}:
            return pa.array(number == 1.0, mask=np.isnan(number))
        return numbers_of(number)

    def _reduced(self, operation: np.ufunc, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Reduce the segments of each cell to one value. Empty cells have no value in the result."""
        reduced: npt.NDArray[T] = operation.reduceat(values, self._starts) if len(self._starts) else values[:0]
        return reduced

    def _scatter(self, values: npt.NDArray[T], default: float) -> npt.NDArray[T]:
        """Return a value for every cell. Cells without segments get the default."""
        every = np.full(self._cell_count, default, dtype=values.dtype)
        every[self.cell[self._starts]] = values
        return every


def _within(timeline: Timeline) -> Segments:
    """Return the segments that overlap the period of the timeline."""
    segments = timeline.segments
    has_length = np.minimum(segments.until, timeline.end) > timeline.begin
    is_within = (segments.at < timeline.end) & (has_length | (segments.at >= timeline.begin))
    return segments if is_within.all() else segments.take(is_within)


def _check_kinds(timeline: Timeline, how: Sequence[Statistic]) -> None:
    """Raise an error for a statistic that is not defined for strings, or if a column would mix numbers and strings."""
    segments = timeline.segments
    if TEXT not in segments.kinds:
        return
    texts = timeline.path_at(segments.kind == TEXT)
    undefined = [name for name in how if name in _OF_NUMBERS]
    if undefined:
        raise InvalidValue(
            f"how={undefined[0]!r} needs numbers or booleans, but {texts} has strings; exclude it with paths=[...], or"
            ' request "last", "count" or "duration"'
        )
    others = (segments.kind != TEXT) & (segments.kind != NONE)
    if others.any() and set(how) & {"last", "duration"}:
        raise InvalidValue(
            f"{texts} has strings, but {timeline.path_at(others)} has other values, and one column cannot"
            " have both; select resources of one kind with paths=[...]"
        )
