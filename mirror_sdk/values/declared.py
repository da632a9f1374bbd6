"""The declared types: what each takes from a user, and what of a format with types of its own (JSON, CBOR) is of it.

Source: LwM2M core, annex on data types.
"""

from __future__ import annotations

import math
import numbers
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_table import ResourceDefinition, ResourceType
from mirror_sdk.values.value import PythonValue, ValueKind

SIGNED_64 = range(-(2**63), 2**63)
UNSIGNED_64 = range(2**64)
EXACT_FLOATS = 2**53
"""From here on a float may stand for several integers."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
HIGHEST_ID = 65535
_LONGEST_INTEGER = 20
_OBJLINK = re.compile(r"([0-9]{1,5}):([0-9]{1,5})")
_SHOWN_BYTES = 24


class UnreadablePayload(ValueError):
    """A payload is not what its content type says; the message says why."""


class Reading(NamedTuple):
    """What one resource's part of a payload says, and why it stayed bytes where it should not have."""

    kind: ValueKind
    python: PythonValue
    problem: str | None = None


class _DeclaredType(NamedTuple):
    """``accept`` and ``from_item`` give ``None`` for what is not of the type."""

    kind: ValueKind
    accept: Callable[[object], PythonValue | None]
    from_item: Callable[[object], PythonValue | None]
    expected: str
    cure: str


def from_epoch(seconds: int | None) -> datetime | None:
    """The instant so many seconds after 1970; ``None`` outside the years 1 to 9999."""
    try:
        return None if seconds is None else _EPOCH + seconds * _SECOND
    except OverflowError:
        return None


def to_epoch(instant: datetime) -> int:
    """The whole seconds since 1970."""
    return (instant - _EPOCH) // _SECOND


def objlink(text: object) -> str | None:
    """An object link as it is written in text: ``3303:0``."""
    link = _OBJLINK.fullmatch(text) if isinstance(text, str) else None
    return link[0] if link and max(int(link[1]), int(link[2])) <= HIGHEST_ID else None


