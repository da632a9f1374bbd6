"""A check of whether a recording is complete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import pyarrow.compute as pc

from mirror_sdk.events import EventKind
from mirror_sdk.recording.recording_content import RecordingContent
from mirror_sdk.wire.model import JsonForm, write_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingGap(JsonForm):
    """A missing range of the log, given by the numbers of its entries.

    A number is ``None`` if it is unknown.
    """

    first_seq: int | None
    last_seq: int | None
    reason: str

    def __str__(self) -> str:
        numbers = "an unknown number of entries" if self.first_seq is None else f"{self.first_seq} to {self.last_seq}"
        return f"{numbers}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(JsonForm):
    """The result of checking a recording: the range of the log that it covers, and the missing parts of that range.

    Times come from the clock of the service. They are ``None`` if the service did not send them.

    Attributes:
        complete: Whether every entry of the log from the first to the last one was read.
        from_at: The time at which the recording started.
        until_at: The time up to which nothing is missing.
        after_seq: The number of the log entry after which the recording started; ``None`` for an empty recording.
        last_seq: The number of the last entry that was read.
        events: The number of events. An event that was recorded more than once counts once.
        duplicates: The number of events that were recorded more than once.
        gaps: The missing ranges.
        finalized_events: The number of events in finalized files, which any program that reads Parquet can read. A
            recorder finalizes files every few minutes and when it stops. If a recorder was killed, call
            :meth:`Recording.finalize`. :class:`Recording` itself also reads the events that are not in finalized files.
        finalized_until_at: The time up to which the finalized files cover the log.
    """

    complete: bool
    from_at: datetime | None
    until_at: datetime | None
    after_seq: int | None
    last_seq: int | None
    events: int
    duplicates: int
    gaps: tuple[RecordingGap, ...]
    finalized_events: int
    finalized_until_at: datetime | None

    def __str__(self) -> str:
        if self.after_seq is None:
            return "nothing was recorded"
        word = "complete" if self.complete else "not complete"
        text = (
            f"{word} from {_time(self.from_at)} to {_time(self.until_at)}: {self.events} events, "
            f"log positions {self.after_seq} to {self.last_seq}"
        )
        lines = [text, *(f"missing {gap}" for gap in self.gaps)]
        if self.finalized_events < self.events:
            lines.append(
                f"every program can read {self.finalized_events} of these events, which are in finalized files; only "
                "Recording can read the others. A recorder finalizes them every few minutes, and "
                "Recording.finalize() or --finalize does it now"
            )
        return "\n".join(lines)


def _time(instant: datetime | None) -> str:
    return "an unknown time" if instant is None else write_timestamp(instant)


def audit(content: RecordingContent) -> Audit:
    """Return the audit of a recording."""
    spans, events = content.spans, content.events
    is_gap = pc.equal(events["event"], EventKind.GAP.value)
    lost = events.filter(is_gap).select(["first_seq", "seq"]).to_pylist()
    gaps = [
        RecordingGap(first_seq=one["first_seq"], last_seq=one["seq"], reason="the log had dropped them")
        for one in lost
        if one["first_seq"] is not None
    ]
    restarts = 0
    for before, after in pairwise(spans):
        if after.after > before.seq:
            gaps.append(
                RecordingGap(first_seq=before.seq + 1, last_seq=after.after, reason="nothing was recorded then")
            )
        elif after.after < before.seq:
            # The log was reset, so its numbers restarted.
            restarts += 1
    # The numbers of a reset log may have caught up with the old ones. In this case, only the gap shows the reset.
    restarts = max(restarts, sum(one["first_seq"] is None for one in lost))
    gaps += [RecordingGap(first_seq=None, last_seq=None, reason="the log was reset")] * restarts
    return Audit(
        complete=bool(spans) and not gaps,
        from_at=spans[0].from_at if spans else None,
        until_at=spans[-1].until_at if spans else None,
        after_seq=spans[0].after if spans else None,
        last_seq=spans[-1].seq if spans else None,
        events=events.num_rows - len(lost),
        duplicates=content.duplicates,
        gaps=tuple(gaps),
        finalized_events=content.finalized_rows - (pc.sum(is_gap.slice(0, content.finalized_rows)).as_py() or 0),
        finalized_until_at=content.finalized_spans[-1].until_at if content.finalized_spans else None,
    )
