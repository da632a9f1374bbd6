"""Filters of rows by device, path, time, revision and erasure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mirror_server.core.timestamps import Instant
from mirror_server.extensions.history.columns import Flags, filter_rows, has_value, numbers, of_words, position
from mirror_server.extensions.history.selection import HistorySelection, Position
from mirror_server.extensions.history.store.segments import Bounds, RowRange

# One day. If the clock of a device was ahead, its rows are kept at most this much longer.
_CLOCK_AHEAD = 86_400_000


@dataclass(eq=False)
class RowFilter:
    """Selects rows from batches.

    Attributes:
        selection: The selection. Its conditions are not used here, because ``device_ids`` replaces them.
        device_ids: The sorted ids of the devices that meet the conditions, or ``None`` for all devices, including
            deleted ones.
        erased: The ids of erased devices, each with the last revision that is no longer returned.
        base_at: The time up to which rows were trimmed, or ``None`` if no rows were trimmed.
        paths: The selected paths. It is empty if one of them is a pattern.
    """

    selection: HistorySelection
    device_ids: Sequence[str] | None
    erased: Mapping[str, int]
    base_at: Instant | None

    def __post_init__(self) -> None:
        patterns = self.selection.patterns
        self.paths = () if any(pattern.endswith("*") for pattern in patterns) else patterns
        self._device_set = None if self.device_ids is None else frozenset(self.device_ids)

    @property
    def span(self) -> RowRange:
        """The range of devices and times that contains all selected rows."""
        first, last = (
            (None, None) if self.device_ids is None else ((*self.device_ids, "")[0], ("", *self.device_ids)[-1])
        )
        return RowRange(first, last, self.selection.begin, self.selection.end)

    def may_match(self, bounds: Bounds) -> bool:
        """Return whether a row within these bounds may be selected."""
        begin, end, revision = self.selection.begin, self.selection.end, self.selection.revision
        return (
            self.has_device(bounds.first_device, bounds.last_device)
            and (self.base_at is None or age_starts_at(bounds.last_received_at, bounds.last_changed_at) >= self.base_at)
            and (revision is None or bounds.first_revision <= revision)
            # Gaps have no device, and they are selected by their end.
            and (begin is None or bounds.first_device == "" or bounds.last_changed_at >= begin)
            and (end is None or bounds.first_changed_at < end)
        )

    def has_device(self, first_device: str, last_device: str) -> bool:
        """Return whether a device in this range may be selected. Rows without a device are always selected."""
        if self.device_ids is None or not first_device:
            return True
        index = bisect_left(self.device_ids, first_device)
        return index < len(self.device_ids) and self.device_ids[index] <= last_device

    def has_path(self, first_path: str, last_path: str) -> bool:
        """Return whether a path in this range may be selected."""
        return not self.selection.patterns or any(
            first_path[: len(each)] <= each <= last_path or first_path <= each <= last_path[: len(each)]
            for each in (pattern.removesuffix("*") for pattern in self.selection.patterns)
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected rows of a sorted batch."""
        return filter_rows(batch, self.flags(batch))

    def flags(self, batch: pa.RecordBatch) -> Flags:
        """Return a flag for each row of a sorted batch: whether it is selected."""
        flags = self._of_time(batch) & self._of_revision(batch)
        if self._device_set is not None:
            flags &= _where(batch.column("device_id"), self._device_set.__contains__)
        if self.selection.patterns:
            flags &= _where(batch.column("path"), self._matches)
        if self.erased:
            column = batch.column("device_id")
            last = np.array([self.erased.get(word, -1) for word in column.dictionary.to_pylist()] + [-1], np.int64)
            flags &= numbers(batch.column("revision")) > of_words(column, last)
        if self.selection.after is not None:
            flags &= _is_after(batch, self.selection.after, descending=self.selection.descending)
        return flags

    def _matches(self, path: str) -> bool:
        return any(
            path.startswith(each[:-1]) if each.endswith("*") else path == each for each in self.selection.patterns
        )

    def _of_time(self, batch: pa.RecordBatch) -> Flags:
        begin, end = self.selection.begin, self.selection.end
        changed_at, flags = numbers(batch.column("changed_at")), np.ones(batch.num_rows, np.bool_)
        if begin is not None:
            until = batch.column("until")
            flags = (changed_at >= begin) | (has_value(until) & (numbers(until) > begin))
        if end is not None:
            flags &= changed_at < end
        if self.base_at is not None:
            received_at = numbers(batch.column("received_at"))
            flags &= np.maximum(received_at, np.minimum(changed_at, received_at + _CLOCK_AHEAD)) >= self.base_at
        return flags

    def _of_revision(self, batch: pa.RecordBatch) -> Flags:
        if self.selection.revision is None:
            return np.ones(batch.num_rows, np.bool_)
        is_stored: Flags = numbers(batch.column("revision")) <= self.selection.revision
        return is_stored


def age_starts_at(received_at: Instant, changed_at: Instant) -> Instant:
    """Return the time at which the age of a row starts to count. It is at most a day after the receipt of the row."""
    return max(received_at, min(changed_at, received_at + _CLOCK_AHEAD))


def _where(column: pa.DictionaryArray, matches: Callable[[str], bool]) -> Flags:
    """Return a flag for each row: whether it has a matching word or no word."""
    return of_words(column, np.array([*map(matches, column.dictionary.to_pylist()), True]))


def _is_after(batch: pa.RecordBatch, after: Position, *, descending: bool) -> Flags:
    """Return a flag for each row of a sorted batch: whether it comes after a position, in the order of the response."""
    indices = range(batch.num_rows)
    find = bisect_left if descending else bisect_right
    boundary = find(indices, after.key, key=lambda index: position(batch, index).key)
    is_after: Flags = (np.arange(batch.num_rows) < boundary) == descending
    return is_after
