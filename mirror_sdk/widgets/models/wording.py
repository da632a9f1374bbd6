"""How times, values and counts are written in widgets."""

from __future__ import annotations

from datetime import datetime

from mirror_sdk._visible import visible
from mirror_sdk.values import Value, ValueKind

MAX_VALUE_SHOWN = 60


def value_text(value: Value, unit: str = "") -> str:
    """A value with its unit, cut where it is too long for a row."""
    text = str(value)
    if len(text) > MAX_VALUE_SHOWN:
        text = f"{text[: MAX_VALUE_SHOWN - 1]}…"
    return f"{text} {visible(unit)}" if unit and value.kind is ValueKind.NUMBER else text


def instant_text(instant: datetime | None, now: datetime | None) -> str:
    """The time of day, with the date in front where that is not the date of ``now``; empty for no instant."""
    if instant is None:
        return ""
    is_today = now is not None and instant.date() == now.date()
    return f"{instant:%H:%M:%S}" if is_today else f"{instant:%Y-%m-%d %H:%M:%S}"


def count_text(count: int, noun: str) -> str:
    """A number of things: ``1 device``, ``1,200 devices``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
