"""The state at an instant: the last value and the last write of each resource, the last registration of each device.

The last value is the one that changed last by the device's own clock; of several at one instant the one that was
received last. The last write is the one that was requested last; of several at one instant one that waits is the last.

A *checkpoint* is the state that all rows up to an instant and a revision lead to, so that not all of them are read. The
first one is made from the mirror itself when a history is started, since earlier values have no rows. The oldest one is
what remains of the rows that were trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.core.instants import Instant
from mirror_server.extensions.arrow import to_array
from mirror_server.extensions.history.columns import (
    NO_ROWS,
    Flags,
    Integers,
    in_order,
    is_known,
    is_one_of,
    not_after,
    numbered,
    numbers,
    of_rows,
    taken,
    to_flags,
    together,
)
from mirror_server.extensions.history.filters import RowFilter
from mirror_server.extensions.history.parquet import parts
from mirror_server.extensions.history.reading import LAST_DEVICE, HistoryTransaction, Source, merged, runs_of, sources
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.history import ORIGINS
from mirror_server.extensions.history.store.segments import STATE, Bounds
from mirror_server.store.session import Session

_ROWS_AT_A_TIME = 2000
_ROWS_MERGED_AT_ONCE = 16_384
_BYTES_MERGED_AT_ONCE = 1024 * 1024

_ORIGINS = {word: origin for origin, word in ORIGINS.items()} | {"registration": "auto_observation"}
"""The origins of values: words of the history, and for each that of the mirror."""


@dataclass(eq=False)
class RowsUpTo(RowFilter):
    """Selects the rows that were known at an instant.

    Attributes:
        instant: The instant.
        behind: Instant and revision of the checkpoint that has all rows up to both; ``None`` without one.
    """

    instant: Instant
    behind: tuple[Instant, int] | None

    def is_about(self, bounds: Bounds) -> bool:
        """Return whether any row within these bounds may have been known, and is not in the checkpoint."""
        requested_at = bounds.first_requested_at
        return (
            (bounds.first_changed_at <= self.instant or (requested_at is not None and requested_at <= self.instant))
            and (
                self.behind is None or bounds.last_changed_at > self.behind[0] or bounds.last_revision > self.behind[1]
            )
            and super().is_about(bounds)
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch, which is in order, that determine the state."""
        changed_at = numbers(batch.column("changed_at"))
        is_write = is_one_of(batch.column("what"), "desired")
        # A write was known from when it was placed; how it ended, from then on.
        known_at = np.where(is_write, numbers(batch.column("requested_at")), changed_at)
        flags = known_at <= self.instant
        if self.behind is not None:
            flags &= (changed_at > self.behind[0]) | (numbers(batch.column("revision")) > self.behind[1])
        return latest_rows(batch, flags & self.flags(batch))


def latest_rows(batch: pa.RecordBatch, flags: Flags | None = None) -> pa.RecordBatch:
    """Return the rows of a batch, which is in order, that determine the final state; optionally only flagged rows.

    The latest_rows of latest_rows and more rows are those of all of them.
    """
    what = batch.column("what")
    known = np.ones(batch.num_rows, np.bool_) if flags is None else flags
    is_write = is_one_of(what, "desired")
    others = np.flatnonzero(known & ~is_write & ~is_one_of(what, "gap"))
    series = numbered(batch, "device_id", "path")
    places = [others[_is_last(series[others])]]
    if is_write.any():
        places.append(_last_writes(batch, series, np.flatnonzero(known & is_write)))
    return taken(batch, np.sort(np.concatenate(places)))


