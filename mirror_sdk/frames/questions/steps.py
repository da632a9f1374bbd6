"""What a table tells of each resource over time: steps, each held until the next one, or until nothing is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike, instant, path_patterns
from mirror_sdk._caller import warn
from mirror_sdk._visible import visible
from mirror_sdk.errors import InvalidValue, UnitWarning
from mirror_sdk.frames.columns import basis_of, taken_at, to_frame
from mirror_sdk.frames.questions.intervals import Intervals, intervals_of
from mirror_sdk.frames.questions.rows import (
    BOOLEAN,
    NEVER,
    NONE,
    NUMBER,
    TEXT,
    VALUE,
    Flags,
    Floats,
    Ints,
    Rows,
    endpoint_names,
    milliseconds,
    order_by,
    rows_of,
)
from mirror_sdk.wire.paths import matches_any


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Values in order of device, path and time, each held from ``at`` up to ``until``.

    ``resource`` numbers the resources from 0 on, and ``of_device`` and ``of_path`` tell what each of them is. ``kinds``
    are the kinds of values there are, also where some steps of these are taken.
    """

    resource: Ints
    at: Ints
    until: Ints
    kind: Ints
    number: Floats
    text: Ints
    unit: Ints
    is_counted: Flags
    of_device: Ints
    of_path: Ints
    kinds: frozenset[int]

    def __len__(self) -> int:
        return len(self.at)

    @property
    def is_known(self) -> Flags:
        """Which of them have a value that can be read."""
        is_known: Flags = self.kind != NONE
        return is_known

    def take(self, places: Any) -> Steps:
        """These steps alone, of the same resources."""
        return replace(self, **{name: getattr(self, name)[places] for name in _BY_STEP})


