"""Rows in order, written as blocks of a segment or as files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from mirror_server.core.instants import Instant
from mirror_server.extensions.history.columns import NO_ROWS
from mirror_server.extensions.history.parquet import QUICK, bounds, encoded, parts
from mirror_server.extensions.history.store import segments
from mirror_server.extensions.history.store.segments import ROWS, STATE, Block, Bounds
from mirror_server.store.database import Database

_ROWS_OF_A_BLOCK = 65_536
_BYTES_OF_A_BLOCK = 4 * 1024 * 1024


def store_segment(
    database: Database, batches: Iterable[pa.RecordBatch], state: tuple[Instant, int] | None = None
) -> list[Block]:
    """Store the contents of a new segment, a block at a time; it counts when the blocks are put.

    Args:
        database: Where to.
        batches: The rows, in order.
        state: Instant and revision of a checkpoint; ``None`` for what happened.

    Raises:
        StorageFailed: It cannot be stored.
    """
    with database.read() as session:
        segment_id = segments.next_segment_id(session)
    made: list[Block] = []
    for rows in parts(batches, _ROWS_OF_A_BLOCK, _BYTES_OF_A_BLOCK):
        made.append(_store_block(database, segment_id, len(made), rows, state))
    if state is not None and not made:
        # There is a checkpoint even where nothing was known.
        made.append(_store_block(database, segment_id, 0, NO_ROWS, state))
    return made


def _store_block(
    database: Database, segment_id: int, number: int, rows: pa.RecordBatch, state: tuple[Instant, int] | None
) -> Block:
    content = encoded(rows, QUICK)
    database.insist(partial(segments.put_content, segment_id=segment_id, block=number, content=content)).result()
    kind, (state_at, state_revision) = (ROWS, (None, None)) if state is None else (STATE, state)
    return Block(segment_id, number, kind, state_at, state_revision, bounds(rows))


def joined(some: list[Bounds]) -> Bounds:
    """What is known of rows that stand one part behind the other."""
    requested = [each.first_requested_at for each in some if each.first_requested_at is not None]
    return Bounds(
        first_device=some[0].first_device,
        last_device=some[-1].last_device,
        first_revision=min(each.first_revision for each in some),
        last_revision=max(each.last_revision for each in some),
        first_changed_at=min(each.first_changed_at for each in some),
        last_changed_at=max(each.last_changed_at for each in some),
        first_received_at=min(each.first_received_at for each in some),
        last_received_at=max(each.last_received_at for each in some),
        first_requested_at=min(requested, default=None),
        row_count=sum(each.row_count for each in some),
    )
