"""Device commands as CoAP requests, and the outcome of a command by the response of the device.

Source: LwM2M core 1.0 (5.1.2, 5.4, 6.4) and 1.1 (5.1.2, 6.3, 7.4); RFC 7252, 12.1.2.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Iterator
from typing import NamedTuple

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_table import lookup
from mirror_sdk.values import LWM2M_TLV, SENML_JSON, TEXT_PLAIN, decode, encode
from mirror_sdk.values.content_types import CONTENT_FORMATS, media_type
from mirror_sdk.wire.paths import is_resource
from mirror_server.devices.link import Content, Outcome
from mirror_server.extensions.lwm2m.links import is_opaque
from mirror_server.extensions.lwm2m.registration import Version
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
_LONGEST_SHOWN = 80
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
    """A command cannot be sent to a device: its outcome, and the reason."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class EncodedPayload(NamedTuple):
    """A payload with CoAP's number of its format; ``None`` without a format."""

    payload: bytes
    content_format: int | None


def outcome(response: Response) -> Outcome:
    """Return the outcome of a command by its response. Source: wire.md 5."""
    return Outcome.DONE if response.is_success else _OUTCOMES.get(response.code, Outcome.REJECTED)


def shown(response: Response) -> str:
    """Return the code and the text of an error response for the log: printable, and short."""
    if response.is_success or not response.payload:
        return response.code
    text = response.payload[: 2 * _LONGEST_SHOWN].decode("utf-8", errors="backslashreplace")
    return f"{response.code} {text[:_LONGEST_SHOWN]!a}"


def structured_formats(version: Version, told: Collection[int]) -> tuple[int, ...]:
    """Return the formats that hold any value, in the order to try: TLV, and SenML where a device has it.

    Args:
        version: The version of LwM2M that the device speaks.
        told: The numbers in its registration.
    """
    registered, of_drafts = _TLV_NUMBERS
    tlv = of_drafts if of_drafts in told and registered not in told else registered
    return (tlv, *(number for number in _SENML_NUMBERS if version == "1.1" or number in told))


def accepts(path: str, wished: str | None, structured: Collection[int]) -> tuple[int, ...]:
    """The formats to ask an answer in, the first before the others, each after a 4.06 to the one before.

    Args:
        path: What is read or observed.
        wished: The content type that the application asked for.
        structured: :func:`structured_formats` of the device.

    Raises:
        NotSendable: CoAP has no number for the content type.
    """
    if wished is not None and media_type(wished) not in _ANYTHING:
        return (_number(wished, structured),)
    definition = lookup(path)
    if not is_resource(path) or (definition is not None and definition.multiple):
        return tuple(structured)
    plain = (_OCTETS_NUMBER, _TEXT_NUMBER) if is_opaque(path) else (_TEXT_NUMBER,)
    return (*plain, *structured)


def writes(path: str, content: Content, structured: Collection[int]) -> tuple[EncodedPayload, ...]:
    """Return the forms to write a value in; each is tried after a 4.06 or 4.15 to the one before.

    A text or bytes can be written in other formats, as the same value, where the object table declares its type.
    Everything else is sent as it is.

    Args:
        path: A resource, or an object instance.
        content: The value of the application.
        structured: :func:`structured_formats` of the device.

    Raises:
        NotSendable: CoAP has no number for the content type, or it cannot hold an object instance.
    """
    number = _number(content.content_type, structured)
    as_given = EncodedPayload(content.payload, number)
    if number not in {_TEXT_NUMBER, _OCTETS_NUMBER}:
        return (as_given,)
    if not is_resource(path):
        reason = f"{content.content_type} holds no object instance; take {LWM2M_TLV} or {SENML_JSON}"
        raise NotSendable(Outcome.UNSUPPORTED_CONTENT_TYPE, reason)
    return tuple(dict.fromkeys((*_octets(path, content), as_given, *_others(path, content, structured))))


def execution(content: Content, structured: Collection[int]) -> EncodedPayload:
    """Return the argument of an execution; without an argument there is no format.

    Raises:
        NotSendable: CoAP has no number for the content type.
    """
    return (
        EncodedPayload(content.payload, _number(content.content_type, structured))
        if content.payload
        else EncodedPayload(b"", None)
    )


def attributes(query: str) -> tuple[str, ...]:
    """Return the query of Write-Attributes as a tuple; ``pmin`` without a value removes the attribute.

    Raises:
        NotSendable: There is none, or one that is unknown, twice, or not what it should be.
    """
    told: dict[str, str] = {}
    bad = Outcome.BAD_VALUE
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if name not in _ATTRIBUTES:
            known = ", ".join(_ATTRIBUTES)
            raise NotSendable(bad, f"{reprlib.repr(name)} is no notification attribute; {known} are")
        if name in told:
            raise NotSendable(bad, f"{name} is given twice; give it once")
        if equals and not _ATTRIBUTES[name].fullmatch(value):
            raise NotSendable(bad, f"{name}={reprlib.repr(value)} is no value for it; write it like pmin=5&pmax=120")
        told[name] = value
    for lowest, highest in (("pmin", "pmax"), ("epmin", "epmax")):
        if told.get(highest) and int(told[highest]) < max(1, int(told.get(lowest) or 0)):
            raise NotSendable(bad, f"{highest}={told[highest]} is below {lowest}, or no time; give a longer one")
    return tuple(query.split("&"))


def _number(content_type: str, structured: Collection[int]) -> int:
    """Return CoAP's number of a content type; of two, the one that the device has."""
    name = media_type(content_type)
    numbers = [number for number, known in CONTENT_FORMATS.items() if known == name]
    if not numbers:
        reason = f"CoAP has no number for the content type {reprlib.repr(content_type)}; take {TEXT_PLAIN}"
        raise NotSendable(Outcome.UNSUPPORTED_CONTENT_TYPE, reason)
    return next((number for number in numbers if number in structured), numbers[0])


def _octets(path: str, content: Content) -> Iterator[EncodedPayload]:
    """Yield the bytes of a text in base64."""
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
