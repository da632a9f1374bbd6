"""The interface of a codec: the functions that read, write and split the payloads of one content type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mirror_sdk.object_table import ResourceType
from mirror_sdk.values.value import PythonValue, ValueKind


class UnreadablePayload(ValueError):
    """A payload is not in the format of its content type; the message says why."""


class Reading(NamedTuple):
    """The value of one resource in a payload, and why it stayed bytes if it should not have."""

    kind: ValueKind
    python: PythonValue
    problem: str | None = None


class Part(NamedTuple):
    """The part of a payload about one resource, as a payload of its own with ``value_count`` values, one per instance.

    ``seconds`` is the time of the values in the payload: since 1970, or relative to now if it is below 2**28; ``None``
    where the format has none. Source: RFC 8428, 4.5.3.
    """

    path: str
    raw: bytes
    content_type: str
    value_count: int = 1
    seconds: float | None = None


class Codec(NamedTuple):
    """The functions of a content type; they take the payload, or a checked value, and the path.

    ``read`` returns the values by path. ``write`` is ``None`` where only bytes are written, and ``split`` where a
    payload holds a single value. ``read`` and ``split`` raise ``UnreadablePayload``, ``write`` raises ``InvalidValue``.
    """

    read: Callable[[bytes, str], Mapping[str, Reading]]
    write: Callable[[PythonValue, str, ResourceType | None], bytes] | None = None
    split: Callable[[bytes, str], list[Part]] | None = None
