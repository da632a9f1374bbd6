"""The parsing and encoding of CoAP messages, and their conversion to requests and responses.

aiocoap's ``Message`` is not used, because it never frees unknown option numbers and content formats. It also accepts
options that are not UTF-8 until they are accessed.

Source: RFC 7252, 3 and 5; RFC 7959.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from operator import itemgetter
from typing import NamedTuple

from mirror_server.extensions.lwm2m.transport_api import Method, Request, Response


class Type(IntEnum):
    """The type of a message, with its value in the datagram."""

    CONFIRMABLE = 0
    NON_CONFIRMABLE = 1
    ACKNOWLEDGEMENT = 2
    RESET = 3


class Option(IntEnum):
    """The supported options.

    Options with odd numbers are critical. A message with an unknown critical option must be rejected.
    """

    URI_HOST = 3
    ETAG = 4
    OBSERVE = 6
    URI_PORT = 7
    LOCATION_PATH = 8
    URI_PATH = 11
    CONTENT_FORMAT = 12
    MAX_AGE = 14
    URI_QUERY = 15
    ACCEPT = 17
    BLOCK2 = 23
    BLOCK1 = 27
    SIZE1 = 60


EMPTY = 0x00
BLOCK_BYTES = 1024
"""The maximum block size, which is used unless the peer requests smaller blocks."""
_VERSION = 1
_MAX_TOKEN_BYTES = 8
_PAYLOAD_MARKER = 0xFF
_MAX_IN_HEAD = 12
"""The maximum delta or length of an option in the first byte. Larger numbers are encoded in additional bytes."""
_MAX_BYTES = {
    Option.ETAG: 8,
    Option.OBSERVE: 3,
    Option.CONTENT_FORMAT: 2,
    Option.MAX_AGE: 4,
    Option.ACCEPT: 2,
    Option.BLOCK2: 3,
    Option.BLOCK1: 3,
    Option.SIZE1: 4,
}
METHODS: dict[int, Method] = {1: "GET", 2: "POST", 3: "PUT", 4: "DELETE"}
_METHOD_CODES = {method: code for code, method in METHODS.items()}
_CONTENT_FORMAT, _MAX_AGE, _LOCATION_PATH = map(int, (Option.CONTENT_FORMAT, Option.MAX_AGE, Option.LOCATION_PATH))
"""Options as plain integers for thousands of notifications, because accessing an enum member is slower."""
_MAX_BYTES_OF_OPTION = {int(option): _MAX_BYTES.get(option, 0xFFFF) for option in Option}


class NotCoap(Exception):
    """A datagram is not a CoAP message. If ``message_id`` is set, the response is a reset."""

    def __init__(self, reason: str, message_id: int | None = None) -> None:
        super().__init__(reason)
        self.message_id = message_id


class BlockOption(NamedTuple):
    """The value of a Block option. Source: RFC 7959, section 2.2.

    ``number`` is the number of the block, ``more`` is whether other blocks follow, and ``size`` is the block size in
    bytes.
    """

    number: int
    more: bool
    size: int

    @property
    def offset(self) -> int:
        """The offset of the block in the complete payload in bytes."""
        return self.number * self.size

    def encode(self) -> bytes:
        """Return the value of the option as bytes."""
        return _uint(self.number << 4 | self.more << 3 | self.size.bit_length() - 5)


@dataclass(slots=True)
class Message:
    """A CoAP message.

    ``options`` contains the known options in their order in the datagram. ``unknown_critical`` is the number of the
    first unsupported critical option, or ``None`` without such an option.
    """

    type: int
    code: int
    message_id: int
    token: bytes = b""
    options: list[tuple[int, bytes]] = field(default_factory=list)
    payload: bytes = b""
    unknown_critical: int | None = None

    def first(self, option: int) -> bytes | None:
        """Return the first value of an option, or ``None`` if the message does not have the option."""
        for number, value in self.options:
            if number == option:
                return value
        return None

    def number(self, option: int) -> int | None:
        """Return the first value of a numeric option, or ``None`` if the message does not have the option."""
        value = self.first(option)
        return None if value is None else int.from_bytes(value, "big")

    def add_number(self, option: Option, value: int | None) -> None:
        """Add a numeric option, unless the value is ``None``."""
        if value is not None:
            self.options.append(uint_option(option, value))

    def texts(self, option: int) -> tuple[str, ...]:
        """Return all values of a string option.

        Raises:
            UnicodeDecodeError: A value is not UTF-8.
        """
        return tuple(value.decode() for number, value in self.options if number == option)

    def block(self, option: int) -> BlockOption | None:
        """Return the value of a Block option. The reserved size 2048 is read as 1024."""
        value = self.number(option)
        return None if value is None else BlockOption(value >> 4, bool(value & 8), 1 << min(value & 7, 6) + 4)

    def encode(self) -> bytes:
        """Return the message as the bytes of a datagram."""
        head = bytes((_VERSION << 6 | self.type << 4 | len(self.token), self.code))
        fields = [head, self.message_id.to_bytes(2, "big"), self.token]
        last = 0
        # The sort is stable, so the segments of a path keep their order.
        for number, value in sorted(self.options, key=itemgetter(0)):
            (first, more), (second, rest) = _nibble(number - last), _nibble(len(value))
            fields += bytes((first << 4 | second,)), more, rest, value
            last = number
        if self.payload:
            fields.append(b"\xff" + self.payload)
        return b"".join(fields)


def decode(datagram: bytes) -> Message:
    """Parse a datagram.

    Raises:
        NotCoap: The datagram is not a CoAP message.
    """
    if len(datagram) < 4 or datagram[0] >> 6 != _VERSION:
        raise NotCoap("not a message of CoAP version 1")
    kind = datagram[0] >> 4 & 3
    code = datagram[1]
    message = Message(kind, code, datagram[2] << 8 | datagram[3])
    token_length = datagram[0] & 15
    if code == EMPTY:
        # An empty acknowledgement with content is accepted, because one client was observed to send one with an option.
        if kind == Type.CONFIRMABLE and (len(datagram) > 4 or token_length):
            raise _malformed(message, "an empty message must not have content")
        return message
    if token_length > _MAX_TOKEN_BYTES or len(datagram) < 4 + token_length:
        raise _malformed(message, "the token is too long")
    message.token = datagram[4 : 4 + token_length]
    _read_options(message, datagram, 4 + token_length)
    return message


def _read_options(message: Message, datagram: bytes, at: int) -> None:
    number = 0
    end = len(datagram)
    while at < end:
        head = datagram[at]
        at += 1
        if head == _PAYLOAD_MARKER:
            if at == end:
                raise _malformed(message, "there is a payload marker without a payload")
            message.payload = datagram[at:]
            return
        delta, length = head >> 4, head & 15
        if delta > _MAX_IN_HEAD:
            delta, at = _extended(message, datagram, delta, at)
        if length > _MAX_IN_HEAD:
            length, at = _extended(message, datagram, length, at)
        number += delta
        if at + length > end:
            raise _malformed(message, "an option is truncated")
        # An option with a value that is too long counts as unknown. Source: RFC 7252, 5.4.3.
        if length <= _MAX_BYTES_OF_OPTION.get(number, -1):
            message.options.append((number, datagram[at : at + length]))
        elif number & 1 and message.unknown_critical is None:
            message.unknown_critical = number
        at += length


def _extended(message: Message, datagram: bytes, value: int, at: int) -> tuple[int, int]:
    # 13 and 14 mean that one or two bytes follow, and 15 is reserved. Source: RFC 7252, 3.1.
    width = value - _MAX_IN_HEAD
    if value == 15 or at + width > len(datagram):
        raise _malformed(message, "an option is truncated")
    return int.from_bytes(datagram[at : at + width], "big") + (13 if width == 1 else 269), at + width


def _malformed(message: Message, reason: str) -> NotCoap:
    # All other malformed messages are ignored without a reset. Source: RFC 7252, 4.2 and 4.3.
    return NotCoap(reason, message.message_id if message.type == Type.CONFIRMABLE else None)


def _nibble(value: int) -> tuple[int, bytes]:
    if value <= _MAX_IN_HEAD:
        return value, b""
    if value < 269:
        return 13, bytes((value - 13,))
    return 14, (value - 269).to_bytes(2, "big")


def _uint(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def uint_option(option: Option, value: int) -> tuple[int, bytes]:
    """Return a numeric option, encoded in as few bytes as possible."""
    return int(option), _uint(value)


_CODE_TEXTS = tuple(f"{code >> 5}.{code & 31:02d}" for code in range(256))


def code_text(code: int) -> str:
    """Return a code as a string such as ``2.05``."""
    return _CODE_TEXTS[code]


def code_number(text: str) -> int:
    """Return the number of a code that is written as a string such as ``2.05``."""
    kind, detail = text.split(".")
    return int(kind) << 5 | int(detail)


def is_request(code: int) -> bool:
    """Return whether a code is the code of a request."""
    return 0 < code < 32


def is_response(code: int) -> bool:
    """Return whether a code is the code of a response."""
    return 64 <= code < 192


def request_message(
    request: Request,
    token: bytes,
    *,
    observe: int | None = None,
    upload: BlockOption | None = None,
    download: BlockOption | None = None,
) -> Message:
    """Return the message for a complete request, for one block of it, or for a request for a block of the response."""
    message = Message(Type.CONFIRMABLE, _METHOD_CODES[request.method], 0, token)
    message.add_number(Option.OBSERVE, observe)
    if request.path != "/":
        message.options += [(Option.URI_PATH, segment.encode()) for segment in request.path[1:].split("/")]
    message.options += [(Option.URI_QUERY, text.encode()) for text in request.query]
    message.add_number(Option.CONTENT_FORMAT, request.content_format)
    message.add_number(Option.ACCEPT, request.accept)
    if download is not None:
        message.options.append((Option.BLOCK2, download.encode()))
        return message
    message.payload = request.payload
    if upload is not None:
        message.payload = request.payload[upload.offset : upload.offset + upload.size]
        message.options.append((Option.BLOCK1, upload.encode()))
        message.add_number(Option.SIZE1, None if upload.number else len(request.payload))
    return message


def request_of(message: Message) -> Request:
    """Return the request in a message.

    Raises:
        ValueError: The path or the query of the request is not valid.
    """
    segments = message.texts(Option.URI_PATH)
    # In the joined path, such a segment would look like two segments.
    if any("/" in segment for segment in segments):
        raise ValueError("a path segment contains a slash")
    return Request(
        METHODS[message.code],
        "/" + "/".join(segments),
        message.texts(Option.URI_QUERY),
        message.payload,
        message.number(Option.CONTENT_FORMAT),
        message.number(Option.ACCEPT),
    )


def response_of(message: Message) -> Response:
    """Return the response in a message."""
    content_format = max_age = None
    location: tuple[str, ...] = ()
    for number, value in message.options:
        if number == _CONTENT_FORMAT:
            content_format = int.from_bytes(value, "big")
        elif number == _MAX_AGE:
            max_age = int.from_bytes(value, "big")
        elif number == _LOCATION_PATH:
            location = (*location, value.decode(errors="replace"))
    return Response(code_text(message.code), message.payload, content_format, max_age, location)


def response_message(response: Response, sequence: int | None = None) -> Message:
    """Return the message for a response, as an acknowledgement. ``sequence`` is the value of its Observe option."""
    message = Message(Type.ACKNOWLEDGEMENT, code_number(response.code), 0, payload=response.payload)
    message.add_number(Option.OBSERVE, sequence)
    message.options += [(Option.LOCATION_PATH, segment.encode()) for segment in response.location]
    message.add_number(Option.CONTENT_FORMAT, response.content_format)
    message.add_number(Option.MAX_AGE, response.max_age_seconds)
    return message


def block_of(response: Message, requested: BlockOption | None) -> Message:
    """Return the requested block of a response, or the response itself if it fits into one block."""
    requested = requested or BlockOption(0, False, BLOCK_BYTES)
    start, end = requested.offset, requested.offset + requested.size
    if len(response.payload) <= requested.size and not start:
        return response
    if start >= len(response.payload):
        return error_response("4.02", "there is no such block")
    block = BlockOption(requested.number, end < len(response.payload), requested.size)
    response.payload = response.payload[start:end]
    response.options.append((Option.BLOCK2, block.encode()))
    return response


def error_response(code: str, text: str) -> Message:
    """Return an error response with a diagnostic payload. Source: RFC 7252, section 5.5.2."""
    return Message(Type.ACKNOWLEDGEMENT, code_number(code), 0, payload=text.encode())
