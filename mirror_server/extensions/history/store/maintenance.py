"""Maintenance of the history in the database: erasing, invariants, sizes."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.core.instants import Instant
from mirror_server.extensions.history.store import history
from mirror_server.store.session import Session

VIOLATIONS = {
    "a row of the history is of no device that is known": (
        "SELECT CAST(h.revision AS TEXT) FROM history h LEFT JOIN devices d ON d.number = h.device_number"
        f" WHERE d.device_id IS NULL AND h.kind <> {history.GAP}"
    ),
    "a row of the history is of no known kind": (
        f"SELECT CAST(revision AS TEXT) FROM history WHERE kind < 0 OR kind >= {len(history.KINDS)}"
    ),
    "a row of the history is later than the last change": (
        "SELECT CAST(revision AS TEXT) FROM history WHERE revision > (SELECT last_revision FROM revisions)"
    ),
    "the history is sealed beyond the last change": (
        "SELECT CAST(sealed_revision AS TEXT) FROM history_state"
        " WHERE sealed_revision > (SELECT last_revision FROM revisions)"
    ),
    "a part of the history that was sealed goes on beyond that": (
        "SELECT segment_id || ' ' || block FROM history_segments WHERE kind = 'rows'"
        " AND last_revision > (SELECT sealed_revision FROM history_state)"
        " UNION ALL SELECT file_name FROM history_files"
        " WHERE last_revision > (SELECT sealed_revision FROM history_state)"
    ),
    "a segment of the history has no content": (
        "SELECT s.segment_id || ' ' || s.block FROM history_segments s WHERE NOT EXISTS"
        " (SELECT 1 FROM history_blocks b WHERE b.segment_id = s.segment_id AND b.block = s.block)"
    ),
    "a value was reported, and is not in the history": (
        "SELECT device_id || ' ' || path FROM resources, history_state WHERE is_kept = 1"
        " AND reported_revision > begun_revision AND reported_revision > sealed_revision"
        " AND NOT EXISTS (SELECT 1 FROM history h WHERE h.revision = reported_revision)"
    ),
    "a reported value and its row in the history differ": (
        "SELECT r.device_id || ' ' || r.path FROM resources r JOIN history h ON h.revision = r.reported_revision"
        " WHERE h.value <> r.reported_value"
    ),
}
"""The kinds of violations, and a statement for each that returns a row for each place where it is found."""


def erase(session: Session, device_id: str, _name: str | None) -> dict[str, int]:
    """Delete the rows of a device from the tail, and note that the rest is to be deleted; returns their number."""
    return {"history": history.erase(session, [device_id])}


def newest_instant(session: Session) -> Instant | None:
    """When a server that writes rows was last known to run; ``None`` where none ever did."""
    return history.state(session).alive_at


@dataclass(frozen=True, slots=True)
class HistorySize:
    """How many rows the history has in each of its places, and how many bytes these take.

    What a row of the tail takes is not known without reading it: about 50 bytes and its value.
    """

    tail_rows: int
    segment_rows: int
    segment_bytes: int
    archive_rows: int
    archive_bytes: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.tail_rows + self.segment_rows + self.archive_rows

    def __str__(self) -> str:
        """In one line, for people."""
        return (
            f"history: {self.rows:,} rows, {self.tail_rows:,} of them in the tail,"
            f" {self.segment_rows:,} in segments ({self.segment_bytes / 1e6:,.1f} MB),"
            f" {self.archive_rows:,} in the archive ({self.archive_bytes / 1e6:,.1f} MB)"
        )


def measure(session: Session) -> HistorySize:
    """Count the rows of the history; those of the tail one by one, which are bounded."""
    counts = session.row(
        "SELECT (SELECT count(*) FROM history WHERE revision > (SELECT sealed_revision FROM history_state)),"
        " (SELECT coalesce(sum(row_count), 0) FROM history_segments WHERE kind = 'rows'),"
        " (SELECT coalesce(sum(length(content)), 0) FROM history_blocks),"
        " (SELECT coalesce(sum(row_count), 0) FROM history_files),"
        " (SELECT coalesce(sum(size_bytes), 0) FROM history_files)"
    )
    return HistorySize(*map(int, counts or ()))
