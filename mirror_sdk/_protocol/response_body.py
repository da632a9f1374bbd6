"""The body of a response while it arrives, decompressed in small pieces and limited in size.

A few compressed bytes can expand to a thousand times their size. Only as many as the reader needs are therefore
decompressed.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from mirror_sdk.errors import UnexpectedResponse

ACCEPT_ENCODING = "gzip"
"""The only content encoding that can be decompressed in chunks here. By default, httpx would request others, too."""
MAX_BYTES = 64 * 1024 * 1024
"""The maximum size in bytes of an ordinary response after decompression.

A device object may be of any size (specification 2.1). This limit is enough for an object with 65,536 resources of 500
bytes each, and for the largest page of a mirror.
"""
MAX_ERROR_BYTES = 1024 * 1024
"""The maximum size in bytes of an error response, which contains one sentence, and one for each invalid field."""
BUFFER_BYTES = 64 * 1024
"""The number of bytes that are buffered while a response is read. Larger parts of it are not copied."""
CHUNK_BYTES = 1024 * 1024
"""The maximum number of bytes that are decompressed at a time."""

_GZIP = zlib.MAX_WBITS | 16
# Python cannot convert strings with thousands of digits. A number of this length already exceeds every limit.
_LONGEST_NUMBER = 19
_NEVER_PACKED = "incorrect header check"
"""The message of zlib for data that is not compressed."""


def announced_bytes(headers: Mapping[str, str]) -> int:
    """Return the size of the body on the wire according to the headers, or 0 if they do not contain it."""
    length = headers.get("Content-Length", "")
    return int(length[:_LONGEST_NUMBER]) if length.isdecimal() else 0


class Decompressor:
    """A decompressor for the body of one response.

    Args:
        headers: The headers of the response.

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
        """Yield the decompressed form of a part of the body.

        Raises:
            httpx.DecodingError: The compressed data is damaged.
            UnexpectedResponse: The data continues after the end of the compressed content, or is not compressed.
        """
        if self._decompressor is None:
            yield raw
            return
        chunk = b""
        # After a full chunk, more output may be available even if no input is left.
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
            # If data follows the end of the compressed content, the next iteration raises the error.
            raw = self._decompressor.unconsumed_tail or self._decompressor.unused_data


class BodyCollector:
    """A collector of a response body that limits its size.

    Args:
        response: The response. Its status determines the limit, and its headers contain the size.

    Raises:
        UnexpectedResponse: The size in the headers exceeds the limit.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._max_bytes = MAX_BYTES if response.is_success else MAX_ERROR_BYTES
        self._collected = bytearray()
        self._require(announced_bytes(response.headers))

    @property
    def content(self) -> bytes:
        """The part of the body that has been collected so far."""
        return bytes(self._collected)

    def add(self, chunk: bytes) -> None:
        """Append a chunk of the body.

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
    """The body of a response as a readable file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with bytes of the body and return their number, which is 0 at the end."""
        while not self._rest and (chunk := next(self._chunks, None)) is not None:
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
