"""The interface of a codec: the functions that read, write and split payloads of one content type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mirror_sdk.object_definitions import ResourceType
from mirror_sdk.values.value import PythonValue, ValueKind


class UnreadablePayload(ValueError):
    """A payload is not in the format of its content type. The message contains the reason."""


class DecodedValue(NamedTuple):
    """The value of one resource in a payload. A value that could not be decoded is bytes and has a ``problem``."""

    kind: ValueKind
    python: PythonValue
    problem: str | None = None


class PayloadPart(NamedTuple):
    """The part of a payload that belongs to one resource, as a payload of its own.

    ``value_count`` is the number of values in the part, one for each instance of the resource.

    ``seconds`` is the time of the values. It is in seconds since 1970. Numbers below 2**28 are relative to the current
    time. It is ``None`` if the format has no times. Source: RFC 8428, 4.5.3.
    """

    path: str
    raw: bytes
    content_type: str
    value_count: int = 1
    seconds: float | None = None


class Codec(NamedTuple):
    """The functions for the payloads of a content type.

    Attributes:
        read: A function that receives a payload and a path. It returns the values by path, or raises
            :class:`UnreadablePayload`.
        write: A function that receives a checked value, a path and the declared type. It returns the payload, or raises
            ``InvalidValue``. ``None`` means that only bytes can be written.
        split: A function that receives a payload and a path. It returns the parts of the payload, or raises
            :class:`UnreadablePayload`. ``None`` means that a payload contains only one value.
    """

    read: Callable[[bytes, str], Mapping[str, DecodedValue]]
    write: Callable[[PythonValue, str, ResourceType | None], bytes] | None = None
    split: Callable[[bytes, str], list[PayloadPart]] | None = None
