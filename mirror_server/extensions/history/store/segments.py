"""The compacted history: segments in the database, and the names of the archive's files.

This module does not know their contents. A *segment* is a run of rows, sorted by device, path and instant, and split
into blocks. A segment of the kind ``rows`` has events. One of the kind ``state`` is a checkpoint: the last rows of each
resource among those with ``changed_at`` up to ``state_at`` and revisions up to ``state_revision``.

The contents of blocks are stored first, in separate small transactions. They become valid when ``put`` records all of
them in one transaction. So a large segment delays no other writes. If the process is interrupted in between, the next
leader deletes the contents that were not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Session


class Bounds(NamedTuple):
    """The bounds of rows, known without reading the rows.

    Attributes:
        first_device: The id of the first device; '' for rows without a device.
        last_device: The id of the last device.
        first_revision: The least revision.
        last_revision: The greatest revision.
        first_changed_at: The first time of an event, by the devices' clocks.
        last_changed_at: The last time of an event.
        first_received_at: The first time of receipt.
        last_received_at: The last time of receipt.
        first_requested_at: The first time of request of a write, or ``None`` without writes.
        row_count: The number of rows.
    """

    first_device: str
    last_device: str
    first_revision: int
    last_revision: int
    first_changed_at: Instant
    last_changed_at: Instant
    first_received_at: Instant
    last_received_at: Instant
    first_requested_at: Instant | None
    row_count: int


class RowRange(NamedTuple):
    """A range of devices and of times; ``None`` is unbounded. Rows without a device are in all ranges.

    Attributes:
        from_device: The first device.
        to_device: The last device.
        begin: The first instant.
        end: The first instant after the range.
    """

    from_device: str | None = None
    to_device: str | None = None
    begin: Instant | None = None
    end: Instant | None = None


EVERYWHERE = RowRange()

_IN_SPAN = (
    "(first_device = '' OR ((CAST(:from_device AS TEXT) IS NULL OR last_device >= :from_device)"
    " AND (CAST(:to_device AS TEXT) IS NULL OR first_device <= :to_device)"
    " AND (CAST(:begin AS BIGINT) IS NULL OR last_changed_at >= :begin)))"
    " AND (CAST(:end AS BIGINT) IS NULL OR first_changed_at < :end)"
)
"""The condition for a range. Gaps have no device and are selected by their end, so their start is not compared."""


class Block(NamedTuple):
    """A block of a segment. ``state_at`` and ``state_revision`` belong to a checkpoint."""

    segment_id: int
    block: int
    kind: str
    state_at: Instant | None
    state_revision: int | None
    bounds: Bounds


class Checkpoint(NamedTuple):
    """A checkpoint: its instant, its revision, its segment and its number of rows."""

    at: Instant
    revision: int
    segment_id: int
    row_count: int


class ArchivedFile(NamedTuple):
    """A file of the archive: its path in the archive's folder, and the bounds of its rows."""

    file_name: str
    day: str
    size_bytes: int
    bounds: Bounds


ROWS, STATE = "rows", "state"

_BOUNDS = ", ".join(Bounds._fields)
_BLOCK = f"segment_id, block, kind, state_at, state_revision, {_BOUNDS}"
_FILE = f"file_name, day, size_bytes, {_BOUNDS}"


def blocks(session: Session, kind: str, span: RowRange = EVERYWHERE) -> list[Block]:
    """Return the valid blocks of a kind, :data:`ROWS` or :data:`STATE`, in the order of segments and blocks."""
    statement = f"SELECT {_BLOCK} FROM history_segments WHERE kind = :kind AND {_IN_SPAN} ORDER BY segment_id, block"
    rows = session.rows(statement, kind=kind, **span._asdict())
    return [Block._make((*row[:5], Bounds._make(row[5:]))) for row in rows]


def runs(new_blocks: Iterable[Block]) -> list[list[Block]]:
    """Group blocks by segment."""
    return [list(run) for _, run in groupby(new_blocks, key=attrgetter("segment_id"))]


def oldest_state_at(session: Session) -> Instant | None:
    """Return the instant of the oldest checkpoint, or ``None`` without one."""
    instant: Instant | None = session.scalar("SELECT min(state_at) FROM history_segments WHERE kind = 'state'")
    return instant


def checkpoints(session: Session) -> list[Checkpoint]:
    """Return all checkpoints."""
    rows = session.rows(
        "SELECT min(state_at), min(state_revision), segment_id, sum(row_count) FROM history_segments"
        " WHERE kind = 'state' GROUP BY segment_id"
    )
    return [Checkpoint(*map(int, row)) for row in rows]


def content(session: Session, segment_id: int, block: int) -> bytes:
    """Return the content of a block."""
    found: bytes = session.scalar(
        "SELECT content FROM history_blocks WHERE segment_id = :segment_id AND block = :block",
        segment_id=segment_id,
        block=block,
    )
    return found


def next_segment_id(session: Session) -> int:
    """Return a number that no segment has, not even one that is not valid yet."""
    # Every segment has contents, so their numbers are sufficient.
    return 1 + int(session.scalar("SELECT coalesce(max(segment_id), 0) FROM history_blocks"))


