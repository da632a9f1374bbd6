"""The state at an instant: the last value and the last write of each resource, the last registration of each device.

The last value is the value with the latest time of the device's own clock. If several values changed at one instant,
the value that was received last counts. The last write is the write that was requested last. If several writes were
requested at one instant, a pending write is the last.

A *checkpoint* is the state after all rows up to an instant and a revision. With it, a query does not have to read all
of these rows. The server makes the first checkpoint from the mirror itself when a history is started, because earlier
values have no rows. The oldest checkpoint replaces the rows that were deleted at the end of their retention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.arrow_columns import to_array
from mirror_server.extensions.history.columns import (
    NO_ROWS,
    Flags,
    Integers,
    concat,
    has_value,
    in_order,
    is_one_of,
    not_after,
    numbered,
    numbers,
    of_rows,
    take_rows,
    to_flags,
)
from mirror_server.extensions.history.parquet import regroup
from mirror_server.extensions.history.row_filters import RowFilter
from mirror_server.extensions.history.row_reader import (
    LAST_DEVICE,
    HistoryTransaction,
    Source,
    merged,
    runs_of,
    sources,
)
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.history import ORIGINS
from mirror_server.extensions.history.store.segments import STATE, Bounds
from mirror_server.store.session import Session

_ROWS_AT_A_TIME = 2000
_ROWS_MERGED_AT_ONCE = 16_384
_BYTES_MERGED_AT_ONCE = 1024 * 1024

_ORIGINS = {word: origin for origin, word in ORIGINS.items()} | {"registration": "auto_observation"}
"""The origins of values in the mirror, by the word of the history."""


@dataclass(eq=False)
class RowsUpTo(RowFilter):
    """Selects the rows that were known at an instant.

    Attributes:
        instant: The instant.
        checkpoint: Instant and revision of the checkpoint with all rows up to both, or ``None`` without one.
    """

    instant: Instant
    checkpoint: tuple[Instant, int] | None

    def may_match(self, bounds: Bounds) -> bool:
        """Return whether any row within these bounds may have been known, and is not in the checkpoint."""
        requested_at = bounds.first_requested_at
        return (
            (bounds.first_changed_at <= self.instant or (requested_at is not None and requested_at <= self.instant))
            and (
                self.checkpoint is None
                or bounds.last_changed_at > self.checkpoint[0]
                or bounds.last_revision > self.checkpoint[1]
            )
            and super().may_match(bounds)
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a sorted batch that determine the state."""
        changed_at = numbers(batch.column("changed_at"))
        is_write = is_one_of(batch.column("what"), "desired")
        # A write was known since it was requested, its result since it ended.
        known_at = np.where(is_write, numbers(batch.column("requested_at")), changed_at)
        flags = known_at <= self.instant
        if self.checkpoint is not None:
            at, revision = self.checkpoint
            flags &= (changed_at > at) | (numbers(batch.column("revision")) > revision)
        return latest_rows(batch, flags & self.flags(batch))


def latest_rows(batch: pa.RecordBatch, flags: Flags | None = None) -> pa.RecordBatch:
    """Return the rows of a sorted batch that determine the final state; optionally only flagged rows.

    Results can be combined. To get the latest rows of all rows, pass an earlier result together with more rows.
    """
    kinds = batch.column("what")
    known = np.ones(batch.num_rows, np.bool_) if flags is None else flags
    is_write = is_one_of(kinds, "desired")
    others = np.flatnonzero(known & ~is_write & ~is_one_of(kinds, "gap"))
    series = numbered(batch, "device_id", "path")
    indices = [others[_is_last(series[others])]]
    if is_write.any():
        indices.append(_last_writes(batch, series, np.flatnonzero(known & is_write)))
    return take_rows(batch, np.sort(np.concatenate(indices)))


def _last_writes(batch: pa.RecordBatch, series: Integers, indices: Integers) -> Integers:
    requested_at, revision = numbers(batch.column("requested_at")), numbers(batch.column("revision"))
    waits = is_waiting(batch)
    order = indices[np.lexsort((revision[indices], waits[indices], requested_at[indices], series[indices]))]
    return order[_is_last(series[order])]


def is_waiting(batch: pa.RecordBatch) -> Flags:
    """Return which rows are writes that have not ended."""
    status = batch.column("status").fill_null(int(DesiredStatus.SUCCESS))
    codes = np.frombuffer(status.buffers()[1], np.int8, len(status), status.offset)
    waits: Flags = codes == int(DesiredStatus.PENDING)
    return waits


