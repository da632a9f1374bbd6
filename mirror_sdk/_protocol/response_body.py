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
"""The content encoding that is decompressed chunk by chunk. By default httpx would request more of them."""
MAX_BYTES = 64 * 1024 * 1024
"""The maximum number of bytes of an ordinary response after decompression.

A device object may be of any size (specification 2.1). This limit fits one with 65,536 resources of 500 bytes each, and
the largest page of a mirror.
"""
MAX_ERROR_BYTES = 1024 * 1024
"""The maximum number of bytes of an error. An error has one sentence, and one more for each invalid field."""
BUFFER_BYTES = 64 * 1024
"""Number of bytes that are buffered while a response is read; longer parts of it are not copied."""
CHUNK_BYTES = 1024 * 1024
"""The maximum number of bytes that are decompressed at a time."""

_GZIP = zlib.MAX_WBITS | 16
# Python cannot convert a string of thousands of digits. A number of this length exceeds every limit already.
_LONGEST_NUMBER = 19
_NEVER_PACKED = "incorrect header check"
"""The message of zlib for bytes that were never compressed."""


def announced_bytes(headers: Mapping[str, str]) -> int:
    """Return the size of the body on the wire according to the headers, 0 if they do not say."""
    length = headers.get("Content-Length", "")
    return int(length[:_LONGEST_NUMBER]) if length.isdecimal() else 0


class Decompressor:
    """Decompresses one response.

    Args:
        headers: Its headers.

    Raises:
        UnexpectedResponse: The response has a content encoding other than gzip.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        encoding = headers.get("Content-Encoding", "").strip().lower()
        if encoding not in {"", "identity", "gzip"}:
            raise UnexpectedResponse(
                f"the response has content encoding {encoding[:40]!r}, which was not requested; check the proxy of the"
                " service"
            )
        self._decompressor = zlib.decompressobj(_GZIP) if encoding == "gzip" else None

    def decompress(self, raw: bytes) -> Iterator[bytes]:
        """Decompress some bytes of the body.

        Raises:
            httpx.DecodingError: The bytes are damaged.
            UnexpectedResponse: The bytes follow the end of the compressed content, or are not compressed.
        """
        if self._decompressor is None:
            yield raw
            return
        chunk = b""
        # After a full chunk there may be more, even if no input is left.
        while raw or len(chunk) == CHUNK_BYTES:
            if raw and self._decompressor.eof:
                raise UnexpectedResponse("the response continues after the end of its compressed content")
            try:
                chunk = self._decompressor.decompress(raw, CHUNK_BYTES)
            except zlib.error as exc:
                if _NEVER_PACKED not in str(exc):
                    raise httpx.DecodingError(str(exc)) from exc
                message = "the response claims to be compressed and is not; does base_url point elsewhere?"
                raise UnexpectedResponse(message) from exc
            yield chunk
            # If data follow the end of the compressed content, the next round raises the error.
            raw = self._decompressor.unconsumed_tail or self._decompressor.unused_data


class BodyCollector:
    """Collects a body of a limited size.

    Args:
        response: Its status decides the limit, and its headers announce the size.

    Raises:
        UnexpectedResponse: The announced size exceeds the limit.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._max_bytes = MAX_BYTES if response.is_success else MAX_ERROR_BYTES
        self._collected = bytearray()
        self._require(announced_bytes(response.headers))

    @property
    def content(self) -> bytes:
        """The body so far."""
        return bytes(self._collected)

    def add(self, chunk: bytes) -> None:
        """Append a chunk.

        Raises:
            UnexpectedResponse: The body exceeds the limit.
        """
        self._require(len(self._collected) + len(chunk))
        self._collected += chunk

    def _require(self, byte_count: int) -> None:
        if byte_count > self._max_bytes:
            raise UnexpectedResponse(
                f"the response has more than {self._max_bytes} bytes after decompression, which is the limit;"
                " request less at a time"
            )


class Body(io.RawIOBase):
    """The body of a response as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the bytes that have arrived; 0 at the end."""
        while not self._rest and (chunk := next(self._chunks, None)) is not None:
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
