"""Reads the rows of the history from the tail, the segments and the files, and merges them in order.

All rows are read in one transaction. Memory holds one batch of each source that is being read, so it does not depend on
the number of rows.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from mirror_server.extensions.history.archive import Archive, part_prefix, run_prefix
from mirror_server.extensions.history.columns import (
    NO_ROWS,
    concat,
    in_order,
    position,
    reverse,
    tail_batch,
    value_sizes,
)
from mirror_server.extensions.history.parquet import ParquetRows
from mirror_server.extensions.history.row_filters import RowFilter
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.segments import ROWS, ArchivedFile, Block, Bounds, RowRange
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

_ROWS_AT_A_TIME = 5000
_FEW_ROWS = 2000
_FEW_BYTES = 256 * 1024
_FEW_BATCHES = 20
_MANY_ROWS = 20_000
_MOST_NAMED = 500
"""Up to this number of devices, the database itself selects the rows of the tail."""

LAST_DEVICE = "\U0010ffff"
"""A string that is greater than the ids of all devices."""

_Key = tuple[str, str, int, int]


class Source(NamedTuple):
    """The rows of one segment, one run of files, or the tail.

    Attributes:
        first_device: The first device, or ``""`` if there are rows without a device.
        last_device: A device after which there are no rows.
        batches: The batches of rows. The rows of a batch are always in ascending order. If the order of the response is
            descending, the last batch comes first.
    """

    first_device: str
    last_device: str
    batches: Iterator[pa.RecordBatch]


class FileRemoved(FileNotFoundError):
    """A file was deleted because its rows are no longer part of the history."""


class OrderedRows(NamedTuple):
    """A chunk of sorted rows, which is a block of a segment or a file of the archive."""

    name: str
    bounds: Bounds
    source: Callable[[], object]
    """A function that opens the source for :class:`~mirror_server.extensions.history.parquet.ParquetRows`."""


Run = list[OrderedRows]
"""Chunks whose rows are sorted from the first chunk to the last."""


class HistoryTransaction:
    """The history as it is in one transaction.

    Args:
        session: The session of the transaction.
        database: The database of the session. It is queried again if a file is missing.
        archive: The archive, or ``None`` if there is no archive.
    """

    def __init__(self, session: Session, database: Database, archive: Archive | None) -> None:
        self.session = session
        self.state = history.state(session)
        self.erased = segments.erasures(session)
        self._database = database
        self._archive = archive

    def filter(self, selection: HistorySelection) -> RowFilter:
        """Return the filter for a selection, with the devices that meet the conditions of the selection."""
        conditions = selection.conditions
        ids = sorted(history.device_ids(self.session, conditions)) if conditions else None
        return RowFilter(selection, ids, self.erased, self.state.base_at)

    def sources(self, where: RowFilter, *, descending: bool = False) -> Iterator[Source]:
        """Yield sources with the selected rows of the segments and files."""
        runs = [*runs_of(self.session, segments.blocks(self.session, ROWS, where.span)), *self.files(where.span)]
        return sources(runs, where, descending=descending)

    def tail(self, where: RowFilter) -> Source:
        """Return a source with the selected rows that are not compacted. They are sorted in memory."""
        return Source("", LAST_DEVICE, self._read_tail(where))

    def _read_tail(self, where: RowFilter) -> Iterator[pa.RecordBatch]:
        few = where.device_ids is not None and len(where.device_ids) <= _MOST_NAMED
        rows = history.stored_tail(
            self.session,
            self.state.compacted_revision,
            _ROWS_AT_A_TIME,
            device_ids=where.device_ids if few else None,
            paths=where.paths,
        )
        yield in_order(concat([where.apply(in_order(tail_batch(some))) for some in rows]))

    def files(self, span: RowRange) -> list[Run]:
        """Return the files of the archive that have rows in this range.

        Raises:
            StorageFailed: There are such files, but no archive is open.
        """
        files, archive = segments.files(self.session, span), self._archive
        if not files:
            return []
        if archive is None:
            raise StorageFailed(
                f"cannot read {len(files)} files of its history, because it was started without their archive; the"
                " operator has to restart it with --history-archive"
            )
        runs = groupby(files, key=lambda file: run_prefix(file.file_name))
        return [[file_chunk(archive, self._database, file) for file in run] for _, run in runs]


def sources(runs: Iterable[Run], where: RowFilter | None = None, *, descending: bool = False) -> Iterator[Source]:
    """Yield a source for each run that may have selected rows.

    Args:
        runs: The runs to read.
        where: The filter of rows, or ``None`` for all rows.
        descending: Whether the last row comes first.
    """
    for run in runs:
        if chunks := [chunk for chunk in run if where is None or where.may_match(chunk.bounds)]:
            batches = _batches(chunks, where, descending=descending)
            yield Source(chunks[0].bounds.first_device, chunks[-1].bounds.last_device, batches)


def _batches(chunks: Sequence[OrderedRows], where: RowFilter | None, *, descending: bool) -> Iterator[pa.RecordBatch]:
    for chunk in reversed(chunks) if descending else chunks:
        try:
            yield from batches_of(chunk, where, descending=descending)
        except FileRemoved:
            _log.info("%s was deleted while it was read", chunk.name)
        except (OSError, pa.ArrowException) as error:
            name, advice = chunk.name, "run 'mirror-server check' for a list of damaged parts"
            _log.error("%s of the history cannot be read: %s; %s", name, error, advice)
            raise StorageFailed(
                "cannot read a part of its history; the operator has to run 'mirror-server check'"
            ) from error


def runs_of(session: Session, blocks: Iterable[Block]) -> list[Run]:
    """Group blocks by segment, and return each segment as a run of its blocks."""

    def chunk(block: Block) -> OrderedRows:
        name = f"block {block.block} of segment {block.segment_id}"
        return OrderedRows(
            name,
            block.bounds,
            lambda: pa.BufferReader(segments.content(session, block.segment_id, block.block)),
        )

    return [[chunk(block) for block in run] for run in segments.runs(blocks)]


def file_chunk(archive: Archive, database: Database, file: ArchivedFile) -> OrderedRows:
    """Return the chunk of an archived file. If another file has replaced the file, that file is read instead."""
    return OrderedRows(file.file_name, file.bounds, partial(_open_file, archive, database, file.file_name))


def _open_file(archive: Archive, database: Database, name: str) -> object:
    """Open a file, or the file that has replaced it and contains the remaining rows.

    Raises:
        FileRemoved: The rows of the file were deleted.
        FileNotFoundError: The file is part of the history, but it is missing.
        OSError: The file cannot be read.
    """
    try:
        return archive.source(name)
    except FileNotFoundError as missing:
        with database.read() as session:
            names = [file.file_name for file in segments.files(session)]
        now = next((other for other in names if part_prefix(other) == part_prefix(name)), None)
        if now == name:
            raise
        if now is None:
            raise FileRemoved(*missing.args) from None
    # The replacement may have been replaced, too.
    return _open_file(archive, database, now)


def batches_of(
    chunk: OrderedRows, where: RowFilter | None = None, *, descending: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the selected rows of a chunk, group by group. Errors of pyarrow are not converted."""
    with ParquetRows(chunk.source()) as rows:
        for group in reversed(rows.groups) if descending else rows.groups:
            if where is None:
                yield rows.read(group)
                continue
            paths = rows.paths(group)
            if where.has_device(*rows.devices(group)) and (paths is None or where.has_path(*paths)):
                yield where.apply(rows.read(group))


