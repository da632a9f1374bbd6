"""The content of all files of a recording."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from mirror_sdk.events import utc_now
from mirror_sdk.recording import files
from mirror_sdk.recording.log_spans import LogSpan, merge


class RecordingContent(NamedTuple):
    """The distinct events of a recording, and the spans of the log that they cover.

    Attributes:
        events: The events. Those of finalized files come first.
        spans: The spans of the log that were read.
        duplicates: The number of events that were removed because they were repeated.
        finalized_rows: The number of events in finalized files.
        finalized_spans: The spans of the log in finalized files.
    """

    events: pa.Table
    spans: list[LogSpan]
    duplicates: int
    finalized_rows: int
    finalized_spans: list[LogSpan]

    def now(self) -> datetime:
        """Return the end of the recording.

        It comes from the clock of the service if the service sent its time.
        """
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
    contents = [files.read_numbered(folder, number) for number in numbers]
    finalized = [content for content in contents if content.is_finalized]
    events = pa.concat_tables(content.events for content in contents)
    unique = _first_occurrences(events)
    return RecordingContent(
        events if len(unique) == events.num_rows else events.take(unique),
        merge(span for content in contents for span in content.spans),
        duplicates=events.num_rows - len(unique),
        finalized_rows=bisect_left(unique, sum(content.events.num_rows for content in finalized)),
        finalized_spans=merge(span for content in finalized for span in content.spans),
    )


def _first_occurrences(events: pa.Table) -> list[int]:
    """Return the row numbers of the first occurrence of each event, including all events without a ``uid``."""
    uids: set[str] = set()
    unique = []
    for index, uid in enumerate(events["uid"].to_pylist()):
        if uid is None or uid not in uids:
            unique.append(index)
            uids.add(uid)
    return unique
