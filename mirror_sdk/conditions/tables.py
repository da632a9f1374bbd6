"""The intervals in which a condition was met, of a history or an events table."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike
from mirror_sdk._warnings import warn
from mirror_sdk.arrow_tables.columns import INSTANT, TableColumn
from mirror_sdk.arrow_tables.history import HISTORY_EVENTS
from mirror_sdk.conditions.alarm import AlarmKind
from mirror_sdk.conditions.clause import Scalar
from mirror_sdk.conditions.evaluator import Change, Evaluator, GroupState, Row, RowKind
from mirror_sdk.conditions.grammar import Expression, clauses_of
from mirror_sdk.conditions.mismatches import warn_of_mismatches
from mirror_sdk.conditions.spans import Span, Spans
from mirror_sdk.errors import EmptyTableWarning, InvalidValue
from mirror_sdk.frames.analysis.history_rows import (
    BOOLEAN,
    DOWN,
    GAP,
    NEVER,
    NUMBER,
    TEXT,
    VALUE,
    Flags,
    Rows,
    milliseconds,
    need,
)
from mirror_sdk.frames.analysis.result_columns import RESOURCE_COLUMNS
from mirror_sdk.frames.analysis.timeline import Timeline, timeline_of
from mirror_sdk.frames.columns import need_times
from mirror_sdk.wire.model import write_timestamp

INTERVALS_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("begin", INSTANT, "since when the test is met"),
    TableColumn("started_at", INSTANT, "when the condition was met, which is later than ``begin`` with ``for_``"),
    TableColumn("end", INSTANT, "when the interval ends; NA if it had not ended by the end of the table"),
    TableColumn("duration", pa.duration("ms"), "how long it is, up to the end of the table if it had not ended"),
    TableColumn("extreme", pa.float64(), "the most extreme number in the interval"),
    TableColumn("hidden", pa.duration("ms"), "the part of the interval in which the state was unknown"),
    TableColumn("gap", pa.bool_(), "whether unknown time is part of the interval, or directly precedes it"),
    TableColumn("id", pa.string(), "the id of the interval, which the alarms of its start and end have"),
)
"""The columns of the intervals table. ``path`` is NA for a combination of conditions."""

_WRITE = HISTORY_EVENTS.index("write")


class _Interval(NamedTuple):
    started_at: int
    last: Change


def intervals(
    condition: Expression,
    table: pd.DataFrame,
    *,
    by: str,
    state: pd.DataFrame | None,
    begin: InstantLike | None,
    end: InstantLike | None,
    tz: str | None,
) -> pd.DataFrame:
    """Return the intervals in which a condition was met; see :meth:`mirror_sdk.Condition.intervals`."""
    if by not in ("received_at", "changed_at"):
        raise InvalidValue(f"by={by!r} must be 'received_at' or 'changed_at'")
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"table must be a pandas.DataFrame, not {type(table).__name__}; pass recording.history() for a recording,"
            " or table.to_pandas()"
        )
    source = _by_receipt(table) if by == "received_at" else table
    timeline = timeline_of(source, begin=begin, end=end, state=state, tz=tz)
    if len(timeline.rows.paths) and not _matches(condition, timeline.rows.paths).any():
        paths = ", ".join(dict.fromkeys(one.path for one in clauses_of(condition)))
        warn(f"no row of the table has {paths}; table['path'].unique() lists its paths", EmptyTableWarning)
    start = _start(table, timeline, state, by)
    evaluator = Evaluator([condition])
    until = min(timeline.known_until, timeline.end)
    started: dict[tuple[str, str | None], int] = {}
    found: list[_Interval] = []
    for change in _changes(evaluator, _rows(condition, timeline, state, start), until):
        key = (change.device, change.path)
        if change.kind is AlarmKind.STARTED:
            started[key] = change.at
        elif change.at >= timeline.begin:
            found.append(_Interval(started[key], change))
    found += [_Interval(started[one.device, one.path], one) for one in evaluator.open_intervals()]
    warn_of_mismatches([condition], evaluator.mismatches)
    return timeline.to_frame(_table(timeline, evaluator, found, until))


def spans(condition: Expression, table: pd.DataFrame) -> dict[tuple[str, str | None], list[Span]]:
    """Return the spans in which a condition was met; see :meth:`mirror_sdk.Condition.spans`."""
    timeline = timeline_of(table)
    states: list[GroupState] = []
    evaluator = Evaluator([condition], states)
    until = min(timeline.known_until, timeline.end)
    # The changes are not needed, because the evaluator notes the states.
    deque(_changes(evaluator, _rows(condition, timeline, None, timeline.begin), until), maxlen=0)
    warn_of_mismatches([condition], evaluator.mismatches)
    found = Spans()
    found.add(states)
    return {
        (device, path): [one if one.end is not None else one._replace(end=until) for one in of_group]
        for (_, device, path), of_group in found.by_group.items()
    }


def _changes(evaluator: Evaluator, rows: Iterator[Row], until: int) -> Iterator[Change]:
    for row in rows:
        if row.at > until:
            break
        yield from evaluator.feed(row)
    yield from evaluator.advance(until)


def _by_receipt(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the time at which the service received each row in ``changed_at``."""
    need(table, "device_id", "path", "changed_at", "event")
    if "received_at" not in table:
        return table
    need_times(table, *(name for name in ("changed_at", "received_at", "logged_at") if name in table))
    source = table.copy(deep=False)
    received_at = table["received_at"]
    if "seq" not in table:
        # A gap has only its start.
        source["changed_at"] = received_at.where(table["event"] != "gap").fillna(table["changed_at"])
        return source
    # The client received an entry after the service logged it, perhaps much later. The device's clock may be wrong.
    estimated = table["changed_at"].where(table["changed_at"] < received_at, received_at)
    logged_at = table.get("logged_at", estimated).fillna(estimated).where(table["event"] != "gap")
    order = table["seq"].argsort(kind="stable") if table["seq"].notna().all() else np.arange(len(table))
    # The log is in the order of receipt, even if the service's clock was set back.
    source["changed_at"] = logged_at.iloc[order].cummax().reindex(logged_at.index)
    newest = source["changed_at"].max()
    taken_at = {} if pd.isna(newest) else {"taken_at": newest.isoformat()}
    source.attrs = {**table.attrs, "mirror": {**table.attrs.get("mirror", {}), **taken_at}}
    return source


