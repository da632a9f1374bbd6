"""The personal columns and resources, the reasons why they are personal, and their treatment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from mirror_sdk.arrow_tables.events import EVENTS_COLUMNS
from mirror_sdk.arrow_tables.history import HISTORY_COLUMNS
from mirror_sdk.arrow_tables.state import STATE_COLUMNS
from mirror_sdk.object_definitions import labeled, lookup
from mirror_sdk.wire.object_definitions import Personal
from mirror_sdk.wire.paths import parse_path


class PersonalColumn(NamedTuple):
    """A column that identifies a device or a person.

    Attributes:
        column: The name of the column. A column whose name begins with it is treated in the same way, for example a
            column with the suffix of a join.
        word: The prefix of the pseudonyms. The same string gets different pseudonyms in columns with different
            prefixes. So the pseudonyms do not reveal that a device uses its id as its name.
        why: The reason why the column is personal.
    """

    column: str
    word: str
    why: str


class PersonalResource(NamedTuple):
    """A group of resources that are personal for the same reason.

    Attributes:
        description: The name of the group.
        resources: The object and resource ids. The object id is ``None`` for a reusable resource, which can occur in
            any object.
        how: The treatment of the values.
        word: The prefix of the pseudonyms.
        why: The reason why the resources are personal.
    """

    description: str
    resources: tuple[tuple[int | None, int], ...]
    how: Personal
    word: str
    why: str


class Treatment(NamedTuple):
    """The way in which the values of a resource are pseudonymized.

    Attributes:
        how: The treatment. ``None`` is used for resources without a declaration. Their numbers and booleans stay
            unchanged, and their strings and bytes are treated as identifiers.
        word: The prefix of the pseudonyms.
        resource: The resource in any object instance, such as ``/3/*/2``. Equal values of this resource have equal
            pseudonyms.
    """

    how: Personal | None
    word: str
    resource: str


PERSONAL_COLUMNS = (
    PersonalColumn("device_id", "device", "identifies a device and so its owner"),
    PersonalColumn("endpoint_name", "name", "chosen by people: names, rooms, addresses, serial numbers"),
    PersonalColumn("custom_attributes", "attribute", "written by people about a device: rooms, owners, contracts"),
    PersonalColumn("async_id", "request", "chosen by the application, with any content"),
    PersonalColumn("acknowledged_by", "person", "names the person or program that acknowledged a failed write"),
    PersonalColumn("uid", "entry", "identifies an entry in the log of the server"),
)
"""The columns whose strings are replaced with pseudonyms, in every table and index."""

_ID, _COARSE, _HIDDEN = Personal.IDENTIFIER, Personal.PLACE, Personal.HIDDEN
_WLAN_KEYS = ((12, 17), (12, 18), (12, 21), (12, 22), (12, 23), (12, 24), (12, 25), (12, 28))

PERSONAL_RESOURCES = (
    PersonalResource(
        "serial numbers",
        ((3, 2), (3416, 59), (10242, 2), (10243, 2), (10257, 2), (10315, 3), (10316, 2)),
        _ID,
        "serial",
        "one device; sales and warranties lead to its owner",
    ),
    PersonalResource(
        "numbers of SIM cards, modems and subscribers: ICCID, EID, IMEI, IMSI, MSISDN",
        (
            *((504, 11), (504, 14), (505, 14), (508, 0), (508, 1), (3351, 2), (3351, 3), (3351, 4), (3412, 21)),
            *((3412, 22), (3443, 1), (10308, 1), (10308, 2), (10308, 3), (10330, 1), (10330, 2)),
        ),
        _ID,
        "sim",
        "a contract with a person",
    ),
    PersonalResource(
        "identities of hosts and of the devices of a gateway",
        ((16, 0), (24, 6), (25, 0), (25, 1), (10299, 2)),
        _ID,
        "host",
        "one device, under another name",
    ),
    PersonalResource(
        "addresses in networks: IP, MAC, BSSID, telephone",
        (
            *((4, 4), (4, 5), (10, 0), (11, 15), (11, 18), (11, 19), (11, 20), (12, 4), (12, 26), (12, 32)),
            *((3412, 2), (3412, 3), (3412, 4), (3412, 5), (3412, 6), (3412, 7), (3412, 8)),
            *((3447, 22), (3447, 23), (3447, 25), (3447, 26), (3447, 27)),
        ),
        _ID,
        "address",
        "a household; public lists lead from a BSSID to a street",
    ),
    PersonalResource(
        "names of networks and accounts: APN, SSID, user",
        ((4, 7), (9, 14), (11, 0), (11, 1), (11, 5), (12, 5), (24, 7), (3447, 20), (18830, 4)),
        _ID,
        "account",
        "chosen by people, or assigned to one customer",
    ),
    PersonalResource(
        "cells and areas of mobile networks",
        ((4, 8), (4, 12), (13, 5)),
        _ID,
        "cell",
        "public lists lead from a cell to a place",
    ),
    PersonalResource(
        "addresses of packages to load",
        ((5, 1), (9, 3)),
        _ID,
        "package",
        "may name one device, or contain its credentials",
    ),
    PersonalResource(
        "text that people write: application type",
        ((None, 5750),),
        _ID,
        "written",
        "names of rooms and people",
    ),
    PersonalResource(
        "coordinates",
        (
            *((6, 0), (6, 1), (None, 5514), (None, 5515), (None, 6051), (None, 6052)),
            *((3430, 1), (3430, 2), (3430, 29), (3430, 30), (3430, 34), (3430, 35)),
        ),
        _COARSE,
        "place",
        "where people live, work and go",
    ),
    PersonalResource(
        "altitudes and velocities",
        ((6, 2), (6, 4), (None, 5517), (3430, 3), (3430, 31), (3430, 36)),
        _HIDDEN,
        "",
        "can restore the exact location, or reveal a route",
    ),
    PersonalResource(
        "text on displays, and audio clips",
        ((None, 5527), (None, 5522)),
        _HIDDEN,
        "",
        "communication of people",
    ),
    PersonalResource(
        "passwords and keys",
        ((9, 15), (10, 2), (11, 6), (16, 2), (24, 8), (18830, 5), (3447, 28), *_WLAN_KEYS),
        _HIDDEN,
        "",
        "give access to anyone who reads them",
    ),
)
"""The resources that are personal according to the definitions of LwM2M and the OMA registry."""

_KNOWN_TEXTS = frozenset({"reason", "content_type", "condition", "description", "presence", "reported_origin"})
"""The columns of this package whose strings are not names, but may contain a name."""
_JOINED = "_other"
_STATISTICS = frozenset({"value", "first", "last", "min", "max", "mean", "time_weighted_mean", "median", "sum", "rate"})
_VALUE_COLUMN = re.compile(r"(reported|desired|value|requested|current|wanted|before|after)_(num|text|bool|raw)(_.*)?")
NOT_VALUES = frozenset(
    {
        *(
            column.name
            for column in (*STATE_COLUMNS, *EVENTS_COLUMNS, *HISTORY_COLUMNS)
            if (pa.types.is_integer(column.field.type) or pa.types.is_boolean(column.field.type))
            and not _VALUE_COLUMN.fullmatch(column.name)
        ),
        *("label", "unit", "before_unit", "category", "endpoint_type", "queue_mode"),
        *("count", "covered", "covered_a", "covered_b", "reset", "resets", "intervals", "share", "ongoing"),
        *("begin_seen", "end_seen", "observations", "sleeps", "expiry_seconds", "undoable"),
    }
)
"""The columns of this package that describe a row and are not derived from the values of its resource.

Any other column of numbers, booleans, strings or bytes may be derived from the values. Such a column is treated in the
same way as the values.
"""
_SAME_SCALE = re.compile(r"(value|first|last|min|max|mean|time_weighted_mean|median|a|b|difference|increase)(_.*)?")
"""The columns of numbers that are in the unit of the resource, or are differences of such numbers.

Sums, rates and powers are not included.
"""
_LEADING_PATH = re.compile(r"(?:.* )?((?:/\d+)+)")
_DECLARED_WORD = "value"
_BY_RESOURCE: Mapping[tuple[int | None, int], PersonalResource] = {
    resource: group for group in PERSONAL_RESOURCES for resource in group.resources
}


def word_of_column(name: object) -> str | None:
    """Return the prefix of the pseudonyms of a column, or ``None`` if the column is not personal as a whole."""
    for column in PERSONAL_COLUMNS:
        if str(name).startswith(column.column):
            return column.word
    return None


def is_value_column(name: object) -> bool:
    """Return whether a column has the values of the resource in the column ``path``."""
    return name in _STATISTICS or bool(_VALUE_COLUMN.fullmatch(str(name)))


def is_known_text(name: object) -> bool:
    """Return whether the meaning of the strings in a column is known.

    Such strings are not replaced completely.
    """
    own = str(name).removesuffix(_JOINED)
    return own in _KNOWN_TEXTS or own in NOT_VALUES or is_value_column(own)


def has_scale_of_values(name: object) -> bool:
    """Return whether the numbers of a column have the scale of its resource.

    Such numbers are rounded in the same way as the values.
    """
    return bool(_VALUE_COLUMN.fullmatch(str(name)) or _SAME_SCALE.fullmatch(str(name)))


def path_of_column(name: object) -> str | None:
    """Return the path of the resource whose values are in a column of a wide table.

    The result is ``None`` for any other column. The name of a column of values is a path, a label, or both, and may end
    with the suffix of a join.
    """
    if found := _LEADING_PATH.match(str(name)):
        return found[1]
    label = str(name)
    while label:
        if definition := labeled(label):
            return f"/{definition.object_id}/0/{definition.resource_id}"
        label = label.rpartition("_")[0]
    return None


def is_path(text: object) -> bool:
    """Return whether a string is the path of a resource, an object or an object instance."""
    try:
        parse_path(str(text))
    except ValueError:
        return False
    return True


def treatment_of(path: str) -> Treatment | None:
    """Return how the values of a resource are pseudonymized, or ``None`` if they stay unchanged.

    The declaration of a registered object has precedence over the resources listed here. The strings of a resource
    without a declaration are treated as identifiers.
    """
    definition = lookup(path)
    resource = _resource_of(path)
    if definition is not None and definition.personal is not None:
        return Treatment(definition.personal, _DECLARED_WORD, _any_instance(resource) or path)
    group = resource and (_BY_RESOURCE.get(resource) or _BY_RESOURCE.get((None, resource[1])))
    if group:
        return Treatment(group.how, group.word, _any_instance(resource) or path)
    return None if definition is not None else Treatment(None, _DECLARED_WORD, _any_instance(resource) or path)


@lru_cache(maxsize=4096)
def _resource_of(path: str) -> tuple[int, int] | None:
    try:
        numbers = parse_path(path)
    except ValueError:
        return None
    return None if numbers.resource_id is None else (numbers.object_id, numbers.resource_id)


def _any_instance(resource: tuple[int, int] | None) -> str | None:
    return f"/{resource[0]}/*/{resource[1]}" if resource else None