def put_content(session: Session, segment_id: int, block: int, content: bytes) -> None:
    """Store the content of a block, which is valid after :func:`put`. Replace content that was never made valid."""
    session.run(
        "INSERT INTO history_blocks (segment_id, block, content) VALUES (:segment_id, :block, :content)"
        " ON CONFLICT (segment_id, block) DO UPDATE SET content = excluded.content",
        segment_id=segment_id,
        block=block,
        content=content,
    )


def put(session: Session, new_blocks: Sequence[Block]) -> None:
    """Make blocks valid."""
    _insert(session, "history_segments", _BLOCK, new_blocks)


def invalidate(session: Session, segment_ids: Iterable[int]) -> None:
    """Make segments invalid. :func:`delete_contents` deletes their contents."""
    session.run_many("DELETE FROM history_segments WHERE segment_id = ?", [(each,) for each in sorted(segment_ids)])


def replace(session: Session, block: Block, bounds: Bounds, content: bytes) -> bool:
    """Replace the rows of a block. A block of the kind :data:`ROWS` without rows is deleted.

    Returns:
        Whether the block was replaced. False if its number of rows has changed, because the rows that were read are
        then outdated.
    """
    where = "WHERE segment_id = :segment_id AND block = :block"
    key = {"segment_id": block.segment_id, "block": block.block}
    # Rows of a block are only ever deleted, so an equal number means the same rows.
    is_as_read = "AND row_count = :row_count"
    if not session.run(f"DELETE FROM history_segments {where} {is_as_read}", **key, row_count=block.bounds.row_count):
        return False
    session.run(f"DELETE FROM history_blocks {where}", **key)
    if bounds.row_count or block.kind == STATE:
        put_content(session, block.segment_id, block.block, content)
        put(session, [block._replace(bounds=bounds)])
    return True


def delete_contents(session: Session, most: int) -> int:
    """Delete the contents of up to ``most`` invalid blocks, and return their number.

    Must not be called while the contents of a new segment are being stored.
    """
    found = session.rows(
        "SELECT segment_id, block FROM history_blocks b WHERE NOT EXISTS (SELECT 1 FROM history_segments s"
        " WHERE s.segment_id = b.segment_id AND s.block = b.block) LIMIT :most",
        most=most,
    )
    session.run_many("DELETE FROM history_blocks WHERE segment_id = ? AND block = ?", found)
    return len(found)


def files(session: Session, span: RowRange = EVERYWHERE) -> list[ArchivedFile]:
    """Return the valid files of the archive, by name."""
    statement = f"SELECT {_FILE} FROM history_files WHERE row_count > 0 AND {_IN_SPAN} ORDER BY file_name"
    rows = session.rows(statement, **span._asdict())
    return [ArchivedFile._make((*row[:3], Bounds._make(row[3:]))) for row in rows]


def replaced_files(session: Session) -> list[str]:
    """Return the names of replaced files that still have to be deleted; see :func:`replace_file`."""
    return [name for (name,) in session.rows("SELECT file_name FROM history_files WHERE row_count = 0")]


def replace_file(session: Session, file: ArchivedFile, by: Sequence[ArchivedFile]) -> bool:
    """Replace a file by other files. Its name stays stored, without rows, until the file is deleted.

    Returns:
        Whether it was replaced: false if it is not valid any more, because the rows that were read are outdated.
    """
    if not session.run(
        "UPDATE history_files SET row_count = 0 WHERE file_name = :name AND row_count > 0", name=file.file_name
    ):
        return False
    put_files(session, by)
    return True


def put_files(session: Session, files: Sequence[ArchivedFile]) -> None:
    """Make files valid."""
    _insert(session, "history_files", _FILE, files)


def forget_files(session: Session, names: Iterable[str]) -> None:
    """Remove files from the database, including replaced files."""
    session.run_many("DELETE FROM history_files WHERE file_name = ?", [(name,) for name in sorted(names)])


def erasures(session: Session) -> dict[str, int]:
    """Return the last revision that is not returned any more, by the id of the erased device."""
    return dict(session.rows("SELECT device_id, up_to_revision FROM history_erasures"))


def forget_erasures(session: Session, done: Iterable[tuple[str, int]]) -> None:
    """Record that all rows of these devices up to these revisions are deleted."""
    # A device that was erased again in the meantime has a larger revision, and stays.
    statement = "DELETE FROM history_erasures WHERE device_id = ? AND up_to_revision = ?"
    session.run_many(statement, sorted(done))


def put_base(session: Session, instant: Instant) -> None:
    """Record the instant up to which rows are trimmed."""
    session.run("UPDATE history_state SET base_at = :instant", instant=instant)


def _insert(session: Session, table: str, columns: str, rows: Sequence[Block] | Sequence[ArchivedFile]) -> None:
    placeholders = ", ".join("?" * (columns.count(",") + 1))
    values = [(*row[:-1], *row.bounds) for row in rows]
    session.run_many(f"INSERT INTO {table} ({columns}) VALUES ({placeholders})", values)
