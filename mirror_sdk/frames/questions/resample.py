"""Statistics of each resource by bins of time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.questions.bins import Bins, bins_of, check_count
from mirror_sdk.frames.questions.rows import (
    BOOLEAN,
    NEVER,
    NONE,
    NUMBER,
    TEXT,
    Flags,
    Floats,
    Ints,
    names_of,
    spans_of,
    times_of,
    words_of,
)
from mirror_sdk.frames.questions.steps import Steps, Timeline, warn_of_units
from mirror_sdk.tables.columns import CATEGORY, INSTANT

Statistic: TypeAlias = Literal["time_weighted_mean", "last", "min", "max", "count", "duration"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
T = TypeVar("T", bound=np.generic)
_OF_NUMBERS = ("time_weighted_mean", "min", "max")
_KINDS = {NUMBER: "numbers", BOOLEAN: "booleans", TEXT: "texts"}

KEY = [
    pa.field("bin", INSTANT),
    pa.field("device_id", CATEGORY),
    pa.field("endpoint_name", CATEGORY),
    pa.field("path", CATEGORY),
]
"""What each row is of."""
_COVERED = pa.field("covered", pa.float64())
_TYPES = {NUMBER: pa.float64(), BOOLEAN: pa.bool_(), TEXT: pa.string()}


def resample(told: Timeline, span: int, how: Statistic | Sequence[Statistic]) -> pd.DataFrame:
    """Statistics by bins of so many milliseconds; see :meth:`mirror_sdk.frames.MirrorAccessor.resample`.

    Raises:
        InvalidValue: A statistic is none, or not of the values there are, or there would be too many rows.
    """
    names = checked(how)
    warn_of_units(told)
    return told.to_frame(statistics(told, bins_of(span, told.begin, told.end, told.tz), names))


def checked(how: Statistic | Sequence[Statistic]) -> list[Statistic]:
    """The statistics that are asked for, each once.

    Raises:
        InvalidValue: One is none, there is none, or ``duration`` is not alone.
    """
    names: list[Statistic] = [how] if isinstance(how, str) else list(dict.fromkeys(how))
    if not names or not set(names) <= set(STATISTICS):
        raise InvalidValue(f"how={how!r} is no statistic; give one of {', '.join(STATISTICS)}, or a list of them")
    if "duration" in names and len(names) > 1:
        raise InvalidValue(f'how={how!r}: "duration" has a row for each value, so ask for it by itself')
    return names


def statistics(told: Timeline, bins: Bins, how: Sequence[Statistic]) -> pa.Table:
    """Statistics of what a table tells, by bins.

    Raises:
        InvalidValue: A statistic is not of the values there are, or there would be too many rows.
    """
    check_count(len(told.steps.of_device) * len(bins))
    _check_kinds(told, how)
    part_of = _durations if how == ["duration"] else partial(_cells, how=how)
    return pa.concat_tables([part_of(part, bins) for part in told.parts(len(bins))])


def _cells(told: Timeline, bins: Bins, how: Sequence[Statistic]) -> pa.Table:
    """Each bin of each resource."""
    resources = len(told.steps.of_device)
    pieces = StepPieces(told, bins)
    columns = keys(told, bins, np.arange(resources * len(bins)))
    columns |= {name: pieces.statistic(name) for name in how}
    columns["covered"] = pa.array(pieces.known / np.tile(bins.lengths, resources))
    fields = [pa.field(name, columns[name].type) for name in how]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema([*KEY, *fields, _COVERED]))


class StepPieces:
    """Steps cut by the edges of bins, in the order of the cells: those of the first resource, then the next one's.

    A value that was told within a bin has a piece there, also one that was held for no time.
    """

    def __init__(self, told: Timeline, bins: Bins) -> None:
        self._told, self._bins = told, bins
        self._cell_count = len(told.steps.of_device) * len(bins)
        steps = _within(told)
        self.steps: Steps = steps
        first = bins.place(np.maximum(steps.at, told.begin))
        until = np.minimum(steps.until, told.end)
        last = np.maximum(first, bins.place(until - 1))
        count = last - first + 1
        self.step: Ints = np.repeat(np.arange(len(steps)), count)
        place = np.arange(len(self.step)) - np.repeat(np.cumsum(count) - count, count) + first[self.step]
        self.cell: Ints = steps.resource[self.step] * len(bins) + place
        begin = np.maximum(np.maximum(steps.at, told.begin)[self.step], bins.edges[place])
        end = np.minimum(until[self.step], bins.edges[place + 1])
        self.length: Ints = np.where(steps.is_known[self.step], np.maximum(end - begin, 0), 0)
        self._starts = np.flatnonzero(np.append(True, self.cell[1:] != self.cell[:-1])[: len(self.cell)])
        self.known: Ints = self._spread(self._reduced(np.add, self.length), 0)

    def statistic(self, name: Statistic) -> pa.Array:
        """One statistic of each cell."""
        match name:
            case "count":
                return pa.array(self._count())
            case "last":
                return self._last()
            case "min":
                return _present(self._of_one_unit(self._reduced(np.fmin, self._numbers())))
            case "max":
                return _present(self._of_one_unit(self._reduced(np.fmax, self._numbers())))
            case _:
                return _present(self.mean())

    def _numbers(self) -> Floats:
        return self.steps.number[self.step]

    def mean(self) -> Floats:
        """The mean over time of each cell; NaN where nothing is known."""
        numbers, known = self._numbers(), self.known[self.cell]
        is_held = self.length > 0
        # A sum may be rounded past the largest number there is.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            parts = np.where(is_held, numbers * (self.length / known), 0.0)
            mean = self._of_one_unit(self._reduced(np.add, parts))
        low = self._reduced(np.fmin, np.where(is_held, numbers, np.nan))
        high = self._reduced(np.fmax, np.where(is_held, numbers, np.nan))
        # Sums are rounded: the mean of what never changes is that.
        clipped: Floats = np.minimum(np.maximum(mean, self._spread(low, np.nan)), self._spread(high, np.nan))
        return clipped

    def unit(self) -> Ints:
        """The unit of the numbers of each cell: -1 if it is unknown or there is no number, -2 if there are several.

        An unknown unit counts as one of its own: it may be any.
        """
        return self._spread(self._units(), -1)

    def _units(self) -> Ints:
        steps = self.steps
        is_same = (steps.unit[1:] == steps.unit[:-1]) | (steps.resource[1:] != steps.resource[:-1])
        if is_same.all():
            # As nearly always: one piece of a cell tells what all of it is in.
            return np.where(steps.kind == NUMBER, steps.unit, -1)[self.step[self._starts]]
        # Unknown is 0 here, and -1 is no number.
        unit = np.where(self.steps.kind == NUMBER, self.steps.unit + 1, -1)[self.step]
        least, greatest = self._reduced(np.minimum, np.where(unit < 0, NEVER, unit)), self._reduced(np.maximum, unit)
        units: Ints = np.where(least < greatest, -2, np.maximum(greatest - 1, -1))
        return units

    def _of_one_unit(self, values: Floats) -> Floats:
        """One number for every cell; NaN where it would be of several units."""
        return self._spread(np.where(self._units() == -2, np.nan, values), np.nan)

    def _count(self) -> Ints:
        steps = self.steps
        is_in = steps.is_counted & (steps.at >= self._told.begin)
        cells = steps.resource[is_in] * len(self._bins) + self._bins.place(steps.at[is_in])
        return np.bincount(cells, minlength=self._cell_count)

    def _last(self) -> pa.Array:
        # What was overtaken at once, or not known from then on, is no value of the bin.
        last = self._reduced(np.maximum, np.where(self.length > 0, np.arange(len(self.step)), -1))
        place = self._spread(last, -1)
        found = np.append(self.step, -1)[place]
        return values_of(self._told, self.steps, found)

    def _reduced(self, operation: np.ufunc, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """One value for each cell that has a piece."""
        reduced: npt.NDArray[T] = operation.reduceat(values, self._starts) if len(self._starts) else values[:0]
        return reduced

    def _spread(self, values: npt.NDArray[T], default: float) -> npt.NDArray[T]:
        """One value for every cell."""
        every = np.full(self._cell_count, default, dtype=values.dtype)
        every[self.cell[self._starts]] = values
        return every


def values_of(told: Timeline, steps: Steps, places: Ints) -> pa.Array:
    """The values of some steps, -1 for none: numbers, booleans or texts, as all of the table are.

    Booleans are numbers where there are numbers too.
    """
    number = np.append(steps.number, np.nan)[places]
    if steps.kinds == {TEXT}:
        text = np.append(steps.text, -1)[places]
        return pa.array(told.rows.texts, pa.string()).take(pa.array(text, mask=text < 0))
    if steps.kinds == {BOOLEAN}:
        return pa.array(number == 1.0, mask=np.isnan(number))
    return _present(number)


def _within(told: Timeline) -> Steps:
    """The steps that have to do with the time that is asked for."""
    steps = told.steps
    is_held = np.minimum(steps.until, told.end) > told.begin
    is_within = (steps.at < told.end) & (is_held | (steps.at >= told.begin))
    return steps if is_within.all() else steps.take(is_within)


def _check_kinds(told: Timeline, how: Sequence[Statistic]) -> None:
    """See that statistics are of the values there are.

    Raises:
        InvalidValue: Texts have no mean and no order, or one column would have numbers and texts.
    """
    steps = told.steps
    if TEXT not in steps.kinds:
        return
    texts = _paths(told, steps.kind == TEXT)
    refused = [name for name in how if name in _OF_NUMBERS]
    if refused:
        raise InvalidValue(
            f"how={refused[0]!r} is of numbers and booleans, and {texts} has texts; leave it out with paths=[...], or"
            ' ask for "last", "count" or "duration"'
        )
    others = (steps.kind != TEXT) & (steps.kind != NONE)
    if others.any() and set(how) & {"last", "duration"}:
        raise InvalidValue(
            f"{texts} has texts and {_paths(told, others)} has none, which are no values of one column; give the"
            " paths of one kind with paths=[...]"
        )


def _paths(told: Timeline, is_meant: Flags) -> str:
    """One of the paths of some steps, for a message."""
    first = told.steps.resource[np.argmax(is_meant)]
    return str(told.rows.paths[told.steps.of_path[first]])


def keys(told: Timeline, bins: Bins, cells: Ints) -> dict[str, pa.Array]:
    """Bin, device, its name, and path of cells."""
    resource, place = np.divmod(cells, max(len(bins), 1))
    return {
        "bin": times_of(bins.begins[place]),
        "device_id": words_of(told.steps.of_device, told.rows.devices, resource),
        "endpoint_name": names_of(told.steps.of_device, told.names, resource),
        "path": words_of(told.steps.of_path, told.rows.paths, resource),
    }


def _durations(told: Timeline, bins: Bins) -> pa.Table:
    """How long each value was held in each bin."""
    pieces = StepPieces(told, bins)
    is_held = pieces.length > 0
    cell, step, length = pieces.cell[is_held], pieces.step[is_held], pieces.length[is_held]
    steps = pieces.steps
    value = steps.text[step] if steps.kinds == {TEXT} else steps.number[step]
    order = np.lexsort((value, cell))
    cell, step, value = cell[order], step[order], value[order]
    is_other = (cell[1:] != cell[:-1]) | (value[1:] != value[:-1])
    starts = np.flatnonzero(np.append(True, is_other)[: len(cell)])
    held = np.add.reduceat(length[order], starts) if len(starts) else length
    cell, step = cell[starts], step[starts]
    columns = keys(told, bins, cell)
    columns["value"] = values_of(told, steps, step)
    columns["duration"] = spans_of(held)
    columns["covered"] = pa.array(pieces.known[cell] / bins.lengths[cell % max(len(bins), 1)])
    fields = [pa.field("value", columns["value"].type), pa.field("duration", pa.duration("ms")), _COVERED]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema([*KEY, *fields]))


def _present(numbers: Floats) -> pa.Array:
    """A column of numbers; NaN is none."""
    return pa.array(numbers, mask=np.isnan(numbers))
