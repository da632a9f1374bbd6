"""The state of the fleet at a time: the last value and write of each resource, and each device's last registration.

The last value is the one with the latest time by the device's own clock. If several values have the same time, it is
the value that was received last. The last write is the one that was requested last. If several writes were requested at
the same time, a pending write counts as the last one.

A *checkpoint* is the state after all rows up to a time and a revision, so a query need not read these rows. When a
history is started, the server creates the first checkpoint from the mirror itself, because earlier values have no rows.
The oldest checkpoint replaces the rows that were deleted at the end of the retention period.
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
    with_used_words,
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
"""The origins of values in the mirror, by the corresponding word in the history."""


@dataclass(eq=False)
class RowsUpTo(RowFilter):
    """Selects the rows that were known at a time.

    Attributes:
        instant: The time at which the rows were known.
        checkpoint: The time and the revision of the checkpoint that contains all rows up to both. ``None`` means that
            there is no checkpoint.
    """

    instant: Instant
    checkpoint: tuple[Instant, int] | None

    def may_match(self, bounds: Bounds) -> bool:
        """Return whether a row within these bounds may have been known and may be missing from the checkpoint."""
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
        # A write is known from the time of its request. Its result is known from the time at which the write ended.
        known_at = np.where(is_write, numbers(batch.column("requested_at")), changed_at)
        flags = known_at <= self.instant
        if self.checkpoint is not None:
            at, revision = self.checkpoint
            flags &= (changed_at > at) | (numbers(batch.column("revision")) > revision)
        return latest_rows(batch, flags & self.flags(batch))


def latest_rows(batch: pa.RecordBatch, flags: Flags | None = None) -> pa.RecordBatch:
    """Return the rows of a sorted batch that determine the final state. With ``flags``, use only the flagged rows.

    Results can be combined. The latest rows of a result together with more rows are the latest rows of all of them.
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
    """Return a flag for each row: whether it is a write that has not ended."""
    status = batch.column("status").fill_null(int(DesiredStatus.SUCCESS))
    codes = np.frombuffer(status.buffers()[1], np.int8, len(status), status.offset)
    waits: Flags = codes == int(DesiredStatus.PENDING)
    return waits


def _is_last(series: Integers) -> Flags:
    """Return a flag for each row: whether it is the last row of its series."""
    flags = np.ones(len(series), np.bool_)
    flags[:-1] = series[1:] != series[:-1]
    return flags


def states(batches: Iterable[pa.RecordBatch], instant: Instant) -> Iterator[pa.RecordBatch]:
    """Yield the state after sorted rows, with one row for each known resource. No batch is empty.

    The columns of the device are ``device_id``, ``endpoint_name`` and ``registered``, which is null if it is unknown.
    The other columns are those members of :class:`mirror_server.store.resources.ResourceRow` that are in the history. A
    device without known resources has one row without a path.

    ``reported_at`` is the ``changed_at`` of the row, so it is never after the requested time. ``reported_origin`` has
    the words of the mirror. A write that had not ended has neither a revision nor a category.
    """
    for rows in device_batches(batches):
        state = _state(rows, instant)
        if state.num_rows:
            yield state