def _is_last(series: Integers) -> Flags:
    """Return which rows are the last of their series."""
    flags = np.ones(len(series), np.bool_)
    flags[:-1] = series[1:] != series[:-1]
    return flags


def states(batches: Iterable[pa.RecordBatch], instant: Instant) -> Iterator[pa.RecordBatch]:
    """Return the state after sorted rows, with a row for each known resource. No batch is empty.

    The columns of the device are ``device_id``, ``endpoint_name`` and ``registered``, which is null if it is unknown.
    The other columns are the columns of :class:`mirror_server.store.resources.ResourceRow` that the history has. A
    device without known resources has one row without a path.

    ``reported_at`` is the row's ``changed_at``, so it is never after the instant. ``reported_origin`` is as in the
    mirror. A write that had not ended has neither revision nor category.
    """
    for rows in device_batches(batches):
        state = _state(rows, instant)
        if state.num_rows:
            yield state


def device_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the latest rows of sorted batches, with all rows of a device in one batch."""
    pending = NO_ROWS
    for batch in batches:
        latest = latest_rows(concat([pending, batch]))
        devices = numbered(latest, "device_id")
        # The next batch may have more rows of the last device.
        end = int(np.searchsorted(devices, devices[-1])) if len(devices) else 0
        if end:
            yield latest.slice(0, end)
        pending = latest.slice(end)
    if pending.num_rows:
        yield pending


def _state(rows: pa.RecordBatch, instant: Instant) -> pa.RecordBatch:
    """Return the state of complete devices from their latest rows."""
    is_write, has_path = is_one_of(rows.column("what"), "desired"), has_value(rows.column("path"))
    series, devices = numbered(rows, "device_id", "path"), numbered(rows, "device_id")
    heads = np.flatnonzero(np.diff(series, prepend=-1))
    reported = _row_indices(series, has_path & ~is_write, len(heads))
    written = _row_indices(series, is_write, len(heads))
    is_included = has_path[heads] | _is_alone(devices[heads])
    registered = _registered(rows, np.searchsorted(devices, devices[heads[is_included]]))
    return _table(rows, heads[is_included], reported[is_included], written[is_included], registered, instant)


def _row_indices(series: Integers, flags: Flags, count: int) -> Integers:
    """Return the index of the flagged row of each series, or -1 without a flagged row.

    A series has at most one flagged row.
    """
    indices = np.full(count, -1, np.int64)
    found = np.flatnonzero(flags)
    indices[series[found]] = found
    return indices


def _is_alone(devices: Integers) -> Flags:
    """Return which rows are the only one of their device."""
    same = devices[1:] == devices[:-1]
    is_alone: Flags = ~(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    return is_alone


def _registered(rows: pa.RecordBatch, firsts: Integers) -> pa.Array:
    """Return whether devices were registered. If a device has a registration, that is its first row."""
    is_in = is_one_of(rows.column("what"), "registration", "reg_update")
    has_registration = ~has_value(rows.column("path"))
    return pc.if_else(to_flags(has_registration[firsts]), to_flags(is_in[firsts]), pa.scalar(None, pa.bool_()))


def _table(
    rows: pa.RecordBatch, heads: Integers, reported: Integers, written: Integers, registered: pa.Array, instant: Instant
) -> pa.RecordBatch:
    # An index of -1 reads the flags of the last row, which do not matter: the results are -1 anyway.
    waits = is_waiting(rows)
    is_over = (written >= 0) & ~waits[written] & (numbers(rows.column("changed_at"))[written] <= instant)
    head, value, write = (_at(rows, indices) for indices in (heads, reported, written))
    end = _at(rows, np.where(is_over, written, -1))
    revised = _at(rows, np.where(is_over | waits[written], written, -1))
    status = pc.if_else(to_flags(is_over), end.column("status"), pa.scalar(int(DesiredStatus.PENDING), pa.int8()))
    columns = {
        "device_id": head.column("device_id"),
        "endpoint_name": head.column("endpoint_name"),
        "path": head.column("path"),
        "registered": registered,
        "reported_value": value.column("value"),
        "reported_content_type": value.column("content_type"),
        # The clock of the selection: the time of receipt may be after the instant.
        "reported_at": value.column("changed_at"),
        "reported_revision": value.column("revision"),
        "reported_origin": _origins(value.column("origin")),
        "desired_value": write.column("value"),
        "desired_content_type": write.column("content_type"),
        "desired_status": pc.if_else(to_flags(written >= 0), status, pa.scalar(None, pa.int8())),
        "desired_at": pc.coalesce(end.column("changed_at"), write.column("requested_at")),
        "requested_at": write.column("requested_at"),
        "desired_revision": revised.column("revision"),
        "desired_category": end.column("category"),
        "desired_app_id": write.column("app_id"),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _at(rows: pa.RecordBatch, indices: Integers) -> pa.RecordBatch:
    """Return the rows with these indices; for -1 a row of nulls."""
    validity = to_flags(indices >= 0).buffers()[1]
    return rows.take(pa.Array.from_buffers(pa.int64(), len(indices), [validity, pa.py_buffer(np.maximum(indices, 0))]))


def _origins(column: pa.DictionaryArray) -> pa.DictionaryArray:
    words = to_array([_ORIGINS.get(word, word) for word in column.dictionary.to_pylist()], pa.string())
    return words.take(column.indices).dictionary_encode()


def oldest_at(session: Session, now: Instant) -> Instant:
    """Return the oldest instant at which the state is completely known."""
    instant = segments.oldest_state_at(session)
    return _started_at(session, now) if instant is None else instant


def rows_up_to(
    reading: HistoryTransaction, where: RowFilter, instant: Instant, *, compacted_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Return the sorted rows that determine the state at an instant: the rows of a checkpoint, and later rows.

    Args:
        reading: The transaction.
        where: Selects devices and paths.
        instant: The instant.
        compacted_only: Whether rows of the tail and pending writes are left out.
    """
    last = max((each for each in segments.checkpoints(reading.session) if each.at <= instant), default=None)
    every = segments.blocks(reading.session, STATE)
    blocks = [block for block in every if last is not None and block.segment_id == last.segment_id]
    known = RowsUpTo(where.selection, where.device_ids, where.erased, None, instant, None)
    checkpoint = None if last is None else (last.at, last.revision)
    after_checkpoint = replace(known, base_at=where.base_at, checkpoint=checkpoint)
    found = [*sources(runs_of(reading.session, blocks), known), *reading.sources(after_checkpoint)]
    if not compacted_only:
        waiting = known.apply(in_order(of_rows(history.waiting_writes(reading.session))))
        found += [reading.tail(after_checkpoint), Source("", LAST_DEVICE, iter([waiting]))]
    # A group has few latest rows, so several groups are merged at once.
    return merged(
        source._replace(batches=regroup(source.batches, _ROWS_MERGED_AT_ONCE, _BYTES_MERGED_AT_ONCE))
        for source in found
    )


