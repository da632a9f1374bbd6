"""The values in the payloads of devices, and their conversion to the form that the mirror stores.

Numbers in text remain unchanged. Values in TLV, SenML or CBOR are converted to text of the type that the object
definitions declare. So equal values are stored in the same form.

Source: LwM2M core 1.0 (6.4) and 1.1 (7.4); RFC 8428.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.values import JSON, LINK_FORMAT, LWM2M_TLV, OCTET_STREAM, TEXT_PLAIN, decode
from mirror_sdk.values.codec import PayloadPart, UnreadablePayload
from mirror_sdk.values.content_types import CONTENT_FORMATS, media_type
from mirror_sdk.values.decoding import split
from mirror_sdk.values.lwm2m_types import is_integer_for_float
from mirror_sdk.values.single_value_formats import write_text
from mirror_sdk.wire.paths import is_resource
from mirror_server.core.timestamps import Instant
from mirror_server.devices.interface import Content
from mirror_server.extensions.lwm2m.links import is_opaque

_STORED_AS_SENT = frozenset({TEXT_PLAIN, OCTET_STREAM, JSON, LINK_FORMAT})
"""The types whose payloads of one resource are stored unchanged, because they decode to the same value everywhere."""
_RELATIVE_SECONDS = 2**28
"""The limit below which a SenML time is relative to the current time. Source: RFC 8428, 4.5.3."""
MAX_VALUES = 3000
EVERYTHING = "/"
"""The path of a payload with values of any resources, as in the Send operation of LwM2M 1.1."""


class BadPayload(ValueError):
    """A payload contains no value that can be stored. The message has the reason."""


class ReportedPayload(NamedTuple):
    """The value of a resource.

    ``changed_at`` is the time in the payload. It is ``None`` if the payload has no time or the time is not in the past.
    """

    path: str
    content: Content
    changed_at: Instant | None = None


def content_type(content_format: int | None, path: str) -> str:
    """Return the content type for the number of a content format.

    Without a number, the type is text, or bytes if the object definitions declare the resource as bytes.

    Raises:
        BadPayload: The number is unknown.
    """
    if content_format is None:
        return OCTET_STREAM if is_opaque(path) else TEXT_PLAIN
    if content_format not in CONTENT_FORMATS:
        supported = ", ".join(map(str, CONTENT_FORMATS))
        raise BadPayload(f"unknown content format {content_format}; supported formats are {supported}")
    return CONTENT_FORMATS[content_format]


def contents(
    payload: bytes, content_format: int | None, path: str, received_at: Instant, max_age_seconds: int | None = None
) -> list[ReportedPayload]:
    """Return the values in a payload. The oldest value comes first.

    Text remains unchanged. TLV, SenML and CBOR are converted to text of the declared type, or to
    application/octet-stream for bytes. Values that text cannot represent stay in TLV or SenML JSON, with one payload
    for each resource. These are resources with instances, undeclared numbers and booleans, the bytes of an undeclared
    TLV, and values that do not have the declared type.

    Args:
        payload: The payload of a response, a notification or a Send.
        content_format: The number of the payload's CoAP content format.
        path: The requested resource, object instance or object, or :data:`EVERYTHING`.
        received_at: The time at which the payload arrived.
        max_age_seconds: The time for which the values are fresh.

    Raises:
        BadPayload: The format is unknown, or the payload has other resources or more than :data:`MAX_VALUES` values. It
            is also raised if the payload cannot be decoded and the request was not for one resource.
    """
    response_type = content_type(content_format, path)
    as_reported = [ReportedPayload(path, Content(payload, response_type, max_age_seconds))]
    if response_type in _STORED_AS_SENT and is_resource(path):
        return as_reported
    try:
        parts = split(payload, response_type, "" if path == EVERYTHING else path)
    except UnreadablePayload as exc:
        if is_resource(path):
            return as_reported
        raise BadPayload(str(exc)) from exc
    if is_resource(path) and not parts:
        return as_reported
    _check(path, parts)
    by_time = sorted(((_milliseconds(part.seconds, received_at), part) for part in parts), key=lambda each: each[0])
    return [ReportedPayload(part.path, _content(part, max_age_seconds), _past(at, received_at)) for at, part in by_time]


def is_doubtful(part: ReportedPayload) -> bool:
    """Return whether a TLV seems to contain an integer although a float is declared. See decision 14.

    When an object instance is read, such a value does not replace the stored value, which came in an unambiguous
    format.
    """
    definition = lookup(part.path)
    if part.content.content_type != LWM2M_TLV or definition is None or definition.type is not ResourceType.FLOAT:
        return False
    value = decode(part.content.payload, LWM2M_TLV, part.path).python
    return isinstance(value, bytes) and is_integer_for_float(value)


def written_values(path: str, content: Content) -> list[tuple[str, Content]]:
    """Return the values in a write of an object instance, as pairs of path and content.

    If a path occurs several times, only its last value is returned.

    Raises:
        BadPayload: The content type is unknown or cannot represent an object instance, or the payload is not valid.
    """
    name = media_type(content.content_type)
    number = next((number for number, other in CONTENT_FORMATS.items() if other == name), None)
    if number is None:
        raise BadPayload(f"{content.content_type} cannot represent an object instance; use {LWM2M_TLV}")
    values = contents(content.payload, number, path, 0)
    return list({each.path: each.content for each in values}.items())


def _check(path: str, parts: Sequence[PayloadPart]) -> None:
    if sum(part.value_count for part in parts) > MAX_VALUES:
        raise BadPayload(f"the payload has too many values; the maximum is {MAX_VALUES}")
    below = path if path.endswith("/") else f"{path}/"
    for part in parts:
        if part.path != path and not part.path.startswith(below):
            raise BadPayload(f"the payload has a value of {part.path}, but {path} was requested")


def _content(part: PayloadPart, max_age_seconds: int | None) -> Content:
    """Return a value as text or bytes if these decode to the same value. Otherwise return it unchanged."""
    as_reported = Content(part.raw, part.content_type, max_age_seconds)
    if part.value_count > 1:
        return as_reported
    value = decode(part.raw, part.content_type, part.path)
    if value.python is None or isinstance(value.python, Mapping):
        return as_reported
    # Another mirror may have a declaration of this object. That mirror needs the TLV to decode the declared type.
    if part.content_type == LWM2M_TLV and lookup(part.path) is None:
        return as_reported
    if isinstance(value.python, bytes):
        plain = Content(value.python, OCTET_STREAM, max_age_seconds)
    else:
        plain = Content(write_text(value.python), TEXT_PLAIN, max_age_seconds)
    decoded = decode(plain.payload, plain.content_type, part.path)
    is_same = (decoded.kind, decoded.python, decoded.problem) == (value.kind, value.python, value.problem)
    return plain if is_same else as_reported


def _milliseconds(seconds: float | None, received_at: Instant) -> float:
    """Return a SenML time in milliseconds since 1970. It can be any number, even a time in the future."""
    milliseconds = (seconds or 0) * 1000
    return milliseconds if milliseconds >= _RELATIVE_SECONDS * 1000 else received_at + milliseconds


def _past(at: float, received_at: Instant) -> Instant | None:
    """Return the time of a change. Return ``None`` for the current time, and for times in the future or before 1970."""
    return round(at) if 0 <= at < received_at else None
