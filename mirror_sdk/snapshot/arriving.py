"""The bytes of a snapshot or a history as they arrive, bounded after decompression before anything is made of them.

What a few bytes decompress to is said in what arrives, and may be anything: in a header of the answer, in front of a
buffer within an Arrow message. So each is looked at first. Source: wire.md 7.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
from pydantic import ValidationError

from mirror_sdk._protocol.operation import first_fault
from mirror_sdk._visible import visible_line
from mirror_sdk.errors import MirrorError, UnexpectedAnswer

MOST_BYTES_AT_ONCE = 128 * 1024 * 1024
"""The most bytes of one Arrow message; a service sends 16 MB, or one device where that has more."""
MOST_BYTES_OF_LINE = 48 * 1024 * 1024
"""The most bytes of one line. They are all held until its end is found, of which a small compressed answer may have
none."""
_LINE_BYTES_AT_A_TIME = 8 * 1024 * 1024
_PIECE_BYTES = 64 * 1024

_FAULTS = (pa.ArrowException, LookupError, OSError, OverflowError, TypeError, ValueError)
"""What Arrow, pandas and Python say of what they cannot read."""
_CONTINUATION = b"\xff\xff\xff\xff"
_VERSION, _KIND, _CONTENT, _BODY_BYTES = range(4)
_FIFTH_VERSION = 4
_DICTIONARY = 2
_RECORDS = 3
_BUFFERS, _COMPRESSION = 2, 3
_BUFFER = struct.Struct("<qq")
_SIZE = struct.Struct("<q")
_NOT_COMPRESSED = -1


class Bounded:
    """Counts what arrives after decompression.

    Args:
        most_bytes: How much it may have in all.
        what: What arrives, in a word.
        cure: What to do where it is too much, but for a larger limit.
    """

    def __init__(self, most_bytes: int, what: str = "snapshot", cure: str = "if the fleet is so large,") -> None:
        self.most_bytes = most_bytes
        self.what = what
        self._cure = cure
        self._left = most_bytes

    def not_as_agreed(self, fault: object) -> UnexpectedAnswer:
        """The error that what arrived is not what the interface says."""
        return UnexpectedAnswer(f"the {self.what} is not what the interface says: {visible_line(str(fault))}")

    @contextmanager
    def as_unexpected(self) -> Iterator[None]:
        """Whatever cannot be made of what arrived is told as what it is: not what the interface says."""
        try:
            yield
        except MirrorError:
            raise
        except _FAULTS as exc:
            raise self.not_as_agreed(first_fault(exc) if isinstance(exc, ValidationError) else exc) from exc

    def count(self, byte_count: int, most_bytes: int | None = None) -> None:
        """Count a piece, before it is made.

        Raises:
            UnexpectedAnswer: That is too much.
        """
        most_bytes = MOST_BYTES_AT_ONCE if most_bytes is None else most_bytes
        if byte_count > most_bytes:
            raise UnexpectedAnswer(
                f"a part of the {self.what} has {byte_count} bytes or more after decompression; {most_bytes} is the"
                " limit"
            )
        self.require(byte_count)
        self._left -= byte_count

    def require(self, byte_count: int) -> None:
        """Make sure that so much may still come.

        Raises:
            UnexpectedAnswer: That is too much.
        """
        if byte_count > self._left:
            raise UnexpectedAnswer(
                f"the {self.what} has more than max_snapshot_bytes={self.most_bytes} after decompression; {self._cure}"
                " give the client a larger max_snapshot_bytes (--max-snapshot-bytes)"
            )


class Lines:
    """The lines of an answer; the last one may be cut off.

    Attributes:
        is_cut: Whether the last one was.
    """

    def __init__(self, body: BinaryIO, bounded: Bounded) -> None:
        self._body = body
        self._bounded = bounded
        self.is_cut: bool = False

    def some_at_a_time(self, most_lines: int) -> Iterator[list[bytes | bytearray]]:
        """The lines in lists of so many, fewer where they are long.

        Raises:
            UnexpectedAnswer: A line, or all of them, is longer than may be.
        """
        some: list[bytes | bytearray] = []
        byte_count = 0
        while line := self._line():
            self.is_cut = not line.endswith(b"\n")
            if not self.is_cut:
                some.append(line)
                byte_count += len(line)
            if len(some) >= most_lines or byte_count >= _LINE_BYTES_AT_A_TIME:
                yield some
                some, byte_count = [], 0
        if some:
            yield some

    def _line(self) -> bytes | bytearray:
        """The next line, which is not gathered further than it may be long."""
        line = self._body.readline(_PIECE_BYTES)
        if line.endswith(b"\n") or not line:
            self._bounded.count(len(line))
            return line
        gathered = bytearray(line)
        while not line.endswith(b"\n") and (line := self._body.readline(_PIECE_BYTES)):
            gathered += line
            if len(gathered) > MOST_BYTES_OF_LINE:
                break
            self._bounded.require(len(gathered))
        self._bounded.count(len(gathered), MOST_BYTES_OF_LINE)
        return gathered


class Messages:
    """The messages of an Arrow stream, for Arrow to read from as from a file; what each becomes is counted before.

    Attributes:
        is_cut: Whether the answer ended within a message.
    """

    closed = False

    def __init__(self, body: BinaryIO, bounded: Bounded) -> None:
        self._body = body
        self._bounded = bounded
        self._parts = self._all_parts()
        self._rest = b""
        self.is_cut: bool = False

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the end."""
        # Arrow asks for the parts of a message one by one, so that nothing is copied here.
        taken = self._some(size)
        while len(taken) < size and (more := self._some(size - len(taken))):
            taken += more
        return taken

    def close(self) -> None:
        """Let go of what is read, which else is for a collection to find; the answer is its reader's to close."""
        self._parts.close()

    def _some(self, size: int) -> bytes:
        part = self._rest or next(self._parts, b"")
        self._rest = part[size:]
        return part[:size]

    def _all_parts(self) -> Generator[bytes]:
        """The parts of each message: its mark, the size of its head, its head and its body."""
        while head_size := self._exactly(4):
            if head_size == _CONTINUATION:
                yield head_size
                head_size = self._exactly(4)
            yield head_size
            size = int.from_bytes(head_size, "little", signed=True)
            if size == 0:
                return
            head = self._exactly(size)
            yield head
            try:
                yield self._body_of(head)
            except struct.error:
                raise self._bounded.not_as_agreed("a message is damaged") from None

    def _body_of(self, head: bytes) -> bytes:
        message = _table(head, 0)
        if _number("<h", head, message, _VERSION) != _FIFTH_VERSION:
            raise self._bounded.not_as_agreed("another version of Arrow's format")
        body = self._exactly(_number("<q", head, message, _BODY_BYTES))
        if (records := _records(head, message)) is not None:
            try:
                size = _decompressed_size(head, records, body)
            except ValueError as exc:
                raise self._bounded.not_as_agreed(exc) from None
            self._bounded.count(size)
        return body

    def _exactly(self, size: int) -> bytes:
        if not size >= 0:
            raise self._bounded.not_as_agreed(f"a message of {size} bytes")
        self._bounded.count(size)
        found = self._body.read(size)
        self.is_cut = self.is_cut or len(found) < size
        return found