def _start(table: pd.DataFrame, timeline: Timeline, state: pd.DataFrame | None, by: str) -> int:
    """Return the time from which the values of a state count: its timestamp or, without one, the start of the table."""
    at = timeline.rows.at[timeline.rows.is_counted]
    first = int(at.min(initial=timeline.begin))
    metadata = {} if state is None else state.attrs.get("mirror", {})
    if not metadata.get("taken_at"):
        return first
    read_at = pd.Timestamp(metadata["taken_at"])
    start = milliseconds(read_at)
    begin = table.attrs.get("mirror", {}).get("begin")
    known_from = milliseconds(pd.Timestamp(begin)) if begin else int(at.min(initial=NEVER))
    if by == "changed_at":
        # Values that arrived late may precede the state.
        return min(start, first)
    if start > known_from:
        raise InvalidValue(
            f"state= is from {write_timestamp(read_at)}, after the start of the table at"
            f" {write_timestamp(pd.Timestamp(known_from, unit='ms', tz='UTC'))}; pass the state at the start of the"
            " table, such as client.as_of(begin), or a table that begins at the time of the state"
        )
    return start


def _rows(condition: Expression, timeline: Timeline, state: pd.DataFrame | None, start: int) -> Iterator[Row]:
    """Yield the rows of a table in the order of time: first the state, which holds at the start, and the gaps."""
    rows = timeline.rows
    is_used = np.isin(rows.event, (*DOWN, GAP)) | (
        np.isin(rows.event, (VALUE, _WRITE)) & _matches(condition, rows.paths)[rows.path] & (rows.device >= 0)
    )
    of_state = rows.take(is_used & ~rows.is_counted)
    yield from (row._replace(at=start, since=row.at) for row in _read(of_state))
    if state is not None:
        yield from _desired(condition, state, start)
    counted = rows.take(is_used & rows.is_counted)
    # Rows of the last time before a gap precede it, and those of the first time after it follow it. Empty gaps are
    # ignored.
    counted = counted.take((counted.event != GAP) | (counted.until > counted.at))
    gaps = counted.take(counted.event == GAP)
    everything = [*_read(counted), *(row._replace(at=int(at), kind=RowKind.GAP_END) for row, at in _ends(gaps))]
    at, order = (np.concatenate(both) for both in ((counted.at, gaps.until), (counted.order, gaps.order)))
    rank = np.concatenate([np.where(counted.event == GAP, 1, 0), np.full(len(gaps), -1)])
    for position in np.lexsort((order, rank, at)):
        if at[position] < NEVER:
            yield everything[position]


