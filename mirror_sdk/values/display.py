"""Display of values with their units. For files and programs, use :func:`~mirror_sdk.values.value.plain_text`."""

from __future__ import annotations

import re
from datetime import datetime

from mirror_sdk._formatting import SIGNIFICANT_DIGITS, number_text, visible
from mirror_sdk.values.value import Value, ValueKind
from mirror_sdk.wire.object_definitions import display_unit

_DECIMAL = re.compile(rb"[+-]?\d+(\.\d+)?")


def display_value(value: Value, unit: str = "", longest: int | None = None) -> str:
    """Format a value for users as one line, with its unit.

    A number is displayed with the digits of its payload if the payload is a decimal number of at most 15 digits.
    Otherwise, it is displayed with as few digits as its type needs. A time of whole seconds has no fraction.

    Args:
        value: The value.
        unit: The code of the unit, which is displayed only for a number.
        longest: The maximum length of the value and of the unit. A longer value or unit is cut. By default, there is no
            limit.

    >>> from mirror_sdk.values import decode
    >>> [display_value(decode(text, "text/plain", "/3303/0/5700"), "Cel") for text in (b"21.50", b"21.500000000000004")]
    ['21.50 °C', '21.5 °C']
    """
    text = _cut(_text_of(value), longest)
    displayed_unit = visible(_cut(display_unit(unit), longest))
    return f"{text} {displayed_unit}" if displayed_unit and value.kind is ValueKind.NUMBER else text


def _text_of(value: Value) -> str:
    match value.python:
        case float() if value.kind is ValueKind.NUMBER:
            return _reported_digits(value) or number_text(value.python)
        case datetime() as at if not at.microsecond:
            return str(value).replace(".000Z", "Z")
    return str(value)


def _reported_digits(value: Value) -> str:
    """Return the payload if it is a short decimal number that equals the value, or else an empty string."""
    raw = value.raw or b""
    if not _DECIMAL.fullmatch(raw) or float(raw) != value.python:
        return ""
    text = raw.decode()
    # A device that rounds -0.04 reports -0.0.
    if text.startswith("-") and not value.python:
        return ""
    return text if sum(map(str.isdigit, text)) <= SIGNIFICANT_DIGITS else ""


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"