def is_needed(session: Session) -> bool:
    """Return whether the history is enabled and has no checkpoint since it was last started."""
    state = history.state(session)
    return state.is_enabled and all(each.revision < state.started_revision for each in segments.checkpoints(session))


def of_mirror(session: Session, now: Instant) -> tuple[tuple[Instant, int], Iterator[pa.RecordBatch]]:
    """Return instant, revision and rows of the first checkpoint of a history."""
    at, revision = _started_at(session, now), history.state(session).started_revision
    mirror = [iter([history.registrations(session)]), *history.mirror(session, _ROWS_AT_A_TIME)]
    rows = merged(Source("", LAST_DEVICE, (in_order(of_rows(some)) for some in each)) for each in mirror)
    known = RowFilter(HistorySelection(revision=revision), None, {}, None)
    return (at, revision), (not_after(known.apply(batch), at) for batch in rows)


def _started_at(session: Session, now: Instant) -> Instant:
    """Return when the current history was started. It has no earlier rows."""
    state = history.state(session)
    first_at = history.first_received_after(session, max(state.started_revision, state.compacted_revision))
    return now if first_at is None else min(now, first_at)


def state_rows(reading: HistoryTransaction, instant: Instant) -> Iterator[pa.RecordBatch]:
    """Return the rows of a checkpoint at an instant, made from all compacted rows."""
    where = reading.filter(HistorySelection(revision=reading.state.compacted_revision))
    return device_batches(rows_up_to(reading, where, instant, compacted_only=True))
