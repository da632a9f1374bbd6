"""The directory's filters, in both spellings. Source: wire.md 6."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import parse_qsl

from mirror_sdk.wire.directory import ATTRIBUTE_FILTER, FILTER_OPERATORS, NOT_KEPT, STATES
from mirror_server.core.errors import ApiError
from mirror_server.core.instants import Instant
from mirror_server.extensions.descriptions import FLAG
from mirror_server.extensions.directory.store import descriptions
from mirror_server.extensions.instants import read_instant
from mirror_server.hooks import SERVER, Extensions, extends, require_distinct
from mirror_server.store.conditions import Condition, is_subquery
from mirror_server.views.description import INSTANT, TEXT, Parameter, Schema, words
from mirror_server.views.requests import PAGING

_COMPARISONS = {
    "eq": ("IN", "equal to this"),
    "neq": ("NOT IN", "other than this"),
    "in": ("IN", "one of these, separated by commas"),
    "nin": ("NOT IN", "none of these, separated by commas"),
    "gte": (">=", "this or above"),
    "lte": ("<=", "this or below"),
    "gt": (">", "above this"),
    "lt": ("<", "below this"),
}
_OWN_OPERATORS = {"gt", "lt"}
"""Those that the public API lacks."""
# The database nests as many conditions as there are filters, and refuses to go deeper than a thousand.
_MOST_FILTERS = 100
# What people say of devices is looked up for each device and each of these.
_MOST_SAID = 10
# The time to bind them grows with the square of their number.
_MOST_VALUES = 1000
_UNKNOWN = -1

ReadValue = Callable[[str, str], str | int]
"""Reads a value out of a text; the first argument is the filter's name, for a refusal."""


@dataclass(frozen=True, slots=True)
class Fields:
    """By what a list can be filtered.

    Attributes:
        columns: In which column of a table each field is.
        readers: How the values of a field are read that are no texts.
        not_kept: Fields of the public API that nothing here has a value of.
        attributes: The field whose name is followed by that of a custom attribute, where there is one.
        unique: Fields of which no two rows have the same value.
    """

    columns: Mapping[str, str]
    readers: Mapping[str, ReadValue] = field(default_factory=dict)
    not_kept: Collection[str] = ()
    attributes: str | None = None
    unique: Collection[str] = ("id",)


def read_moment(name: str, text: str) -> Instant:
    """An instant as filters have it: also without punctuation, ``20161130T162512Z``, as the public API takes it.

    Raises:
        ApiError: It is none (400).
    """
    found = _SHORT_INSTANT.fullmatch(text)
    return read_instant(name, "{}-{}-{}T{}:{}:{}Z".format(*found.groups()) if found else text)


def read_truth(name: str, text: str) -> int:
    """1 for ``True`` and 0 for ``False``, in any case, as the programs of several languages write them.

    Raises:
        ApiError: It is neither (400).
    """
    if text.lower() not in _TRUTHS:
        raise ApiError.of_field(name, f"{text!r} is neither True nor False")
    return _TRUTHS[text.lower()]


def _read_state(name: str, text: str) -> int:
    if text not in STATES:
        raise ApiError.of_field(name, f"{text!r} is no state; write {' or '.join(STATES)}")
    return _STATES.get(text, _UNKNOWN)


_SHORT_INSTANT = re.compile(r"(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z", re.ASCII)
_TRUTHS = {"true": 1, "false": 0}
_STATES = {"registered": 1, "deregistered": 0}
DIRECTORY = Fields(
    columns={
        "id": "device_id",
        "name": descriptions.NAME,
        "description": descriptions.DESCRIPTION,
        "endpoint_name": "endpoint_name",
        "endpoint_type": "endpoint_type",
        "state": "registered",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "bootstrapped_timestamp": "created_at",
        "etag": descriptions.CHANGED_AT,
    },
    readers={
        "state": _read_state,
        **dict.fromkeys(("created_at", "updated_at", "bootstrapped_timestamp", "etag"), read_moment),
    },
    not_kept=NOT_KEPT,
    attributes=ATTRIBUTE_FILTER,
    unique=("id", "endpoint_name"),
)


_SCHEMAS: dict[ReadValue | None, Schema] = {read_moment: INSTANT, read_truth: FLAG, _read_state: words(*STATES)}


def filter_parameters(what: str, example: str, fields: Fields, more: str = "") -> tuple[Parameter, ...]:
    """The filters of a list in its description.

    Args:
        what: What it is a list of: ``devices``.
        example: Of what ``filter`` takes.
        fields: By what can be filtered.
        more: What is to be known besides.
    """
    together = Parameter("filter", f"Filters in one parameter, encoded like a query: `{example}`.{more}", TEXT)
    return together, *(_described(name, operator, what, fields) for name in fields.columns for operator in _COMPARISONS)


def _described(name: str, operator: str, what: str, fields: Fields) -> Parameter:
    schema = _SCHEMAS.get(fields.readers.get(name), TEXT)
    if operator in {"in", "nin"}:
        # Times and states in a list are checked too, one by one.
        schema = {"type": "array", "items": schema, "minItems": 1}
    _, meaning = _COMPARISONS[operator]
    is_extension = operator in _OWN_OPERATORS
    return Parameter(f"{name}__{operator}", f"Only {what} whose `{name}` is {meaning}.", schema, is_extension)


