"""The spans of the notification log that a recording covers, each without a gap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import TypeAdapter


class LogSpan(NamedTuple):
    """All log entries after ``after`` up to ``seq``.

    They are everything that happened from one instant to another by the service's clock. The instants are ``None`` if
    the service did not send the time: the clock of this machine does not show what the log contained.
    """

    after: int
    seq: int
    from_at: datetime | None
    until_at: datetime | None


_SPANS = TypeAdapter(list[LogSpan])


def merge(spans: Iterable[LogSpan]) -> list[LogSpan]:
    """Return the same coverage in as few spans as possible, in the same order."""
    merged: list[LogSpan] = []
    for span in spans:
        if merged and (merged[-1].seq, merged[-1].until_at) == (span.after, span.from_at):
            merged[-1] = merged[-1]._replace(seq=span.seq, until_at=span.until_at)
        else:
            merged.append(span)
    return merged


def is_covered(spans: Sequence[LogSpan], *instants: datetime) -> bool:
    """Return whether everything from the first of these instants to the last is covered.

    Entries of the last millisecond may have come after the log was read.
    """
    first, last = min(instants), max(instants)
    known = [(span.from_at, span.until_at) for span in spans if span.from_at and span.until_at]
    around = [from_at for from_at, until_at in known if from_at <= last <= until_at]
    # If the service's clock was set back, an instant occurs twice.
    return len(around) == 1 and around[0] <= first


def write_spans(spans: Iterable[LogSpan]) -> bytes:
    """Return spans in the form of the metadata of a file."""
    return _SPANS.dump_json(list(spans))


def read_spans(content: bytes) -> list[LogSpan]:
    """Return the spans in the metadata of a file."""
    return _SPANS.validate_json(content)
