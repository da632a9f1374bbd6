"""The conversion of device commands to CoAP requests, and of CoAP responses to the outcomes of commands.

Source: LwM2M core 1.0 (5.1.2, 5.4, 6.4) and 1.1 (5.1.2, 6.3, 7.4); RFC 7252, 12.1.2.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Iterator
from typing import NamedTuple

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import lookup
from mirror_sdk.values import LWM2M_TLV, SENML_JSON, TEXT_PLAIN, decode, encode
from mirror_sdk.values.content_types import CONTENT_FORMATS, media_type
from mirror_sdk.wire.paths import is_resource
from mirror_server.devices.interface import Content, Outcome
from mirror_server.extensions.lwm2m.links import is_opaque
from mirror_server.extensions.lwm2m.registration_parameters import Version
from mirror_server.extensions.lwm2m.transport_api import Response

_TEXT_NUMBER, _OCTETS_NUMBER = 0, 42
_TLV_NUMBERS = (11542, 1542)
_SENML_NUMBERS = (110, 112)
_ANYTHING = frozenset({"*/*"})
_SECONDS = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_ATTRIBUTES = {"pmin": _SECONDS, "pmax": _SECONDS, "epmin": _SECONDS, "epmax": _SECONDS} | dict.fromkeys(
    ("gt", "lt", "st"), _DECIMAL
)
_MAX_LOGGED_CHARACTERS = 80
_OUTCOMES = {
    "4.00": Outcome.BAD_VALUE,
    "4.04": Outcome.NOT_FOUND,
    "4.05": Outcome.METHOD_NOT_ALLOWED,
    "4.06": Outcome.UNSUPPORTED_CONTENT_TYPE,
    "4.12": Outcome.PRECONDITION_FAILED,
    "4.13": Outcome.TOO_LARGE,
    "4.15": Outcome.UNSUPPORTED_CONTENT_TYPE,
}


class NotSendable(Exception):
    """A command cannot be sent to a device. The exception has the outcome of the command and the reason."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class EncodedPayload(NamedTuple):
    """A payload and the number of its content format. The number is ``None`` for a payload without a format."""

    payload: bytes
    content_format: int | None


def outcome(response: Response) -> Outcome:
    """Return the outcome of a command from its response. Source: wire.md 5."""
    return Outcome.DONE if response.is_success else _OUTCOMES.get(response.code, Outcome.REJECTED)


def error_text(response: Response) -> str:
    """Return the code and the text of an error response for the log. The result is printable and short."""
    if response.is_success or not response.payload:
        return response.code
    text = response.payload[: 2 * _MAX_LOGGED_CHARACTERS].decode("utf-8", errors="backslashreplace")
    return f"{response.code} {text[:_MAX_LOGGED_CHARACTERS]!a}"


def structured_formats(version: Version, declared: Collection[int]) -> tuple[int, ...]:
    """Return the formats that can represent any value, in the order to try.

    TLV comes first. The SenML formats follow if the device supports them.

    Args:
        version: The LwM2M version of the device.
        declared: The content formats that the registration of the device declares.
    """
    registered, of_drafts = _TLV_NUMBERS
    tlv = of_drafts if of_drafts in declared and registered not in declared else registered
    return (tlv, *(number for number in _SENML_NUMBERS if version == "1.1" or number in declared))


def accepts(path: str, requested_type: str | None, structured: Collection[int]) -> tuple[int, ...]:
    """Return the formats in which to request a value. After a 4.06 response to a format, the next one is tried.

    Args:
        path: The path to read or observe.
        requested_type: The content type that the application requested.
        structured: The :func:`structured_formats` of the device.

    Raises:
        NotSendable: CoAP has no content format for the content type.
    """
    if requested_type is not None and media_type(requested_type) not in _ANYTHING:
        return (_number(requested_type, structured),)
    definition = lookup(path)
    # Text cannot represent several values. One client was observed to respond with an empty text.
    if not is_resource(path) or (definition is not None and definition.multiple):
        return tuple(structured)
    plain = (_OCTETS_NUMBER, _TEXT_NUMBER) if is_opaque(path) else (_TEXT_NUMBER,)
    return (*plain, *structured)