def _decompressed_size(head: bytes, records: int, body: bytes) -> int:
    """What the buffers of a record batch have in addition to its body; nothing where they are not compressed."""
    buffers = _field(head, records, _BUFFERS)
    if buffers is None or _field(head, records, _COMPRESSION) is None:
        return 0
    vector = _table(head, buffers)
    (count,) = struct.unpack_from("<I", head, vector)
    size = 0
    for number in range(count):
        begin, length = _BUFFER.unpack_from(head, vector + 4 + number * _BUFFER.size)
        if length:
            (told,) = _SIZE.unpack_from(body, begin)
            size += 0 if told == _NOT_COMPRESSED else told
            if told < _NOT_COMPRESSED:
                raise ValueError(f"a buffer of {told} bytes")
    return size


def _records(head: bytes, message: int) -> int | None:
    """Where the table of the record batch begins in the head of a message; a dictionary has one within."""
    kind, content = _number("<B", head, message, _KIND), _field(head, message, _CONTENT)
    if content is None or kind not in {_DICTIONARY, _RECORDS}:
        return None
    table = _table(head, content)
    if kind == _RECORDS:
        return table
    within = _field(head, table, 1)
    return None if within is None else _table(head, within)


def _number(form: str, head: bytes, table: int, slot: int) -> int:
    place = _field(head, table, slot)
    number: int = 0 if place is None else struct.unpack_from(form, head, place)[0]
    return number


def _field(head: bytes, table: int, slot: int) -> int | None:
    """Where a field of a FlatBuffers table stands, as its virtual table says; ``None`` where it is left out."""
    (back,) = struct.unpack_from("<i", head, table)
    (length,) = struct.unpack_from("<H", head, table - back)
    if 4 + 2 * slot >= length:
        return None
    (offset,) = struct.unpack_from("<H", head, table - back + 4 + 2 * slot)
    return table + offset if offset else None


def _table(head: bytes, place: int) -> int:
    """Where what is referred to from here begins."""
    return place + int(struct.unpack_from("<I", head, place)[0])
