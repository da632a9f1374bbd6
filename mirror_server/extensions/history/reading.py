"""Reads the rows of one moment from the tail, the segments and the archive's files, and merges them in order.

Memory holds one batch of each place that is being read, whatever the number of rows.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from mirror_server.extensions.history.archive import Archive, part_of, run_of
from mirror_server.extensions.history.columns import NO_ROWS, in_order, position, reverse, tail_batch, together
from mirror_server.extensions.history.filters import RowFilter
from mirror_server.extensions.history.parquet import ParquetRows
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.segments import ROWS, ArchivedFile, Block, Bounds, RowRange
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

_ROWS_AT_A_TIME = 5000
_MOST_NAMED = 500
"""The database selects up to this many devices itself."""

LAST_DEVICE = "\U0010ffff"
"""An id behind those of all devices."""

_Key = tuple[str, str, int, int]


class Source(NamedTuple):
    """Rows of one place.

    Attributes:
        first_device: No row is before this device; '' for rows without one.
        last_device: No row is behind this device.
        batches: The rows, each batch in ascending order. In descending order the last batch comes first.
    """

    first_device: str
    last_device: str
    batches: Iterator[pa.RecordBatch]


class NoPartAnyMore(FileNotFoundError):
    """A file was deleted because its rows are not part of the history any more."""


class OrderedRows(NamedTuple):
    """Rows in order, in a block of a segment or in a file."""

    name: str
    bounds: Bounds
    source: Callable[[], object]
    """Opens what :class:`~mirror_server.extensions.history.parquet.ParquetRows` reads."""


Run = list[OrderedRows]
"""Pieces whose rows are in order, one piece after the other."""


class HistoryTransaction:
    """The history in one transaction.

    Args:
        session: The transaction.
        database: The database of the session; it is queried again if a file is missing.
        archive: Where files are; ``None`` if there is no archive.
    """

    def __init__(self, session: Session, database: Database, archive: Archive | None) -> None:
        self.session = session
        self.state = history.state(session)
        self.erased = segments.erasures(session)
        self._database = database
        self._archive = archive

    def filter(self, selection: HistorySelection) -> RowFilter:
        """Return the filter of a selection, which finds the devices that meet its conditions."""
        conditions = selection.conditions
        ids = sorted(history.device_ids(self.session, conditions)) if conditions else None
        return RowFilter(selection, ids, self.erased, self.state.base_at)

    def sources(self, wanted: RowFilter, *, descending: bool = False) -> Iterator[Source]:
        """Return the selected rows of segments and files."""
        runs = [*runs_of(self.session, segments.blocks(self.session, ROWS, wanted.span)), *self.files(wanted.span)]
        return sources(runs, wanted, descending=descending)

    def tail(self, wanted: RowFilter) -> Source:
        """Return the selected rows that are not sealed, sorted in memory."""
        return Source("", LAST_DEVICE, self._read_tail(wanted))

    def _read_tail(self, wanted: RowFilter) -> Iterator[pa.RecordBatch]:
        few = wanted.device_ids is not None and len(wanted.device_ids) <= _MOST_NAMED
        rows = history.stored_tail(
            self.session,
            self.state.compacted_revision,
            _ROWS_AT_A_TIME,
            device_ids=wanted.device_ids if few else None,
            paths=wanted.paths,
        )
        yield in_order(together([wanted.apply(in_order(tail_batch(some))) for some in rows]))

    def files(self, span: RowRange) -> list[Run]:
        """Return the files of the archive with rows in this span.

        Raises:
            StorageFailed: There are some, and no archive is open.
        """
        files, archive = segments.files(self.session, span), self._archive
        if not files:
            return []
        if archive is None:
            raise StorageFailed(
                f"cannot read its history: {len(files)} files of it are in an archive; its operator has to start it"
                " with --history-archive"
            )
        runs = groupby(files, key=lambda file: run_of(file.file_name))
        return [[file_piece(archive, self._database, file) for file in run] for _, run in runs]


def sources(runs: Iterable[Run], wanted: RowFilter | None = None, *, descending: bool = False) -> Iterator[Source]:
    """Return the selected rows of runs that may have any.

    Args:
        runs: The runs.
        wanted: Selects rows; ``None`` for all.
        descending: Whether the last row comes first.
    """
    for run in runs:
        if pieces := [piece for piece in run if wanted is None or wanted.is_about(piece.bounds)]:
            batches = _batches(pieces, wanted, descending=descending)
            yield Source(pieces[0].bounds.first_device, pieces[-1].bounds.last_device, batches)


def _batches(pieces: Sequence[OrderedRows], wanted: RowFilter | None, *, descending: bool) -> Iterator[pa.RecordBatch]:
    for piece in reversed(pieces) if descending else pieces:
        try:
            yield from batches_of(piece, wanted, descending=descending)
        except NoPartAnyMore:
            _log.info("%s was deleted while it was read", piece.name)
        except (OSError, pa.ArrowException) as error:
            name, advice = piece.name, "'mirror-server check' lists the damage"
            _log.error("%s of the history cannot be read: %s; %s", name, error, advice)
            raise StorageFailed("cannot read a part of its history") from error


def runs_of(session: Session, blocks: Iterable[Block]) -> list[Run]:
    """Return segments, each as a run of its blocks."""

    def piece(block: Block) -> OrderedRows:
        name = f"block {block.block} of segment {block.segment_id}"
        return OrderedRows(
            name,
            block.bounds,
            lambda: pa.BufferReader(segments.content(session, block.segment_id, block.block)),
        )

    return [[piece(block) for block in run] for run in segments.runs(blocks)]


def file_piece(archive: Archive, database: Database, file: ArchivedFile) -> OrderedRows:
    """Return a file of the archive; if another one has replaced it, that one is read."""
    return OrderedRows(file.file_name, file.bounds, partial(_open_file, archive, database, file.file_name))


def _open_file(archive: Archive, database: Database, name: str) -> object:
    """Open a file, or the one that replaced it, which has the rows that are left of it.

    Raises:
        NoPartAnyMore: Its rows were deleted.
        FileNotFoundError: It is part of the history, and missing.
        OSError: It cannot be read.
    """
    try:
        return archive.source(name)
    except FileNotFoundError as missing:
        with database.read() as session:
            names = [file.file_name for file in segments.files(session)]
        now = next((other for other in names if part_of(other) == part_of(name)), None)
        if now == name:
            raise
        if now is None:
            raise NoPartAnyMore(*missing.args) from None
    return _open_file(archive, database, now)


def batches_of(
    piece: OrderedRows, wanted: RowFilter | None = None, *, descending: bool = False
) -> Iterator[pa.RecordBatch]:
    """Return the selected rows of a piece, or all, group by group; errors are those of pyarrow."""
    with ParquetRows(piece.source()) as rows:
        for group in reversed(rows.groups) if descending else rows.groups:
            if wanted is None:
                yield rows.read(group)
                continue
            paths = rows.paths(group)
            if wanted.has_device(*rows.devices(group)) and (paths is None or wanted.has_path(*paths)):
                yield wanted.apply(rows.read(group))


def merged(sources: Iterable[Source], *, descending: bool = False) -> Iterator[pa.RecordBatch]:
    """Merge the rows of all sources in order.

    A source is started when the first or last of its devices is reached. From then on one of its batches is in memory.

    Args:
        sources: The sources.
        descending: Whether the last row comes first.
    """
    if descending:
        waiting = sorted(sources, key=lambda source: source.last_device)
    else:
        waiting = sorted(sources, key=lambda source: source.first_device, reverse=True)
    heads: list[_Head] = []
    while waiting or heads:
        boundary = _start_all_up_to_boundary(waiting, heads, descending=descending)
        if boundary is not None:
            ready = [head.cut(boundary) for head in heads]
            rows = ready[0] if len(ready) == 1 else in_order(together(ready))
            heads = [head for head in heads if head.load()]
            yield reverse(rows) if descending else rows


def _start_all_up_to_boundary(waiting: list[Source], heads: list[_Head], *, descending: bool) -> _Key | None:
    """Start each source that may have rows up to the border; all rows up to it are in memory then."""
    while True:
        boundaries = [head.boundary for head in heads]
        boundary = (max(boundaries) if descending else min(boundaries)) if boundaries else None
        if not waiting or (boundary is not None and _is_behind(waiting[-1], boundary[0], descending=descending)):
            return boundary
        head = _Head(waiting.pop().batches, descending=descending)
        if head.load():
            heads.append(head)


def _is_behind(source: Source, device_id: str, *, descending: bool) -> bool:
    return source.last_device < device_id if descending else source.first_device > device_id


class _Head:
    """The batch of a source that is in memory."""

    def __init__(self, batches: Iterator[pa.RecordBatch], *, descending: bool) -> None:
        self._batches = batches
        self._descending = descending
        self._batch = NO_ROWS
        self.boundary: _Key = ("", "", 0, 0)

    def load(self) -> bool:
        """Load rows if none are left; false at the end of the source."""
        while not self._batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._batch = batch
            if batch.num_rows:
                self.boundary = self._key(0 if self._descending else batch.num_rows - 1)
        return True

    def cut(self, boundary: _Key) -> pa.RecordBatch:
        """Remove the rows up to this position and return them."""
        places = range(self._batch.num_rows)
        if boundary == self.boundary:
            ready, self._batch = self._batch, NO_ROWS
        elif self._descending:
            index = bisect_left(places, boundary, key=self._key)
            ready, self._batch = self._batch.slice(index), self._batch.slice(0, index)
        else:
            index = bisect_right(places, boundary, key=self._key)
            ready, self._batch = self._batch.slice(0, index), self._batch.slice(index)
        return ready

    def _key(self, index: int) -> _Key:
        return position(self._batch, index).key
