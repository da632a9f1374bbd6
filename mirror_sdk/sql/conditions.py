"""The conditions of a scan on each column, from the filter that DuckDB passes to a pyarrow dataset.

The conditions select at least the rows of the filter, and sometimes more. The filter itself is applied to these rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.wire.model import write_timestamp


class ValueInterval(NamedTuple):
    """An interval of values.

    Attributes:
        low: The smallest value, or ``None`` if there is no limit.
        high: The largest value, or ``None`` if there is no limit.
        has_high: Whether the interval contains ``high``.
    """

    low: Any
    high: Any
    has_high: bool = True

    @property
    def is_point(self) -> bool:
        """Whether the interval contains one value."""
        return self.low is not None and self.low == self.high

    @property
    def is_prefix(self) -> bool:
        """Whether the interval contains all strings that begin with ``low``, and no others."""
        return self.low is not None and not self.has_high and self.high == text_after(self.low)


Intervals: TypeAlias = frozenset[ValueInterval]
"""The possible values of a column."""

Conditions: TypeAlias = Mapping[str, Intervals]
"""The possible values of each column that has a condition. Without intervals, no row matches."""

_OPERATORS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_METADATA = "-- schema metadata --"
_UNCLEAR = (LookupError, TypeError, ValueError, OverflowError, pa.ArrowException)
"""The serialized form of expressions is not documented, and DuckDB has times that ``datetime`` does not have."""
_MILLISECOND = timedelta(milliseconds=1)
_LAST_INSTANT = datetime.max.replace(tzinfo=UTC) - _MILLISECOND


class _Call(NamedTuple):
    function: str
    arguments: list[Any]
    options: Mapping[str, Any]


class _Field(NamedTuple):
    name: str


def conditions_of(expression: Any) -> tuple[Conditions, frozenset[str] | None]:
    """Return the conditions of a ``pyarrow.compute.Expression``, and the columns in it, or ``None`` if unknown.

    Parts of the expression that are not understood do not become conditions.
    """
    if expression is None:
        return {}, frozenset()
    try:
        tree = _tree(expression)
    except _UNCLEAR:
        # Without conditions, more rows are fetched.
        return {}, None
    conditions = _conditions(tree)
    if "path" in conditions:
        # A mistyped path would otherwise not limit the rows, because it cannot be sent as a pattern.
        conditions["path"] = frozenset(filter(_may_be_path, conditions["path"]))
    return conditions, frozenset(_fields(tree))


def text_of(expression: Any) -> str:
    """Return an expression as a condition of SQL, or in the form of pyarrow if a part of it is not understood."""
    try:
        return _text(_tree(expression))
    except _UNCLEAR:
        return str(expression)


def points_of(intervals: Intervals) -> list[Any] | None:
    """Return the possible values in order, or ``None`` if they are not a list of values."""
    values = {one.low for one in intervals if one.is_point}
    return sorted(values) if len(values) == len(intervals) else None


def hull_of(intervals: Intervals) -> tuple[Any, Any]:
    """Return the smallest and the largest possible value, or ``None`` if there is no limit."""
    lows, highs = [one.low for one in intervals], [one.high for one in intervals]
    return None if None in lows else min(lows), None if None in highs else max(highs)


def patterns_of(intervals: Intervals) -> list[str] | None:
    """Return the patterns for the possible paths, or ``None`` if they cannot be written as patterns."""
    patterns = []
    for one in sorted(intervals, key=str):
        if one.is_point:
            patterns.append(one.low)
        elif one.is_prefix:
            patterns.append(f"{one.low}*")
        else:
            return None
    return patterns


def text_after(prefix: str) -> str | None:
    """Return the first string after all strings with a prefix, or ``None`` if the prefix is not plain ASCII."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix.isascii() and prefix.isprintable() and prefix else None


def _may_be_path(interval: ValueInterval) -> bool:
    is_pattern = interval.is_point or interval.is_prefix
    return not is_pattern or (interval.low.startswith("/") and "*" not in interval.low)


def period_of(intervals: Intervals | None) -> tuple[datetime | None, datetime | None]:
    """Return the first possible time and the first time after the last one."""
    if intervals is None:
        return None, None
    begin, last = hull_of(intervals)
    return begin, None if last is None or last > _LAST_INSTANT else last + _MILLISECOND


def expression_of(conditions: Conditions, names: tuple[str, ...]) -> Any:
    """Return the conditions on these columns as a ``pyarrow.compute.Expression``, or ``None`` if there are none."""
    expression = None
    for name in names:
        if name not in conditions:
            continue
        points = points_of(conditions[name])
        low, high = hull_of(conditions[name])
        parts = [pc.field(name).isin(points)] if points is not None else []
        parts += [pc.field(name) >= low] if points is None and low is not None else []
        parts += [pc.field(name) <= high] if points is None and high is not None else []
        for part in parts:
            expression = part if expression is None else expression & part
    return expression


