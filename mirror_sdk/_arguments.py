"""Checks of what a caller gives, where the next thing to look at it would say something odd, or nothing."""

from __future__ import annotations

import math
import numbers

from mirror_sdk.errors import ValueRefused

_ID_NAMES = ("device_id", "id")


def text(name: str, given: object) -> str:
    """The text that was given.

    Raises:
        TypeError: It is none; of a device in the place of its id, the message names the attribute that holds it.
    """
    if isinstance(given, str):
        return given
    found = next((attribute for attribute in _ID_NAMES if isinstance(getattr(given, attribute, None), str)), None)
    cure = "" if found is None else f"; give its .{found}"
    raise TypeError(f"{name} must be a text, not {_shown(given)}{cure}")


def real(given: object) -> float | None:
    """A number; ``None`` for what is none, a boolean and NaN among it."""
    if isinstance(given, bool):
        return None
    return float(given) if isinstance(given, numbers.Real) and not math.isnan(given) else None


def seconds(name: str, given: object) -> float:
    """A span of time to wait, infinity too.

    Raises:
        ValueRefused: It is no number, or less than 0.
    """
    span = real(given)
    if span is None or span < 0:
        raise ValueRefused(f"{name}={given!r} must be a number of seconds, 0 or more")
    return span


def optional_seconds(name: str, given: object) -> float | None:
    """As :func:`seconds`, or ``None`` for the default.

    Raises:
        ValueRefused: It is no number, or less than 0.
    """
    return None if given is None else seconds(name, given)


def count(name: str, given: object) -> int | None:
    """How many at most; ``None`` for all.

    Raises:
        ValueRefused: It is no whole number, or less than 0.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or int(given) < 0:
        raise ValueRefused(f"{name}={given!r} must be a whole number, 0 or more, or None for all")
    return int(given)


def _shown(given: object) -> str:
    return "None" if given is None else f"a {type(given).__name__}"
