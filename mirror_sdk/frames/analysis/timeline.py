"""The values of each resource over time, as segments of a step function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike, instant, path_patterns
from mirror_sdk._formatting import visible
from mirror_sdk._warnings import warn
from mirror_sdk.arrow_tables.columns import TableColumn
from mirror_sdk.errors import InvalidValue, UnitWarning
from mirror_sdk.frames.analysis.history_rows import (
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
    following,
    is_end,
    is_start,
    milliseconds,
    order_by,
    rows_of,
)
from mirror_sdk.frames.analysis.intervals import Intervals, intervals_of
from mirror_sdk.frames.analysis.result_columns import column_of, names_at
from mirror_sdk.frames.columns import shared_metadata, taken_at, to_frame
from mirror_sdk.wire.paths import matches_any


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Segments of a step function.

    Each segment is a value that holds from ``at`` to ``until``. The segments are sorted by device, path and time.
    ``resource`` is an index into ``of_device`` and ``of_path``, which contain the device and the path of each resource.
    ``kinds`` contains the kinds of values in the entire table, even after :meth:`take`.
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
        """Whether each segment has a readable value."""
        is_known: Flags = self.kind != NONE
        return is_known

    def take(self, positions: Any) -> Segments:
        """Select segments. The resources remain the same."""
        return replace(self, **{name: getattr(self, name)[positions] for name in _PER_SEGMENT})

    def keys(self, resource: Ints) -> dict[str, Ints]:
        """Return the device and the path of resources, as arguments for :meth:`Timeline.table`."""
        return {"device": self.of_device[resource], "path": self.of_path[resource]}


_Span: TypeAlias = tuple[int, int]
_PER_SEGMENT = tuple(field.name for field in fields(Segments) if field.name not in ("of_device", "of_path", "kinds"))


@dataclass(frozen=True, eq=False)
class Timeline:
    """The contents of a table from ``begin`` to ``end``, which are known up to ``known_until``, all in milliseconds.

    ``names`` are the endpoint names of the devices of the rows, with ``None`` for an unknown name. By default, ``end``
    is later than the last row. ``own_segments`` replace the segments that would be computed from the rows.
    """

    rows: Rows
    intervals: Intervals
    begin: int
    end: int
    known_until: int
    tz: str
    metadata: dict[str, object]
    patterns: list[str] | None
    names: npt.NDArray[np.object_]
    own_segments: Segments | None = None

    @cached_property
    def segments(self) -> Segments:
        """The segments of the selected resources.

        They are computed on first use, because some methods do not need them.
        """
        if self.own_segments is not None:
            return self.own_segments
        return _segments(self.rows, self.intervals, self.patterns, self.known_until)

    def within(self, begin: int, end: int) -> Timeline:
        """Return the same timeline for another period."""
        # The segments do not depend on the requested period, so they are computed only once.
        return replace(self, begin=begin, end=end, own_segments=self.segments)

    def of_path(self, path: int) -> Timeline:
        """Return the timeline of one resource path."""
        segments = self.segments
        is_selected = segments.of_path == path
        selected = segments.take(is_selected[segments.resource])
        return replace(
            self,
            own_segments=replace(
                selected,
                resource=(np.cumsum(is_selected) - 1)[selected.resource],
                of_device=segments.of_device[is_selected],
                of_path=segments.of_path[is_selected],
                kinds=kinds_of(selected.kind),
            ),
        )

    def values(self) -> Rows:
        """Return the rows with values of the selected resources, in table order."""
        return self.rows.take(is_selected(self.rows, self.patterns))

    def path_at(self, is_selected: Flags) -> str:
        """Return the path of the first selected segment, for an error message."""
        segments = self.segments
        return str(self.rows.paths[segments.of_path[segments.resource[np.argmax(is_selected)]]])

    def table(
        self,
        columns: Sequence[TableColumn],
        *,
        device: Ints,
        path: Ints | None = None,
        positions: Ints | None = None,
        **cells: npt.NDArray[Any] | pa.Array,
    ) -> pa.Table:
        """Build a table with these columns.

        Args:
            columns: The columns, which include ``device_id`` and ``endpoint_name``.
            device: The index of the device of each row.
            path: The index of the path of each row, for a table with the column ``path``.
            positions: The element of ``device`` and ``path`` that each row uses, if rows share elements.
            cells: The cells of the other columns, as :func:`~mirror_sdk.frames.analysis.result_columns.column_of`
                accepts them.
        """
        names = {"device_id": names_at(device, self.rows.devices), "endpoint_name": names_at(device, self.names)}
        if path is not None:
            names["path"] = names_at(path, self.rows.paths)
        if positions is not None:
            names = {name: column.take(pa.array(positions)) for name, column in names.items()}
        cells |= names
        return pa.table({column.name: column_of(cells[column.name], column) for column in columns})

    def to_frame(self, table: pa.Table) -> pd.DataFrame:
        """Convert a result to a DataFrame with the metadata of its source."""
        return to_frame(table, self.metadata, tz=self.tz)


def timeline_of(
    frame: pd.DataFrame,
    *,
    paths: Sequence[str] | None = None,
    silence_limit: str | pd.Timedelta | None = None,
    begin: InstantLike | None = None,
    end: InstantLike | None = None,
    state: pd.DataFrame | None = None,
    tz: str | None = None,
) -> Timeline:
    """Return the timeline of a history or events table.

    Args:
        frame: The table.
        paths: The patterns of the resources to include. The default is all resources.
        silence_limit: The time that a value stays known after the last contact with its device. There is no limit by
            default.
        begin: The start of the period. The default is the start in the metadata of the table, or else the first row.
        end: The end of the period. The default is the end in the metadata of the table, or else the last row.
        state: A state table with the values that held before the first row.
        tz: The time zone of days and results. The default is the time zone of the table.

    Raises:
        InvalidValue: The table lacks a column, or an argument is invalid.
    """
    limit = None if silence_limit is None else span_of("silence_limit", silence_limit)
    patterns = path_patterns(paths)
    rows = rows_of(frame, state)
    metadata = frame.attrs.get("mirror", {})
    arguments = {name: one for name, one in (("begin", begin), ("end", end)) if one is not None}
    chosen = {name: instant_in(frame, name, one) for name, one in arguments.items()}
    bounds = _instants_in(metadata, "begin", "end") | chosen
    known_until = _known_until(rows, metadata, bounds.get("begin"), chosen.get("end"))
    first, last = _range(rows, metadata, known_until, bounds.get("begin"), bounds.get("end"))
    intervals = intervals_of(rows, limit)
    # The table comes last, because its names are newer than those of the state.
    names = endpoint_names(rows.devices, *([] if state is None else [state]), frame)
    zone = tz or str(getattr(frame["changed_at"].dtype, "tz", None) or "UTC")
    return Timeline(rows, intervals, first, last, known_until, zone, shared_metadata(frame), patterns, names)


def warn_of_units(timeline: Timeline) -> None:
    """Warn if not all numbers of a resource have the same unit. An unknown unit counts as a different unit.

    Warns:
        UnitWarning: A resource has several units.
    """
    segments = timeline.segments
    is_in = (segments.kind == NUMBER) & (segments.until > timeline.begin) & (segments.at < timeline.end)
    # The unknown unit, -1, is sorted after the others.
    width = len(timeline.rows.units) + 1
    resource, unit = segments.resource[is_in], segments.unit[is_in] % width
    each = np.unique(resource * width + unit)
    found, count = np.unique(each // width, return_counts=True)
    changed = found[count > 1]
    if not len(changed):
        return
    first = changed[0]
    device, path = (timeline.rows.devices[segments.of_device[first]], timeline.rows.paths[segments.of_path[first]])
    names = [*timeline.rows.units, "an unknown unit"]
    units = " and ".join(visible(str(names[one % width])) for one in each[each // width == first])
    more = len(changed) - 1
    others = f", and {more} other resource{'s have' if more > 1 else ' has'} several units" if more else ""
    warn(
        f"{visible(str(path))} of {visible(str(device))} is in {units}{others}: results that would mix units are NA,"
        " and thresholds ignore the unit. Pass begin= and end= to select a period with one unit, or convert the values"
        " and set the column unit first",
        UnitWarning,
    )


def instant_in(frame: pd.DataFrame, name: str, value: InstantLike) -> int:
    """Convert a timestamp, or an age relative to the timestamp of the table, to milliseconds since 1970.

    Raises:
        InvalidValue: The value is not a time, it has no time zone, or the table has no timestamp in its metadata.
    """
    return milliseconds(instant(name, value, lambda: taken_at(frame)))


def span_of(name: str, value: str | pd.Timedelta) -> int:
    """Convert an argument to a duration in milliseconds.

    Raises:
        InvalidValue: The value is not a duration, or is shorter than a millisecond.
    """
    try:
        span = pd.Timedelta(value)
    except (TypeError, ValueError) as exc:
        raise InvalidValue(f"{name}={value!r} is not a duration; write one like '15min', '1h' or '1D'") from exc
    # The condition is also false for NaT.
    if not span >= pd.Timedelta("1ms"):
        raise InvalidValue(f"{name}={value!r} must be a millisecond or longer; write one like '15min', '1h' or '1D'")
    return int(span // pd.Timedelta("1ms"))


def _instants_in(metadata: dict[str, Any], *names: str) -> dict[str, int]:
    return {name: milliseconds(pd.Timestamp(metadata[name])) for name in names if metadata.get(name)}


def _known_until(rows: Rows, metadata: dict[str, Any], begin: int | None, end: int | None) -> int:
    """Return the time up to which the table is complete.

    For a history, it is in the metadata. It comes from the clock of the service, so it does not depend on the clocks of
    devices. For any other table, it is the newest row, the timestamp of the table, or the end that the caller set.
    """
    described = _instants_in(metadata, "taken_at", "end").values()
    if described and _is_history(metadata):
        # A history contains nothing after its end, and nothing that happened after it was queried.
        return min(described)
    # The start does not show up to which time values are known. It is used only for a table without rows.
    bounds = [one for one in (end, begin) if one is not None]
    newest = [int(rows.at.max())] if len(rows) else bounds[-1:]
    return max([*newest, *described, *bounds[: end is not None]], default=0)


def _is_history(metadata: dict[str, Any]) -> bool:
    """Return whether the metadata belong to a history. Such metadata contain the period that the history covers."""
    return "oldest_at" in metadata


def _range(rows: Rows, metadata: dict[str, Any], known_until: int, begin: int | None, end: int | None) -> _Span:
    if begin is not None and end is not None and end < begin:
        end_time, begin_time = (pd.Timestamp(one, unit="ms", tz="UTC") for one in (end, begin))
        raise InvalidValue(f"end={end_time} is before begin={begin_time}; pass them in order")
    at = rows.at[rows.is_counted]
    # Rows after the end of a history come from devices whose clock runs ahead.
    within = at[at <= known_until] if _is_history(metadata) else at
    # The end is just after the newest row, so that this row is included.
    last = max(known_until, int(within.max(initial=known_until - 1)) + 1) if end is None else end
    first = int(at.min(initial=last)) if begin is None else begin
    return first, max(first, last)


def _segments(rows: Rows, intervals: Intervals, patterns: list[str] | None, known_until: int) -> Segments:
    selected = np.flatnonzero(is_selected(rows, patterns))
    order = order_by(*(column[selected] for column in (rows.device, rows.path, rows.at, rows.order)))
    values = rows.take(selected[order])
    unknown = intervals.first_from(values.device, values.at)
    values, unknown = _with_repeats(values, unknown, intervals, known_until)
    is_first = is_start(values.device, values.path)
    until = np.minimum(np.minimum(_next_at(values), known_until), unknown)
    return Segments(
        resource=np.cumsum(is_first) - 1,
        at=values.at,
        # A device whose clock runs ahead reports values after known_until. Such values have length 0.
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


def _next_at(values: Rows) -> Ints:
    """Return the time of the next value of the same resource, for sorted values. It is ``NEVER`` for the last value."""
    return np.where(is_end(values.device, values.path), NEVER, following(values.at))


def _with_repeats(values: Rows, unknown: Ints, intervals: Intervals, known_until: int) -> tuple[Rows, Ints]:
    """Add a second entry for each value that arrived after an interval but has a time before it.

    The second entry has the time of arrival.

    Args:
        values: The sorted values.
        unknown: The start of the first interval at or after the time of each value.
        intervals: The intervals.
        known_until: The time up to which the table is complete.

    Returns:
        The sorted values including the repeated ones, and the start of the first interval at or after the time of each.
    """
    late = np.flatnonzero((unknown <= values.arrived) & (values.arrived < known_until))
    if not len(late):
        return values, unknown
    next_at = _next_at(values)
    # Several values may have the same time. The next later value ends all of them.
    lasts = np.flatnonzero(next_at > values.at)
    instant = np.searchsorted(lasts, late)
    is_newest = values.arrived[late] < next_at[lasts[instant]]
    late, instant = late[is_newest], instant[is_newest]
    # A value that arrived together with a registration may precede it, unless it also arrived earlier.
    first = np.append(0, lasts + 1)[instant]
    order = values.order[late] + (values.order[first] < values.order[late])
    is_restored = intervals.are_over(values.device[late], values.arrived[late], order)
    late, instant = late[is_restored], instant[is_restored]
    positions = order_by(instant, values.arrived[late], values.order[late])
    # Of several values that arrived together, the last one counts.
    instant, late = instant[positions], late[positions]
    is_last = is_end(instant, values.arrived[late])
    instant, again = instant[is_last], values.take(late[is_last])
    # A value counts only once, at its own time.
    again = replace(again, at=again.arrived, is_counted=np.zeros(len(again), dtype=bool))
    begins = intervals.first_from(again.device, again.at)
    # A value that already holds does not need another segment.
    is_redundant = ~is_start(instant) & (np.append(0, begins[:-1])[: len(begins)] > again.at) & ~is_change(again)
    instant, again, begins = instant[~is_redundant], again.take(~is_redundant), begins[~is_redundant]
    positions = lasts[instant] + 1
    return values.with_rows(positions, again), np.insert(unknown, positions, begins)


def is_change(values: Rows | Segments) -> Flags:
    """Return which values differ from the previous value."""
    # NaN, which is the number of a string, differs from itself.
    return is_start(values.kind, values.text, np.where(values.kind == TEXT, 0.0, values.number))


def kinds_of(kind: Ints) -> frozenset[int]:
    """Return the kinds of values that occur."""
    return frozenset(one for one in (NUMBER, BOOLEAN, TEXT) if (kind == one).any())


def is_selected(rows: Rows, patterns: list[str] | None) -> Flags:
    """Return which rows are values of the selected resources."""
    selected: Flags = (rows.event == VALUE) & (rows.device >= 0) & (rows.path >= 0)
    if patterns is not None:
        # The last element is for the index -1, a row without a path.
        selected &= np.array([*(matches_any(patterns, str(path)) for path in rows.paths), False])[rows.path]
    return selected
