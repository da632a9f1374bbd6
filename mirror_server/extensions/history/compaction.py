"""The compaction of the history. It moves rows from the tail to segments, merges segments, and creates checkpoints.

Only the leader does this, one operation at a time. An operation first stores new contents, and then makes them valid in
one final transaction. That transaction checks whether the rows that the operation read are unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from mirror_server.core.timestamps import Instant
from mirror_server.extensions.history.columns import NO_ROWS, concat, in_order, numbers, tail_batch, value_sizes
from mirror_server.extensions.history.parquet import QUICK, bounds, encoded, regroup
from mirror_server.extensions.history.point_in_time import is_needed, of_mirror, state_rows
from mirror_server.extensions.history.row_reader import HistoryTransaction, merged, runs_of, sources
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.segments import ROWS, STATE, Block
from mirror_server.store.database import Database
from mirror_server.store.session import Session

DAY = 86_400_000
_HOUR = 3_600_000

ROWS_OF_A_SEGMENT = 200_000
_ROWS_AT_A_TIME = 5000
_BYTES_OF_A_SEGMENT = 64 * 1024 * 1024
_MOST_SMALL = 8
_REPORTS_BETWEEN_CHECKPOINTS = 5
"""A checkpoint is created when there are this many times as many new rows as rows in the last checkpoint."""
_DELETED_AT_A_TIME = 2000

_ROWS_OF_A_BLOCK = 65_536
_BYTES_OF_A_BLOCK = 4 * 1024 * 1024


def store_segment(
    database: Database, batches: Iterable[pa.RecordBatch], state: tuple[Instant, int] | None = None
) -> list[Block]:
    """Store the contents of a new segment, one block at a time, and return the blocks.

    Queries do not read the segment until the caller passes the blocks to :func:`.segments.put`.

    Args:
        database: The database that stores the segment.
        batches: The sorted rows.
        state: The time and the revision of a checkpoint, or ``None`` for a segment with events.

    Raises:
        StorageFailed: The segment cannot be stored.
    """
    with database.read() as session:
        segment_id = segments.next_segment_id(session)
    made: list[Block] = []
    for rows in regroup(batches, _ROWS_OF_A_BLOCK, _BYTES_OF_A_BLOCK):
        made.append(_store_block(database, segment_id, len(made), rows, state))
    if state is not None and not made:
        # A checkpoint must exist even if it has no rows.
        made.append(_store_block(database, segment_id, 0, NO_ROWS, state))
    return made


def _store_block(
    database: Database, segment_id: int, number: int, rows: pa.RecordBatch, state: tuple[Instant, int] | None
) -> Block:
    content = encoded(rows, QUICK)
    database.submit_durable(
        partial(segments.put_content, segment_id=segment_id, block=number, content=content)
    ).result()
    kind, (state_at, state_revision) = (ROWS, (None, None)) if state is None else (STATE, state)
    return Block(segment_id, number, kind, state_at, state_revision, bounds(rows))


class Compaction:
    """Compacts the tail, merges segments and creates checkpoints.

    Args:
        database: The database of the history.
        rows: The maximum number of rows in a segment.
    """

    def __init__(self, database: Database, rows: int = ROWS_OF_A_SEGMENT) -> None:
        self._database = database
        self._rows = rows
        self._ahead_since: Instant | None = None

    def begin(self, now: Instant, steady_now: Instant) -> bool:
        """Create the first checkpoint of a history. Return false if it already exists.

        If all checkpoints are in the future for an hour, the clock was ahead when they were created. In that case the
        history is restarted. Before that, the history may be right and the clock slow, as on a machine without a
        battery.

        Args:
            now: The current time.
            steady_now: The current time without recent jumps of the clock.
        """
        with self._database.read() as session:
            is_enabled = history.state(session).is_enabled
        if not is_enabled:
            # The transaction that starts the history is already queued, so it precedes this one.
            self._database.submit_durable(lambda _: None).result()
        with self._database.read() as session:
            is_ahead = history.state(session).is_enabled and _is_clock_ahead(session, now)
        if not is_ahead:
            self._ahead_since = None
        elif self._ahead_since is None or steady_now < self._ahead_since:
            self._ahead_since = steady_now
        elif steady_now >= self._ahead_since + _HOUR:
            self._database.submit_durable(partial(_restart, now=now)).result()
        with self._database.read() as session:
            if not is_needed(session):
                return False
            state, rows = of_mirror(session, now)
            blocks = store_segment(self._database, rows, state)
        return self._put(blocks, is_unchanged=is_needed)

    def compact(self, now: Instant, base_at: Instant) -> bool:
        """Move rows from the tail to a new segment if they are many, old or of a completed day.

        Args:
            now: The current time.
            base_at: Rows that were received before this time are old.

        Returns:
            Whether rows were moved.
        """
        with self._database.read() as session:
            compacted_revision = history.state(session).compacted_revision
            if not self._is_needed(session, max(base_at, now // DAY * DAY)):
                return False
            rows = self._oldest(session, compacted_revision)
            revision = int(numbers(rows.column("revision"))[-1])
            blocks = store_segment(self._database, [in_order(rows)])

        def is_unchanged(session: Session) -> bool:
            return history.state(session).compacted_revision == compacted_revision

        return self._put(blocks, is_unchanged=is_unchanged, then=partial(history.compact, revision=revision))

    def merge(self, now: Instant) -> bool:
        """Merge the small segments between two checkpoints of a day. Return false if there are too few of them.

        Merging keeps the rows of a resource in few segments. It also limits the rows after a checkpoint that a query
        reads.
        """
        with self._database.read() as session:
            runs = self._to_merge(session, now)
            if runs is None:
                return False
            old = {block.segment_id for run in runs for block in run}
            chunks = runs_of(session, [block for run in runs for block in run])
            blocks = store_segment(self._database, merged(sources(chunks)))

        def is_unchanged(session: Session) -> bool:
            return old <= {block.segment_id for block in segments.blocks(session, ROWS)}

        return self._put(blocks, is_unchanged=is_unchanged, then=partial(segments.invalidate, segment_ids=old))

    def checkpoint(self, reading: HistoryTransaction, now: Instant) -> bool:
        """Create a checkpoint if many rows were compacted since the last checkpoint. Return whether it did so."""
        made = segments.checkpoints(reading.session)
        last = max((each.revision for each in made), default=0)
        new = [block for block in segments.blocks(reading.session, ROWS) if block.bounds.last_revision > last]
        rows_of_last = max(((each.segment_id, each.row_count) for each in made), default=(0, 0))[1]
        if sum(block.bounds.row_count for block in new) < max(_REPORTS_BETWEEN_CHECKPOINTS * rows_of_last, 1):
            return False
        blocks = store_segment(self._database, state_rows(reading, now), (now, reading.state.compacted_revision))
        return self._put(blocks, is_unchanged=lambda session: segments.checkpoints(session) == made)

    def delete_left(self) -> None:
        """Delete the compacted rows of the tail and all invalid contents, in short transactions."""
        while self._database.submit_durable(partial(history.delete_compacted, most=_DELETED_AT_A_TIME)).result():
            pass
        # A block has up to 4 MB, so each transaction deletes only one block.
        while self._database.submit_durable(partial(segments.delete_contents, most=1)).result():
            pass

    def _is_needed(self, session: Session, over_at: Instant) -> bool:
        count, first_at, size = history.measure_tail(session)
        return first_at is not None and (count >= self._rows or first_at < over_at or size >= _BYTES_OF_A_SEGMENT)

    def _oldest(self, session: Session, compacted_revision: int) -> pa.RecordBatch:
        """Return the first rows of the tail that are not compacted, by revision, for a segment of one day."""
        found: list[pa.RecordBatch] = []
        count = size = 0
        for batch in history.stored_tail(session, compacted_revision, _ROWS_AT_A_TIME):
            rows = tail_batch(batch[: self._rows - count])
            days = numbers(rows.column("received_at")) // DAY
            first = days[0] if not found else numbers(found[0].column("received_at"))[0] // DAY
            others = np.flatnonzero(days != first)
            of_day = rows.slice(0, int(others[0])) if len(others) else rows
            found.append(of_day)
            count += of_day.num_rows
            size += int(value_sizes(of_day).sum())
            if of_day.num_rows < len(batch) or count >= self._rows or size >= _BYTES_OF_A_SEGMENT:
                break
        return concat(found)

    def _to_merge(self, session: Session, now: Instant) -> list[list[Block]] | None:
        ends = sorted({each.revision for each in segments.checkpoints(session)})

        def interval(run: list[Block]) -> tuple[int, int]:
            return day_of(run), bisect_left(ends, max(block.bounds.last_revision for block in run))

        runs = sorted(segments.runs(segments.blocks(session, ROWS)), key=interval)
        for (day, number), found in groupby(runs, key=interval):
            batch = list(found)
            # An interval to which no more segments will be added is merged completely. The current interval is merged
            # only when it has enough small segments.
            if len(batch) > 1 and (day < now // DAY or number < len(ends)):
                return batch
            small = [run for run in batch if sum(block.bounds.row_count for block in run) <= self._rows]
            if len(small) >= _MOST_SMALL:
                return small
        return None

    def _put(
        self,
        blocks: Sequence[Block],
        *,
        is_unchanged: Callable[[Session], bool],
        then: Callable[[Session], object] = lambda _: None,
    ) -> bool:
        """Make blocks valid if the rows that they were made from are unchanged. Return whether they are unchanged."""

        def work(session: Session) -> bool:
            if not is_unchanged(session):
                return False
            then(session)
            segments.put(session, blocks)
            return True

        return self._database.submit_durable(work).result()


def _is_clock_ahead(session: Session, now: Instant) -> bool:
    """Return whether all checkpoints are in the future, because the clock was ahead when they were created."""
    oldest_at = segments.oldest_state_at(session)
    return oldest_at is not None and oldest_at > now


def _restart(session: Session, now: Instant) -> None:
    """Restart the history from the current state of the mirror. Earlier rows were trimmed or are not in any checkpoint.

    Without a restart, every request for a current time would be rejected.
    """
    if not _is_clock_ahead(session, now):
        return
    segments.invalidate(session, {each.segment_id for each in segments.checkpoints(session)})
    base_at = history.state(session).base_at
    if base_at is not None and base_at > now:
        segments.put_base(session, now)
    history.begin(session, session.last_revision())


def day_of(run: Sequence[Block]) -> int:
    """Return the day on which the rows of a run were received, as a number of days since 1970-01-01."""
    return max(block.bounds.last_received_at for block in run) // DAY
