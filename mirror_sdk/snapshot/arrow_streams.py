"""Streaming of the batches of a snapshot or a history from a response that is still arriving.

A few bytes can decompress to any size, and headers and messages can announce any size. Therefore every size is checked
before memory is allocated for it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from io import BufferedReader
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
from pydantic import ValidationError

from mirror_sdk._formatting import visible_line
from mirror_sdk._protocol.operation_base import CHECK_ADDRESS, content_type, elsewhere, first_fault
from mirror_sdk._protocol.response_body import announced_bytes
from mirror_sdk.errors import MirrorError, UnexpectedResponse
from mirror_sdk.snapshot.batch_checks import require_columns
from mirror_sdk.wire.snapshot import ARROW, END_KEY, NDJSON

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""The maximum size of an Arrow message.

The service sends messages of 16 MB, or larger ones if a single device needs more.
"""
MAX_LINE_BYTES = 48 * 1024 * 1024
"""The maximum length of a line.

A line is in memory until its end is found, and a small compressed response may contain a line without an end.
"""
_CHUNK_LINES = 200
_CHUNK_BYTES = 8 * 1024 * 1024
_READ_BYTES = 64 * 1024

_FAULTS = (pa.ArrowException, LookupError, OSError, OverflowError, TypeError, ValueError, struct.error)
"""The exceptions that Arrow, pandas and Python raise for content that they cannot read."""
_CONTINUATION = b"\xff\xff\xff\xff"
_VERSION, _KIND, _CONTENT, _BODY_BYTES = range(4)
_FIFTH_VERSION = 4
_DICTIONARY = 2
_RECORDS = 3
_BUFFERS, _COMPRESSION = 2, 3
_BUFFER = struct.Struct("<qq")
_SIZE = struct.Struct("<q")
_NOT_COMPRESSED = -1

Batch: TypeAlias = tuple[pa.RecordBatch, Mapping[bytes, bytes]]
"""The rows of a batch, and their metadata.

The metadata of the last batch contain the end of the response under ``END_KEY``.
"""
ConvertLines: TypeAlias = Callable[[Iterator[list[bytearray]]], Iterator[Batch]]
"""A function that converts chunks of lines in the NDJSON form to the batches of the Arrow form."""


