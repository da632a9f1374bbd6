"""A value, and the payload it was read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from mirror_sdk.wire.model import write_timestamp

PythonValue: TypeAlias = float | int | str | bool | datetime | bytes


class ValueKind(StrEnum):
    """What a value is; ``OPAQUE`` are bytes, ``NONE`` is no value at all."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    OBJLINK = "objlink"
    OPAQUE = "opaque"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Value:
    """A value and the payload it was read from.

    ``python`` is a ``float`` or ``int`` (number), ``str`` (text, objlink), ``bool``, aware UTC ``datetime`` (time),
    ``bytes`` (opaque) or ``None``. ``problem`` says why a payload could not be read as what it should be; it is
    ``None`` where nothing is wrong, also for bytes that are meant to be bytes.
    """

    kind: ValueKind
    python: PythonValue | None
    raw: bytes | None
    content_type: str | None
    problem: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """The value for people: times in RFC 3339, booleans as ``true``/``false``, bytes by size and beginning."""
        match self.python:
            case None:
                return ""
            case bool():
                return "true" if self.python else "false"
            case datetime():
                return write_timestamp(self.python)
            case bytes():
                return f"{len(self.python)} bytes {self.python[:8].hex(' ')}".rstrip()
        return str(self.python)


NO_VALUE = Value(ValueKind.NONE, None, None, None)