_OF_DEVICES = (
    " A filter is a parameter of its own (`state__eq=registered` or `state=registered`) or stands here; each may be"
    " there several times, and all have to hold. Any other parameter is taken for a filter, and refused when there is"
    " none of that name. `custom_attributes__NAME` filters by a custom attribute; a device without it has an empty one."
    f" Fields that the public API has of its other services ({', '.join(f'`{name}`' for name in NOT_KEPT)}) are taken,"
    " and empty of every device."
)


def device_parameters(fields: Fields) -> tuple[Parameter, ...]:
    """The filters of all that selects devices as the directory does, in its description."""
    return filter_parameters("devices", "state%3Dregistered%26endpoint_type%3DLight", fields, _OF_DEVICES)


class DeviceFilters:
    """Reads filters of devices, by the fields of the directory and by those that extensions add."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions

    @cached_property
    def fields(self) -> Fields:
        """By what devices can be filtered.

        Raises:
            CannotServe: Two fields have the same name.
        """
        added = [(whose, one) for whose, some in self._extensions.each("device_fields") for one in some]
        own = [(f"device filter {name}", SERVER) for name in (*DIRECTORY.columns, *NOT_KEPT, *PAGING, "filter")]
        require_distinct([*own, *((f"device filter {one.name}", whose) for whose, one in added)])
        return replace(
            DIRECTORY,
            columns={**DIRECTORY.columns, **{one.name: one.column for _, one in added}},
            readers={**DIRECTORY.readers, **{one.name: one.read for _, one in added if one.read is not None}},
        )

    @extends
    def started(self) -> None:
        """Refuse two fields of the same name."""
        _ = self.fields

    @extends
    def device_conditions(self, given: Sequence[tuple[str, str]], own: Collection[str]) -> list[Condition]:
        """Any parameter is taken for a filter."""
        return read_filters(given, self.fields, own=own)

    @extends
    def device_filters(self) -> Sequence[Parameter]:
        """All filters."""
        return device_parameters(self.fields)


def read_filters(
    parameters: Iterable[tuple[str, str]], fields: Fields, *, own: Collection[str] = ()
) -> list[Condition]:
    """The conditions in query parameters of their own (``state__eq=registered``) and in ``filter=...``.

    Args:
        parameters: The parameters that are taken for filters.
        fields: By what can be filtered.
        own: The other parameters that can stand in the query, to name them to who wrote one that is not known.

    Raises:
        ApiError: A filter is unknown, its value cannot be one, or there are too many (400).
    """
    unfolded = list(_unfolded(parameters))
    if len(unfolded) > _MOST_FILTERS:
        raise ApiError(
            400, f"{len(unfolded)} filters; {_MOST_FILTERS} is the limit, and __in takes many values at once"
        )
    conditions = [_condition(name, value, fields, own) for name, value in unfolded]
    said = sum(is_subquery(condition.column) for condition in conditions)
    if said > _MOST_SAID:
        looked_up = ", ".join(name for name, column in fields.columns.items() if is_subquery(column))
        message = f"{said} filters by {looked_up} or attributes; {_MOST_SAID} is the limit"
        raise ApiError(400, f"{message}, and __in and __nin take many values at once")
    count = sum(len(condition.values) for condition in conditions)
    if count > _MOST_VALUES:
        raise ApiError(400, f"{count} values in the filters; {_MOST_VALUES} is the limit, so ask for a part at a time")
    return conditions


def _unfolded(parameters: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in parameters:
        if name == "filter":
            yield from parse_qsl(value, keep_blank_values=True)
        else:
            yield name, value


def _condition(name: str, text: str, fields: Fields, own: Collection[str]) -> Condition:
    named, mark, operator = name.rpartition("__")
    if operator not in FILTER_OPERATORS or not mark:
        named, operator = name, "eq"
    texts = text.split(",") if operator in {"in", "nin"} else [text]
    comparison, _ = _COMPARISONS[operator]
    if named in fields.columns:
        read = fields.readers.get(named)
        values = tuple(texts) if read is None else tuple(read(name, part) for part in texts)
        column = fields.columns[named]
        is_name = column == descriptions.NAME and comparison == "IN"
        among = descriptions.AMONG_NAMES if is_name else None
        return Condition(column, comparison, values, among=among, is_unique=named in fields.unique)
    if named in fields.not_kept:
        nothing = descriptions.NOTHING if comparison in {"IN", "NOT IN"} else descriptions.NEVER
        return Condition(nothing, comparison, tuple(texts))
    kind, mark, attribute = named.partition("__")
    if attribute and kind == fields.attributes:
        return Condition(descriptions.ATTRIBUTE, comparison, tuple(texts), of=attribute)
    known = [*fields.columns, *([f"{fields.attributes}__NAME"] if fields.attributes else [])]
    message = (
        f"unknown filter; known are {', '.join(known)}, each alone or with"
        f" {', '.join(f'__{known}' for known in FILTER_OPERATORS)}"
    )
    if own:
        message += f"; what is no filter is {', '.join(own)}"
    raise ApiError.of_field(name, message)