def _ends(gaps: Rows) -> Iterator[tuple[Row, int]]:
    return zip(_read(gaps), gaps.until.tolist(), strict=True)


def _read(rows: Rows) -> Iterator[Row]:
    """Yield rows for the evaluation."""
    kinds = {VALUE: RowKind.REPORTED, _WRITE: RowKind.DESIRED, GAP: RowKind.GAP, **dict.fromkeys(DOWN, RowKind.ABSENT)}
    # Lists are faster to iterate than arrays.
    devices, paths, texts = ([str(one) for one in names] for names in (rows.devices, rows.paths, rows.texts))
    columns = (rows.event, rows.at, rows.device, rows.path, rows.kind, rows.number, rows.text)
    for event, at, device, path, kind, number, text in zip(*(one.tolist() for one in columns), strict=True):
        value: Scalar | None = None
        if kind == NUMBER:
            value = number
        elif kind == BOOLEAN:
            value = number == 1.0
        elif kind == TEXT:
            value = texts[text]
        of_device = None if device < 0 else devices[device]
        yield Row(at, kinds[event], of_device, "" if path < 0 else paths[path], value)


def _desired(condition: Expression, state: pd.DataFrame, at: int) -> Iterator[Row]:
    """Yield the desired values of a state table."""
    names = [name for name in ("desired_num", "desired_bool", "desired_text") if name in state]
    known = state[state[names].notna().any(axis=1)]
    for device, path, *cells in zip(known["device_id"], known["path"], *(known[name] for name in names), strict=True):
        value = next(cell for cell in cells if not pd.isna(cell))
        if any(one.matches(path) for one in clauses_of(condition)):
            typed = value if isinstance(value, str) else bool(value) if _is_boolean(value) else float(value)
            yield Row(at, RowKind.DESIRED, device, path, typed)


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _matches(condition: Expression, paths: pd.Index) -> Flags:
    # The last element is for the index -1, a row without a path.
    return np.array([*(any(one.matches(path) for one in clauses_of(condition)) for path in paths), False])


def _table(timeline: Timeline, evaluator: Evaluator, found: list[_Interval], until: int) -> pa.Table:
    """Return the table of intervals, sorted by device, path and begin."""
    rows, changes = timeline.rows, [one.last for one in found]
    device = rows.devices.get_indexer(pd.Index([one.device for one in changes], dtype=object))
    path = rows.paths.get_indexer(pd.Index([one.path for one in changes], dtype=object))
    begin = np.array([one.begin for one in changes], dtype=np.int64)
    order = np.lexsort((begin, path, device))
    is_over = np.array([one.kind is AlarmKind.ENDED for one in changes], dtype=bool)
    end = np.array([one.at for one in changes], dtype=np.int64)
    cells: dict[str, Any] = {
        "begin": begin,
        "started_at": np.array([one.started_at for one in found], dtype=np.int64),
        "end": np.where(is_over, end, NEVER),
        "duration": np.where(is_over, end, until) - begin,
        "extreme": np.array([np.nan if one.extreme is None else one.extreme for one in changes], dtype=np.float64),
        "hidden": np.array([one.hidden for one in changes], dtype=np.int64),
        "gap": np.array([one.gap for one in changes], dtype=bool),
        "id": pa.array([evaluator.alarm_id(changes[position]) for position in order], pa.string()),
    }
    cells = {name: one if isinstance(one, pa.Array) else one[order] for name, one in cells.items()}
    return timeline.table(INTERVALS_COLUMNS, device=device[order], path=path[order], **cells)
