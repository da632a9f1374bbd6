"""The fleet as it was at an instant: a row for each device and resource of which something was known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.arrow import to_array
from mirror_server.core.instants import Instant
from mirror_server.extensions.history.columns import (
    NO_ROWS,
    Flags,
    Integers,
    is_known,
    is_one_of,
    numbered,
    numbers,
    to_flags,
    together,
)
from mirror_server.extensions.history.filters import RowFilter
from mirror_server.extensions.history.store.history import ORIGINS
from mirror_server.extensions.history.store.segments import Bounds
from mirror_server.extensions.history.winning import is_waiting, winners

_ORIGINS = {word: origin for origin, word in ORIGINS.items()} | {"registration": "auto_observation"}
"""By what a value came, in words of the history, and in those of the mirror."""


class RowsUpTo:
    """What was known at an instant, of rows that a filter lets through whatever their time.

    Args:
        rows: Which devices and paths.
        instant: The instant.
        behind: Instant and revision of the checkpoint that knows all rows up to both; ``None`` without one.
    """

    def __init__(self, rows: RowFilter, instant: Instant, behind: tuple[Instant, int] | None) -> None:
        self._rows = rows
        self._instant = instant
        self._behind = behind
        self.has_device, self.has_path = rows.has_device, rows.has_path
        self.device_ids, self.paths, self.span = rows.device_ids, rows.paths, rows.span

    def is_about(self, bounds: Bounds) -> bool:
        """Whether any row within these bounds may have been known, and not to the checkpoint."""
        requested_at = bounds.first_requested_at
        return (
            (bounds.first_changed_at <= self._instant or (requested_at is not None and requested_at <= self._instant))
            and (
                self._behind is None
                or bounds.last_changed_at > self._behind[0]
                or bounds.last_revision > self._behind[1]
            )
            and self._rows.is_about(bounds)
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch, which is in order, that make what was known."""
        changed_at = numbers(batch.column("changed_at"))
        is_write = is_one_of(batch.column("what"), "desired")
        # A write was known from when it was placed; how it ended, from then on.
        known_at = np.where(is_write, numbers(batch.column("requested_at")), changed_at)
        flags = known_at <= self._instant
        if self._behind is not None:
            flags &= (changed_at > self._behind[0]) | (numbers(batch.column("revision")) > self._behind[1])
        return winners(batch, flags & self._rows.flags(batch))


def states(batches: Iterable[pa.RecordBatch], instant: Instant) -> Iterator[pa.RecordBatch]:
    """What rows in order led to at an instant: a row for each resource of which something was known; no batch is empty.

    The columns are ``device_id``, ``endpoint_name``, ``registered`` of the device, null where it is not known, and
    those of :class:`mirror_server.store.resources.ResourceRow` that the history knows. A device of which nothing else
    was known has one row without a path. ``reported_at`` is the row's ``changed_at``, so never behind the instant, and
    ``reported_origin`` the word of the mirror; a write that had not ended has neither revision nor category.
    """
    for some in whole_devices(batches):
        state = _state(some, instant)
        if state.num_rows:
            yield state


def whole_devices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The winners of all rows, in order, those of a device in one batch."""
    held = NO_ROWS
    for batch in batches:
        some = winners(together([held, batch]))
        devices = numbered(some, "device_id")
        behind = int(np.searchsorted(devices, devices[-1])) if len(devices) else 0
        if behind:
            yield some.slice(0, behind)
        held = some.slice(behind)
    if held.num_rows:
        yield held


def _state(rows: pa.RecordBatch, instant: Instant) -> pa.RecordBatch:
    """The state of whole devices, of their winners."""
    is_write, has_path = is_one_of(rows.column("what"), "desired"), is_known(rows.column("path"))
    series, devices = numbered(rows, "device_id", "path"), numbered(rows, "device_id")
    heads = np.flatnonzero(np.diff(series, prepend=-1))
    reported = _places(series, has_path & ~is_write, len(heads))
    written = _places(series, is_write, len(heads))
    told = has_path[heads] | _is_alone(devices[heads])
    registered = _registered(rows, np.searchsorted(devices, devices[heads[told]]))
    return _table(rows, heads[told], reported[told], written[told], registered, instant)


def _places(series: Integers, flags: Flags, count: int) -> Integers:
    """For each series the row with a flag, of which it has one at most; -1 without one."""
    places = np.full(count, -1, np.int64)
    found = np.flatnonzero(flags)
    places[series[found]] = found
    return places


def _is_alone(devices: Integers) -> Flags:
    """Where a device has one row only."""
    same = devices[1:] == devices[:-1]
    is_alone: Flags = ~(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    return is_alone


def _registered(rows: pa.RecordBatch, firsts: Integers) -> pa.Array:
    """Whether devices were registered, of the first row of each, which is that of its registration where it has one."""
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
    """The rows at these places; one without anything where that is -1."""
    validity = to_flags(places >= 0).buffers()[1]
    return rows.take(pa.Array.from_buffers(pa.int64(), len(places), [validity, pa.py_buffer(np.maximum(places, 0))]))


def _origins(column: pa.DictionaryArray) -> pa.DictionaryArray:
    words = to_array([_ORIGINS.get(word, word) for word in column.dictionary.to_pylist()], pa.string())
    return words.take(column.indices).dictionary_encode()