def _last_writes(batch: pa.RecordBatch, series: Integers, places: Integers) -> Integers:
    requested_at, revision = numbers(batch.column("requested_at")), numbers(batch.column("revision"))
    waits = is_waiting(batch)
    order = places[np.lexsort((revision[places], waits[places], requested_at[places], series[places]))]
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
    """Return the state that rows in order led to: a row for each resource that was known; no batch is empty.

    The columns are ``device_id``, ``endpoint_name``, ``registered`` of the device, null if it is not known, and
    those of :class:`mirror_server.store.resources.ResourceRow` that the history knows. A device of which nothing else
    was known has one row without a path. ``reported_at`` is the row's ``changed_at``, so never behind the instant, and
    ``reported_origin`` the word of the mirror; a write that had not ended has neither revision nor category.
    """
    for some in whole_devices(batches):
        state = _state(some, instant)
        if state.num_rows:
            yield state


def whole_devices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the latest_rows of all rows in order, those of a device in one batch."""
    held = NO_ROWS
    for batch in batches:
        some = latest_rows(together([held, batch]))
        devices = numbered(some, "device_id")
        behind = int(np.searchsorted(devices, devices[-1])) if len(devices) else 0
        if behind:
            yield some.slice(0, behind)
        held = some.slice(behind)
    if held.num_rows:
        yield held


def _state(rows: pa.RecordBatch, instant: Instant) -> pa.RecordBatch:
    """Return the state of whole devices from their latest_rows."""
    is_write, has_path = is_one_of(rows.column("what"), "desired"), is_known(rows.column("path"))
    series, devices = numbered(rows, "device_id", "path"), numbered(rows, "device_id")
    heads = np.flatnonzero(np.diff(series, prepend=-1))
    reported = _places(series, has_path & ~is_write, len(heads))
    written = _places(series, is_write, len(heads))
    told = has_path[heads] | _is_alone(devices[heads])
    registered = _registered(rows, np.searchsorted(devices, devices[heads[told]]))
    return _table(rows, heads[told], reported[told], written[told], registered, instant)


def _places(series: Integers, flags: Flags, count: int) -> Integers:
    """Return for each series the row with a flag, of which there is at most one; -1 without one."""
    places = np.full(count, -1, np.int64)
    found = np.flatnonzero(flags)
    places[series[found]] = found
    return places


def _is_alone(devices: Integers) -> Flags:
    """Return which rows are the only one of their device."""
    same = devices[1:] == devices[:-1]
    is_alone: Flags = ~(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    return is_alone


def _registered(rows: pa.RecordBatch, firsts: Integers) -> pa.Array:
    """Return whether devices were registered, from the first row of each, which is that of a registration if any."""
    is_in = is_one_of(rows.column("what"), "registration", "reg_update")
    is_told = ~is_known(rows.column("path"))
    return pc.if_else(to_flags(is_told[firsts]), to_flags(is_in[firsts]), pa.scalar(None, pa.bool_()))


def _table(
    rows: pa.RecordBatch, heads: Integers, reported: Integers, written: Integers, registered: pa.Array, instant: Instant
) -> pa.RecordBatch:
    waits = is_waiting(rows)
    is_over = (written >= 0) & ~waits[written] & (numbers(rows.column("changed_at"))[written] <= instant)
    head, value, write = (_at(rows, places) for places in (heads, reported, written))
    end = _at(rows, np.where(is_over, written, -1))
    placed = _at(rows, np.where(is_over | waits[written], written, -1))
    status = pc.if_else(to_flags(is_over), end.column("status"), pa.scalar(int(DesiredStatus.PENDING), pa.int8()))
    columns = {
        "device_id": head.column("device_id"),
        "endpoint_name": head.column("endpoint_name"),
        "path": head.column("path"),
        "registered": registered,
        "reported_value": value.column("value"),
        "reported_content_type": value.column("content_type"),
        # By the same clock as the selection: a receipt may lie behind the instant.
        "reported_at": value.column("changed_at"),
        "reported_revision": value.column("revision"),
        "reported_origin": _origins(value.column("origin")),
        "desired_value": write.column("value"),
        "desired_content_type": write.column("content_type"),
        "desired_status": pc.if_else(to_flags(written >= 0), status, pa.scalar(None, pa.int8())),
        "desired_at": pc.coalesce(end.column("changed_at"), write.column("requested_at")),
        "requested_at": write.column("requested_at"),
        "desired_revision": placed.column("revision"),
        "desired_category": end.column("category"),
        "desired_app_id": write.column("app_id"),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _at(rows: pa.RecordBatch, places: Integers) -> pa.RecordBatch:
    """Return the rows with these indices; for -1 a row of nulls."""
    validity = to_flags(places >= 0).buffers()[1]
    return rows.take(pa.Array.from_buffers(pa.int64(), len(places), [validity, pa.py_buffer(np.maximum(places, 0))]))


def _origins(column: pa.DictionaryArray) -> pa.DictionaryArray:
    words = to_array([_ORIGINS.get(word, word) for word in column.dictionary.to_pylist()], pa.string())
    return words.take(column.indices).dictionary_encode()


def oldest_at(session: Session, now: Instant) -> Instant:
    """Return the oldest instant of which the history knows everything."""
    instant = segments.oldest_state_at(session)
    return _begun_at(session, now) if instant is None else instant


def rows_up_to(
    reading: HistoryTransaction, wanted: RowFilter, instant: Instant, *, compacted_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Return the rows in order that lead to the state at an instant: those of a checkpoint and those behind it.

    Args:
        reading: Where the rows are.
        wanted: Selects devices and paths.
        instant: The instant.
        compacted_only: Whether rows of the tail and writes that wait are left out.
    """
    last = max((each for each in segments.checkpoints(reading.session) if each.at <= instant), default=None)
    behind = None if last is None else (last.at, last.revision)
    every = segments.blocks(reading.session, STATE)
    checkpoint = [block for block in every if last is not None and block.segment_id == last.segment_id]
    known = RowsUpTo(wanted.selection, wanted.device_ids, wanted.erased, None, instant, None)
    behind_it = replace(known, base_at=wanted.base_at, behind=behind)
    places = [*sources(runs_of(reading.session, checkpoint), known), *reading.sources(behind_it)]
    if not compacted_only:
        waiting = known.apply(in_order(of_rows(history.waiting_writes(reading.session))))
        places += [reading.tail(behind_it), Source("", LAST_DEVICE, iter([waiting]))]
    # The latest_rows of one group are few: several groups are merged at once.
    return merged(
        place._replace(batches=parts(place.batches, _ROWS_MERGED_AT_ONCE, _BYTES_MERGED_AT_ONCE)) for place in places
    )