_Span: TypeAlias = tuple[int, int]
_BY_STEP = tuple(field.name for field in fields(Steps) if field.name not in ("of_device", "of_path", "kinds"))
_AT_A_TIME = 500_000
"""How many steps and cells are worked on at once: what a processor keeps at hand."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """What a table tells from ``begin`` up to ``end``, and is known up to ``known_until``, in milliseconds.

    ``names`` are the endpoint names of the devices of the rows, ``None`` where none is known.
    ``end`` lies behind the last row where nobody said an end. ``own_steps`` are some that are no values of the rows, or
    not of all resources.
    """

    rows: Rows
    intervals: Intervals
    begin: int
    end: int
    known_until: int
    tz: str
    about: dict[str, object]
    patterns: list[str] | None
    names: npt.NDArray[np.object_]
    own_steps: Steps | None = None

    @cached_property
    def steps(self) -> Steps:
        """What was told of each resource; made when it is asked for first, as not all questions do."""
        if self.own_steps is not None:
            return self.own_steps
        return _steps(self.rows, self.intervals, self.patterns, self.known_until)

    def within(self, begin: int, end: int) -> Timeline:
        """The same, asked of another time."""
        return replace(self, begin=begin, end=end, own_steps=self.steps)

    def of_path(self, path: int) -> Timeline:
        """The same, asked of one resource path alone."""
        steps = self.steps
        is_meant = steps.of_path == path
        of_path = steps.take(is_meant[steps.resource])
        return replace(
            self,
            own_steps=replace(
                of_path,
                resource=(np.cumsum(is_meant) - 1)[of_path.resource],
                of_device=steps.of_device[is_meant],
                of_path=steps.of_path[is_meant],
                kinds=kinds_of(of_path.kind),
            ),
        )

    def parts(self, bin_count: int) -> Iterator[Timeline]:
        """The same by some resources at a time, at least once: as many as are worked on at once in so many bins."""
        steps = self.steps
        count = len(steps.of_device)
        starts = np.searchsorted(steps.resource, np.arange(count + 1))
        sizes = starts + np.arange(count + 1) * bin_count
        first = 0
        while first < max(count, 1):
            last = max(int(np.searchsorted(sizes, sizes[first] + _AT_A_TIME, side="right")) - 1, first + 1)
            some = steps.take(slice(starts[first], starts[min(last, count)]))
            resources = slice(first, last)
            yield replace(
                self,
                own_steps=replace(
                    some,
                    resource=some.resource - first,
                    of_device=steps.of_device[resources],
                    of_path=steps.of_path[resources],
                ),
            )
            first = last

    def values(self) -> Rows:
        """The rows of the values that are asked for, in the order of the table."""
        return self.rows.take(is_asked(self.rows, self.patterns))

    def to_frame(self, table: pa.Table) -> pd.DataFrame:
        """A table of answers as a frame, which is based on what the table was that was asked."""
        return to_frame(table, self.about, tz=self.tz)


def told_by(
    frame: pd.DataFrame,
    *,
    paths: Sequence[str] | None = None,
    silence_limit: str | pd.Timedelta | None = None,
    begin: InstantLike | None = None,
    end: InstantLike | None = None,
    state: pd.DataFrame | None = None,
    tz: str | None = None,
) -> Timeline:
    """What a history or events table tells.

    Args:
        frame: The table.
        paths: Patterns of the resources that are asked for; all by default.
        silence_limit: How long a value holds behind the last sign of life of its device; for ever by default.
        begin: From when on; that of the table by default, else its first row.
        end: Up to when; that of the table by default, else its last row.
        state: A state table, whose values are told before the first row.
        tz: The time zone of days and of what is given; that of the table by default.

    Raises:
        InvalidValue: The table lacks a column, or an argument says nothing that can be done.
    """
    limit = None if silence_limit is None else span_of("silence_limit", silence_limit)
    patterns = path_patterns(paths)
    rows = rows_of(frame, state)
    asked = [
        None if given is None else instant_in(frame, name, given) for name, given in (("begin", begin), ("end", end))
    ]
    about = frame.attrs.get("mirror", {})
    bounds = [
        milliseconds(pd.Timestamp(about[name])) if given is None and about.get(name) else given
        for name, given in zip(("begin", "end"), asked, strict=True)
    ]
    known_until = _known_until(rows, about, bounds[0], asked[1])
    first, last = _range(rows, about, known_until, *bounds)
    intervals = intervals_of(rows, limit)
    names = endpoint_names(rows.devices, *([] if state is None else [state]), frame)
    zone = tz or str(getattr(frame["changed_at"].dtype, "tz", None) or "UTC")
    return Timeline(rows, intervals, first, last, known_until, zone, basis_of(frame), patterns, names)


def warn_of_units(told: Timeline) -> None:
    """Warn where the numbers of a resource that are asked for are in several units; an unknown one is another one.

    Warns:
        UnitWarning: This.
    """
    steps = told.steps
    is_in = (steps.kind == NUMBER) & (steps.until > told.begin) & (steps.at < told.end)
    # The unknown unit, -1, stands behind the others.
    width = len(told.rows.units) + 1
    resource, unit = steps.resource[is_in], steps.unit[is_in] % width
    each = np.unique(resource * width + unit)
    found, count = np.unique(each // width, return_counts=True)
    changed = found[count > 1]
    if not len(changed):
        return
    first = changed[0]
    device, path = (told.rows.devices[steps.of_device[first]], told.rows.paths[steps.of_path[first]])
    names = [*told.rows.units, "an unknown unit"]
    units = " and ".join(visible(str(names[one % width])) for one in each[each // width == first])
    others = f", as are {len(changed) - 1} other resources" if len(changed) > 1 else ""
    warn(
        f"{visible(str(path))} of {visible(str(device))} is in {units}{others}: statistics and differences of several"
        " units are missing, and a threshold is compared with all of them; give begin= and end= of the time of one"
        " unit, or convert the values and set the column unit first",
        UnitWarning,
    )


def instant_in(frame: pd.DataFrame, name: str, given: InstantLike) -> int:
    """An instant in milliseconds, given as one or as how long before the table was taken.

    Raises:
        InvalidValue: It is no time, has no time zone, or the table does not say when it was taken.
    """
    return milliseconds(instant(name, given, lambda: taken_at(frame)))


def span_of(name: str, given: str | pd.Timedelta) -> int:
    """A span of time in milliseconds.

    Raises:
        InvalidValue: It is none, or not at least a millisecond.
    """
    try:
        span = pd.Timedelta(given)
    except (TypeError, ValueError) as exc:
        raise InvalidValue(f"{name}={given!r} is no span of time; write one like '15min', '1h' or '1D'") from exc
    # Also false for the span that is none.
    if not span >= pd.Timedelta("1ms"):
        raise InvalidValue(f"{name}={given!r} must be a millisecond or longer; write one like '15min', '1h' or '1D'")
    return int(span // pd.Timedelta("1ms"))


def _known_until(rows: Rows, about: dict[str, Any], begin: int | None, end: int | None) -> int:
    """Up to when it is told what there was.

    A history says it by the service's clock, whatever the clock of a device says. Of any other table it is the newest
    row, or when it was taken, or the end that is asked for.
    """
    told = [milliseconds(pd.Timestamp(about[name])) for name in ("taken_at", "end") if about.get(name)]
    if told and _is_history(about):
        return min(told)
    asked = [one for one in (end, begin) if one is not None]
    newest = [int(rows.at.max())] if len(rows) else asked[-1:]
    return max([*newest, *told, *asked[: end is not None]], default=0)


def _is_history(about: dict[str, Any]) -> bool:
    """Whether a table says from when on and up to when it tells what there was."""
    return "oldest_at" in about


def _range(rows: Rows, about: dict[str, Any], known_until: int, begin: int | None, end: int | None) -> _Span:
    """From when up to when is asked.

    Raises:
        InvalidValue: The end lies before the beginning.
    """
    if begin is not None and end is not None and end < begin:
        told_end, told_begin = (pd.Timestamp(one, unit="ms", tz="UTC") for one in (end, begin))
        raise InvalidValue(f"end={told_end} lies before begin={told_begin}; give them in their order")
    told = rows.at[rows.is_counted]
    # Those behind the end of a history are of devices whose clock is ahead.
    within = told[told <= known_until] if _is_history(about) else told
    # Behind the newest row, which is asked for too.
    last = max(known_until, int(within.max(initial=known_until - 1)) + 1) if end is None else end
    first = int(told.min(initial=last)) if begin is None else begin
    return first, max(first, last)


def _steps(rows: Rows, intervals: Intervals, patterns: list[str] | None, known_until: int) -> Steps:
    asked = is_asked(rows, patterns)
    values = _in_order(rows if asked.all() else rows.take(asked))
    unknown = intervals.first_from(values.device, values.at)
    values, unknown = _with_told_again(values, unknown, intervals, known_until)
    is_first = _is_first(values)
    resource = np.cumsum(is_first) - 1
    until = np.minimum(np.minimum(_following(values), known_until), unknown)
    return Steps(
        resource=resource,
        at=values.at,
        until=np.maximum(until, values.at),
        kind=values.kind,
        number=values.number,
        text=values.text,
        unit=values.unit,
        is_counted=values.is_counted,
        of_device=values.device[is_first],
        of_path=values.path[is_first],
        kinds=kinds_of(values.kind),
    )


def _following(values: Rows) -> Ints:
    """When the next value of the resource of each was told, of values in their order; ``NEVER`` for none."""
    is_last = np.append(_is_first(values)[1:], True)
    following: Ints = np.where(is_last, NEVER, np.append(values.at[1:], NEVER))[: len(values)]
    return following


def _with_told_again(values: Rows, unknown: Ints, intervals: Intervals, known_until: int) -> tuple[Rows, Ints]:
    """The values, and those that came after an interval with a time before it as if they were told when they came, too.

    Args:
        values: Values in their order.
        unknown: When the first interval begins from the time of each on.
        intervals: The intervals.
        known_until: Up to when it is told what there was.

    Returns:
        Values in their order, and when the first interval begins from the time of each on.
    """
    if not len(intervals.device):
        return values, unknown
    late = np.flatnonzero((unknown <= values.came) & (values.came < known_until))
    if not len(late):
        return values, unknown
    following = _following(values)
    # Of one instant several may have been told, all of which the next later one ends.
    lasts = np.flatnonzero(following > values.at)
    instant = np.searchsorted(lasts, late)
    is_newest = values.came[late] < following[lasts[instant]]
    late, instant = late[is_newest], instant[is_newest]
    # What comes at once with a registration may have been told before it, but not where it was told earlier, too.
    first = np.append(0, lasts + 1)[instant]
    order = values.order[late] + (values.order[first] < values.order[late])
    is_back = intervals.are_behind(values.device[late], values.came[late], order)
    late, instant = late[is_back], instant[is_back]
    places = order_by(instant, values.came[late], values.order[late])
    # Of what came at once the last one counts.
    instant, at = instant[places], values.came[late[places]]
    is_last = np.append((instant[1:] != instant[:-1]) | (at[1:] != at[:-1]), True)[: len(places)]
    instant, again = instant[is_last], values.take(late[places[is_last]])
    again = replace(again, at=again.came, is_counted=np.zeros(len(again), dtype=bool))
    begins = intervals.first_from(again.device, again.at)
    # What is known to be so already needs no other step.
    is_held = (instant[1:] == instant[:-1]) & (begins[:-1] > again.at[1:]) & are_same(again)
    is_kept = ~np.append(False, is_held)[: len(again)]
    places, again, begins = lasts[instant[is_kept]] + 1, again.take(is_kept), begins[is_kept]
    return values.with_rows(places, again), np.insert(unknown, places, begins)


def are_same(values: Rows | Steps) -> Flags:
    """Which of them, but for the first, have the value of the one before."""
    kind, text, number = values.kind, values.text, values.number
    is_same: Flags = (kind[1:] == kind[:-1]) & (text[1:] == text[:-1])
    is_same &= (number[1:] == number[:-1]) | (kind[1:] == TEXT)
    return is_same


def kinds_of(kind: Ints) -> frozenset[int]:
    """Which kinds of values there are."""
    return frozenset(one for one in (NUMBER, BOOLEAN, TEXT) if (kind == one).any())


def is_asked(rows: Rows, patterns: list[str] | None) -> Flags:
    """Which rows are values of the resources that are asked for."""
    asked: Flags = (rows.what == VALUE) & (rows.device >= 0) & (rows.path >= 0)
    if patterns is not None:
        asked &= np.array([*(matches_any(patterns, str(path)) for path in rows.paths), False])[rows.path]
    return asked


def _in_order(values: Rows) -> Rows:
    """By device, path and time, and what came later behind; most tables stand so already."""
    is_behind = np.zeros(max(len(values) - 1, 0), dtype=bool)
    is_same = ~is_behind
    for column in (values.device, values.path, values.at, values.order):
        before, behind = column[:-1], column[1:]
        is_behind |= is_same & (behind > before)
        is_same &= behind == before
    if (is_behind | is_same).all():
        return values
    return values.take(order_by(values.device, values.path, values.at, values.order))


def _is_first(values: Rows) -> npt.NDArray[np.bool_]:
    """Which of them is the first one of its resource."""
    is_other = (values.device[1:] != values.device[:-1]) | (values.path[1:] != values.path[:-1])
    return np.append(True, is_other)[: len(values)]
