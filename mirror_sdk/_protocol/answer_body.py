"""The body of an answer as it arrives: its content encoding is undone in small pieces, and its size has a limit.

A few bytes of a compressed answer can become a thousand times as many, so no more is made of them than is wanted.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from mirror_sdk.errors import UnexpectedAnswer

ACCEPT_ENCODING = "gzip, deflate"
"""What can be undone piece by piece; httpx would ask for more, where what undoes that is installed."""
MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of an ordinary answer after decompression. A device object may be of any size (specification 2.1);
this is one of 65,536 resources with a payload of 500 bytes each, and what a server of ours holds of a page."""
MOST_ERROR_BYTES = 1024 * 1024
"""The most bytes of a refusal: it has one sentence, and one for each field that is wrong."""
BUFFER_BYTES = 64 * 1024
"""How many bytes of an answer are held at once where it is read as it arrives; longer parts of it pass by, uncopied."""
PIECE_BYTES = 1024 * 1024
"""How much is made of what is compressed at a time."""

_GZIP, _RAW_DEFLATE = zlib.MAX_WBITS | 16, -zlib.MAX_WBITS
_WINDOW_BITS = {"": None, "identity": None, "gzip": _GZIP, "deflate": zlib.MAX_WBITS}
"""The window bits that zlib wants for each content encoding; ``None`` where there is nothing to undo. Several at once
are not read: each makes a thousand times as much."""
_LONGEST_NUMBER = 19
_NEVER_PACKED = "incorrect header check"
"""What zlib says of it."""


def announced_bytes(headers: Mapping[str, str]) -> int:
    """How many bytes the body has on the wire at least, as far as the headers tell."""
    told = headers.get("Content-Length", "")
    return int(told[:_LONGEST_NUMBER]) if told.isdecimal() else 0


class Unpacking:
    """Undoes the content encoding of one answer.

    Args:
        headers: Those of the answer.

    Raises:
        UnexpectedAnswer: The encoding is another than gzip or deflate, or several.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        encoding = headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _WINDOW_BITS:
            raise UnexpectedAnswer(f"the answer has the content encoding {encoding[:40]!r}, which was not asked for")
        bits = _WINDOW_BITS[encoding]
        self._packed = None if bits is None else zlib.decompressobj(bits)
        # Some send what is called deflate without the frame it should have (RFC 9110 8.4.1.2).
        self._unframed = zlib.decompressobj(_RAW_DEFLATE) if bits == zlib.MAX_WBITS else None

    def pieces(self, raw: bytes) -> Iterator[bytes]:
        """What some bytes of the body stand for.

        Raises:
            httpx.DecodingError: They are damaged.
            UnexpectedAnswer: They follow the end of what is compressed, or were never that.
        """
        if self._packed is None:
            yield raw
            return
        piece = b""
        # A piece that is full may not be all there is, also where no bytes are left.
        while raw or len(piece) == PIECE_BYTES:
            piece = self._unpacked(self._packed, raw)
            yield piece
            raw = self._packed.unconsumed_tail or self._packed.unused_data

    def _unpacked(self, packed: zlib._Decompress, raw: bytes) -> bytes:
        if raw and packed.eof:
            raise UnexpectedAnswer("the answer goes on after the end of its compressed content")
        try:
            piece = packed.decompress(raw, PIECE_BYTES)
        except zlib.error as exc:
            if self._unframed is None:
                # Other faults are those of something that was packed once.
                if _NEVER_PACKED in str(exc):
                    raise UnexpectedAnswer(
                        "the answer says it is compressed and is not; does base_url point elsewhere?"
                    ) from exc
                raise httpx.DecodingError(str(exc)) from exc
            self._packed = unframed = self._unframed
            self._unframed = None
            return self._unpacked(unframed, raw)
        self._unframed = None
        return piece


class Gathering:
    """Gathers a body of a limited size.

    Args:
        answer: Its status says which limit it has, and its headers how much there will be.

    Raises:
        UnexpectedAnswer: That is too much.
    """

    def __init__(self, answer: httpx.Response) -> None:
        self._most_bytes = MOST_BYTES if answer.is_success else MOST_ERROR_BYTES
        self._gathered = bytearray()
        self._require(announced_bytes(answer.headers))

    @property
    def content(self) -> bytes:
        """What there is so far."""
        return bytes(self._gathered)

    def add(self, piece: bytes) -> None:
        """Take what follows.

        Raises:
            UnexpectedAnswer: That is too much.
        """
        self._require(len(self._gathered) + len(piece))
        self._gathered += piece

    def _require(self, byte_count: int) -> None:
        if byte_count > self._most_bytes:
            raise UnexpectedAnswer(
                f"the answer has more than {self._most_bytes} bytes after decompression, which is the limit"
            )


class Body(io.RawIOBase):
    """The body of an answer as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what is there; 0 at the end."""
        while not self._rest and (chunk := next(self._chunks, None)) is not None:
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