def is_needed(session: Session) -> bool:
    """Return whether a history is kept that has no checkpoint since it was last started."""
    state = history.state(session)
    return state.is_enabled and all(each.revision < state.started_revision for each in segments.checkpoints(session))


def of_mirror(session: Session, now: Instant) -> tuple[tuple[Instant, int], Iterator[pa.RecordBatch]]:
    """Return instant, revision and rows of the first checkpoint of a history."""
    at, revision = _begun_at(session, now), history.state(session).started_revision
    mirror = [iter([history.registrations(session)]), *history.mirror(session, _ROWS_AT_A_TIME)]
    rows = merged(Source("", LAST_DEVICE, (in_order(of_rows(some)) for some in each)) for each in mirror)
    known = RowFilter(HistorySelection(revision=revision), None, {}, None)
    return (at, revision), (not_after(known.apply(batch), at) for batch in rows)


def _begun_at(session: Session, now: Instant) -> Instant:
    """Return when the history was started that is kept now: it has no earlier rows."""
    state = history.state(session)
    first_at = history.first_behind(session, max(state.started_revision, state.compacted_revision))
    return now if first_at is None else min(now, first_at)


def state_rows(reading: HistoryTransaction, instant: Instant) -> Iterator[pa.RecordBatch]:
    """Return the rows of a checkpoint at an instant, made from all that is sealed."""
    wanted = reading.filter(HistorySelection(revision=reading.state.compacted_revision))
    return whole_devices(rows_up_to(reading, wanted, instant, compacted_only=True))
