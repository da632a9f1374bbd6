"""The formats of times, values and counts in widgets."""

from __future__ import annotations

from datetime import UTC, datetime

from mirror_sdk.values import Value
from mirror_sdk.values.display import display_value

MAX_VALUE_LENGTH = 60


def format_value(value: Value, unit: str = "") -> str:
    """Return a value with its unit as people write it, shortened to fit a row."""
    return display_value(value, unit, MAX_VALUE_LENGTH)


def format_time(at: datetime) -> str:
    """Return a time to the second: ``2026-11-22 10:20:30 UTC``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_count(count: int, noun: str) -> str:
    """Return a number of things: ``1 device``, ``1,200 devices``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
