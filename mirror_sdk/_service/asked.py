"""What is asked of a device besides method, device and path, of what a caller gives. Source: wire.md 2."""

from __future__ import annotations

from typing import TypedDict

from mirror_sdk._arguments import text as text_argument
from mirror_sdk.resource import ExpectedValue, expected_revision
from mirror_sdk.values import encode
from mirror_sdk.values.typed import given_value
from mirror_sdk.wire.device_requests import DEFAULT_CONTENT_TYPE


class Asked(TypedDict, total=False):
    """What goes with a device request; what is not there, or ``None``, is left to the service."""

    payload: bytes | None
    content_type: str | None
    accept: str | None
    if_match: int | None


def to_write(
    path: str,
    value: object,
    text: str | None,
    content_type: str | None,
    *,
    allow_read_only: bool,
    if_match: ExpectedValue | None,
) -> Asked:
    """What a write takes along; ``text`` is what people typed, in the place of ``value``.

    Raises:
        InvalidValue: The value or the text does not go with what is declared for the path, there are both or neither,
            or it is declared read-only and ``allow_read_only`` is not set.
    """
    payload, content_type = encode(given_value(value, text, path), path, content_type, allow_read_only=allow_read_only)
    revision = None if if_match is None else expected_revision(if_match)
    return {"payload": payload, "content_type": content_type, "if_match": revision}


def to_execute(argument: str | None) -> Asked:
    """What an execution takes along.

    Raises:
        TypeError: The argument is no text.
    """
    if argument is None:
        return {}
    return {"payload": text_argument("argument", argument).encode(), "content_type": DEFAULT_CONTENT_TYPE}
