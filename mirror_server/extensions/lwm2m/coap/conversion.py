"""Requests and responses as messages, and back. Source: RFC 7252, section 5; RFC 7959."""

from __future__ import annotations

from mirror_server.extensions.lwm2m.coap.messages import (
    BLOCK_BYTES,
    Block,
    Message,
    Option,
    Type,
    code_number,
    code_text,
)
from mirror_server.extensions.lwm2m.exchange import Method, Request, Response

METHODS: dict[int, Method] = {1: "GET", 2: "POST", 3: "PUT", 4: "DELETE"}
_METHOD_CODES = {method: code for code, method in METHODS.items()}
_CONTENT_FORMAT, _MAX_AGE, _LOCATION_PATH = map(int, (Option.CONTENT_FORMAT, Option.MAX_AGE, Option.LOCATION_PATH))
"""As numbers, for what comes by the thousand: to look up a member of an enumeration takes longer than to compare it."""


def request_message(
    request: Request,
    token: bytes,
    *,
    observe: int | None = None,
    upload: Block | None = None,
    download: Block | None = None,
) -> Message:
    """A request as its message: whole, with the block of it that is told, or for a further block of the answer."""
    message = Message(Type.CONFIRMABLE, _METHOD_CODES[request.method], 0, token)
    message.add_number(Option.OBSERVE, observe)
    if request.path != "/":
        message.options += [(Option.URI_PATH, part.encode()) for part in request.path[1:].split("/")]
    message.options += [(Option.URI_QUERY, part.encode()) for part in request.query]
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
    """A message as the request that it is.

    Raises:
        ValueError: Its path or its query is not to be understood.
    """
    parts = message.texts(Option.URI_PATH)
    if any("/" in part for part in parts):
        raise ValueError("a part of the path holds a slash")
    return Request(
        METHODS[message.code],
        "/" + "/".join(parts),
        message.texts(Option.URI_QUERY),
        message.payload,
        message.number(Option.CONTENT_FORMAT),
        message.number(Option.ACCEPT),
    )


def response_of(message: Message) -> Response:
    """A message as the response that it is."""
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
    """A response as its message, which is an acknowledgement unless it is sent otherwise; ``sequence``: of Observe."""
    message = Message(Type.ACKNOWLEDGEMENT, code_number(response.code), 0, payload=response.payload)
    message.add_number(Option.OBSERVE, sequence)
    message.options += [(Option.LOCATION_PATH, part.encode()) for part in response.location]
    message.add_number(Option.CONTENT_FORMAT, response.content_format)
    message.add_number(Option.MAX_AGE, response.max_age_seconds)
    return message


def block_of(response: Message, wanted: Block | None) -> Message:
    """The block of an answer that was asked for, where it does not fit into one."""
    wanted = wanted or Block(0, False, BLOCK_BYTES)
    begin, end = wanted.offset, wanted.offset + wanted.size
    if len(response.payload) <= wanted.size and not begin:
        return response
    if begin >= len(response.payload):
        return refusal("4.02", "there is no such block")
    block = Block(wanted.number, end < len(response.payload), wanted.size)
    response.payload = response.payload[begin:end]
    response.options.append((Option.BLOCK2, block.encode()))
    return response


def refusal(code: str, text: str) -> Message:
    """A refusal, with a diagnostic payload. Source: RFC 7252, section 5.5.2."""
    return Message(Type.ACKNOWLEDGEMENT, code_number(code), 0, payload=text.encode())