def device_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the latest rows of sorted batches, with all rows of a device in one batch."""
    pending = NO_ROWS
    for batch in batches:
        latest = latest_rows(concat([pending, batch]))
        devices = numbered(latest, "device_id")
        # The next batch may contain more rows of the last device.
        end = int(np.searchsorted(devices, devices[-1])) if len(devices) else 0
        if end:
            yield latest.slice(0, end)
        # Otherwise the dictionaries would contain all earlier devices, because a slice keeps the words of its batch.
        pending = with_used_words(latest.slice(end))
    if pending.num_rows:
        yield pending


def _state(rows: pa.RecordBatch, instant: Instant) -> pa.RecordBatch:
    """Return the state of devices from their latest rows, which must be complete."""
    is_write, has_path = is_one_of(rows.column("what"), "desired"), has_value(rows.column("path"))
    series, devices = numbered(rows, "device_id", "path"), numbered(rows, "device_id")
    heads = np.flatnonzero(np.diff(series, prepend=-1))
    reported = _row_indices(series, has_path & ~is_write, len(heads))
    written = _row_indices(series, is_write, len(heads))
    is_included = has_path[heads] | _is_alone(devices[heads])
    registered = _registered(rows, np.searchsorted(devices, devices[heads[is_included]]))
    return _table(rows, heads[is_included], reported[is_included], written[is_included], registered, instant)


def _row_indices(series: Integers, flags: Flags, count: int) -> Integers:
    """Return the index of the flagged row in each series, or -1 if there is none. A series has at most one such row."""
    indices = np.full(count, -1, np.int64)
    found = np.flatnonzero(flags)
    indices[series[found]] = found
    return indices


def _is_alone(devices: Integers) -> Flags:
    """Return a flag for each row: whether it is the only row of its device."""
    same = devices[1:] == devices[:-1]
    is_alone: Flags = ~(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    return is_alone


def _registered(rows: pa.RecordBatch, firsts: Integers) -> pa.Array:
    """Return whether each device was registered. If a device has a registration, it is the first row of the device."""
    is_in = is_one_of(rows.column("what"), "registration", "reg_update")
    has_registration = ~has_value(rows.column("path"))
    return pc.if_else(to_flags(has_registration[firsts]), to_flags(is_in[firsts]), pa.scalar(None, pa.bool_()))


def _table(
    rows: pa.RecordBatch, heads: Integers, reported: Integers, written: Integers, registered: pa.Array, instant: Instant
) -> pa.RecordBatch:
    # An index of -1 reads the flags of the last row. They do not matter, because the results are -1 anyway.
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
        # This is the clock that the selection uses. The time of receipt may be after the requested time.
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
    """Return the rows with these indices. An index of -1 gives a row of nulls."""
    validity = to_flags(indices >= 0).buffers()[1]
    return rows.take(pa.Array.from_buffers(pa.int64(), len(indices), [validity, pa.py_buffer(np.maximum(indices, 0))]))


def _origins(column: pa.DictionaryArray) -> pa.DictionaryArray:
    words = to_array([_ORIGINS.get(word, word) for word in column.dictionary.to_pylist()], pa.string())
    return words.take(column.indices).dictionary_encode()


def oldest_at(session: Session, now: Instant) -> Instant:
    """Return the oldest time at which the state is completely known."""
    instant = segments.oldest_state_at(session)
    return _started_at(session, now) if instant is None else instant


def rows_up_to(
    reading: HistoryTransaction, where: RowFilter, instant: Instant, *, compacted_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the sorted rows that determine the state at a time. They are the rows of a checkpoint and all later rows.

    Args:
        reading: The transaction.
        where: The filter of devices and paths.
        instant: The time of the state.
        compacted_only: Whether to leave out the rows of the tail and the pending writes.
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
    # A group contains few latest rows, so several groups are merged at once.
    return merged(
        source._replace(batches=regroup(source.batches, _ROWS_MERGED_AT_ONCE, _BYTES_MERGED_AT_ONCE))
        for source in found
    )


def is_needed(session: Session) -> bool:
    """Return whether the first checkpoint is missing, because the history was enabled after the last checkpoint."""
    state = history.state(session)
    return state.is_enabled and all(each.revision < state.started_revision for each in segments.checkpoints(session))


def of_mirror(session: Session, now: Instant) -> tuple[tuple[Instant, int], Iterator[pa.RecordBatch]]:
    """Return the time, the revision and the rows of the first checkpoint of a history."""
    at, revision = _started_at(session, now), history.state(session).started_revision
    mirror = [history.registrations(session, _ROWS_AT_A_TIME), *history.mirror(session, _ROWS_AT_A_TIME)]
    rows = merged(Source("", LAST_DEVICE, (in_order(of_rows(some)) for some in each)) for each in mirror)
    known = RowFilter(HistorySelection(revision=revision), None, {}, None)
    return (at, revision), (not_after(known.apply(batch), at) for batch in rows)


def _started_at(session: Session, now: Instant) -> Instant:
    """Return the time at which the current history was started. It has no earlier rows."""
    state = history.state(session)
    first_at = history.first_received_after(session, max(state.started_revision, state.compacted_revision))
    return now if first_at is None else min(now, first_at)


def state_rows(reading: HistoryTransaction, instant: Instant) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a checkpoint at a time, computed from all compacted rows."""
    where = reading.filter(HistorySelection(revision=reading.state.compacted_revision))
    return device_batches(rows_up_to(reading, where, instant, compacted_only=True))
