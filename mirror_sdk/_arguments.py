"""Checks that reject invalid arguments early, with a clear error message."""

from __future__ import annotations

import difflib
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias, TypeGuard

from mirror_sdk._formatting import visible
from mirror_sdk.errors import InvalidValue
from mirror_sdk.wire.paths import check_path_pattern

InstantLike: TypeAlias = datetime | timedelta | str
"""A point in time: a datetime with a time zone, an ISO 8601 string, or a duration (a timedelta or ``2h``).

A duration is subtracted from the current time of the service's clock. For a table or a recording, it is subtracted from
the end of the data.
"""

_AGO = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|min|m|h|d|w))+", re.IGNORECASE | re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d|w)", re.IGNORECASE | re.ASCII)
_UNITS = {
    "ms": "milliseconds",
    "s": "seconds",
    "min": "minutes",
    "m": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
}


def instant(name: str, value: object, now: Callable[[], datetime]) -> datetime:
    """Return the point in time that a caller passed as an argument; see :data:`InstantLike`.

    Args:
        name: The name of the argument, for errors.
        value: The value of the argument.
        now: A function that returns the time from which a duration is subtracted.

    Raises:
        InvalidValue: The value is not a time, has no time zone, or is outside the years 1 to 9999 in UTC.
    """
    meant = value
    if isinstance(value, str):
        try:
            meant = _ago(value) if is_span(value) else datetime.fromisoformat(value)
        except (ValueError, OverflowError):
            meant = None
    try:
        if isinstance(meant, timedelta) and meant >= timedelta():
            meant = now() - meant
        # NaT of pandas is a datetime, too, but is not equal to itself.
        if not isinstance(meant, datetime) or meant != meant:  # noqa: PLR0124 - NaT is not equal to itself
            raise InvalidValue(
                f"{name}={format_instant(value)} is not a time; pass one like datetime(2026, 1, 31, tzinfo=UTC), a"
                " string like '2026-01-31T00:00:00Z', or how long ago it was, like '2h' or timedelta(hours=2)"
            )
        if meant.tzinfo is None:
            raise InvalidValue(f"{name}={format_instant(value)} has no time zone; {_zone_cure(name, value, meant)}")
        # The result is not used: the conversion raises an error for a time that UTC cannot represent.
        meant.astimezone(UTC)
    except OverflowError:
        raise InvalidValue(
            f"{name}={format_instant(value)} lies beyond the years 1 to 9999 in UTC; pass one within them"
        ) from None
    return meant


def is_span(value: object) -> bool:
    """Return whether a point in time was passed as a duration before the current time."""
    return isinstance(value, timedelta) or (isinstance(value, str) and _AGO.fullmatch(value) is not None)


def span(name: str, value: object) -> timedelta:
    """Return a duration that a caller passed as a timedelta or as a string such as ``10min`` or ``1h30min``.

    Raises:
        InvalidValue: The value is not a duration, its unit is unknown, or it is negative.
    """
    found: timedelta | None = value if isinstance(value, timedelta) else None
    if isinstance(value, str) and is_span(value):
        with suppress(OverflowError):
            found = _ago(value)
    # NaT of pandas is a timedelta, too, but is not equal to itself.
    if found is None or found != found or found < timedelta():  # noqa: PLR0124 - NaT is not equal to itself
        raise InvalidValue(
            f"{name}={value!r} is not a duration; write one like '10min' or '1h30min' with the units"
            f" {', '.join(_UNITS)}, or pass a timedelta"
        )
    return found


def _ago(value: str) -> timedelta:
    parts = ((_UNITS[unit.lower()], float(number)) for number, unit in _PART.findall(value))
    return sum((timedelta(**{unit: number}) for unit, number in parts), timedelta())


def _zone_cure(name: str, value: object, meant: datetime) -> str:
    return f"write {meant.isoformat()}Z" if isinstance(value, str) else f"pass one with {name}.replace(tzinfo=UTC)"


def format_instant(value: object) -> str:
    """Format an argument for an error message: a datetime as text, any other object as its ``repr``."""
    return str(value) if isinstance(value, datetime) else repr(value)


