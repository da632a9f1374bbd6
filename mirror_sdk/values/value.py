"""A value, together with the payload from which it was decoded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from mirror_sdk._formatting import visible
from mirror_sdk.wire.model import JsonForm, plain, write_timestamp

PythonValue: TypeAlias = float | int | str | bool | datetime | bytes
InstanceValues: TypeAlias = Mapping[int, PythonValue]
"""The values of a multiple resource, sorted by the id of the resource instance."""
BASE64_MARK = "base64:"
"""The prefix of a base64 string that is empty or could also be read as hex digits."""


class ValueKind(StrEnum):
    """The kind of a value. ``OPAQUE`` means bytes, ``NONE`` no value, ``MULTIPLE`` one value per instance."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    OBJLINK = "objlink"
    OPAQUE = "opaque"
    NONE = "none"
    MULTIPLE = "multiple"


@dataclass(frozen=True, slots=True)
class Value(JsonForm):
    """A value, together with the payload from which it was decoded.

    Attributes:
        kind: The kind of the value.
        python: The value. It is a ``float`` or ``int`` (number), a ``str`` (text, objlink), a ``bool``, a UTC
            ``datetime`` with a time zone (time), ``bytes`` (opaque) or ``None``. For the kind ``MULTIPLE``, it is a
            mapping of these values by resource instance id.
        raw: The payload.
        content_type: The content type of the payload.
        problem: The reason why the payload could not be decoded as the declared type, or ``None`` if there was no
            problem.
    """

    kind: ValueKind
    # A mapping cannot be hashed, so it is left out.
    python: PythonValue | InstanceValues | None = field(hash=False)
    raw: bytes | None
    content_type: str | None
    problem: str | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        r"""Return ``kind``, ``value``, ``base64``, ``content_type`` and ``problem`` for any JSON encoder.

        For bytes, ``base64`` contains the value and ``value`` is ``None``. For a resource with several instances,
        ``value`` is a dictionary from instance ids to values, such as ``{"0": 3800}``. Instances that are bytes are
        base64 strings in it.

        >>> from mirror_sdk.values import decode
        >>> decode(b"21.5", "text/plain", "/3303/0/5700").to_dict()["value"]
        21.5
        >>> value = decode(b"\xff\x00", "application/octet-stream", "/9999/0/1").to_dict()
        >>> value["kind"], value["value"], value["base64"], value["content_type"]
        ('opaque', None, '/wA=', 'application/octet-stream')
        """
        is_opaque = isinstance(self.python, bytes)
        return {
            "kind": plain(self.kind),
            "value": None if is_opaque else plain(self.python),
            "base64": plain(self.python) if is_opaque else None,
            "content_type": plain(self.content_type),
            "problem": plain(self.problem),
        }

    def __str__(self) -> str:
        r"""Format the value for users.

        Times are in RFC 3339, booleans are words, and bytes are cut and have their size.

        Control characters and invisible characters become escapes such as ``\x1b``. ``python`` contains the unchanged
        text.
        """
        return visible(plain_text(self))


def plain_text(value: Value) -> str:
    """Format a value for files and programs. Unlike ``str()``, this does not escape control characters."""
    match value.python:
        case None:
            return ""
        case bytes():
            return f"{len(value.python)} bytes {value.python[:8].hex(' ')}".rstrip()
    return written(value.python)


def written(python: PythonValue | InstanceValues) -> str:
    """Format a value in the form in which people type it: times in RFC 3339, booleans as words, bytes as hex digits.

    The values of a multiple resource become a JSON object by instance id, in which times and bytes are strings.

    >>> written({0: 3800, 1: 5000})
    '{"0": 3800, "1": 5000}'
    """
    match python:
        case Mapping():
            texts = {key: written(one) if isinstance(one, datetime | bytes) else one for key, one in python.items()}
            return json.dumps(texts, ensure_ascii=False)
        case bool():
            return "true" if python else "false"
        case datetime():
            return write_timestamp(python)
        case bytes():
            return python.hex(" ") or BASE64_MARK
    return str(python)


NO_VALUE = Value(ValueKind.NONE, None, None, None)


def same(one: Value, other: Value) -> bool:
    """Return whether two values are equal, even if they have different content types."""
    return one.kind is other.kind and one.python == other.python
