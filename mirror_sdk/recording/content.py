"""Reads all files of a recording."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from mirror_sdk.events import utc_now
from mirror_sdk.recording import files
from mirror_sdk.recording.coverage import Span, merge


class RecordingContent(NamedTuple):
    """The events of a recording, each once, and what they cover.

    Attributes:
        events: The events, those of finalized files first.
        spans: The parts of the log that were read.
        duplicates: How many events were there more than once.
        finalized_rows: How many of the events are in finalized files.
        finalized_spans: The parts of the log that are in finalized files.
    """

    events: pa.Table
    spans: list[Span]
    duplicates: int
    finalized_rows: int
    finalized_spans: list[Span]

    def now(self) -> datetime:
        """Return the instant up to which it is recorded, by the service's clock if it sent the time."""
        return next((span.until_at for span in reversed(self.spans) if span.until_at is not None), utc_now())


def read_content(folder: Path) -> RecordingContent:
    """Read the finalized files and the journal of a recording.

    Raises:
        FileNotFoundError: The recording was removed.
        RecordingDamaged: A file is damaged.
    """
    numbers = files.event_numbers(folder)
    if not numbers:
        raise FileNotFoundError(f"the recording {folder} was removed")
    pieces = [files.read_numbered(folder, number) for number in numbers]
    finalized = [piece for piece in pieces if piece.is_finalized]
    events = pa.concat_tables(piece.events for piece in pieces)
    kept = _first_occurrences(events)
    return RecordingContent(
        events if len(kept) == events.num_rows else events.take(kept),
        merge(span for piece in pieces for span in piece.spans),
        duplicates=events.num_rows - len(kept),
        finalized_rows=bisect_left(kept, sum(piece.events.num_rows for piece in finalized)),
        finalized_spans=merge(span for piece in finalized for span in piece.spans),
    )


def _first_occurrences(events: pa.Table) -> list[int]:
    """Return the rows of the events without repetitions; events without a ``uid`` are kept."""
    seen: set[str] = set()
    kept = []
    for index, uid in enumerate(events["uid"].to_pylist()):
        if uid is None or uid not in seen:
            kept.append(index)
            seen.add(uid)
    return kept
