"""Moves rows of completed days to the archive, and deletes rows after the retention period."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from mirror_server.core.timestamps import Instant, to_datetime
from mirror_server.extensions.history.archive import OTHER_DAY, Archive, name_of_file
from mirror_server.extensions.history.columns import filter_rows, numbers
from mirror_server.extensions.history.compaction import DAY, day_of, store_segment
from mirror_server.extensions.history.parquet import SMALL, ParquetRows, bounds, encoded, regroup
from mirror_server.extensions.history.point_in_time import state_rows
from mirror_server.extensions.history.row_filters import age_starts_at
from mirror_server.extensions.history.row_reader import HistoryTransaction, Run, merged, runs_of, sources
from mirror_server.extensions.history.store import segments
from mirror_server.extensions.history.store.segments import ROWS, ArchivedFile, Block, Bounds
from mirror_server.store.database import Database
from mirror_server.store.session import LEADER, Session

_log = logging.getLogger(__name__)

_NAME_SETTING = "history_archive_name"

_MOST_DAYS = 40
"""The maximum number of days for which one move makes files. With wrong clocks, each row could be of another day."""

_LAST_AT = 253_402_300_800_000
"""The end of the year 9999. Later days have no name."""

_ROWS_OF_A_FILE = 500_000
_BYTES_OF_A_FILE = 32 * 1024 * 1024


class Offload:
    """Moves rows to the archive.

    Args:
        database: The database of the history.
        archive: The archive.
    """

    def __init__(self, database: Database, archive: Archive) -> None:
        self._database = database
        self._archive = archive

    def prepare(self) -> None:
        """Make the archive if it has no files, so that an archive that is not writable is reported early.

        Raises:
            OSError: The archive cannot be created or written to.
        """
        with self._database.read() as session:
            is_new = not segments.files(session)
        if is_new:
            self._archive.make()

    def move(self, now: Instant) -> bool:
        """Move the rows of the first completed day; return false if there is none.

        Raises:
            OSError: The archive cannot be written.
        """
        with self._database.read() as session:
            blocks = _of_first_day(session, now)
            leader = session.setting(LEADER)
            if not blocks or not self._is_own(leader):
                return False
            old = {block.segment_id for block in blocks}
            files = list(self._write(runs_of(session, blocks), leader))

        def work(session: Session) -> bool:
            if not old <= {block.segment_id for block in segments.blocks(session, ROWS)}:
                return False
            segments.invalidate(session, old)
            segments.put_files(session, files)
            return True

        return self._database.submit_durable(work).result()

    def delete_unknown(self, in_use: Collection[str] = ()) -> None:
        """Delete files of killed processes, which are not valid, unless they are still being read.

        Raises:
            OSError: The archive cannot be read or written.
        """
        with self._database.read() as session:
            leader = session.setting(LEADER)
        found = self._archive.names(self._mirror())
        with self._database.read() as session:
            known = {file.file_name for file in segments.files(session)}
            # Otherwise another leader may have written some of them, and is about to record them in the database.
            if not self._is_own(leader) or session.setting(LEADER) != leader:
                return
        for name in sorted(found - known - set(in_use)):
            _log.info("deleting the file %s, which is not part of the history", name)
            self._archive.delete(name)

    def _is_own(self, leader: str | None) -> bool:
        """Return whether this process is still the leader."""
        return leader is None or leader.startswith(f"{self._database.process_id}-")

    def _mirror(self) -> str:
        """Return the part of file names that identifies this mirror."""
        with self._database.read() as session:
            name = session.setting(_NAME_SETTING)
        if name is None:
            name = uuid.uuid4().hex[:8]
            self._database.submit_durable(partial(Session.put_setting, name=_NAME_SETTING, value=name)).result()
        return name

    def _write(self, runs: list[Run], leader: str | None) -> Iterator[ArchivedFile]:
        days = _days(runs)
        for run in runs:
            # No other run has the same last row.
            number = max(chunk.bounds.last_revision for chunk in run)
            for day in [*days, None]:
                rows = (_of_day(batch, day, days) for batch in merged(sources([run])))
                day_name = OTHER_DAY if day is None else to_datetime(day * DAY).strftime("%Y-%m-%d")
                for part, rows_of_file in enumerate(regroup(rows, _ROWS_OF_A_FILE, _BYTES_OF_A_FILE)):
                    name = name_of_file(self._mirror(), day_name, number, part, leader)
                    with self._archive.writing(name) as file:
                        file.write(encoded(rows_of_file, SMALL))
                    yield ArchivedFile(name, day_name, self._archive.size(name), bounds(rows_of_file))


class Trimmer:
    """Deletes rows after the retention period. The state after them remains as the oldest checkpoint.

    Args:
        database: The database of the history.
        keep_seconds: The retention period, from the receipt of a row.
    """

    def __init__(self, database: Database, keep_seconds: float) -> None:
        self._database = database
        self._keep_milliseconds = round(keep_seconds * 1000)
        # Each trim writes a checkpoint of the whole fleet, so there is at most one in this time.
        self._step = min(DAY, self._keep_milliseconds // 10)

    def base_at(self, now: Instant) -> Instant:
        """Return the start of the retention period: rows that were received earlier are trimmed."""
        return now - self._keep_milliseconds

    def trim(self, reading: HistoryTransaction, now: Instant) -> set[str] | None:
        """Delete the rows before the retention period, all of which must be compacted.

        Returns:
            The names of files that are not valid any more, or ``None`` if there was nothing to delete.
        """
        base_at = self.base_at(now)
        oldest_at = segments.oldest_state_at(reading.session)
        if oldest_at is None or base_at < oldest_at + self._step:
            return None
        runs = segments.runs(segments.blocks(reading.session, ROWS))
        files = segments.files(reading.session)
        newest = [_newest(block.bounds) for run in runs for block in run] + [_newest(file.bounds) for file in files]
        if min(newest, default=now) >= base_at:
            return None
        old = {run[0].segment_id for run in runs if all(_newest(block.bounds) < base_at for block in run)}
        names = {file.file_name for file in files if _newest(file.bounds) < base_at}
        state = store_segment(self._database, state_rows(reading, base_at), (base_at, reading.state.compacted_revision))

        def work(session: Session) -> None:
            before = {each.segment_id for each in segments.checkpoints(session) if each.at < base_at}
            segments.invalidate(session, old | before)
            segments.forget_files(session, names)
            segments.put(session, state)
            segments.put_base(session, base_at)

        self._database.submit_durable(work).result()
        return names


def _of_first_day(session: Session, now: Instant) -> list[Block]:
    runs = [run for run in segments.runs(segments.blocks(session, ROWS)) if day_of(run) < now // DAY]
    day = min(map(day_of, runs), default=None)
    return [block for run in runs if day_of(run) == day for block in run]


def _days(runs: Iterable[Run]) -> list[int]:
    """Return the days with the most rows, as numbers of days since 1970."""
    found: Counter[int] = Counter()
    for chunk in (chunk for run in runs for chunk in run):
        with ParquetRows(chunk.source()) as rows:
            for instants in rows.instants():
                days, counts = np.unique(instants[(instants >= 0) & (instants < _LAST_AT)] // DAY, return_counts=True)
                found.update(dict(zip(days.tolist(), counts.tolist(), strict=True)))
    return sorted(day for day, _ in found.most_common(_MOST_DAYS))


def _of_day(batch: pa.RecordBatch, day: int | None, days: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of a day, or with ``None`` those of all other days."""
    found = numbers(batch.column("changed_at")) // DAY
    return filter_rows(batch, ~np.isin(found, days) if day is None else found == day)


def _newest(bounds: Bounds) -> Instant:
    return age_starts_at(bounds.last_received_at, bounds.last_changed_at)