def merged(sources: Iterable[Source], *, descending: bool = False) -> Iterator[pa.RecordBatch]:
    """Merge the rows of all sources in order.

    A source is started when the merge reaches the first device of the source, or the last one if ``descending`` is
    true. From then on one batch of the source is in memory.

    Args:
        sources: The sources to merge.
        descending: Whether the last row comes first.
    """
    # The source to start next is at the end of the list.
    if descending:
        waiting = sorted(sources, key=lambda source: source.last_device)
    else:
        waiting = sorted(sources, key=lambda source: source.first_device, reverse=True)
    heads: list[_Head] = []
    while waiting or heads:
        boundary = _start_all_up_to_boundary(waiting, heads, descending=descending)
        if boundary is not None:
            ready = [head.cut(boundary) for head in heads]
            # The rows of a single source are already sorted.
            rows = ready[0] if len(ready) == 1 else in_order(concat(ready))
            heads = [head for head in heads if head.load()]
            yield reverse(rows) if descending else rows


def _start_all_up_to_boundary(waiting: list[Source], heads: list[_Head], *, descending: bool) -> _Key | None:
    """Start all sources that may have rows up to the boundary, so that they are in memory. Return the boundary."""
    first, last = (max, min) if descending else (min, max)
    while True:
        # A head whose source has ended limits nothing: all of its rows are in memory. But many rows are merged first,
        # before further sources are started.
        limits = [head.boundary for head in heads if not head.is_last]
        if sum(head.row_count for head in heads) >= _MANY_ROWS:
            limits = [head.boundary for head in heads]
        boundary = first(limits) if limits else last((head.boundary for head in heads), default=None)
        if not waiting or (boundary is not None and _is_after(waiting[-1], boundary[0], descending=descending)):
            return boundary
        head = _Head(waiting.pop().batches, descending=descending)
        if head.load():
            heads.append(head)


