"""The clauses of conditions: one test of one resource, and its text form."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Literal, TypeAlias

from mirror_sdk._arguments import real, span
from mirror_sdk.errors import InvalidValue

Scalar: TypeAlias = float | bool | str
"""A value that a clause can compare. Integers are converted to ``float``."""
Test: TypeAlias = Literal["above", "below", "equals", "outside", "changed", "silent", "differs"]

_PATTERN = re.compile(r"/(?:\d{1,5}|\*)(?:/(?:\d{1,5}|\*)){0,3}")
_WORDS = {"above": ">", "below": "<", "equals": "=", "outside": "outside", "changed": "changed"}
_MILLISECOND = timedelta(milliseconds=1)
_MAX_SPAN = timedelta(days=36_500)
_UNIT = r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)"
_PART = re.compile(rf"(\d+(?:\.\d+)?) ?{_UNIT}(?![a-z]) ?", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Clause:
    """A test of the resources that match a path.

    Attributes:
        path: The resource path. ``*`` stands for any number, and for the rest of the path at the end.
        test: The test.
        low: The limit of ``above``, or the lower limit of ``outside``.
        high: The limit of ``below``, or the upper limit of ``outside``.
        value: The value of ``equals``.
        duration: How many milliseconds the test must be met before the condition is met.
        until: The limit at which a condition that is met ends. ``None`` means as soon as the test is not met.
    """

    path: str
    test: Test
    low: float = 0.0
    high: float = 0.0
    value: Scalar = 0.0
    duration: int = 0
    until: float | None = None

    @property
    def limits(self) -> tuple[float, ...]:
        """The numbers with which the value is compared. They are the levels that a plot shows."""
        limits: dict[Test, tuple[float, ...]] = {
            "above": (self.low,),
            "below": (self.high,),
            "outside": (self.low, self.high),
            "equals": (self.value,) if isinstance(self.value, float) else (),
        }
        return limits.get(self.test, ()) + (() if self.until is None else (self.until,))

    def matches(self, path: str) -> bool:
        """Return whether a resource path matches."""
        return _expression(self.path).fullmatch(path) is not None

    def is_met(self, value: Scalar, *, is_active: bool) -> bool | None:
        """Return whether a value meets the test, or ``None`` if the test does not apply to values of its type.

        Args:
            value: The reported value.
            is_active: Whether the condition is met, so that ``until`` applies instead of the limit.
        """
        if self.test == "equals":
            return value == self.value if type(value) is type(self.value) else None
        if not isinstance(value, float):
            return None
        if self.test == "above":
            return value >= self.until if is_active and self.until is not None else value > self.low
        if self.test == "below":
            return value <= self.until if is_active and self.until is not None else value < self.high
        return value < self.low or value > self.high

    def exceeds(self, value: float, extreme: float) -> bool:
        """Return whether a value is more extreme than another one: larger for ``above``, smaller for ``below``."""
        if self.test == "outside":
            return max(self.low - value, value - self.high) > max(self.low - extreme, extreme - self.high)
        return value < extreme if self.test == "below" else value > extreme

    def __str__(self) -> str:
        """Return the text form, such as ``/3303/0/5700 > 25 for 10min until below 24``."""
        limits = {
            "above": lambda: f" {_number(self.low)}",
            "below": lambda: f" {_number(self.high)}",
            "equals": lambda: f" {_literal(self.value)}",
            "outside": lambda: f" {_number(self.low)}..{_number(self.high)}",
        }
        duration = f" for {format_span(self.duration)}" if self.duration else ""
        if self.test in ("silent", "differs"):
            return f"{self.path} {'silent' if self.test == 'silent' else 'differs from desired'}{duration}"
        limit = limits[self.test]() if self.test in limits else ""
        side = "below" if self.test == "above" else "above"
        until = "" if self.until is None else f" until {side} {_number(self.until)}"
        return f"{self.path} {_WORDS[self.test]}{limit}{duration}{until}"


def clause(
    path: object,
    *,
    above: object = None,
    below: object = None,
    equals: object = None,
    outside: object = None,
    changed: object = False,
    silent_for: object = None,
    differs_from_desired_for: object = None,
    for_: object = None,
    until_below: object = None,
    until_above: object = None,
) -> Clause:
    """Return a checked clause. The arguments are those of :class:`mirror_sdk.Condition`.

    Raises:
        InvalidValue: An argument is not valid, or arguments cannot be combined.
    """
    if not isinstance(path, str) or not _PATTERN.fullmatch(path):
        raise InvalidValue(f"path={path!r} is not a resource path; write it like /3303/0/5700 or /3303/*/5700")
    if not isinstance(changed, bool):
        raise InvalidValue(f"changed={changed!r} must be True or False")
    tests = {
        "above": above,
        "below": below,
        "equals": equals,
        "outside": outside,
        "changed": changed or None,
        "silent_for": silent_for,
        "differs_from_desired_for": differs_from_desired_for,
    }
    chosen = [name for name, value in tests.items() if value is not None]
    if len(chosen) != 1:
        found = f"{' and '.join(f'{name}=' for name in chosen)} cannot be combined" if chosen else "the test is missing"
        raise InvalidValue(
            f"{found}: pass one of {', '.join(f'{name}=' for name in tests)}. Combine conditions with & and |"
        )
    (name,) = chosen
    duration = _duration(name, tests[name], for_)
    if name in ("silent_for", "differs_from_desired_for"):
        _reject_until(name, until_below, until_above)
        return Clause(path, "silent" if name == "silent_for" else "differs", duration=duration)
    until = _until(name, above, below, until_below, until_above)
    match name:
        case "above":
            return Clause(path, "above", low=_real(name, above), duration=duration, until=until)
        case "below":
            return Clause(path, "below", high=_real(name, below), duration=duration, until=until)
        case "outside":
            low, high = _limits(outside)
            return Clause(path, "outside", low=low, high=high, duration=duration)
        case "equals":
            return Clause(path, "equals", value=_scalar(equals), duration=duration)
    return Clause(path, "changed")


def format_span(milliseconds: int) -> str:
    """Format a duration, such as ``1h30min``."""
    parts = []
    for word, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        parts += [f"{count}{word}"] if count else []
    return "".join(parts)


def milliseconds_of(name: str, value: object) -> int:
    """Convert a duration to milliseconds.

    Raises:
        InvalidValue: The value is not a duration, or is shorter than a millisecond.
    """
    try:
        found = span(name, _short_units(value) if isinstance(value, str) else value)
    except InvalidValue as exc:
        raise InvalidValue(
            f"{name}={value!r} is not a duration; write one like '10min', '1h30min' or '10 minutes' with the units ms,"
            " s, min, h, d and w"
        ) from exc
    if not _MILLISECOND <= found <= _MAX_SPAN:
        raise InvalidValue(
            f"{name}={value!r} must be a millisecond or longer, and at most {_MAX_SPAN.days} days; write it like"
            " '10min' or '1h'"
        )
    return found // _MILLISECOND


def _short_units(text: str) -> str:
    """Return a duration with short units, such as ``10min`` for ``10 minutes``. Any other text becomes empty."""
    parts = [(number, unit) for number, unit in _PART.findall(text)]
    # In pandas, M stands for months.
    if _PART.sub("", text) or any(unit == "M" for _, unit in parts):
        return ""
    short = [(number, unit.lower()) for number, unit in parts]
    return "".join(
        number + ("ms" if unit.startswith(("ms", "mil")) else "min" if unit[0] == "m" else unit[0])
        for number, unit in short
    )


def _duration(name: str, value: object, for_: object) -> int:
    if name in ("silent_for", "differs_from_desired_for"):
        if for_ is not None:
            raise InvalidValue(f"for_={for_!r} cannot be combined with {name}=; write the duration there")
        return milliseconds_of(name, value)
    if for_ is None:
        return 0
    if name == "changed":
        raise InvalidValue(f"for_={for_!r} cannot be combined with changed=, because a change has no duration")
    return milliseconds_of("for_", for_)


def _until(name: str, above: object, below: object, until_below: object, until_above: object) -> float | None:
    if name == "above" and until_above is None:
        if until_below is None:
            return None
        until, limit = _real("until_below", until_below), _real("above", above)
        if until >= limit:
            raise InvalidValue(f"until_below={until_below!r} must be less than above={above!r}")
        return until
    if name == "below" and until_below is None:
        if until_above is None:
            return None
        until, limit = _real("until_above", until_above), _real("below", below)
        if until <= limit:
            raise InvalidValue(f"until_above={until_above!r} must be more than below={below!r}")
        return until
    _reject_until(name, until_below, until_above)
    return None


def _reject_until(name: str, until_below: object, until_above: object) -> None:
    for argument, value, of in (("until_below", until_below, "above"), ("until_above", until_above, "below")):
        if value is not None:
            raise InvalidValue(f"{argument}={value!r} cannot be combined with {name}=; it applies to {of}=")


def _limits(outside: object) -> tuple[float, float]:
    if not isinstance(outside, tuple | list) or len(outside) != 2:
        raise InvalidValue(f"outside={outside!r} must be two numbers, such as outside=(10, 20)")
    low, high = (_real("outside", one) for one in outside)
    if low > high:
        raise InvalidValue(f"outside={outside!r} must have the lower limit first")
    return low, high


def _real(name: str, value: object) -> float:
    number = _finite(value)
    if number is None or number in (float("inf"), float("-inf")):
        raise InvalidValue(f"{name}={value!r} is not a number; pass one like {name}=25")
    return number


def _finite(value: object) -> float | None:
    try:
        return real(value)
    except OverflowError:
        return None


def _scalar(value: object) -> Scalar:
    if isinstance(value, bool | str):
        return value
    number = _finite(value)
    if number is None:
        raise InvalidValue(f"equals={value!r} must be a number, a boolean or a string")
    return number


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _number(value)


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    start = pattern.removesuffix("*").replace("*", r"\d+")
    return re.compile(start + (".+" if pattern.endswith("*") else ""))
