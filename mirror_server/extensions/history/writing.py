"""Rows in order, written as blocks of a segment or as files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from mirror_server.core.instants import Instant
from mirror_server.extensions.history.columns import NO_ROWS
from mirror_server.extensions.history.parquet import QUICK, bounds, encoded, parts
from mirror_server.extensions.history.store import segments
from mirror_server.extensions.history.store.segments import ROWS, STATE, Block
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