def text(name: str, value: object) -> str:
    """Return the value if it is a string.

    Raises:
        TypeError: The value is not a ``str``.
    """
    if isinstance(value, str):
        return value
    raise TypeError(f"{name} must be a str, not {type_name(value)}")


def real(value: object) -> float | None:
    """Return the value as a float, or ``None`` if it is a boolean, NaN or not a number."""
    if isinstance(value, bool):
        return None
    return float(value) if isinstance(value, numbers.Real) and not math.isnan(value) else None


def seconds(name: str, value: object) -> float:
    """Return a duration in seconds, which may be infinite.

    Raises:
        InvalidValue: The value is not a number, or is negative.
    """
    span = real(value)
    if span is None or span < 0:
        raise InvalidValue(f"{name}={value!r} must be a number of seconds, 0 or more")
    return span


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is a Python or NumPy integer that is 0 or more."""
    return not isinstance(value, bool) and isinstance(value, numbers.Integral) and int(value) >= 0


def count(name: str, value: object) -> int | None:
    """Return the maximum number of items of a result. ``None`` means all items.

    Raises:
        InvalidValue: The value is not a whole number, or is negative.
    """
    if value is None or is_count(value):
        return None if value is None else int(value)
    raise InvalidValue(f"{name}={value!r} must be a whole number, 0 or more, or None for all")


def log_position(value: object) -> int | None:
    """Return the number of the log entry to start after. ``None`` means the end of the log.

    Raises:
        InvalidValue: The value is not a whole number, or is negative.
    """
    if value is None or is_count(value):
        return None if value is None else int(value)
    raise InvalidValue(
        f"after={value!r} must be the number of an entry, such as events.position, or None for the end; convert a str"
        " with int(...)"
    )


def path_patterns(paths: Sequence[str] | None) -> list[str] | None:
    """Return the checked patterns for resource paths. ``None`` matches every path.

    Raises:
        TypeError: ``paths`` is a string instead of a list, or contains objects that are not strings.
        InvalidValue: A pattern has a ``*`` that is not at its end, or cannot match any path.
    """
    if isinstance(paths, str):
        raise TypeError(f"paths={paths!r} must be a list of str; write paths=[{paths!r}]")
    try:
        return None if paths is None else [check_path_pattern(text("each of paths", pattern)) for pattern in paths]
    except ValueError as exc:
        raise InvalidValue(f"paths: {exc}") from exc


def closest(unknown: str, known: Iterable[str]) -> str:
    """Return a phrase for an error message that lists the known strings similar to an unknown string.

    Case is ignored.
    """
    every = list(known)
    folded = [text.casefold() for text in every]
    close = difflib.get_close_matches(unknown.casefold(), dict.fromkeys(folded), n=3, cutoff=0.4)
    if not close:
        if len(every) == 1:
            return f"the only one is {visible(every[0])}"
        return f"there are {len(every)}, and none is similar" if every else "there are none"
    similar = [text for one in close for text, form in zip(every, folded, strict=True) if form == one]
    return f"similar: {', '.join(map(visible, similar[:3]))}"


def type_name(value: object) -> str:
    """Return the name of a value's type for an error message."""
    return "None" if value is None else type(value).__name__


TableFormat: TypeAlias = Literal["pandas", "arrow", "polars"]
"""The kind of a table: a ``pandas.DataFrame``, a ``pyarrow.Table`` or a ``polars.DataFrame``."""

SqlFormat: TypeAlias = Literal["pandas", "arrow", "polars", "duckdb"]
"""The kind of a query's result: a table, or a ``duckdb.DuckDBPyRelation``."""

_MODULES: Mapping[TableFormat, str] = {
    "pandas": "mirror_sdk.frames",
    "arrow": "mirror_sdk.arrow_tables",
    "polars": "mirror_sdk.arrow_tables.polars_frames",
}


def table_module(as_: TableFormat) -> str:
    """Return the name of the module that must be imported before tables of this kind can be created.

    If a package that the module needs is missing, the import error contains its name.

    Raises:
        InvalidValue: There is no such kind of table.
    """
    if as_ not in _MODULES:
        raise InvalidValue(f"as_={as_!r} must be one of {', '.join(map(repr, _MODULES))}")
    return _MODULES[as_]
