"""Conversion of values that a person typed to the declared type of a resource, without guessing.

A string that could mean two values is rejected, and the error contains both. Numbers with a decimal comma are rejected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal

from mirror_sdk import _arguments
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import ResourceDefinition, ResourceType, lookup
from mirror_sdk.values.lwm2m_types import accept, expected, from_base64, from_epoch, invalid_value, object_link
from mirror_sdk.values.value import BASE64_MARK, PythonValue, written
from mirror_sdk.wire.paths import parse_path

TIME_EXAMPLE = "2026-01-05T08:00:00Z"
BYTES_EXAMPLE = "00 ff 1a"
LINK_EXAMPLE = "3303:0"
_BOOLEANS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?")
_EPOCH_SECONDS = re.compile(r"[+-]?[0-9]{9,12}")
"""A pattern for seconds since 1970. A number with fewer digits could also be a year or a date without dashes."""
_DATE_AND_HOUR = re.compile(
    r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[01][0-9]|2[0-3])(?:[0-5][0-9])?"
)


class _NoValue(ValueError):
    """A string is not a valid value. The message explains how to correct it."""


def parse_value(text: str, path: str) -> PythonValue:
    """Convert a string that a person typed in a form or table cell to the declared type of a resource.

    Spaces around the text are ignored, unless the declared type is a string. The ``str()`` of a :class:`Value` is also
    accepted, except for a string with escaped characters and for a multiple resource.

    ============  ==========================================================================================
    declared      accepted strings, and the type of the value
    ============  ==========================================================================================
    boolean       ``true``, ``on``, ``yes``, ``1``, ``false``, ``off``, ``no``, ``0``, in upper or lower case: ``bool``
    integer       ``55``, ``-3``, ``5.5e1``, of at most 64 bits and in the declared range: ``int``
    float         ``21.5``, ``.5``, ``2.15e1``, finite and in the declared range: ``float``
    time          RFC 3339 with its zone and whole seconds (``2026-01-05T08:00:00Z``), or the seconds since 1970 in
                  at least nine digits, unless they could be a date (``2026010508``): aware UTC ``datetime``
    objlink       ``3303:0``: ``str``
    opaque        hex digits (``00 ff 1a``, ``00ff1a``) or base64 (``AP8a``), with ``base64:`` in front where it could
                  be hex digits too: ``bytes``
    string, none  any text, unchanged, even an empty one: ``str``
    declared
    ============  ==========================================================================================

    This function does not check whether the resource may be written.

    Args:
        text: The string that the person typed.
        path: The resource path, such as ``/3311/0/5850``.

    Raises:
        InvalidValue: The text is not accepted (such as ``5,5``, ``12abc``, ``nan`` or an empty text), is ambiguous, or
            is out of the declared range, or the resource is executable. The message contains the resource, the accepted
            values and an example.
        ValueError: ``path`` is not a resource path.
        TypeError: ``text`` or ``path`` is not a ``str``.

    Source: LwM2M core, annex on data types.

    >>> from mirror_sdk import parse_value
    >>> parse_value("off", "/3311/0/5850"), parse_value(" 55 ", "/3311/0/5851"), parse_value("2.15e1", "/3308/0/5900")
    (False, 55, 21.5)
    """
    parse_path(_arguments.text("path", path))
    return accept(parse_text(_arguments.text("text", text), path), lookup(path), path)


def parse_text(text: str, path: str) -> PythonValue:
    """Convert a string in the same way as :func:`parse_value`, but without checking the declared range and the path.

    Raises:
        InvalidValue: The text is not a valid value for the resource.
    """
    definition = lookup(path)
    if definition is None:
        return text
    try:
        return _READ[definition.type](text, definition)
    except _NoValue as no_value:
        raise invalid_value(path, definition, text, expected(definition), str(no_value)) from None


def argument_value(value: object, text: str | None, path: str) -> object:
    """Return the value to write from the arguments of a call that accepts either a value or a typed string.

    Raises:
        InvalidValue: Both or neither of them were passed, or the text is not a valid value for the resource.
    """
    if (value is None) is (text is None):
        passed = "neither value= nor text= was passed" if value is None else "both value= and text= were passed"
        raise InvalidValue(f"{path} takes one value, and {passed}; pass one of the two")
    return value if text is None else parse_value(text, path)


def _as_it_is(typed: str, _: ResourceDefinition) -> str:
    return typed


def _boolean(typed: str, _: ResourceDefinition) -> bool:
    found = _BOOLEANS.get(typed.strip().lower())
    if found is None:
        raise _NoValue("write true or false; on and off, yes and no, 1 and 0 are the same")
    return found


def _integer(typed: str, definition: ResourceDefinition) -> int:
    # Without a range, the example in the message is 40.
    low, high = definition.range or (0, 80)
    cure = f"write it like {int(low + high) // 2}"
    number = _number(typed, cure)
    if number != number.to_integral_value():
        raise _NoValue(cure)
    return int(number)


def _float(typed: str, definition: ResourceDefinition) -> float:
    # Without a range, the example in the message is 21.5.
    low, high = definition.range or (0, 43)
    cure = f"write it like {(low + high) / 2:g}"
    exact = _number(typed, cure)
    number = float(exact)
    if math.isinf(number) or (number == 0 and exact):
        raise _NoValue(f"a float cannot represent this number; {cure}")
    return number


def _number(typed: str, cure: str) -> Decimal:
    number = typed.strip()
    if _NUMBER.fullmatch(number):
        return Decimal(number)
    if "," in number:
        raise _NoValue(f"a comma is not a decimal point; {cure}")
    raise _NoValue(f"{cure}, without a unit" if number[:1].isdigit() else cure)


def _time(typed: str, _: ResourceDefinition) -> datetime:
    text = typed.strip()
    cure = f"write it like {TIME_EXAMPLE}"
    if _DATE_AND_HOUR.fullmatch(text):
        raise _NoValue(f"the text could be a date or the seconds since 1970; {cure}")
    if _EPOCH_SECONDS.fullmatch(text):
        instant = from_epoch(int(text))
    else:
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            instant = None
    if instant is None:
        raise _NoValue(cure)
    if instant.utcoffset() is None:
        raise _NoValue(f"the time has no time zone; {cure}, with Z for UTC or an offset such as +01:00")
    if instant.microsecond:
        raise _NoValue(f"a device takes whole seconds; {cure}")
    return instant


def _link(typed: str, _: ResourceDefinition) -> str:
    link = object_link(typed.strip())
    if link is None:
        raise _NoValue(f"write object and instance id like {LINK_EXAMPLE}")
    return link


def _bytes(typed: str, _: ResourceDefinition) -> bytes:
    text = typed.strip()
    as_hex, as_base64 = _from_hex(text.removeprefix("0x")), from_base64(text.removeprefix(BASE64_MARK))
    if text.startswith(BASE64_MARK) and as_base64 is not None:
        return as_base64
    if as_hex and as_base64:
        raise _NoValue(
            f"the text is both valid hex and valid base64; write {written(as_hex[:8])!r} for hex, or"
            f" {BASE64_MARK + text[:16]!r} for base64"
        )
    if not (found := as_hex or as_base64):
        raise _NoValue(f"write two hex digits for each byte like {BYTES_EXAMPLE}, or base64 like {BASE64_MARK}AP8a")
    return found


def _from_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _nothing(*_: object) -> str:
    raise _NoValue("execute it instead of writing it")


_READ: Mapping[ResourceType, Callable[[str, ResourceDefinition], PythonValue]] = {
    ResourceType.STRING: _as_it_is,
    ResourceType.INTEGER: _integer,
    ResourceType.UNSIGNED: _integer,
    ResourceType.FLOAT: _float,
    ResourceType.BOOLEAN: _boolean,
    ResourceType.OPAQUE: _bytes,
    ResourceType.TIME: _time,
    ResourceType.OBJLINK: _link,
    ResourceType.CORELINK: _as_it_is,
    ResourceType.NONE: _nothing,
}
