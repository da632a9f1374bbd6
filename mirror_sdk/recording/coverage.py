"""Which part of the notification log a recording holds: spans of positions that follow one another without a break."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import TypeAdapter


class Span(NamedTuple):
    """All entries behind ``after`` up to ``seq``.

    That is all that happened from one instant to another, by the service's clock; ``None`` where it did not tell. The
    clock here says nothing of what the log holds.
    """

    after: int
    seq: int
    from_at: datetime | None
    until_at: datetime | None


_SPANS = TypeAdapter(list[Span])


def merge(spans: Iterable[Span]) -> list[Span]:
    """The same coverage in as few spans as can be; the order is kept."""
    merged: list[Span] = []
    for span in spans:
        if merged and (merged[-1].seq, merged[-1].until_at) == (span.after, span.from_at):
            merged[-1] = merged[-1]._replace(seq=span.seq, until_at=span.until_at)
        else:
            merged.append(span)
    return merged


def is_covered(spans: Sequence[Span], *instants: datetime) -> bool:
    """Whether all that happened from the first of these instants to the last is known to be in there.

    What happened within the millisecond of the last one may have come behind the last look.
    """
    first, last = min(instants), max(instants)
    told = [(span.from_at, span.until_at) for span in spans if span.from_at and span.until_at]
    around = [from_at for from_at, until_at in told if from_at <= last <= until_at]
    # Where the service's clock was set back, an instant was there twice.
    return len(around) == 1 and around[0] <= first


def write_spans(spans: Iterable[Span]) -> bytes:
    """Spans as they stand in the metadata of a file."""
    return _SPANS.dump_json(list(spans))


def read_spans(content: bytes) -> list[Span]:
    """Spans out of the metadata of a file."""
    return _SPANS.validate_json(content)
