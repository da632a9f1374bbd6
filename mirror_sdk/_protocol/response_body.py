"""The body of a response as it arrives: decompressed in small pieces, and limited in size.

A few compressed bytes can become a thousand times as many, so no more of them is decompressed than the reader needs.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from mirror_sdk.errors import UnexpectedResponse

ACCEPT_ENCODING = "gzip"
"""The content encoding that is decompressed piece by piece. By default httpx would request more of them."""
MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of an ordinary response after decompression. A device object may be of any size (specification 2.1);
this is one of 65,536 resources with a payload of 500 bytes each, and the most that a mirror sends in a page."""
MOST_ERROR_BYTES = 1024 * 1024
"""The most bytes of an error: it has one sentence, and one for each invalid field."""
BUFFER_BYTES = 64 * 1024
"""How many bytes of a response are buffered while it is read as it arrives; longer parts of it are not copied."""
PIECE_BYTES = 1024 * 1024
"""The most bytes that are decompressed at a time."""

_GZIP = zlib.MAX_WBITS | 16
_LONGEST_NUMBER = 19
_NEVER_PACKED = "incorrect header check"
"""The message of zlib for bytes that were never compressed."""


def announced_bytes(headers: Mapping[str, str]) -> int:
    """Return the size of the body on the wire according to the headers, 0 if they do not say."""
    length = headers.get("Content-Length", "")
    return int(length[:_LONGEST_NUMBER]) if length.isdecimal() else 0


class Unpacking:
    """Decompresses one response.

    Args:
        headers: Its headers.

    Raises:
        UnexpectedResponse: The content encoding is another than gzip, or several.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        encoding = headers.get("Content-Encoding", "").strip().lower()
        if encoding not in {"", "identity", "gzip"}:
            raise UnexpectedResponse(f"the response has content encoding {encoding[:40]!r}, which was not requested")
        self._packed = zlib.decompressobj(_GZIP) if encoding == "gzip" else None

    def pieces(self, raw: bytes) -> Iterator[bytes]:
        """Decompress some bytes of the body.

        Raises:
            httpx.DecodingError: They are damaged.
            UnexpectedResponse: They follow the end of the compressed content, or are not compressed.
        """
        if self._packed is None:
            yield raw
            return
        piece = b""
        # After a full piece there may be more, even if no input is left.
        while raw or len(piece) == PIECE_BYTES:
            if raw and self._packed.eof:
                raise UnexpectedResponse("the response goes on after the end of its compressed content")
            try:
                piece = self._packed.decompress(raw, PIECE_BYTES)
            except zlib.error as exc:
                if _NEVER_PACKED not in str(exc):
                    raise httpx.DecodingError(str(exc)) from exc
                message = "the answer says it is compressed and is not; does base_url point elsewhere?"
                raise UnexpectedResponse(message) from exc
            yield piece
            raw = self._packed.unconsumed_tail or self._packed.unused_data


class Gathering:
    """Collects a body of a limited size.

    Args:
        answer: Its status decides the limit, and its headers announce the size.

    Raises:
        UnexpectedResponse: That is too much.
    """

    def __init__(self, answer: httpx.Response) -> None:
        self._most_bytes = MOST_BYTES if answer.is_success else MOST_ERROR_BYTES
        self._gathered = bytearray()
        self._require(announced_bytes(answer.headers))

    @property
    def content(self) -> bytes:
        """The body so far."""
        return bytes(self._gathered)

    def add(self, piece: bytes) -> None:
        """Append a piece.

        Raises:
            UnexpectedResponse: That is too much.
        """
        self._require(len(self._gathered) + len(piece))
        self._gathered += piece

    def _require(self, byte_count: int) -> None:
        if byte_count > self._most_bytes:
            raise UnexpectedResponse(
                f"the response has more than {self._most_bytes} bytes after decompression, which is the limit"
            )


class Body(io.RawIOBase):
    """The body of a response as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the bytes that are there; 0 at the end."""
        while not self._rest and (chunk := next(self._chunks, None)) is not None:
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