def finite(number: object) -> float | int | None:
    """A finite number."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if isinstance(number, int):
        return int(number)
    return float(number) if math.isfinite(number) else None


def _without_decimals(item: object) -> object:
    """A decimal fraction, which CBOR has, as the integer it is or else as a float."""
    if not isinstance(item, Decimal) or not item.is_finite():
        return item
    # The exponent may be anything: an integer of a billion digits is not worked out.
    is_short = item.adjusted() < _LONGEST_INTEGER
    return int(item) if is_short and item == item.to_integral_value() else float(item)


def whole(number: object, allowed: range = SIGNED_64) -> int | None:
    """A whole number, which may be a float without a fraction."""
    number = finite(number)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return number if isinstance(number, int) and number in allowed else None


def _unsigned(number: object) -> int | None:
    return whole(number, UNSIGNED_64)


def _given(number: object, allowed: range = SIGNED_64) -> int | None:
    """A whole number that somebody gives; frames turn integers into floats, which lose nothing only below 2**53."""
    is_rounded = isinstance(number, float) and abs(number) >= EXACT_FLOATS
    return None if is_rounded else whole(number, allowed)


def _given_unsigned(number: object) -> int | None:
    return _given(number, UNSIGNED_64)


def as_float(number: object) -> float | None:
    """A finite number as a float; ``None`` for one that is too large."""
    try:
        number = finite(_without_decimals(number))
        return None if number is None else float(number)
    except OverflowError:
        return None


def _text(text: object) -> str | None:
    return str.__str__(text) if isinstance(text, str) else None


def _is_utf_8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _text_item(item: object) -> str | None:
    """A text; JSON can name lone surrogates, which no table and no terminal takes."""
    text = _text(item)
    return text if text is not None and _is_utf_8(text) else None


def _boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _opaque(value: object) -> bytes | None:
    return bytes(value) if isinstance(value, bytes) else None


def _instant(value: object) -> datetime | None:
    """A plain UTC datetime of whole seconds; pandas counts nanoseconds, so the rest is taken from the difference."""
    if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
        return None
    seconds, rest = divmod(value - _EPOCH, _SECOND)
    return None if rest else from_epoch(int(seconds))


def _instant_item(item: object) -> datetime | None:
    if not isinstance(item, datetime):
        return from_epoch(whole(item))
    try:
        utc = item.astimezone(UTC) if item.tzinfo else None
    except OverflowError:  # the first or the last hours of the calendar, in a zone that shifts them out of it
        return None
    # A pandas.Timestamp is a datetime as well; its nanoseconds are cut off.
    return None if utc is None else datetime.combine(utc.date(), utc.time(), UTC)


def _undeclared(value: object) -> PythonValue | None:
    if isinstance(value, bool):
        return value
    return _text(value) if isinstance(value, str) else finite(value)


def _nothing(_: object) -> None:
    return None


_WHOLE_CURE = "give an int of at most 64 bits; a float may have been rounded from 2**53 on"
_TYPED_CURE = (
    "; what people typed goes as text= (in a table, the column text), or through mirror_sdk.parse_value(text, path)"
)
_DECLARED: Mapping[ResourceType, _DeclaredType] = {
    ResourceType.STRING: _DeclaredType(ValueKind.TEXT, _text, _text_item, "a text", "give a str"),
    ResourceType.FLOAT: _DeclaredType(ValueKind.NUMBER, finite, as_float, "a finite number", "give a float or an int"),
    ResourceType.INTEGER: _DeclaredType(ValueKind.NUMBER, _given, whole, "a whole number", _WHOLE_CURE),
    ResourceType.UNSIGNED: _DeclaredType(
        ValueKind.NUMBER, _given_unsigned, _unsigned, "a whole number from 0 on", _WHOLE_CURE
    ),
    ResourceType.BOOLEAN: _DeclaredType(ValueKind.BOOLEAN, _boolean, _boolean, "a boolean", "give True or False"),
    ResourceType.TIME: _DeclaredType(
        ValueKind.TIME,
        _instant,
        _instant_item,
        "an aware datetime of whole seconds",
        "give it a zone with value.replace(tzinfo=UTC) and cut it with value.replace(microsecond=0)",
    ),
    ResourceType.OBJLINK: _DeclaredType(
        ValueKind.OBJLINK,
        objlink,
        objlink,
        "an object link",
        "give object and instance id as text, such as '3303:0'",
    ),
    ResourceType.CORELINK: _DeclaredType(
        ValueKind.TEXT, _text, _text_item, "links as a text", "give a str such as '</3/0>,</3303/0>'"
    ),
    ResourceType.OPAQUE: _DeclaredType(ValueKind.OPAQUE, _opaque, _opaque, "bytes", "give bytes"),
    ResourceType.NONE: _DeclaredType(
        ValueKind.NONE, _nothing, _nothing, "no value, it is executable", "execute it instead of writing it"
    ),
}
_UNDECLARED = _DeclaredType(
    ValueKind.TEXT,
    _undeclared,
    _nothing,
    "a text, a finite number or a boolean",
    "give a str, int, float or bool; bytes go with application/octet-stream",
)


def accepted(value: object, definition: ResourceDefinition | None, path: str) -> PythonValue:
    """The value as what is declared for the path takes it.

    Raises:
        InvalidValue: It is not of the declared type, out of its range, or a text UTF-8 cannot hold.
    """
    form = _form(definition)
    low, high = (definition and definition.range) or (-math.inf, math.inf)
    taken = form.accept(value)
    if taken is None:
        # Of a text, bool() is always true and round() an error.
        cure = f"{form.cure}{_TYPED_CURE if isinstance(value, str) else ''}"
        raise refused(path, definition, value, expected(definition), cure)
    if isinstance(taken, int | float) and not low <= taken <= high:
        raise refused(path, definition, value, expected(definition), "give a number in this range")
    if isinstance(taken, str) and not _is_utf_8(taken):
        raise refused(path, definition, value, "a text that UTF-8 can hold", "remove its lone surrogates")
    return taken


def expected(definition: ResourceDefinition | None) -> str:
    """What is taken, in words, with its range."""
    form = _form(definition)
    if definition is None or definition.range is None:
        return form.expected
    low, high = definition.range
    return f"{form.expected} from {low:g} to {high:g}"


def _form(definition: ResourceDefinition | None) -> _DeclaredType:
    return _UNDECLARED if definition is None else _DECLARED[definition.type]


def refused(path: str, definition: ResourceDefinition | None, value: object, takes: str, cure: str) -> InvalidValue:
    """The error for a value a resource does not take."""
    label = f" ({definition.label}, {definition.type})" if definition else ""
    if definition is not None and definition.multiple and _looks_like_several(value):
        takes = f"{takes} for each instance"
        cure = (
            "give a dict of instance ids and values, such as {0: 3800, 1: 5000}, in Python; a text, a cell of a table"
            " or an argument in a shell holds a single value"
        )
    return InvalidValue(f"{path}{label} takes {takes}, not {reprlib.repr(value)}; {cure}")


def _looks_like_several(value: object) -> bool:
    """Whether it is a sequence or mapping of values, or JSON of one."""
    if isinstance(value, str):
        return value.strip()[:1] in {"[", "{"}
    return isinstance(value, Mapping | Sequence) and not isinstance(value, bytes)


def as_declared(resource_type: ResourceType, python: PythonValue | None, raw: bytes) -> Reading:
    """A reading of the declared type, or of the bytes where there is nothing of that type in them (``None``)."""
    if python is None:
        beginning = f"{raw[:_SHOWN_BYTES]!r}{'...' if len(raw) > _SHOWN_BYTES else ''}"
        return Reading(ValueKind.OPAQUE, raw, f"{beginning} cannot be read as the type {resource_type}")
    return Reading(_DECLARED[resource_type].kind, python)


_OWN_TYPES: Mapping[type, ResourceType] = {
    bool: ResourceType.BOOLEAN,
    int: ResourceType.INTEGER,
    float: ResourceType.FLOAT,
    str: ResourceType.STRING,
    bytes: ResourceType.OPAQUE,
    datetime: ResourceType.TIME,
}


def plain_scalar(value: object) -> object:
    """A numpy scalar as its Python twin, anything else as it is."""
    item = getattr(value, "item", None)
    if item is None or getattr(value, "shape", None) != ():
        return value
    twin = item()
    # datetime64[ns] has a plain int as its twin, which would be written as a number.
    return twin if isinstance(value, numbers.Real) or isinstance(twin, bool) else value


def from_item(resource_type: ResourceType | None, item: object, raw: bytes) -> Reading:
    """What a JSON or CBOR item says; where no type is declared, it has its own."""
    item = _without_decimals(item)
    own_type = resource_type or next((own for plain, own in _OWN_TYPES.items() if isinstance(item, plain)), None)
    if own_type is None:
        return Reading(ValueKind.OPAQUE, raw, "the payload is not one number, text, boolean or time")
    if resource_type is None and isinstance(item, int) and item > SIGNED_64[-1]:
        own_type = ResourceType.UNSIGNED
    return as_declared(own_type, _DECLARED[own_type].from_item(item), raw)
