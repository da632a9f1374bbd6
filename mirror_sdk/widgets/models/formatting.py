"""The formats of times, values and counts in widgets."""

from __future__ import annotations

from mirror_sdk._formatting import visible
from mirror_sdk.values import Value
from mirror_sdk.values.display import display_value
from mirror_sdk.wire.object_definitions import display_unit

MAX_VALUE_LENGTH = 60
SENSIBLE_DIGITS = 6


def format_value(value: Value, unit: str = "") -> str:
    """Format a value with its unit in readable form, shortened to fit into a row."""
    return display_value(value, unit, MAX_VALUE_LENGTH)


def short_value(value: Value, unit: str = "") -> str:
    """Format a value like :func:`format_value`, but show numbers with at most 6 significant digits.

    >>> from mirror_sdk.values import decode
    >>> short_value(decode(b"18.2433702988812", "text/plain", "/3305/0/5800"), "W")
    '18.2434 W'
    """
    number = value.python
    if not isinstance(number, float) or float(f"{number:.{SENSIBLE_DIGITS}g}") == number:
        return format_value(value, unit)
    text = f"{number:.{SENSIBLE_DIGITS}g}"
    return f"{text} {visible(display_unit(unit))}".rstrip()


def format_count(count: int, noun: str) -> str:
    """Format a number together with a noun, such as ``1 device`` or ``1,200 devices``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
