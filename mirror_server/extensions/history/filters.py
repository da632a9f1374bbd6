"""Which rows of a batch are told."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mirror_server.core.instants import Instant
from mirror_server.extensions.history.columns import Flags, is_known, kept, numbers, of_words, position
from mirror_server.extensions.history.selection import HistorySelection, Position
from mirror_server.extensions.history.store.segments import Bounds, Span

_CLOCK_AHEAD = 86_400_000


class RowFilter:
    """Those rows of batches that a selection is about; the devices are given by their ids.

    Args:
        selection: What is asked for.
        device_ids: The devices that meet its conditions, sorted; ``None`` for all there are and ever were.
        erased: Devices, and the last revision of theirs that is told no more.
        base_at: Up to when rows were trimmed; ``None`` where none were.
    """

    def __init__(
        self,
        selection: HistorySelection,
        device_ids: Sequence[str] | None,
        erased: Mapping[str, int],
        base_at: Instant | None,
    ) -> None:
        self.selection = selection
        is_named = not any(pattern.endswith("*") for pattern in selection.patterns)
        self.paths: Sequence[str] = selection.patterns if is_named else ()
        self._base_at = base_at
        self.device_ids = device_ids
        self._known = None if device_ids is None else frozenset(device_ids)
        self._erased = erased

    @property
    def span(self) -> Span:
        """Where these rows are at most."""
        first, last = (
            (None, None) if self.device_ids is None else ((*self.device_ids, "")[0], ("", *self.device_ids)[-1])
        )
        return Span(first, last, self.selection.begin, self.selection.end)

    def is_about(self, bounds: Bounds) -> bool:
        """Whether any row within these bounds may be asked for."""
        return (
            self.has_device(bounds.first_device, bounds.last_device)
            and (self._base_at is None or kept_until(bounds.last_received_at, bounds.last_changed_at) >= self._base_at)
            and (self.selection.revision is None or bounds.first_revision <= self.selection.revision)
            and self.has_time(bounds)
        )

    def has_device(self, first_device: str, last_device: str) -> bool:
        """Whether a device of this range may be asked for; rows without a device are asked for in any case."""
        if self.device_ids is None or not first_device:
            return True
        index = bisect_left(self.device_ids, first_device)
        return index < len(self.device_ids) and self.device_ids[index] <= last_device

    def has_path(self, first_path: str, last_path: str) -> bool:
        """Whether a path of this range may be asked for."""
        return not self.selection.patterns or any(
            first_path[: len(each)] <= each <= last_path or first_path <= each <= last_path[: len(each)]
            for each in (pattern.removesuffix("*") for pattern in self.selection.patterns)
        )

    def has_time(self, bounds: Bounds) -> bool:
        """Whether anything may be asked for by when it happened; of gaps, which are no device's, the end counts."""
        begin, end = self.selection.begin, self.selection.end
        is_over = begin is not None and bounds.first_device != "" and bounds.last_changed_at < begin
        return not is_over and (end is None or bounds.first_changed_at < end)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Its rows that are asked for."""
        return kept(batch, self.flags(batch))

    def flags(self, batch: pa.RecordBatch) -> Flags:
        """Where rows of a batch, which is in order, are asked for."""
        flags = self._of_devices(batch) & self._of_paths(batch) & self.of_time(batch) & self._of_revision(batch)
        if self.selection.after is not None:
            flags &= _is_behind(batch, self.selection.after, descending=self.selection.descending)
        return flags

    def _of_devices(self, batch: pa.RecordBatch) -> Flags:
        if self._known is None:
            return np.ones(batch.num_rows, np.bool_)
        column = batch.column("device_id")
        return of_words(column, np.array([word in self._known for word in column.dictionary.to_pylist()] + [True]))

    def _of_paths(self, batch: pa.RecordBatch) -> Flags:
        patterns = self.selection.patterns
        if not patterns:
            return np.ones(batch.num_rows, np.bool_)
        column = batch.column("path")
        return of_words(column, np.array([matches(path, patterns) for path in column.dictionary.to_pylist()] + [True]))

    def of_time(self, batch: pa.RecordBatch) -> Flags:
        """Where rows are asked for by when they happened."""
        begin, end = self.selection.begin, self.selection.end
        changed_at = numbers(batch.column("changed_at"))
        flags = np.ones(batch.num_rows, np.bool_)
        if begin is not None:
            flags &= changed_at >= begin
            until = batch.column("until")
            if until.null_count < batch.num_rows:
                flags |= is_known(until) & (numbers(until) > begin)
        if end is not None:
            flags &= changed_at < end
        return flags

    def _of_revision(self, batch: pa.RecordBatch) -> Flags:
        revision = numbers(batch.column("revision"))
        flags = np.ones(batch.num_rows, np.bool_)
        if self.selection.revision is not None:
            flags &= revision <= self.selection.revision
        if self._base_at is not None:
            received_at, changed_at = numbers(batch.column("received_at")), numbers(batch.column("changed_at"))
            day_later = received_at + _CLOCK_AHEAD
            flags &= np.maximum(received_at, np.minimum(changed_at, day_later)) >= self._base_at
        if self._erased:
            column = batch.column("device_id")
            last = np.array([self._erased.get(word, -1) for word in column.dictionary.to_pylist()] + [-1], np.int64)
            flags &= revision > of_words(column, last)
        return flags


def kept_until(received_at: Instant, changed_at: Instant) -> Instant:
    """From when on a row counts as old: a clock that is ahead has it kept for no more than a day longer."""
    return max(received_at, min(changed_at, received_at + _CLOCK_AHEAD))


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path is one of these patterns, or begins with what stands before a final ``*``."""
    return any(path.startswith(each[:-1]) if each.endswith("*") else path == each for each in patterns)


def _is_behind(batch: pa.RecordBatch, after: Position, *, descending: bool) -> Flags:
    """Where rows of a batch, which is in order, stand behind a position in the order in which they are told."""
    places = range(batch.num_rows)
    find = bisect_left if descending else bisect_right
    border = find(places, after.key, key=lambda place: position(batch, place).key)
    behind: Flags = (np.arange(batch.num_rows) < border) == descending
    return behind
