"""The values in payloads of devices, as the mirror stores them.

Numbers in text stay as they are. Values in TLV, SenML or CBOR become the text of the type that the object table
declares, so that a value is the same in any format.

Source: LwM2M core 1.0 (6.4) and 1.1 (7.4); RFC 8428.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.values import JSON, LINK_FORMAT, LWM2M_TLV, OCTET_STREAM, TEXT_PLAIN, decode
from mirror_sdk.values.codec import Part, UnreadablePayload
from mirror_sdk.values.codecs import split
from mirror_sdk.values.content_types import CONTENT_FORMATS, media_type
from mirror_sdk.values.data_types import is_integer_for_float
from mirror_sdk.values.single_values import write_text
from mirror_sdk.wire.paths import is_resource
from mirror_server.core.instants import Instant
from mirror_server.devices.link import Content
from mirror_server.extensions.lwm2m.links import is_opaque

_KEPT = frozenset({TEXT_PLAIN, OCTET_STREAM, JSON, LINK_FORMAT})
"""Payloads of one resource in these stay as they are: they decode to the same in every mirror."""
_RELATIVE_SECONDS = 2**28
"""Times below it are relative to now. Source: RFC 8428, 4.5.3."""
MOST_VALUES = 3000
EVERYTHING = "/"
"""The path of a payload that may have values of all resources: LwM2M 1.1 Send."""


class BadPayload(ValueError):
    """A payload has no value that can be stored; the message says why."""


class ReportedPayload(NamedTuple):
    """The value of a resource; ``changed_at`` is the time in the payload, if there is one and it is past."""

    path: str
    content: Content
    changed_at: Instant | None = None


def content_type(content_format: int | None, path: str) -> str:
    """Return the content type of a number; without a number, text, or bytes where the object table declares them.

    Raises:
        BadPayload: The number is unknown.
    """
    if content_format is None:
        return OCTET_STREAM if is_opaque(path) else TEXT_PLAIN
    if content_format not in CONTENT_FORMATS:
        known = ", ".join(map(str, CONTENT_FORMATS))
        raise BadPayload(f"content format {content_format} is unknown here; {known} are known")
    return CONTENT_FORMATS[content_format]


def contents(
    payload: bytes, content_format: int | None, path: str, received_at: Instant, max_age_seconds: int | None = None
) -> list[ReportedPayload]:
    """Return the values in a payload, the oldest first.

    A text stays as its very bytes. TLV, SenML and CBOR become the text of the declared type, or
    application/octet-stream for bytes. A value that would change in a text stays in TLV or SenML JSON, each resource in
    a payload of its own: resources with instances, undeclared numbers and booleans, the bytes of an undeclared TLV, and
    values that are not of the declared type.

    Args:
        payload: The payload of a response, a notification or a Send.
        content_format: CoAP's number of its format.
        path: The requested resource, object instance or object, or :data:`EVERYTHING`.
        received_at: The time of arrival.
        max_age_seconds: For how long the values are fresh.

    Raises:
        BadPayload: The format is unknown; the payload has other resources, or more than :data:`MOST_VALUES` values; or
            it cannot be read, and the request was not for one resource.
    """
    response_type = content_type(content_format, path)
    as_reported = [ReportedPayload(path, Content(payload, response_type, max_age_seconds))]
    if response_type in _KEPT and is_resource(path):
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
    timed = sorted(((_milliseconds(part.seconds, received_at), part) for part in parts), key=lambda each: each[0])
    return [ReportedPayload(part.path, _content(part, max_age_seconds), _past(at, received_at)) for at, part in timed]


def is_doubtful(part: ReportedPayload) -> bool:
    """Whether a TLV holds what looks like an integer where a float is declared: see decision 14.

    Where an object instance is read whole, such a part does not replace the value that the mirror has, which a device
    sent in a format that is certain.
    """
    definition = lookup(part.path)
    if part.content.content_type != LWM2M_TLV or definition is None or definition.type is not ResourceType.FLOAT:
        return False
    value = decode(part.content.payload, LWM2M_TLV, part.path).python
    return isinstance(value, bytes) and is_integer_for_float(value)


def written(path: str, content: Content) -> list[tuple[str, Content]]:
    """Return the values in a write of an object instance, by the paths of their resources; of each the last.

    Raises:
        BadPayload: The content type is unknown, or holds no object instance, or the payload cannot be read.
    """
    name = media_type(content.content_type)
    number = next((number for number, known in CONTENT_FORMATS.items() if known == name), None)
    if number is None:
        raise BadPayload(f"{content.content_type} holds no object instance; take {LWM2M_TLV}")
    told = contents(content.payload, number, path, 0)
    return list({each.path: each.content for each in told}.items())


def _check(path: str, parts: Sequence[Part]) -> None:
    if sum(part.value_count for part in parts) > MOST_VALUES:
        raise BadPayload(f"the payload holds too many values; {MOST_VALUES} are the most")
    below = path if path.endswith("/") else f"{path}/"
    for part in parts:
        if part.path != path and not part.path.startswith(below):
            raise BadPayload(f"the payload tells of {part.path}, and {path} was asked")


def _content(part: Part, max_age_seconds: int | None) -> Content:
    """Return the text or the bytes of a value, if they can be read as the very same value again."""
    as_reported = Content(part.raw, part.content_type, max_age_seconds)
    if part.value_count > 1:
        return as_reported
    value = decode(part.raw, part.content_type, part.path)
    if value.python is None or isinstance(value.python, Mapping):
        return as_reported
    # Another mirror may know the object that is undeclared here: it needs the TLV to read its type.
    if part.content_type == LWM2M_TLV and lookup(part.path) is None:
        return as_reported
    if isinstance(value.python, bytes):
        plain = Content(value.python, OCTET_STREAM, max_age_seconds)
    else:
        plain = Content(write_text(value.python), TEXT_PLAIN, max_age_seconds)
    again = decode(plain.payload, plain.content_type, part.path)
    is_same = (again.kind, again.python, again.problem) == (value.kind, value.python, value.problem)
    return plain if is_same else as_reported


def _milliseconds(seconds: float | None, received_at: Instant) -> float:
    """Return a time of SenML in milliseconds since 1970; it may be any number."""
    told = (seconds or 0) * 1000
    return told if told >= _RELATIVE_SECONDS * 1000 else received_at + told


def _past(at: float, received_at: Instant) -> Instant | None:
    """Return the instant of a change; ``None`` for now, and for impossible times: later than now, before 1970."""
    return round(at) if 0 <= at < received_at else None
