"""The spans of the notification log that a recording covers. There is no gap within a span."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import TypeAdapter


class LogSpan(NamedTuple):
    """All log entries after the number ``after`` up to the number ``seq``.

    These entries are everything that happened from one time to another by the clock of the service. The times are
    ``None`` if the service did not send them. The clock of this machine is not used instead, because it does not show
    what the log contained.
    """

    after: int
    seq: int
    from_at: datetime | None
    until_at: datetime | None


_SPANS = TypeAdapter(list[LogSpan])


def merge(spans: Iterable[LogSpan]) -> list[LogSpan]:
    """Merge adjacent spans, so that the same range is covered with as few spans as possible.

    The order does not change.
    """
    merged: list[LogSpan] = []
    for span in spans:
        if merged and (merged[-1].seq, merged[-1].until_at) == (span.after, span.from_at):
            merged[-1] = merged[-1]._replace(seq=span.seq, until_at=span.until_at)
        else:
            merged.append(span)
    return merged


def is_covered(spans: Sequence[LogSpan], *instants: datetime) -> bool:
    """Return whether the entire period from the first to the last of these times is covered.

    Entries of the last millisecond may have arrived after the log was read.
    """
    first, last = min(instants), max(instants)
    known = [(span.from_at, span.until_at) for span in spans if span.from_at and span.until_at]
    around = [from_at for from_at, until_at in known if from_at <= last <= until_at]
    # If the clock of the service was set back, a time occurs twice.
    return len(around) == 1 and around[0] <= first


def write_spans(spans: Iterable[LogSpan]) -> bytes:
    """Return spans in the form that is stored in the metadata of a file."""
    return _SPANS.dump_json(list(spans))


def read_spans(content: bytes) -> list[LogSpan]:
    """Return the spans that are stored in the metadata of a file."""
    return _SPANS.validate_json(content)
