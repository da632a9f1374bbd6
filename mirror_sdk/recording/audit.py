"""Whether a recording holds all there was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from mirror_sdk.recording.coverage import Span
from mirror_sdk.wire.model import JsonForm, write_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingGap(JsonForm):
    """A part of the log that is missing; a number is ``None`` where nobody knows it."""

    first_seq: int | None
    last_seq: int | None
    reason: str

    def __str__(self) -> str:
        numbers = "an unknown number of entries" if self.first_seq is None else f"{self.first_seq} to {self.last_seq}"
        return f"{numbers}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(JsonForm):
    """What a recording covers. Times are those of the service's clock.

    They are ``None`` where the service did not tell them: the clock here says nothing of what the log held.

    Attributes:
        complete: Whether every entry of the log from its beginning to its end was looked at.
        from_at: When the recording began.
        until_at: Up to when it is known that nothing else came.
        after_seq: The position in the log it began behind; ``None`` for an empty recording.
        last_seq: Number of the last entry it looked at.
        events: How many events it holds, each counted once.
        duplicates: How many were there more than once.
        gaps: What is missing.
        finalized_events: How many of the events stand in whole files, where every program that reads Parquet sees them.
            :class:`Recording` reads the others too; a recorder finalizes them every few minutes and at its end, and
            :meth:`Recording.finalize` does where one was killed.
        finalized_until_at: Up to when the whole files cover what came.
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
            f"{word} from {_told(self.from_at)} to {_told(self.until_at)}: {self.events} events, "
            f"log positions {self.after_seq} to {self.last_seq}"
        )
        lines = [text, *(f"missing {gap}" for gap in self.gaps)]
        if self.finalized_events < self.events:
            lines.append(
                f"in whole files, which every program sees: {self.finalized_events} events; the others are read by "
                "Recording, and finalized by a recorder every few minutes, or by Recording.finalize() (in a shell"
                " --finalize)"
            )
        return "\n".join(lines)


def _told(instant: datetime | None) -> str:
    return "a time the service did not tell" if instant is None else write_timestamp(instant)


def audit(
    spans: Sequence[Span],
    dropped: Sequence[tuple[int | None, int | None]],
    *,
    events: int,
    duplicates: int,
    finalized_events: int,
    finalized_until_at: datetime | None,
) -> Audit:
    """The audit of a recording.

    Args:
        spans: Its coverage, in order.
        dropped: First and last number of what the log had dropped; ``None`` where it began anew.
        events: How many events it holds.
        duplicates: How many more there were.
        finalized_events: How many of the events stand in whole files.
        finalized_until_at: Up to when those cover what came.
    """
    gaps = [
        RecordingGap(first_seq=first, last_seq=last, reason="the log had dropped them")
        for first, last in dropped
        if first is not None
    ]
    returns = 0
    for before, behind in pairwise(spans):
        if behind.after > before.seq:
            gaps.append(
                RecordingGap(first_seq=before.seq + 1, last_seq=behind.after, reason="nothing was recorded then")
            )
        elif behind.after < before.seq:
            returns += 1
    # The numbers of a new log may have caught up with the old ones; then the gap alone tells of it.
    anew = max(returns, sum(first is None for first, _ in dropped))
    gaps += [RecordingGap(first_seq=None, last_seq=None, reason="the log began anew")] * anew
    return Audit(
        complete=bool(spans) and not gaps,
        from_at=spans[0].from_at if spans else None,
        until_at=spans[-1].until_at if spans else None,
        after_seq=spans[0].after if spans else None,
        last_seq=spans[-1].seq if spans else None,
        events=events,
        duplicates=duplicates,
        gaps=tuple(gaps),
        finalized_events=finalized_events,
        finalized_until_at=finalized_until_at,
    )
