"""The filters of the directory, as separate query parameters and within ``filter``. Source: wire.md 6."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import parse_qsl

from mirror_sdk.wire.directory import ATTRIBUTE_FILTER, FILTER_OPERATORS, STATES, UNSUPPORTED_FIELDS
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.directory.store import descriptions
from mirror_server.extensions.openapi_parameters import FLAG
from mirror_server.extensions.time_parameters import read_instant
from mirror_server.hooks import SERVER, Extensions, extends, require_distinct
from mirror_server.store.conditions import Condition, is_subquery
from mirror_server.views.description import INSTANT, TEXT, Parameter, Schema, words
from mirror_server.views.requests import PAGING

_COMPARISONS = {
    "eq": ("IN", "equal to this"),
    "neq": ("NOT IN", "not equal to this"),
    "in": ("IN", "one of these, separated by commas"),
    "nin": ("NOT IN", "none of these, separated by commas"),
    "gte": (">=", "greater than or equal to this"),
    "lte": ("<=", "less than or equal to this"),
    "gt": (">", "greater than this"),
    "lt": ("<", "less than this"),
}
_EXTENSION_OPERATORS = {"gt", "lt"}
"""The operators that the public API lacks."""
# The database nests one condition per filter, and rejects more than a thousand levels.
_MAX_FILTERS = 100
# Each of these filters needs a lookup for each device.
_MAX_LOOKUP_FILTERS = 10
# The time to bind values to a statement grows with the square of their number.
_MAX_VALUES = 1000
_UNKNOWN = -1

ReadValue = Callable[[str, str], str | int]
"""A function that parses a value. Its first argument is the name of the filter, for error messages."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields by which a list can be filtered.

    Attributes:
        columns: The column of each field.
        readers: The parsers of the fields whose values are not strings.
        unsupported: The fields of the public API that are always empty on this server.
        attributes: The prefix of filters by a custom attribute, or ``None`` if the list has no such filters.
        unique: The fields whose values are unique.
    """

    columns: Mapping[str, str]
    readers: Mapping[str, ReadValue] = field(default_factory=dict)
    unsupported: Collection[str] = ()
    attributes: str | None = None
    unique: Collection[str] = ("id",)


def read_moment(name: str, text: str) -> Instant:
    """Parse a timestamp. As in the public API, the punctuation may be missing: ``20161130T162512Z``.

    Raises:
        ApiError: The string is not a timestamp (400).
    """
    match = _SHORT_INSTANT.fullmatch(text)
    return read_instant(name, "{}-{}-{}T{}:{}:{}Z".format(*match.groups()) if match else text)


def read_truth(name: str, text: str) -> int:
    """Parse ``True`` as 1 and ``False`` as 0. The case is ignored, because programming languages differ.

    Raises:
        ApiError: The string is neither of the two (400).
    """
    if text.lower() not in _TRUTHS:
        raise ApiError.of_field(name, f"{text!r} is neither True nor False; send one of them")
    return _TRUTHS[text.lower()]


def _read_state(name: str, text: str) -> int:
    if text not in STATES:
        raise ApiError.of_field(name, f"{text!r} is not a state; use {' or '.join(STATES)}")
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
    unsupported=UNSUPPORTED_FIELDS,
    attributes=ATTRIBUTE_FILTER,
    unique=("id", "endpoint_name"),
)


_SCHEMAS: dict[ReadValue | None, Schema] = {read_moment: INSTANT, read_truth: FLAG, _read_state: words(*STATES)}


def filter_parameters(plural: str, example: str, fields: Fields, more: str = "") -> tuple[Parameter, ...]:
    """Describe the filters of a list for the OpenAPI document.

    Args:
        plural: The name of the items, such as ``devices``.
        example: An example of ``filter``.
        fields: The fields by which the list can be filtered.
        more: Additional text for the description of ``filter``.
    """
    combined = Parameter("filter", f"Filters in one parameter, encoded like a query: `{example}`.{more}", TEXT)
    return combined, *(
        _describe(name, operator, plural, fields) for name in fields.columns for operator in _COMPARISONS
    )


def _describe(name: str, operator: str, plural: str, fields: Fields) -> Parameter:
    schema = _SCHEMAS.get(fields.readers.get(name), TEXT)
    if operator in {"in", "nin"}:
        # The schema applies to each time or state in the list, so that each of them is validated.
        schema = {"type": "array", "items": schema, "minItems": 1}
    _, meaning = _COMPARISONS[operator]
    is_extension = operator in _EXTENSION_OPERATORS
    return Parameter(f"{name}__{operator}", f"Only {plural} whose `{name}` is {meaning}.", schema, is_extension)


_DEVICE_FILTER_NOTES = (
    " A filter is a separate parameter (`state__eq=registered` or `state=registered`), or part of this parameter."
    " Filters can be repeated, and a device has to match all of them. Every other parameter is read as a filter, and"
    " rejected if there is no filter of that name. `custom_attributes__NAME` filters by a custom attribute, which is"
    " empty for a device without it. Fields of other services of the public API"
    f" ({', '.join(f'`{name}`' for name in UNSUPPORTED_FIELDS)}) are accepted, and empty for every device."
)


def device_parameters(fields: Fields) -> tuple[Parameter, ...]:
    """Describe the filters of every operation that selects devices."""
    return filter_parameters("devices", "state%3Dregistered%26endpoint_type%3DLight", fields, _DEVICE_FILTER_NOTES)


class DeviceFilters:
    """The parser of filters of devices. It supports the fields of the directory and the fields that extensions add."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions

    @cached_property
    def fields(self) -> Fields:
        """The fields by which devices can be filtered.

        Raises:
            CannotServe: Two fields have the same name.
        """
        added = [(owner, field) for owner, fields in self._extensions.results("device_fields") for field in fields]
        own = [
            (f"device filter {name}", SERVER) for name in (*DIRECTORY.columns, *UNSUPPORTED_FIELDS, *PAGING, "filter")
        ]
        require_distinct([*own, *((f"device filter {field.name}", owner) for owner, field in added)])
        return replace(
            DIRECTORY,
            columns={**DIRECTORY.columns, **{field.name: field.column for _, field in added}},
            readers={**DIRECTORY.readers, **{field.name: field.read for _, field in added if field.read is not None}},
        )

    @extends
    def started(self) -> None:
        """Raise an error if two fields have the same name.

        Raises:
            CannotServe: Two fields have the same name.
        """
        _ = self.fields

    @extends
    def device_conditions(self, parameters: Sequence[tuple[str, str]], own: Collection[str]) -> list[Condition]:
        """Parse each of these parameters as a filter."""
        return read_filters(parameters, self.fields, own=own)

    @extends
    def device_filters(self) -> Sequence[Parameter]:
        """Return the OpenAPI description of all filters."""
        return device_parameters(self.fields)


