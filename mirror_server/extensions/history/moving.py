"""How rows leave the database: those of days that are over go to the archive, those kept long enough go for good."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from mirror_server.core.instants import Instant, to_datetime
from mirror_server.extensions.history.archive import OTHER_DAY, Archive, name_of_file
from mirror_server.extensions.history.as_of import state_rows
from mirror_server.extensions.history.columns import Flags, kept, numbers
from mirror_server.extensions.history.filters import kept_until
from mirror_server.extensions.history.parquet import SMALL, ParquetRows, bounds, encoded, parts
from mirror_server.extensions.history.reading import Reading, Run, merged, runs_of, sources
from mirror_server.extensions.history.sealing import DAY, day_of, store_segment
from mirror_server.extensions.history.store import segments
from mirror_server.extensions.history.store.segments import ROWS, STATE, ArchivedFile, Block, Bounds
from mirror_server.store.database import Database
from mirror_server.store.session import LEADER, Session

_log = logging.getLogger(__name__)

_NAME_SETTING = "history_archive_name"

_MOST_DAYS = 40
"""How many days one move has files for: clocks that are far off would have one for each of their rows."""

_LAST_AT = 253_402_300_800_000
"""The end of the year 9999: later days have no name."""

_ROWS_OF_A_FILE = 500_000
_BYTES_OF_A_FILE = 32 * 1024 * 1024


_IsOfDay = Callable[[pa.RecordBatch], Flags]


class Moving:
    """Moves rows to the archive.

    Args:
        database: Where the rows are.
        archive: Where they go.
    """

    def __init__(self, database: Database, archive: Archive) -> None:
        self._database = database
        self._archive = archive

    def prepare(self) -> None:
        """Make the archive, where nothing is in it: what cannot be written to is told now, not when a day is over.

        Raises:
            OSError: It cannot be made, or not written to.
        """
        with self._database.read() as session:
            is_new = not segments.files(session)
        if is_new:
            self._archive.make()

    def move(self, now: Instant) -> bool:
        """Move the rows of the first day that is over; false where there is none.

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
            segments.forget(session, old)
            segments.put_files(session, files)
            return True

        return self._database.insist(work).result()

    def delete_unknown(self, held: Collection[str] = ()) -> None:
        """Delete the files that do not count, which a process left that was killed; not those that somebody reads.

        Raises:
            OSError: The archive cannot be read or written.
        """
        with self._database.read() as session:
            leader = session.setting(LEADER)
        found = self._archive.names(self._mirror())
        with self._database.read() as session:
            known = {file.file_name for file in segments.files(session)}
            # Else some of them may be those of another leader, who is about to tell the database of them.
            if not self._is_own(leader) or session.setting(LEADER) != leader:
                return
        for name in sorted(found - known - set(held)):
            _log.info("deleting %s, which is no part of the history", name)
            self._archive.delete(name)

    def _is_own(self, leader: str | None) -> bool:
        """Whether this process leads; it may have waited so long that another one does."""
        return leader is None or leader.startswith(f"{self._database.process_id}-")

    def _mirror(self) -> str:
        """What the names of this mirror's files have that those of another have not."""
        with self._database.read() as session:
            name = session.setting(_NAME_SETTING)
        if name is None:
            name = uuid.uuid4().hex[:8]
            self._database.insist(partial(Session.put_setting, name=_NAME_SETTING, value=name)).result()
        return name

    def _write(self, runs: list[Run], leader: str | None) -> Iterator[ArchivedFile]:
        days = _days(runs)
        for run in runs:
            for day in days:
                yield from self._write_day(run, _name_of(day), partial(_is_at, [day]), leader)
            yield from self._write_day(run, OTHER_DAY, partial(_is_at_none_of, days), leader)

    def _write_day(self, run: Run, day: str, is_of_day: _IsOfDay, leader: str | None) -> Iterator[ArchivedFile]:
        # No other run has the same last row.
        number = max(piece.bounds.last_revision for piece in run)
        rows = (kept(batch, is_of_day(batch)) for batch in merged(sources([run])))
        for part, some in enumerate(parts(rows, _ROWS_OF_A_FILE, _BYTES_OF_A_FILE)):
            name = name_of_file(self._mirror(), day, number, part, leader)
            with self._archive.writing(name) as file:
                file.write(encoded(some, SMALL))
            yield ArchivedFile(name, day, self._archive.size(name), bounds(some))


class Trimming:
    """Deletes what is kept long enough; what it led to remains, as the oldest checkpoint.

    Args:
        database: Where the rows are.
        keep_seconds: How long rows are kept after they were received.
    """

    def __init__(self, database: Database, keep_seconds: float) -> None:
        self._database = database
        self._keep_milliseconds = round(keep_seconds * 1000)
        self._step = min(DAY, self._keep_milliseconds // 10)

    def base_at(self, now: Instant) -> Instant:
        """What was received before is kept no longer."""
        return now - self._keep_milliseconds

    def trim(self, reading: Reading, now: Instant) -> set[str] | None:
        """Delete rows, where some are old enough; all of those that old must be sealed.

        Returns:
            The names of files that do not count any more; ``None`` where nothing was to be deleted.
        """
        base_at = self.base_at(now)
        begun_at = segments.oldest_state_at(reading.session)
        if begun_at is None or base_at < begun_at + self._step:
            return None
        runs = segments.runs(segments.blocks(reading.session, ROWS))
        files = segments.files(reading.session)
        newest = [_newest(block.bounds) for run in runs for block in run] + [_newest(file.bounds) for file in files]
        if min(newest, default=now) >= base_at:
            return None
        old = {run[0].segment_id for run in runs if all(_newest(block.bounds) < base_at for block in run)}
        names = {file.file_name for file in files if _newest(file.bounds) < base_at}
        state = store_segment(self._database, state_rows(reading, base_at), (base_at, reading.state.sealed_revision))

        def work(session: Session) -> None:
            before = {block.segment_id for block in segments.blocks(session, STATE) if (block.state_at or 0) < base_at}
            segments.forget(session, old | before)
            segments.forget_files(session, names)
            segments.put(session, state)
            segments.put_base(session, base_at)

        self._database.insist(work).result()
        return names


def _of_first_day(session: Session, now: Instant) -> list[Block]:
    """The blocks of the first day that is over."""
    runs = [run for run in segments.runs(segments.blocks(session, ROWS)) if day_of(run) < now // DAY]
    day = min(map(day_of, runs), default=None)
    return [block for run in runs if day_of(run) == day for block in run]


def _days(runs: Iterable[Run]) -> list[int]:
    """The days at which most of the rows happened, numbered from 1970 on."""
    found: Counter[int] = Counter()
    for piece in (piece for run in runs for piece in run):
        with ParquetRows(piece.source()) as rows:
            for instants in rows.instants():
                days, counts = np.unique(instants[(instants >= 0) & (instants < _LAST_AT)] // DAY, return_counts=True)
                found.update(dict(zip(days.tolist(), counts.tolist(), strict=True)))
    return sorted(day for day, _ in found.most_common(_MOST_DAYS))


def _is_at(days: Collection[int], batch: pa.RecordBatch) -> Flags:
    return np.isin(numbers(batch.column("changed_at")) // DAY, list(days))


def _is_at_none_of(days: Collection[int], batch: pa.RecordBatch) -> Flags:
    return ~_is_at(days, batch)


def _name_of(day: int) -> str:
    return to_datetime(day * DAY).strftime("%Y-%m-%d")


def _newest(bounds: Bounds) -> Instant:
    return kept_until(bounds.last_received_at, bounds.last_changed_at)
