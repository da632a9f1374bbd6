"""All rows there are at one moment, wherever they stand: the tail, the segments, and the archive's files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol

import pyarrow as pa

from mirror_server.extensions.history.archive import Archive, part_of, run_of
from mirror_server.extensions.history.columns import in_order, of_tail, together
from mirror_server.extensions.history.merging import LAST_DEVICE, Source
from mirror_server.extensions.history.parquet import ParquetRows
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.segments import ROWS, ArchivedFile, Block, Bounds, Span
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

_ROWS_AT_A_TIME = 5000
_MOST_NAMED = 500
"""So many devices the database looks for itself."""


class Wanted(Protocol):
    """Which rows are read; what it wants of devices and paths that can be named, the tail is asked for."""

    device_ids: Sequence[str] | None
    paths: Sequence[str]

    @property
    def span(self) -> Span:
        """Where the rows are at most."""
        ...

    def is_about(self, bounds: Bounds) -> bool:
        """Whether any row within these bounds may be wanted."""
        ...

    def has_device(self, first_device: str, last_device: str) -> bool:
        """Whether a device of this range may be wanted."""
        ...

    def has_path(self, first_path: str, last_path: str) -> bool:
        """Whether a path of this range may be wanted."""
        ...

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are wanted."""
        ...


class NoPartAnyMore(FileNotFoundError):
    """A file was deleted whose rows are no part of the history any more."""


class Piece(NamedTuple):
    """Rows in order, in a block of a segment or in a file."""

    name: str
    bounds: Bounds
    source: Callable[[], object]
    """What :class:`~mirror_server.extensions.history.parquet.ParquetRows` reads."""


Run = list[Piece]
"""Pieces whose rows are in order, one piece behind the other."""


class Reading:
    """The history as it stands in one transaction.

    Args:
        session: The transaction.
        database: That of the session, which is asked besides where a file is not there any more.
        archive: Where files are; ``None`` where there are none.
    """

    def __init__(self, session: Session, database: Database, archive: Archive | None) -> None:
        self.session = session
        self.state = history.state(session)
        self.base_at = segments.base_at(session)
        self.erased = segments.erasures(session)
        self._database = database
        self._archive = archive

    def sources(self, wanted: Wanted, *, descending: bool = False) -> Iterator[Source]:
        """The rows that are wanted of those that have gone on from the tail."""
        runs = [*runs_of(self.session, segments.blocks(self.session, ROWS, wanted.span)), *self._files(wanted.span)]
        return sources(runs, wanted, descending=descending)

    def tail(self, wanted: Wanted, *, up_to: int | None = None) -> Source:
        """What is not sealed, of which nothing is in order."""
        return Source("", LAST_DEVICE, self._tail(wanted, up_to))

    def _tail(self, wanted: Wanted, up_to: int | None) -> Iterator[pa.RecordBatch]:
        few = wanted.device_ids is not None and len(wanted.device_ids) <= _MOST_NAMED
        rows = history.stored_tail(
            self.session,
            self.state.sealed_revision,
            _ROWS_AT_A_TIME,
            up_to=up_to,
            device_ids=wanted.device_ids if few else None,
            paths=wanted.paths,
        )
        yield in_order(together([wanted.apply(in_order(of_tail(some))) for some in rows]))

    def check_places(self, span: Span) -> None:
        """See that all rows there are in it can be read.

        Raises:
            StorageFailed: There are files, and no archive is open.
        """
        if self._archive is None and (files := segments.files(self.session, span)):
            raise StorageFailed(
                f"cannot read its history: {len(files)} files of it are in an archive; its operator has to start it"
                " with --history-archive"
            )

    def _files(self, span: Span) -> Iterator[Run]:
        self.check_places(span)
        files = segments.files(self.session, span)
        if self._archive is not None:
            for _, run in groupby(files, key=lambda file: run_of(file.file_name)):
                yield [file_piece(self._archive, self._database, file) for file in run]


def sources(runs: Iterable[Run], wanted: Wanted | None = None, *, descending: bool = False) -> Iterator[Source]:
    """The rows of these places that are wanted.

    Args:
        runs: The places.
        wanted: Which rows; ``None`` for all.
        descending: Whether the last row comes first.
    """
    for run in runs:
        if pieces := [piece for piece in run if wanted is None or wanted.is_about(piece.bounds)]:
            batches = _batches(pieces, wanted, descending=descending)
            yield Source(pieces[0].bounds.first_device, pieces[-1].bounds.last_device, batches)


def _batches(pieces: Sequence[Piece], wanted: Wanted | None, *, descending: bool) -> Iterator[pa.RecordBatch]:
    for piece in reversed(pieces) if descending else pieces:
        try:
            yield from batches_of(piece, wanted, descending=descending)
        except NoPartAnyMore:
            _log.info("%s was deleted while it was read", piece.name)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(piece, error) from error


def runs_of(session: Session, blocks: Iterable[Block]) -> list[Run]:
    """Segments, each a run of its blocks."""
    return [[_piece(session, block) for block in run] for run in segments.runs(blocks)]


def file_piece(archive: Archive, database: Database, file: ArchivedFile) -> Piece:
    """A file of the archive, or the one that has taken its place when it is read."""
    return Piece(file.file_name, file.bounds, partial(_open_file, archive, database, file.file_name))


def _open_file(archive: Archive, database: Database, name: str) -> object:
    """What a file is read from; where it is not there any more, the one that took its place, with what is left of it.

    Raises:
        NoPartAnyMore: What it held was deleted.
        FileNotFoundError: It is part of the history, and not there.
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


def batches_of(piece: Piece, wanted: Wanted | None = None, *, descending: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of a piece that are wanted, or all, group by group; what cannot be read raises what pyarrow does."""
    with ParquetRows(piece.source()) as rows:
        for group in reversed(rows.groups) if descending else rows.groups:
            if wanted is None:
                yield rows.read(group)
                continue
            devices, paths = rows.devices(group), rows.paths(group)
            if wanted.has_device(*devices) and (paths is None or wanted.has_path(*paths)):
                yield wanted.apply(rows.read(group))


def _piece(session: Session, block: Block) -> Piece:
    name = f"block {block.block} of segment {block.segment_id}"

    def source() -> object:
        return pa.BufferReader(segments.content(session, block.segment_id, block.block))

    return Piece(name, block.bounds, source)


def _unreadable(piece: Piece, why: object) -> StorageFailed:
    _log.error("%s of the history cannot be read: %s; 'mirror-server check' tells what is damaged", piece.name, why)
    return StorageFailed("cannot read a part of its history")
