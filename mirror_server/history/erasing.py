"""Erases devices where their rows have gone on from the tail: in segments, checkpoints and files.

From the moment a device is erased its rows are told no more; here they are deleted. A file takes the place of the one
it was, so that whoever reads it ends with one or the other.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from mirror_server.history.archive import Archive
from mirror_server.history.columns import together
from mirror_server.history.filters import RowFilter
from mirror_server.history.parquet import SMALL, bounds, encoded
from mirror_server.history.reading import Everything, Piece, batches_of, file_piece, runs_of
from mirror_server.history.selection import HistorySelection
from mirror_server.store import segments
from mirror_server.store.database import Database
from mirror_server.store.segments import ROWS, STATE, ArchivedFile, Block, Bounds
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)


class Erasing:
    """Deletes the rows of erased devices.

    Args:
        database: Where the history is.
        archive: Where its files are; ``None`` where it has none.
    """

    def __init__(self, database: Database, archive: Archive | None) -> None:
        self._database = database
        self._archive = archive

    def erase(self) -> int:
        """Delete the rows of all devices that were erased; gives how many they were.

        Raises:
            OSError: A part of the archive cannot be read or written; it is tried again the next time.
            pyarrow.ArrowException: A part of the history is damaged; so is that.
            StorageFailed: The database cannot be reached.
        """
        with self._database.read() as session:
            erased = segments.erasures(session)
            if not erased:
                return 0
            blocks = [*segments.blocks(session, ROWS), *segments.blocks(session, STATE)]
            concerned = [block for block in blocks if _concerns(erased, block.bounds)]
            files = [file for file in segments.files(session) if _concerns(erased, file.bounds)]
        steps = [partial(self._erase_block, block, erased) for block in concerned]
        steps += [partial(self._erase_file, file, erased) for file in files]
        count, failures = 0, []
        for step in steps:
            try:
                count += step()
            except (OSError, pa.ArrowException) as failure:
                # What is damaged or missing keeps nothing else from being deleted.
                failures.append(failure)
        if failures:
            raise failures[0]
        self._database.insist(partial(segments.forget_erasures, done=erased.items())).result()
        _log.info("%s rows of %s erased devices are deleted from the history", count, len(erased))
        return count

    def _erase_block(self, block: Block, erased: Mapping[str, int]) -> int:
        with self._database.read() as session:
            ((piece,),) = runs_of(session, [block])
            rows, left = _without(piece, erased)
        if left.num_rows == rows.num_rows:
            return 0
        content = encoded(left)

        def work(session: Session) -> None:
            segments.replace(session, block, bounds(left), content)

        self._database.insist(work).result()
        return int(rows.num_rows - left.num_rows) if block.kind == ROWS else 0

    def _erase_file(self, file: ArchivedFile, erased: Mapping[str, int]) -> int:
        if self._archive is None:
            raise FileNotFoundError(f"{file.file_name} is in an archive; start the server with --history-archive")
        rows, left = _without(file_piece(self._archive, file), erased)
        if left.num_rows == rows.num_rows == file.bounds.row_count:
            return 0
        # Also where nothing is left: when the database has forgotten a file, nobody knows that it held an erased one.
        with self._archive.writing(file.file_name) as sink:
            sink.write(encoded(left, SMALL))
        size = self._archive.size(file.file_name)
        new = [ArchivedFile(file.file_name, file.day, size, bounds(left))] if left.num_rows else []

        def work(session: Session) -> None:
            segments.forget_files(session, [file.file_name])
            segments.put_files(session, new)

        self._database.insist(work).result()
        if not new:
            self._archive.delete(file.file_name)
        return file.bounds.row_count - int(left.num_rows)


def count_rows(database: Database, archive: Archive | None, device_id: str) -> int:
    """How many rows of a device segments and files have that are told, as far as they can be read.

    Raises:
        StorageFailed: The database cannot be reached.
    """
    with database.read() as session:
        erased = segments.erasures(session)
        pieces = [piece for run in runs_of(session, segments.blocks(session, ROWS)) for piece in run]
        if archive is not None:
            pieces += [file_piece(archive, file) for file in segments.files(session)]
        wanted = RowFilter(HistorySelection(), [device_id], erased, None)
        return sum(_count_of(piece, wanted) for piece in pieces if wanted.is_about(piece.bounds))


def _count_of(piece: Piece, wanted: RowFilter) -> int:
    """How many rows of a piece are wanted and of a device; none where it cannot be read."""
    try:
        batches = list(batches_of(piece, wanted))
    except (OSError, pa.ArrowException) as error:
        _log.debug("the rows of %s are not counted: %s", piece.name, error)
        return 0
    return sum(batch.num_rows - int(batch.column("device_id").null_count) for batch in batches)


def _concerns(erased: Mapping[str, int], bounds: Bounds) -> bool:
    return any(
        bounds.first_device <= device_id <= bounds.last_device and bounds.first_revision <= revision
        for device_id, revision in erased.items()
    )


def _without(piece: Piece, erased: Mapping[str, int]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of a piece, and those of them that are not of erased devices."""
    rows = together(batches_of(piece, Everything()))
    return rows, RowFilter(HistorySelection(), None, erased, None).apply(rows)
