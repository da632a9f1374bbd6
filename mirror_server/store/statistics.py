"""What is stored of the whole database, for those who watch over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirror_server.core.instants import Instant
from mirror_server.core.measurements import Measurement
from mirror_server.store.session import Session


def newest_instant(session: Session) -> Instant | None:
    """The latest instant at which anything is stored to have happened; ``None`` where nothing is."""
    instant: Instant | None = session.scalar(
        "SELECT max(at) FROM (SELECT max(last_contact_at) AS at FROM devices"
        " UNION ALL SELECT max(at) FROM device_events"
        " UNION ALL SELECT alive_at FROM history_state"
        " UNION ALL SELECT max(requested_at) FROM commands WHERE finished_at IS NULL"
        " UNION ALL SELECT max(logged_at) FROM logs JOIN notifications"
        " ON notifications.app_id = logs.app_id AND seq = last_seq) AS found"
    )
    return instant


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

    def measurements(self) -> list[Measurement]:
        """As metrics."""
        rows = {("tail",): self.tail_rows, ("segments",): self.segment_rows, ("archive",): self.archive_rows}
        sizes = {("segments",): self.segment_bytes, ("archive",): self.archive_bytes}
        return [
            Measurement("mirror_history_rows", "Rows of the history by place.", rows, ("place",)),
            Measurement("mirror_history_bytes", "Size of the compressed history by place.", sizes, ("place",)),
        ]

    def __str__(self) -> str:
        """In one line, for people."""
        return (
            f"history: {self.rows:,} rows, {self.tail_rows:,} of them in the tail,"
            f" {self.segment_rows:,} in segments ({self.segment_bytes / 1e6:,.1f} MB),"
            f" {self.archive_rows:,} in the archive ({self.archive_bytes / 1e6:,.1f} MB)"
        )


def measure_history(session: Session) -> HistorySize:
    """Count the rows of the history; those of the tail one by one, which are bounded."""
    (tail,) = _row(session, "SELECT count(*) FROM history WHERE revision > (SELECT sealed_revision FROM history_state)")
    (segments,) = _row(session, "SELECT coalesce(sum(row_count), 0) FROM history_segments WHERE kind = 'rows'")
    (segment_bytes,) = _row(session, "SELECT coalesce(sum(length(content)), 0) FROM history_blocks")
    archived, archive_bytes = _row(
        session, "SELECT coalesce(sum(row_count), 0), coalesce(sum(size_bytes), 0) FROM history_files"
    )
    return HistorySize(tail, segments, segment_bytes, archived, archive_bytes)


def _row(session: Session, statement: str, **parameters: Any) -> list[int]:
    row = session.row(statement, **parameters)
    assert row is not None  # noqa: S101 - an aggregate always has a row
    return [int(value) for value in row]
