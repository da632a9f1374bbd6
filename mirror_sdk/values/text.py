"""text/plain: each declared type in the form LwM2M writes it as text.

Numbers follow a strict grammar (ASCII digits, digits on both sides of a point, finite), so that neither ``nan`` nor
``1_000`` nor `` 21`` becomes a number.

Source: LwM2M core, data types in the text/plain format; wire.md 1 and 2.
"""

from __future__ import annotations

import base64
import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal

from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.values.declared import (
    SIGNED_64,
    UNSIGNED_64,
    Reading,
    UnreadablePayload,
    as_declared,
    from_epoch,
    objlink,
    to_epoch,
)
from mirror_sdk.values.value import PythonValue, ValueKind
from mirror_sdk.wire.link_format import NoLinks, parse_links

_FLOAT = re.compile(r"[+-]?([0-9]+(?:\.[0-9]+)?)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_INTEGER = 20


def _read_float(text: str) -> float | None:
    grammar = _FLOAT.fullmatch(text)
    if grammar is None:
        return None
    number = float(text)
    vanished = number == 0 and grammar[1].strip("0.") != ""
    return None if vanished or math.isinf(number) else number


def _read_integer(text: str, allowed: range = SIGNED_64) -> int | None:
    """A whole number; devices print one as ``13.0`` and ``1.300000e+01``, too."""
    if not _FLOAT.fullmatch(text):
        return None
    number = Decimal(text)
    # As an integer, 250,000 digits take seconds.
    if number.adjusted() >= _LONGEST_INTEGER or number != number.to_integral_value():
        return None
    return int(number) if int(number) in allowed else None


def _read_unsigned(text: str) -> int | None:
    return _read_integer(text, UNSIGNED_64)


def _read_boolean(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


def _read_time(text: str) -> datetime | None:
    return from_epoch(_read_integer(text))


def _read_opaque(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _read_nothing(_: str) -> None:
    return None


_READ: Mapping[ResourceType, Callable[[str], PythonValue | None]] = {
    ResourceType.STRING: str,
    ResourceType.INTEGER: _read_integer,
    ResourceType.UNSIGNED: _read_unsigned,
    ResourceType.FLOAT: _read_float,
    ResourceType.BOOLEAN: _read_boolean,
    ResourceType.OPAQUE: _read_opaque,
    ResourceType.TIME: _read_time,
    ResourceType.OBJLINK: objlink,
    ResourceType.CORELINK: str,
    ResourceType.NONE: _read_nothing,
}


def _utf_8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UnreadablePayload(f"the text is not UTF-8 ({exc.reason} at byte {exc.start})") from exc


def read_text(raw: bytes, path: str) -> dict[str, Reading]:
    """The one value of a text.

    Raises:
        UnreadablePayload: It is not UTF-8.
    """
    text = _utf_8(raw)
    definition = lookup(path)
    if definition is None:
        return {path: Reading(ValueKind.TEXT, text)}
    return {path: as_declared(definition.type, _READ[definition.type](text), raw)}


def read_links(raw: bytes, path: str) -> dict[str, Reading]:
    """Links of the CoRE link format (``</3/0>,</3303/0>``), as a text whatever the path declares.

    Raises:
        UnreadablePayload: They are not UTF-8, or no links.
    """
    text = _utf_8(raw)
    try:
        deque(parse_links(text), maxlen=0)
    except NoLinks as exc:
        raise UnreadablePayload(f"the payload is not in the CoRE link format: {exc}") from exc
    return {path: Reading(ValueKind.TEXT, text)}


def write_text(value: PythonValue, *_: object) -> bytes:
    """A checked value as text."""
    return _text(value).encode("utf-8")


def _text(value: PythonValue) -> str:
    match value:
        case bool():
            return str(int(value))
        case float():
            # Devices read decimals, not every one an exponent; the digits of repr are enough for the same float.
            return format(Decimal(repr(value)), "f")
        case datetime():
            return str(to_epoch(value))
        case bytes():
            return base64.b64encode(value).decode("ascii")
    return str(value)
