"""Rows of several places as one, in order, with as little of them in memory as possible."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from mirror_server.extensions.history.columns import NO_ROWS, in_order, position, reverse, together

_Key = tuple[str, str, int, int]


LAST_DEVICE = "\U0010ffff"
"""No device stands behind this one."""


class Source(NamedTuple):
    """Rows of one place.

    Attributes:
        first_device: No row stands before this device; '' for a row without one.
        last_device: None stands behind this one.
        batches: The rows, each batch in ascending order; where they are told backwards, the last batch first.
    """

    first_device: str
    last_device: str
    batches: Iterator[pa.RecordBatch]


def merged(sources: Iterable[Source], *, descending: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of all sources in order, of each source one batch in memory, once its first device is reached.

    Args:
        sources: Where the rows are.
        descending: Whether the last row comes first.
    """
    if descending:
        waiting = sorted(sources, key=lambda source: source.last_device)
    else:
        waiting = sorted(sources, key=lambda source: source.first_device, reverse=True)
    heads: list[_Head] = []
    while waiting or heads:
        border = _begin_all_up_to_border(waiting, heads, descending=descending)
        if border is not None:
            ready = heads[0].rest() if len(heads) == 1 and not waiting else _ready(heads, border)
            heads = [head for head in heads if head.load()]
            yield reverse(ready) if descending else ready


def _begin_all_up_to_border(waiting: list[Source], heads: list[_Head], *, descending: bool) -> _Key | None:
    """Begin each source that may have rows up to the border: there is none before it that was not given yet."""
    while True:
        borders = [head.border for head in heads]
        border = (max(borders) if descending else min(borders)) if borders else None
        if not waiting or (border is not None and _is_behind(waiting[-1], border[0], descending=descending)):
            return border
        head = _Head(waiting.pop().batches, descending=descending)
        if head.load():
            heads.append(head)


def _is_behind(source: Source, device_id: str, *, descending: bool) -> bool:
    return source.last_device < device_id if descending else source.first_device > device_id


def _ready(heads: Sequence[_Head], border: _Key) -> pa.RecordBatch:
    return in_order(together([head.cut(border) for head in heads]))


class _Head:
    """What is in memory of a source."""

    def __init__(self, batches: Iterator[pa.RecordBatch], *, descending: bool) -> None:
        self._batches = batches
        self._descending = descending
        self._batch = NO_ROWS
        self.border: _Key = ("", "", 0, 0)

    def load(self) -> bool:
        """See to it that there are rows; false at the end of the source."""
        while not self._batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._batch = batch
            if batch.num_rows:
                self.border = self._key(0 if self._descending else batch.num_rows - 1)
        return True

    def cut(self, border: _Key) -> pa.RecordBatch:
        """The rows up to this position, which are then gone from here."""
        places = range(self._batch.num_rows)
        if self._descending:
            index = bisect_left(places, border, key=self._key)
            ready, self._batch = self._batch.slice(index), self._batch.slice(0, index)
        else:
            index = bisect_right(places, border, key=self._key)
            ready, self._batch = self._batch.slice(0, index), self._batch.slice(index)
        return ready

    def rest(self) -> pa.RecordBatch:
        """All rows, which are then gone from here."""
        ready, self._batch = self._batch, NO_ROWS
        return ready

    def _key(self, index: int) -> _Key:
        return position(self._batch, index).key
