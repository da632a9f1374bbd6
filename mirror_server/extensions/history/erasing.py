"""Erases devices from segments, checkpoints and files.

The rows of an erased device are not returned from the moment it is erased; here they are deleted. What is left of a
file is written under another name. In one transaction the database replaces the old name by it, if it still has the old
one: so a process that is late, while another one leads, brings nothing back. A device is erased when the old files are
deleted too, which the database has recorded until then, and those that a killed process left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import pyarrow as pa

from mirror_server.extensions.history.archive import Archive, name_of_rewrite
from mirror_server.extensions.history.columns import together
from mirror_server.extensions.history.filters import RowFilter
from mirror_server.extensions.history.offload import Offload
from mirror_server.extensions.history.parquet import SMALL, bounds, encoded
from mirror_server.extensions.history.reading import NoPartAnyMore, OrderedRows, batches_of, file_piece, runs_of
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store import segments
from mirror_server.extensions.history.store.segments import ROWS, STATE, ArchivedFile, Block, Bounds
from mirror_server.store.backend import NotLeader
from mirror_server.store.database import Database
from mirror_server.store.session import LEADER, Session

_log = logging.getLogger(__name__)


class _Replaced(Exception):
    """A step changed nothing, because another process replaced what it had read."""


class Erasing:
    """Deletes the rows of erased devices.

    Args:
        database: Where the history is.
        archive: Where its files are; ``None`` where it has none.
        held: Returns the names of files that do not count any more but are still being read; they are left.
    """

    def __init__(
        self, database: Database, archive: Archive | None, held: Callable[[], Collection[str]] = frozenset
    ) -> None:
        self._database = database
        self._archive = archive
        self._held = held

    def erase(self) -> int:
        """Delete the rows of all erased devices; return how many there were.

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
            left = segments.replaced_files(session)
            leader = session.setting(LEADER)
        steps = [partial(self._delete_replaced, name) for name in left]
        steps.append(partial(self._delete_unknown))
        steps += [partial(self._erase_block, block, erased) for block in concerned]
        steps += [partial(self._erase_file, file, erased, leader) for file in files]
        count, failures, is_old = 0, [], False
        for step in steps:
            try:
                count += step()
            except (_Replaced, NoPartAnyMore):
                is_old = True
            except (OSError, pa.ArrowException) as failure:
                # What is damaged or missing keeps nothing else from being deleted.
                failures.append(failure)
        if failures:
            raise failures[0]
        if is_old:
            # Another one has erased meanwhile, and not all of these perhaps.
            return count + self.erase()
        self._database.submit_durable(partial(segments.forget_erasures, done=erased.items())).result()
        _log.info("%s rows of %s erased devices are deleted from the history", count, len(erased))
        return count

    def _erase_block(self, block: Block, erased: Mapping[str, int]) -> int:
        with self._database.read() as session:
            ((piece,),) = runs_of(session, [block])
            rows, left = _without(piece, erased)
        if left.num_rows == rows.num_rows:
            return 0
        content = encoded(left)

        def work(session: Session) -> bool:
            return segments.replace(session, block, bounds(left), content)

        if not self._database.submit_durable(work).result():
            raise _Replaced
        return int(rows.num_rows - left.num_rows) if block.kind == ROWS else 0

    def _erase_file(self, file: ArchivedFile, erased: Mapping[str, int], leader: str | None) -> int:
        archive = self._archive_of(file.file_name)
        rows, left = _without(file_piece(archive, self._database, file), erased)
        if left.num_rows == rows.num_rows:
            return 0
        new = [self._write(archive, file, left)] if left.num_rows else []
        try:
            is_done = self._database.submit_durable(partial(segments.replace_file, file=file, by=new)).result()
        except NotLeader:
            self._delete_needless(archive, new, leader)
            raise
        if not is_done:
            for each in new:
                archive.delete(each.file_name)
            raise _Replaced
        self._delete_replaced(file.file_name)
        return int(rows.num_rows - left.num_rows)

    def _write(self, archive: Archive, file: ArchivedFile, left: pa.RecordBatch) -> ArchivedFile:
        name = name_of_rewrite(file.file_name)
        with archive.writing(name) as sink:
            sink.write(encoded(left, SMALL))
        return ArchivedFile(name, file.day, archive.size(name), bounds(left))

    def _delete_replaced(self, file_name: str) -> int:
        self._archive_of(file_name).delete(file_name)
        self._database.submit_durable(partial(segments.forget_files, names=[file_name])).result()
        return 0

    def _delete_unknown(self) -> int:
        """Delete files that a killed process left: they may have rows of any device."""
        if self._archive is not None:
            Offload(self._database, self._archive).delete_unknown(self._held())
        return 0

    def _delete_needless(self, archive: Archive, new: Iterable[ArchivedFile], leader: str | None) -> None:
        """Delete files that were written after another process led: they may have rows that it has erased."""
        with self._database.read() as session:
            # When the next one leads, nothing that this process stored is on its way to the database any more.
            is_over = session.setting(LEADER) != leader
            known = segments.files(session)
        for file in new:
            if is_over and file not in known:
                archive.delete(file.file_name)

    def _archive_of(self, file_name: str) -> Archive:
        if self._archive is None:
            raise FileNotFoundError(f"{file_name} is in an archive; start the server with --history-archive")
        return self._archive


def count_rows(database: Database, archive: Archive | None, device_id: str) -> int:
    """Count the rows of a device in segments and files, as far as these can be read.

    Raises:
        StorageFailed: The database cannot be reached.
    """
    with database.read() as session:
        erased = segments.erasures(session)
        pieces = [piece for run in runs_of(session, segments.blocks(session, ROWS)) for piece in run]
        if archive is not None:
            pieces += [file_piece(archive, database, file) for file in segments.files(session)]
        wanted = RowFilter(HistorySelection(), [device_id], erased, None)
        return sum(_count_of(piece, wanted) for piece in pieces if wanted.is_about(piece.bounds))


def _count_of(piece: OrderedRows, wanted: RowFilter) -> int:
    """Count the selected rows of a piece that have a device; 0 if it cannot be read."""
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


def _without(piece: OrderedRows, erased: Mapping[str, int]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the rows of a piece, and those of them that are not of erased devices."""
    rows = together(batches_of(piece))
    return rows, RowFilter(HistorySelection(), None, erased, None).apply(rows)
