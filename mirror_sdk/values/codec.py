"""The interface of a codec: the functions that read, write and split the payloads of one content type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mirror_sdk.object_definitions import ResourceType
from mirror_sdk.values.value import PythonValue, ValueKind


class UnreadablePayload(ValueError):
    """A payload is not in the format of its content type; the message says why."""


class DecodedValue(NamedTuple):
    """The value of one resource in a payload. ``problem`` is the reason if it could not be decoded and stayed bytes."""

    kind: ValueKind
    python: PythonValue
    problem: str | None = None


class PayloadPart(NamedTuple):
    """The part of a payload that belongs to one resource, as a separate payload.

    It has ``value_count`` values, one per instance.

    ``seconds`` is the time of the values: since 1970, or relative to now if below 2**28. It is ``None`` if the format
    has no times. Source: RFC 8428, 4.5.3.
    """

    path: str
    raw: bytes
    content_type: str
    value_count: int = 1
    seconds: float | None = None


class Codec(NamedTuple):
    """The functions of a content type.

    Attributes:
        read: Takes a payload and a path, and returns the values by path, or raises :class:`UnreadablePayload`.
        write: Takes a checked value, a path and the declared type, and returns the payload, or raises ``InvalidValue``.
            ``None`` if only bytes can be written.
        split: Takes a payload and a path, and returns its parts, or raises :class:`UnreadablePayload`. ``None`` if a
            payload holds a single value.
    """

    read: Callable[[bytes, str], Mapping[str, DecodedValue]]
    write: Callable[[PythonValue, str, ResourceType | None], bytes] | None = None
    split: Callable[[bytes, str], list[PayloadPart]] | None = None
