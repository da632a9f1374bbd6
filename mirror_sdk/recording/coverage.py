"""Which part of the notification log a recording holds: spans of positions that follow one another without a break."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from pydantic import TypeAdapter


class Span(NamedTuple):
    """All entries behind ``after`` up to ``seq``, looked at from one moment to another (times of this client)."""

    after: int
    seq: int
    from_at: datetime
    until_at: datetime


_SPANS = TypeAdapter(list[Span])


def merge(spans: Iterable[Span]) -> list[Span]:
    """The same coverage in as few spans as can be; the order is kept."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].seq == span.after:
            merged[-1] = merged[-1]._replace(seq=span.seq, until_at=span.until_at)
        else:
            merged.append(span)
    return merged


def write_spans(spans: Iterable[Span]) -> bytes:
    """Spans as they stand in the metadata of a file."""
    return _SPANS.dump_json(list(spans))


def read_spans(content: bytes) -> list[Span]:
    """Spans out of the metadata of a file."""
    return _SPANS.validate_json(content)
