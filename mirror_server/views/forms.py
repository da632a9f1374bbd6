"""The forms of a large answer: which one a client asks for, and how it is compressed. Source: wire.md 7 and 10."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import cast

from flask import request

from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, NDJSON, Compression
from mirror_server.core.errors import Refusal
from mirror_server.views.description import Parameter, words
from mirror_server.views.requests import query_choice

COMPRESSION = Parameter(
    "compression",
    "How the buffers of an Arrow stream are compressed.",
    words(*COMPRESSIONS, default=COMPRESSIONS[0]),
)
_CHUNK_BYTES = 256 * 1024


def accepted_form(what: str) -> str:
    """The content type to answer with, by the header ``Accept``; NDJSON where it says nothing.

    Args:
        what: What it is, for a message: ``a snapshot``.

    Raises:
        Refusal: It comes in none of those that are accepted (406).
    """
    form = request.accept_mimetypes.best_match([NDJSON, ARROW]) if request.accept_mimetypes else NDJSON
    if form is None:
        raise Refusal(406, f"{what} comes as {ARROW} or as {NDJSON}; ask for one of them with the header Accept")
    return form


def query_compression() -> Compression:
    """How the buffers of an Arrow stream are to be compressed.

    Raises:
        Refusal: There is no such way (400).
    """
    return cast("Compression", query_choice(COMPRESSION.name, COMPRESSIONS) or "none")


def in_chunks(lines: Iterable[bytes]) -> Generator[bytes]:
    """Lines of NDJSON, each with its end, in chunks of some size."""
    text = bytearray()
    for line in lines:
        text += line + b"\n"
        if len(text) > _CHUNK_BYTES:
            yield bytes(text)
            text.clear()
    yield bytes(text)