class SizeLimit:
    """A limit on the total size of responses after decompression.

    Args:
        max_bytes: The maximum number of bytes of all responses together.
        content: A word for the content of the responses, for error messages.
        cure: A phrase that explains how to request less, for error messages.
    """

    def __init__(
        self, max_bytes: int, content: str = "snapshot", cure: str = "if the fleet really is that large,"
    ) -> None:
        self.content = content
        self._max_bytes = max_bytes
        self._cure = cure
        self._left = max_bytes

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Convert the exceptions for content that cannot be read to :class:`~mirror_sdk.UnexpectedResponse`."""
        try:
            yield
        except MirrorError:
            raise
        except _FAULTS as exc:
            fault = first_fault(exc) if isinstance(exc, ValidationError) else str(exc)
            raise UnexpectedResponse(
                f"the {self.content} does not follow the mirror API: {visible_line(fault)}; {CHECK_ADDRESS}"
            ) from exc

    def count(self, byte_count: int, max_chunk_bytes: int) -> None:
        """Count a chunk of a response, before memory is allocated for it.

        Raises:
            UnexpectedResponse: The chunk is too large, or the sum of all chunks is.
        """
        self.require(byte_count, max_chunk_bytes)
        self._left -= byte_count

    def require(self, byte_count: int, max_chunk_bytes: float = math.inf) -> None:
        """Check that a chunk of this size is allowed.

        Raises:
            UnexpectedResponse: The chunk is too large, or the sum of all chunks is.
        """
        if byte_count > max_chunk_bytes:
            raise UnexpectedResponse(
                f"a part of the {self.content} has at least {byte_count} bytes after decompression; the limit is"
                f" {max_chunk_bytes}. Check base_url: a mirror sends smaller parts"
            )
        if byte_count > self._left:
            raise UnexpectedResponse(
                f"the {self.content} has more than max_snapshot_bytes={self._max_bytes} after decompression;"
                f" {self._cure} pass the client a larger max_snapshot_bytes (--max-snapshot-bytes)"
            )


def read_batches(
    headers: Mapping[str, str],
    body: BufferedReader[Any],
    limit: SizeLimit,
    columns: pa.Schema,
    convert_lines: ConvertLines,
) -> Iterator[Batch]:
    """Return the batches of a response, up to the batch with the end.

    If there is no batch with the end, the response was cut off.

    The headers are checked before the first byte of the body is read.

    Args:
        headers: The headers of the response.
        body: The body of the response.
        limit: The limit of the size.
        columns: The schema of the columns to read.
        convert_lines: A function that converts the NDJSON form.

    Raises:
        UnexpectedResponse: The response has another content type, it is damaged or too large, or it continues after its
            end.
    """
    limit.require(announced_bytes(headers))
    form = content_type(headers)
    if form not in {ARROW, NDJSON}:
        raise UnexpectedResponse(f"the response is not a {limit.content}{elsewhere(headers)}")
    lines = _Lines(body, limit)
    batches = _arrow_batches(body, limit, columns) if form == ARROW else lines.batches(convert_lines)
    # This is a separate generator. If it were part of this function, nothing would be checked before the first batch is
    # requested.
    return _up_to_end(batches, lines, body, limit)


def _up_to_end(batches: Iterator[Batch], lines: _Lines, body: BufferedReader[Any], limit: SizeLimit) -> Iterator[Batch]:
    has_ended = False
    for batch, metadata in batches:
        if has_ended:
            raise UnexpectedResponse(f"the {limit.content} continues after its end")
        has_ended = END_KEY in metadata
        yield batch, metadata
    # The response is read to its very end, so that the connection can be used again.
    if has_ended and (lines.is_cut or body.read(1)):
        raise UnexpectedResponse(f"the {limit.content} continues after its end")


def _arrow_batches(body: BinaryIO, limit: SizeLimit, columns: pa.Schema) -> Iterator[Batch]:
    messages = _Messages(body, limit)
    try:
        with limit.checking(), closing(messages), pa.ipc.open_stream(messages) as stream:
            require_columns(stream.schema, columns)
            for batch, metadata in stream.iter_batches_with_custom_metadata():
                yield batch, metadata or {}
    # A response that was cut off is not invalid. It lacks the batch with the end, which is how the caller recognizes
    # it.
    except UnexpectedResponse:
        if not messages.is_cut:
            raise


class _Lines:
    """The lines of a response.

    Attributes:
        is_cut: Whether the last line was cut off. Such a line is omitted.
    """

    def __init__(self, body: BinaryIO, limit: SizeLimit) -> None:
        self._body = body
        self._limit = limit
        self.is_cut: bool = False

    def batches(self, convert_lines: ConvertLines) -> Iterator[Batch]:
        with self._limit.checking():
            yield from convert_lines(self._chunks())

    def _chunks(self) -> Iterator[list[bytearray]]:
        chunk: list[bytearray] = []
        byte_count = 0
        while line := self._line():
            self.is_cut = not line.endswith(b"\n")
            if not self.is_cut:
                chunk.append(line)
                byte_count += len(line)
            if len(chunk) >= _CHUNK_LINES or byte_count >= _CHUNK_BYTES:
                yield chunk
                chunk, byte_count = [], 0
        if chunk:
            yield chunk

    def _line(self) -> bytearray:
        line = bytearray()
        # The line is read in pieces, so that a line without an end fails before it fills the memory.
        while not line.endswith(b"\n") and (chunk := self._body.readline(_READ_BYTES)):
            line += chunk
            self._limit.require(len(line), MAX_LINE_BYTES)
        self._limit.count(len(line), MAX_LINE_BYTES)
        return line


class _Messages:
    """A file object from which Arrow reads a stream of messages.

    The decompressed size of each message is checked first.

    Attributes:
        is_cut: Whether the response ended within a message.
    """

    # Arrow reads this attribute of every file object.
    closed = False

    def __init__(self, body: BinaryIO, limit: SizeLimit) -> None:
        self._body = body
        self._limit = limit
        self._chunks_left = self._all_chunks()
        self._rest = b""
        self.is_cut: bool = False

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, or fewer at the end."""
        # Arrow reads a message chunk by chunk, so no data are copied here.
        data = self._read_once(size)
        while len(data) < size and (more := self._read_once(size - len(data))):
            data += more
        return data

    def close(self) -> None:
        """Release the generator immediately instead of at a garbage collection.

        The reader of the response closes the response.
        """
        self._chunks_left.close()

    def _read_once(self, size: int) -> bytes:
        chunk = self._rest or next(self._chunks_left, b"")
        self._rest = chunk[size:]
        return chunk[:size]

    def _all_chunks(self) -> Generator[bytes]:
        """Yield the chunks of each message: its continuation marker, the size of its head, its head and its body."""
        while head_size := self._exactly(4):
            if head_size == _CONTINUATION:
                yield head_size
                head_size = self._exactly(4)
            yield head_size
            size = int.from_bytes(head_size, "little", signed=True)
            # This is the marker of the end of a stream.
            if size == 0:
                return
            head = self._exactly(size)
            yield head
            yield self._body_of(head)

    def _body_of(self, head: bytes) -> bytes:
        message = _table(head, 0)
        if _number("<h", head, message, _VERSION) != _FIFTH_VERSION:
            raise ValueError("another version of Arrow's format")
        body = self._exactly(_number("<q", head, message, _BODY_BYTES))
        if (records := _records(head, message)) is not None:
            self._limit.count(_decompressed_size(head, records, body), MAX_MESSAGE_BYTES)
        return body

    def _exactly(self, size: int) -> bytes:
        if size < 0:
            raise ValueError(f"a message of {size} bytes")
        self._limit.count(size, MAX_MESSAGE_BYTES)
        found = self._body.read(size)
        self.is_cut = self.is_cut or len(found) < size
        return found


