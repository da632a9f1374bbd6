"""Erases devices from segments, checkpoints and files.

The rows of an erased device are not returned from the moment it is erased. This module deletes them. The remaining
rows of a file are written under another name. In one transaction, the database replaces the old name by the new name,
if the old name is still valid. So a former leader restores nothing. A device is erased when the old files are deleted
too, and those of killed processes. The database lists the old files until then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import pyarrow as pa

from mirror_server.extensions.history.archive import Archive, name_of_rewrite
from mirror_server.extensions.history.columns import concat
from mirror_server.extensions.history.offload import Offload
from mirror_server.extensions.history.parquet import SMALL, bounds, encoded
from mirror_server.extensions.history.row_filters import RowFilter
from mirror_server.extensions.history.row_reader import FileRemoved, OrderedRows, batches_of, file_chunk, runs_of
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store import segments
from mirror_server.extensions.history.store.segments import ROWS, STATE, ArchivedFile, Block, Bounds
from mirror_server.store.backend import NotLeader
from mirror_server.store.database import Database
from mirror_server.store.session import LEADER, Session

_log = logging.getLogger(__name__)


class _Replaced(Exception):
    """An operation changed nothing, because another process replaced the rows that it had read."""


class HistoryEraser:
    """Deletes the rows of erased devices.

    Args:
        database: The database of the history.
        archive: The archive with its files, or ``None`` without an archive.
        in_use: Returns the names of files that are not valid any more but are still being read. They are not deleted.
    """

    def __init__(
        self, database: Database, archive: Archive | None, in_use: Callable[[], Collection[str]] = frozenset
    ) -> None:
        self._database = database
        self._archive = archive
        self._in_use = in_use

    def erase(self) -> int:
        """Delete the rows of all erased devices, and return their number.

        Raises:
            OSError: A part of the archive cannot be read or written; the next call retries.
            pyarrow.ArrowException: A part of the history is damaged; the next call retries.
            StorageFailed: The database cannot be reached.
        """
        with self._database.read() as session:
            erased = segments.erasures(session)
            if not erased:
                return 0
            blocks = [*segments.blocks(session, ROWS), *segments.blocks(session, STATE)]
            concerned = [block for block in blocks if _concerns(erased, block.bounds)]
            files = [file for file in segments.files(session) if _concerns(erased, file.bounds)]
            remaining = segments.replaced_files(session)
            leader = session.setting(LEADER)
        steps = [partial(self._delete_replaced, name) for name in remaining]
        steps.append(partial(self._delete_unknown))
        steps += [partial(self._erase_block, block, erased) for block in concerned]
        steps += [partial(self._erase_file, file, erased, leader) for file in files]
        count, failures, is_old = 0, [], False
        for step in steps:
            try:
                count += step()
            except (_Replaced, FileRemoved):
                is_old = True
            except (OSError, pa.ArrowException) as failure:
                # A damaged or missing part does not prevent the deletion of others.
                failures.append(failure)
        if failures:
            raise failures[0]
        if is_old:
            # Another process has erased concurrently, possibly not all of these devices.
            return count + self.erase()
        self._database.submit_durable(partial(segments.forget_erasures, done=erased.items())).result()
        _log.info("%s rows of %s erased devices are deleted from the history", count, len(erased))
        return count

    def _erase_block(self, block: Block, erased: Mapping[str, int]) -> int:
        with self._database.read() as session:
            ((chunk,),) = runs_of(session, [block])
            rows, remaining = _without(chunk, erased)
        if remaining.num_rows == rows.num_rows:
            return 0
        content = encoded(remaining)

        def work(session: Session) -> bool:
            return segments.replace(session, block, bounds(remaining), content)

        if not self._database.submit_durable(work).result():
            raise _Replaced
        # The rows of checkpoints are copies, which are not counted.
        return int(rows.num_rows - remaining.num_rows) if block.kind == ROWS else 0

    def _erase_file(self, file: ArchivedFile, erased: Mapping[str, int], leader: str | None) -> int:
        archive = self._archive_of(file.file_name)
        rows, remaining = _without(file_chunk(archive, self._database, file), erased)
        if remaining.num_rows == rows.num_rows:
            return 0
        new = [self._write(archive, file, remaining)] if remaining.num_rows else []
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
        return int(rows.num_rows - remaining.num_rows)

    def _write(self, archive: Archive, file: ArchivedFile, remaining: pa.RecordBatch) -> ArchivedFile:
        name = name_of_rewrite(file.file_name)
        with archive.writing(name) as sink:
            sink.write(encoded(remaining, SMALL))
        return ArchivedFile(name, file.day, archive.size(name), bounds(remaining))

    def _delete_replaced(self, file_name: str) -> int:
        # First the file: after a crash in between, the database still lists it, and the deletion is repeated.
        self._archive_of(file_name).delete(file_name)
        self._database.submit_durable(partial(segments.forget_files, names=[file_name])).result()
        return 0

    def _delete_unknown(self) -> int:
        """Delete files of killed processes, which may have rows of any device."""
        if self._archive is not None:
            Offload(self._database, self._archive).delete_unknown(self._in_use())
        return 0

    def _delete_needless(self, archive: Archive, new: Iterable[ArchivedFile], leader: str | None) -> None:
        """Delete files that were written after a change of the leader: it may have erased rows in them."""
        with self._database.read() as session:
            # Once there is another leader, no write of this process can reach the database any more.
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
    """Count the rows of a device in those segments and files that can be read.

    Raises:
        StorageFailed: The database cannot be reached.
    """
    with database.read() as session:
        erased = segments.erasures(session)
        chunks = [chunk for run in runs_of(session, segments.blocks(session, ROWS)) for chunk in run]
        if archive is not None:
            chunks += [file_chunk(archive, database, file) for file in segments.files(session)]
        where = RowFilter(HistorySelection(), [device_id], erased, None)
        return sum(_count_of(chunk, where) for chunk in chunks if where.may_match(chunk.bounds))


def _count_of(chunk: OrderedRows, where: RowFilter) -> int:
    """Count the selected rows of a chunk that have a device, or 0 if it cannot be read."""
    try:
        batches = list(batches_of(chunk, where))
    except (OSError, pa.ArrowException) as error:
        _log.debug("the rows of %s are not counted: %s", chunk.name, error)
        return 0
    return sum(batch.num_rows - int(batch.column("device_id").null_count) for batch in batches)


def _concerns(erased: Mapping[str, int], bounds: Bounds) -> bool:
    return any(
        bounds.first_device <= device_id <= bounds.last_device and bounds.first_revision <= revision
        for device_id, revision in erased.items()
    )


def _without(chunk: OrderedRows, erased: Mapping[str, int]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return all rows of a chunk, and the rows that remain without the erased devices."""
    rows = concat(batches_of(chunk))
    return rows, RowFilter(HistorySelection(), None, erased, None).apply(rows)