def writes(path: str, content: Content, structured: Collection[int]) -> tuple[EncodedPayload, ...]:
    """Return the encodings in which to write a value. After a 4.06 or 4.15 response to an encoding, the next is tried.

    Text and bytes can be converted to other formats if the object definitions declare the type of the resource. All
    other payloads are sent unchanged.

    Args:
        path: The path of a resource or an object instance.
        content: The value that the application writes.
        structured: The :func:`structured_formats` of the device.

    Raises:
        NotSendable: CoAP has no content format for the content type, or it cannot represent an object instance.
    """
    number = _number(content.content_type, structured)
    unchanged = EncodedPayload(content.payload, number)
    if number not in {_TEXT_NUMBER, _OCTETS_NUMBER}:
        return (unchanged,)
    if not is_resource(path):
        reason = f"{content.content_type} cannot represent an object instance; use {LWM2M_TLV} or {SENML_JSON}"
        raise NotSendable(Outcome.UNSUPPORTED_CONTENT_TYPE, reason)
    return tuple(dict.fromkeys((*_octets(path, content), unchanged, *_others(path, content, structured))))


def execute_payload(content: Content, structured: Collection[int]) -> EncodedPayload:
    """Return the argument of an execute command. If there is no argument, the payload has no format.

    Raises:
        NotSendable: CoAP has no content format for the content type.
    """
    return (
        EncodedPayload(content.payload, _number(content.content_type, structured))
        if content.payload
        else EncodedPayload(b"", None)
    )


def attribute_options(query: str) -> tuple[str, ...]:
    """Return the query options of Write-Attributes. An attribute without a value, such as ``pmin``, is to be removed.

    Raises:
        NotSendable: There is no attribute, or an attribute is unknown, duplicate or invalid.
    """
    values: dict[str, str] = {}
    bad = Outcome.BAD_VALUE
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if name not in _ATTRIBUTES:
            supported = ", ".join(_ATTRIBUTES)
            raise NotSendable(bad, f"unknown notification attribute {reprlib.repr(name)}; use one of {supported}")
        if name in values:
            raise NotSendable(bad, f"duplicate attribute {name}; send it once")
        if equals and not _ATTRIBUTES[name].fullmatch(value):
            raise NotSendable(bad, f"{name}={reprlib.repr(value)} is not valid; write it like pmin=5&pmax=120")
        values[name] = value
    for lowest, highest in (("pmin", "pmax"), ("epmin", "epmax")):
        minimum = max(1, int(values.get(lowest) or 0))
        if values.get(highest) and int(values[highest]) < minimum:
            bound = f"{lowest}={minimum}" if minimum > 1 else "1"
            raise NotSendable(bad, f"{highest}={values[highest]} must be at least {bound}; use a larger value")
    return tuple(query.split("&"))


def _number(content_type: str, structured: Collection[int]) -> int:
    """Return the content format of a content type. If it has two numbers, prefer the one that the device supports."""
    name = media_type(content_type)
    numbers = [number for number, other in CONTENT_FORMATS.items() if other == name]
    if not numbers:
        reason = f"CoAP has no content format for {reprlib.repr(content_type)}; use {TEXT_PLAIN}"
        raise NotSendable(Outcome.UNSUPPORTED_CONTENT_TYPE, reason)
    return next((number for number in numbers if number in structured), numbers[0])


def _octets(path: str, content: Content) -> Iterator[EncodedPayload]:
    """Yield the decoded bytes of a base64 text if the resource is opaque."""
    value = decode(content.payload, content.content_type, path)
    if is_opaque(path) and isinstance(value.python, bytes) and value.problem is None:
        yield EncodedPayload(value.python, _OCTETS_NUMBER)


def _others(path: str, content: Content, structured: Collection[int]) -> Iterator[EncodedPayload]:
    value = decode(content.payload, content.content_type, path)
    if lookup(path) is None or value.problem is not None or isinstance(value.python, bytes) is not is_opaque(path):
        return
    for number in structured:
        try:
            payload, _ = encode(value.python, path, CONTENT_FORMATS[number], allow_read_only=True)
        except InvalidValue:
            continue
        yield EncodedPayload(payload, number)
