"""The directory's filters, in both spellings. Source: wire.md 6."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from urllib.parse import parse_qsl

from flask import request

from mirror_sdk.wire.directory import FILTER_FIELDS, FILTER_OPERATORS
from mirror_sdk.wire.history import MAX_DEVICES
from mirror_sdk.wire.paths import check_pattern
from mirror_sdk.wire.snapshot import MAX_PATTERNS
from mirror_server.core.errors import Refusal
from mirror_server.store.devices import Condition
from mirror_server.views.requests import read_instant

_COLUMNS = {"id": "device_id", "name": "endpoint_name", "state": "registered"}
_COMPARISONS = {
    "eq": "IN",
    "neq": "NOT IN",
    "in": "IN",
    "nin": "NOT IN",
    "gte": ">=",
    "lte": "<=",
    "gt": ">",
    "lt": "<",
}
_STATES = {"registered": 1, "deregistered": 0}
# The database nests as many conditions as there are filters, and refuses to go deeper than a thousand.
_MOST_FILTERS = 100
# The time to bind them grows with the square of their number.
_MOST_VALUES = 1000
_TIMES = ("created_at", "updated_at")


def query_conditions(own: Collection[str]) -> tuple[Condition, ...]:
    """The conditions in the query of the request; every parameter that is not its ``own`` is taken for a filter.

    Raises:
        Refusal: See :func:`read_filters`.
    """
    return tuple(read_filters((name, value) for name, value in request.args.items(multi=True) if name not in own))


def query_patterns() -> tuple[str, ...]:
    """The patterns of paths in the query of the request.

    Raises:
        Refusal: One of them is none, or there are too many (400).
    """
    patterns = request.args.getlist("path")
    if len(patterns) > MAX_PATTERNS:
        raise Refusal.of_field("path", f"given {len(patterns)} times; {MAX_PATTERNS} is the limit")
    try:
        return tuple(map(check_pattern, patterns))
    except ValueError as error:
        raise Refusal.of_field("path", str(error)) from None


def query_devices() -> tuple[Condition, ...]:
    """The condition that ``device_id`` is one of those in the query of the request, where there are any.

    Raises:
        Refusal: There are too many (400).
    """
    device_ids = request.args.getlist("device_id")
    if len(device_ids) > MAX_DEVICES:
        raise Refusal.of_field("device_id", f"given {len(device_ids)} times; {MAX_DEVICES} is the limit")
    return (Condition("device_id", "IN", tuple(device_ids)),) if device_ids else ()


def read_filters(parameters: Iterable[tuple[str, str]]) -> list[Condition]:
    """The conditions in query parameters of their own (``state__eq=registered``) and in ``filter=...``.

    Raises:
        Refusal: A filter is unknown, its value cannot be one, or there are too many (400).
    """
    unfolded = list(_unfolded(parameters))
    if len(unfolded) > _MOST_FILTERS:
        raise Refusal(400, f"{len(unfolded)} filters; {_MOST_FILTERS} is the limit, and __in takes many values at once")
    conditions = [_condition(name, value) for name, value in unfolded]
    count = sum(len(condition.values) for condition in conditions)
    if count > _MOST_VALUES:
        raise Refusal(400, f"{count} values in the filters; {_MOST_VALUES} is the limit, so ask for a part at a time")
    return conditions


def _unfolded(parameters: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in parameters:
        if name == "filter":
            yield from parse_qsl(value, keep_blank_values=True)
        else:
            yield name, value


def _condition(name: str, text: str) -> Condition:
    field, mark, operator = name.partition("__")
    operator = operator if mark else "eq"
    if field not in FILTER_FIELDS or operator not in FILTER_OPERATORS:
        message = (
            f"unknown filter; known are {', '.join(FILTER_FIELDS)}, each alone or with"
            f" {', '.join(f'__{known}' for known in FILTER_OPERATORS)}"
        )
        raise Refusal.of_field(name, message)
    texts = text.split(",") if operator in {"in", "nin"} else [text]
    values = tuple(_value(name, field, part) for part in texts)
    return Condition(_COLUMNS.get(field, field), _COMPARISONS[operator], values)


def _value(name: str, field: str, text: str) -> str | int:
    if field == "state":
        if text not in _STATES:
            raise Refusal.of_field(name, f"{text!r} is no state; write {' or '.join(_STATES)}")
        return _STATES[text]
    if field in _TIMES:
        return read_instant(name, text)
    return text