def _is_after(source: Source, device_id: str, *, descending: bool) -> bool:
    return source.last_device < device_id if descending else source.first_device > device_id


class _Head:
    """The current batch of a source, which is in memory."""

    def __init__(self, batches: Iterator[pa.RecordBatch], *, descending: bool) -> None:
        self._batches = batches
        self._descending = descending
        self._batch = NO_ROWS
        self.is_last = False
        self.boundary: _Key = ("", "", 0, 0)

    def load(self) -> bool:
        """Load the next rows if the current batch has no rows left. Return false at the end of the source.

        Small batches are combined. A query for one device has a few rows of each of hundreds of sources, and would
        otherwise merge all of them once for each source.
        """
        if self._batch.num_rows or self.is_last:
            return bool(self._batch.num_rows)
        batches: list[pa.RecordBatch] = []
        row_count = byte_count = 0
        while row_count < _FEW_ROWS and byte_count < _FEW_BYTES and (not row_count or len(batches) < _FEW_BATCHES):
            batch = next(self._batches, None)
            if batch is None:
                self.is_last = True
                break
            batches.append(batch)
            row_count += batch.num_rows
            byte_count += int(value_sizes(batch).sum())
        self._batch = concat(batches[::-1] if self._descending else batches)
        if self._batch.num_rows:
            self.boundary = self._key(0 if self._descending else self._batch.num_rows - 1)
        return bool(self._batch.num_rows)

    @property
    def row_count(self) -> int:
        """The number of rows in memory."""
        count: int = self._batch.num_rows
        return count

    def cut(self, boundary: _Key) -> pa.RecordBatch:
        """Remove the rows up to and including this position from the batch, and return them."""
        indices = range(self._batch.num_rows)
        if boundary == self.boundary:
            ready, self._batch = self._batch, NO_ROWS
        elif self._descending:
            index = bisect_left(indices, boundary, key=self._key)
            ready, self._batch = self._batch.slice(index), self._batch.slice(0, index)
        else:
            index = bisect_right(indices, boundary, key=self._key)
            ready, self._batch = self._batch.slice(0, index), self._batch.slice(index)
        return ready

    def _key(self, index: int) -> _Key:
        return position(self._batch, index).key