def _tree(expression: Any) -> Any:
    """Return the tree of an expression from its serialized form, which is a row of literals with metadata."""
    with pa.ipc.open_file(expression.__reduce__()[1][0]) as file:
        # As a dictionary, the metadata would lose repeated keys.
        text = file.schema.to_string(truncate_metadata=False)
        literals = file.get_batch(0)
    entries = (line.partition(": ") for line in text.partition(_METADATA)[2].strip().split("\n"))
    return _read(iter([(key, value.strip("'")) for key, _, value in entries]), literals)


def _read(entries: Iterator[tuple[str, str]], literals: pa.RecordBatch) -> Any:
    key, value = next(entries)
    if key == "literal":
        return literals.column(int(value))[0].as_py()
    if key == "field_ref":
        return _Field(value)
    if key in {"end", "options"}:
        raise _End(key, value)
    if key != "call":
        raise ValueError(f"unknown part {key}")
    arguments: list[Any] = []
    options: Mapping[str, Any] = {}
    while True:
        try:
            arguments.append(_read(entries, literals))
        except _End as end:
            if end.args[0] == "end":
                return _Call(value, arguments, options)
            options = literals.column(int(end.args[1]))[0].as_py()


def _text(node: Any) -> str:
    match node:
        case _Call("and_kleene", [left, right]):
            text = f"{_text(left)} and {_text(right)}"
        case _Call("or_kleene", [left, right]):
            text = f"({_text(left)} or {_text(right)})"
        case _Call("if_else", [_Call("is_valid", _), condition, None]):
            text = _text(condition)
        case _Call("is_in", [_Field(name)], {"value_set": [*values]}):
            text = f"{name} in ({', '.join(map(_literal, values))})"
        case _Call("is_null" | "is_valid" as function, [_Field(name)]):
            text = f"{name} is {'null' if function == 'is_null' else 'not null'}"
        case _Call("invert", [condition]):
            text = f"not ({_text(condition)})"
        case _Call(function, [_Field(name), value]):
            text = f"{name} {_OPERATORS[function]} {_literal(value)}"
        case _:
            raise ValueError(f"unknown part {node}")
    return text


def _literal(value: Any) -> str:
    if isinstance(value, _Call | _Field):
        raise TypeError("not a literal")
    text = write_timestamp(value) if isinstance(value, datetime) else str(value)
    return f"'{text.replace(chr(39), chr(39) * 2)}'" if isinstance(value, str | datetime) else text


def _fields(node: Any) -> Iterator[str]:
    if isinstance(node, _Field):
        yield node.name
    if isinstance(node, _Call):
        for one in node.arguments:
            yield from _fields(one)


class _End(LookupError):
    """The end of a call, or its options."""


def _conditions(node: Any) -> dict[str, Intervals]:
    match node:
        case _Call("and_kleene", [left, right]):
            return _both(_conditions(left), _conditions(right))
        case _Call("or_kleene", [left, right]):
            return _either(_conditions(left), _conditions(right))
        case _Call("if_else", [_Call("is_valid", _), condition, None]):
            return _conditions(condition)
        case _Call("is_in", [_Field(name)], {"value_set": [*values]}) if not any(map(_is_nan, values)):
            return {name: frozenset(ValueInterval(_plain(one), _plain(one)) for one in values if one is not None)}
        case _Call(function, [_Field(name), value]) if value is not None and not isinstance(value, _Call | _Field):
            return _compared(function, name, _plain(value))
    return {}


def _compared(function: str, name: str, value: Any) -> dict[str, Intervals]:
    if _is_nan(value):
        return {}
    match function:
        case "equal":
            return {name: frozenset([ValueInterval(value, value)])}
        case "greater" | "greater_equal":
            return {name: frozenset([ValueInterval(value, None)])}
        case "less" | "less_equal":
            return {name: frozenset([ValueInterval(None, value, function == "less_equal")])}
    return {}


def _is_nan(value: Any) -> bool:
    """Whether a value is NaN. DuckDB orders it after all numbers, but comparisons in Python are false."""
    return isinstance(value, float) and math.isnan(value)


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


def _both(left: dict[str, Intervals], right: dict[str, Intervals]) -> dict[str, Intervals]:
    common = {name: _intersection(left[name], right[name]) for name in left.keys() & right.keys()}
    return {**left, **right, **common}


def _either(left: dict[str, Intervals], right: dict[str, Intervals]) -> dict[str, Intervals]:
    return {name: left[name] | right[name] for name in left.keys() & right.keys()}


def _intersection(left: Intervals, right: Intervals) -> Intervals:
    found = set()
    for first in left:
        for second in right:
            low = max((one.low for one in (first, second) if one.low is not None), default=None)
            ends = [(one.high, one.has_high) for one in (first, second) if one.high is not None]
            high, has_high = min(ends, default=(None, True))
            if low is None or high is None or low < high or (low == high and has_high):
                found.add(ValueInterval(low, high, has_high))
    return frozenset(found)
