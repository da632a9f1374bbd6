"""Checkpoints: the state that all rows up to an instant and a revision lead to, so that not all need be read.

The first one is made of the mirror itself, when a history is begun: what was told before has no rows. The oldest one
is what remains of the rows that were trimmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from mirror_server.core.instants import Instant
from mirror_server.extensions.history.as_of import RowsUpTo, whole_devices
from mirror_server.extensions.history.columns import in_order, not_after, of_rows
from mirror_server.extensions.history.filters import RowFilter
from mirror_server.extensions.history.merging import LAST_DEVICE, Source, merged
from mirror_server.extensions.history.parquet import parts
from mirror_server.extensions.history.reading import Reading, runs_of, sources
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.segments import STATE, Block
from mirror_server.store.session import Session

_ROWS_AT_A_TIME = 2000
_ROWS_MERGED_AT_ONCE = 16_384
_BYTES_MERGED_AT_ONCE = 1024 * 1024

FilterOf = Callable[[Instant | None], RowFilter]
"""Makes the filter of devices and paths, for rows of which those up to an instant were trimmed."""


def oldest_at(session: Session, now: Instant) -> Instant:
    """The oldest instant of which the history knows all."""
    instant = segments.oldest_state_at(session)
    return _begun_at(session, now) if instant is None else instant


def rows_up_to(
    reading: Reading, filter_of: FilterOf, instant: Instant, up_to: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows in order that lead to the state at an instant, those of a checkpoint and those behind it.

    Args:
        reading: Where the rows are.
        filter_of: Which devices and paths.
        instant: The instant.
        up_to: No rows with a larger revision, and none of writes that wait; ``None`` for all.
    """
    checkpoint = last_checkpoint(reading.session, instant)
    behind = _of_state(checkpoint[0]) if checkpoint else None
    behind_it = RowsUpTo(filter_of(reading.base_at), instant, behind)
    known = RowsUpTo(filter_of(None), instant, None)
    places = [
        *sources(runs_of(reading.session, checkpoint), known),
        *reading.sources(behind_it),
        reading.tail(behind_it, up_to=up_to),
    ]
    if up_to is None:
        places.append(_waiting(reading.session, known))
    # What wins of a part is little: some of it together is merged at once.
    return merged(
        place._replace(batches=parts(place.batches, _ROWS_MERGED_AT_ONCE, _BYTES_MERGED_AT_ONCE)) for place in places
    )


def last_checkpoint(session: Session, instant: Instant) -> list[Block]:
    """The blocks of the last checkpoint up to an instant; none where there is no such."""
    blocks = [block for block in segments.blocks(session, STATE) if _of_state(block)[0] <= instant]
    last = max(((_of_state(block), block.segment_id) for block in blocks), default=None)
    return [block for block in blocks if (_of_state(block), block.segment_id) == last]


def is_needed(session: Session) -> bool:
    """Whether a history is kept and there is none of it as it was begun last."""
    revision, state = segments.last_state_revision(session), history.state(session)
    return state.is_kept and (revision is None or revision < state.begun_revision)


def of_mirror(session: Session, now: Instant) -> tuple[tuple[Instant, int], Iterator[pa.RecordBatch]]:
    """The first checkpoint of a history that was begun: its instant and revision, and its rows."""
    at, revision = _begun_at(session, now), history.state(session).begun_revision
    registrations = in_order(of_rows(history.registrations(session)))
    resources = (in_order(of_rows(rows)) for rows in history.mirror(session, _ROWS_AT_A_TIME))
    rows = merged(Source("", LAST_DEVICE, each) for each in (iter([registrations]), resources))
    selection = HistorySelection(revision=revision)
    known = RowFilter(selection, None, {}, None)
    return (at, revision), (not_after(known.apply(batch), at) for batch in rows)


def _begun_at(session: Session, now: Instant) -> Instant:
    """When the history was begun that is kept now: no row of it was there before."""
    after = max(history.state(session).begun_revision, history.state(session).sealed_revision)
    first = next(history.tail(session, after, 1), [])
    return min([now, *(row.received_at for row in first)])


def state_rows(reading: Reading, instant: Instant) -> Iterator[pa.RecordBatch]:
    """The rows of a checkpoint at an instant, of all that is sealed."""

    def filter_of(base_at: Instant | None) -> RowFilter:
        return RowFilter(HistorySelection(revision=reading.state.sealed_revision), None, reading.erased, base_at)

    rows = rows_up_to(reading, filter_of, instant, up_to=reading.state.sealed_revision)
    return whole_devices(rows)


def _of_state(block: Block) -> tuple[Instant, int]:
    """Instant and revision of a checkpoint."""
    return block.state_at or 0, block.state_revision or 0


def _waiting(session: Session, known: RowsUpTo) -> Source:
    """The writes that wait, which have no rows yet."""
    rows = in_order(of_rows(history.waiting_writes(session)))
    return Source("", LAST_DEVICE, iter([known.apply(rows)]))