def _decompressed_size(head: bytes, records: int, body: bytes) -> int:
    """Return the size of the decompressed buffers of a record batch. It is 0 if they are not compressed."""
    buffers = _field(head, records, _BUFFERS)
    if buffers is None or _field(head, records, _COMPRESSION) is None:
        return 0
    vector = _table(head, buffers)
    # A FlatBuffers vector begins with its length, and a compressed buffer begins with its decompressed size.
    (count,) = struct.unpack_from("<I", head, vector)
    size = 0
    for number in range(count):
        begin, length = _BUFFER.unpack_from(head, vector + 4 + number * _BUFFER.size)
        if length:
            (announced,) = _SIZE.unpack_from(body, begin)
            size += 0 if announced == _NOT_COMPRESSED else announced
            if announced < _NOT_COMPRESSED:
                raise ValueError(f"a buffer of {announced} bytes")
    return size


def _records(head: bytes, message: int) -> int | None:
    """Return the offset of the record batch in the head of a message. A dictionary also contains a record batch."""
    kind, content = _number("<B", head, message, _KIND), _field(head, message, _CONTENT)
    if content is None or kind not in {_DICTIONARY, _RECORDS}:
        return None
    table = _table(head, content)
    if kind == _RECORDS:
        return table
    within = _field(head, table, 1)
    return None if within is None else _table(head, within)


def _number(form: str, head: bytes, table: int, slot: int) -> int:
    offset = _field(head, table, slot)
    number: int = 0 if offset is None else struct.unpack_from(form, head, offset)[0]
    return number


def _field(head: bytes, table: int, slot: int) -> int | None:
    """Return the offset of a field of a FlatBuffers table, according to its virtual table.

    The result is ``None`` if the field is omitted.
    """
    (distance,) = struct.unpack_from("<i", head, table)
    (length,) = struct.unpack_from("<H", head, table - distance)
    if 4 + 2 * slot >= length:
        return None
    (offset,) = struct.unpack_from("<H", head, table - distance + 4 + 2 * slot)
    return table + offset if offset else None


def _table(head: bytes, offset: int) -> int:
    """Return the target of the reference at this offset."""
    return offset + int(struct.unpack_from("<I", head, offset)[0])