def read_filters(
    parameters: Iterable[tuple[str, str]], fields: Fields, *, own: Collection[str] = ()
) -> list[Condition]:
    """Return the conditions of separate filters (``state__eq=registered``) and of the filters in ``filter=...``.

    Args:
        parameters: The parameters that are filters.
        fields: The fields by which the list can be filtered.
        own: The names of the other supported parameters. The error for an unknown filter lists them.

    Raises:
        ApiError: A filter is unknown, its value is invalid, or there are too many filters (400).
    """
    expanded = list(_expand(parameters))
    if len(expanded) > _MAX_FILTERS:
        raise ApiError(400, f"{len(expanded)} filters; the limit is {_MAX_FILTERS}. Use __in for several values")
    conditions = [_condition(name, value, fields, own) for name, value in expanded]
    lookups = sum(is_subquery(condition.column) for condition in conditions)
    if lookups > _MAX_LOOKUP_FILTERS:
        names = ", ".join(name for name, column in fields.columns.items() if is_subquery(column))
        message = f"{lookups} filters by {names} or attributes; the limit is {_MAX_LOOKUP_FILTERS}"
        raise ApiError(400, f"{message}. Use __in and __nin for several values")
    count = sum(len(condition.values) for condition in conditions)
    if count > _MAX_VALUES:
        message = f"{count} values in the filters; the limit is {_MAX_VALUES}. Split them into several requests"
        raise ApiError(400, message)
    return conditions


def _expand(parameters: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in parameters:
        if name == "filter":
            yield from parse_qsl(value, keep_blank_values=True)
        else:
            yield name, value


def _condition(name: str, text: str, fields: Fields, own: Collection[str]) -> Condition:
    field_name, separator, operator = name.rpartition("__")
    if operator not in FILTER_OPERATORS or not separator:
        field_name, operator = name, "eq"
    texts = text.split(",") if operator in {"in", "nin"} else [text]
    comparison, _ = _COMPARISONS[operator]
    if field_name in fields.columns:
        read = fields.readers.get(field_name)
        values = tuple(texts) if read is None else tuple(read(name, one) for one in texts)
        column = fields.columns[field_name]
        is_name = column == descriptions.NAME and comparison == "IN"
        among = descriptions.AMONG_NAMES if is_name else None
        return Condition(column, comparison, values, among=among, is_unique=field_name in fields.unique)
    if field_name in fields.unsupported:
        nothing = descriptions.NOTHING if comparison in {"IN", "NOT IN"} else descriptions.NEVER
        return Condition(nothing, comparison, tuple(texts))
    prefix, _, attribute = field_name.partition("__")
    if attribute and prefix == fields.attributes:
        return Condition(descriptions.ATTRIBUTE, comparison, tuple(texts), of=attribute)
    supported = [*fields.columns, *([f"{fields.attributes}__NAME"] if fields.attributes else [])]
    message = (
        f"unknown filter; supported: {', '.join(supported)}, each alone or with"
        f" {', '.join(f'__{operator}' for operator in FILTER_OPERATORS)}"
    )
    if own:
        message += f"; supported parameters other than filters: {', '.join(own)}"
    raise ApiError.of_field(name, message)
