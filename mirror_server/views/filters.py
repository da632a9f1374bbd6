"""The directory's filters, in both spellings. Source: wire.md 6."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from mirror_sdk.wire.directory import FILTER_FIELDS, FILTER_OPERATORS
from mirror_sdk.wire.model import Timestamp
from mirror_server.core.errors import Refusal
from mirror_server.core.instants import from_datetime
from mirror_server.store.devices import Condition

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
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", re.ASCII)
_TIMESTAMP: TypeAdapter[Timestamp] = TypeAdapter(Timestamp)


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
        try:
            # A bare number is no RFC 3339 time: whether it counts seconds or milliseconds would be a guess.
            return from_datetime(_TIMESTAMP.validate_python(text if _DATE.match(text) else None))
        except ValidationError:
            raise Refusal.of_field(name, f"{text!r} is no time; write it like 2026-11-20T12:37:55.576Z") from None
    return text
