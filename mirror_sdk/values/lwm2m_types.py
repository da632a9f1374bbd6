"""The data types of LwM2M: the values that each type accepts, and their form in each format.

Source: LwM2M core, annex on data types.
"""

from __future__ import annotations

import base64
import math
import numbers
import re
import reprlib
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from mirror_sdk._formatting import number_text
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import ResourceDefinition, ResourceType, lookup
from mirror_sdk.values.codec import DecodedValue
from mirror_sdk.values.value import PythonValue, ValueKind

HIGHEST_ID = 65535
_SIGNED_64 = range(-(2**63), 2**63)
_UNSIGNED_64 = range(2**64)
_EXACT_FLOATS = 2**53
"""The lowest float to which more than one integer is rounded."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_LONGEST_INTEGER = 20
_NUMBER = re.compile(r"[+-]?([0-9]+(?:\.[0-9]+)?)(?:[eE][+-]?[0-9]{1,3})?")
"""The form of numbers in text/plain. ``nan``, ``1_000`` and `` 21`` are therefore not numbers."""
_OBJECT_LINK = re.compile(r"([0-9]{1,5}):([0-9]{1,5})")
_EXCERPT_BYTES = 24
_INTEGER_SIZES = (1, 2, 4, 8)
_FLOAT_FORMATS = {4: ">f", 8: ">d"}
_INTEGERS = {4: range(1 - 2**22, 2**27), 8: range(1 - 2**51, 2**52)}
"""Integers whose bytes are not a plausible float: as a float, they would be below 1e-33, subnormal, or an unusual NaN.
"""


def from_epoch(seconds: int | None) -> datetime | None:
    """Return the time that is this many seconds after 1970, or ``None`` outside the years 1 to 9999."""
    try:
        return None if seconds is None else _EPOCH + seconds * _SECOND
    except OverflowError:
        return None


def to_epoch(instant: datetime) -> int:
    """Return a time as whole seconds since 1970."""
    return (instant - _EPOCH) // _SECOND


def object_link(text: object) -> str | None:
    """Return an object link in its text form (``3303:0``), or ``None`` for any other value."""
    link = _OBJECT_LINK.fullmatch(text) if isinstance(text, str) else None
    return link[0] if link and max(int(link[1]), int(link[2])) <= HIGHEST_ID else None


def from_base64(text: str) -> bytes | None:
    """Return the decoded bytes of a base64 string, or ``None`` for any other string."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _finite(number: object) -> float | int | None:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    # Values of subclasses, such as numpy.float64 and the members of an IntEnum, become plain numbers.
    if isinstance(number, int):
        return int(number)
    return float(number) if math.isfinite(number) else None


def _without_decimals(item: object) -> object:
    """Convert a decimal fraction of CBOR to an integer if it has no fraction, or else to a float."""
    if not isinstance(item, Decimal) or not item.is_finite():
        return item
    # The exponent may be arbitrary, so an integer with a billion digits must not be computed.
    is_short = item.adjusted() < _LONGEST_INTEGER
    return int(item) if is_short and item == item.to_integral_value() else float(item)


def as_float(number: object) -> float | None:
    """Return a finite number as a float, or ``None`` if it is too large or not a finite number."""
    try:
        number = _finite(_without_decimals(number))
        return None if number is None else float(number)
    except OverflowError:
        return None


def is_integer_for_float(content: bytes) -> bool:
    """Return whether the bytes of a declared float look like an integer.

    Some clients write a float without its fraction. Their bytes cannot be distinguished from those of a float with
    certainty. Such bytes are therefore read neither as a float nor as an integer. Zero is the same in both forms.
    """
    if len(content) not in _FLOAT_FORMATS:
        return len(content) in _INTEGER_SIZES
    number = int.from_bytes(content, "big", signed=True)
    return number != 0 and number in _INTEGERS[len(content)]


class DataType:
    """A data type of LwM2M. This base class has no values, and is used for executable resources.

    The methods that read a value return ``None`` if the input does not have this type.

    Attributes:
        kind: The kind of the values.
        expected: A description of the values that a resource of this type accepts.
        cure: A hint on how to pass such a value, for error messages.
        senml_field: The member of a SenML record that contains such a value.
    """

    kind = ValueKind.NONE
    expected = "no value, it is executable"
    cure = "execute it instead of writing it"
    senml_field = ""

    def accept(self, value: object) -> PythonValue | None:  # noqa: ARG002 - this type has no values
        """Check the Python value that a user passed, and return it in the form that this type uses."""
        return None

    def from_item(self, item: object) -> PythonValue | None:
        """Read an item of a format that has types of its own, such as JSON and CBOR."""
        return self.accept(item)

    def from_text(self, text: str) -> PythonValue | None:
        """Read a value in the text/plain form of this type."""
        return self.accept(text)

    def from_bytes(self, content: bytes) -> PythonValue | None:  # noqa: ARG002 - this type has no values
        """Read a value in the TLV form of this type."""
        return None

    def to_bytes(self, value: Any) -> bytes:
        """Return the TLV form of an accepted value."""
        raise NotImplementedError


class _Undeclared(DataType):
    kind = ValueKind.TEXT
    expected = "a string, a finite number or a boolean"
    cure = (
        "pass a str without lone surrogates, an int, float or bool; for bytes, pass"
        " content_type='application/octet-stream'"
    )

    def accept(self, value: object) -> PythonValue | None:
        if isinstance(value, bool):
            return value
        return _TEXT.accept(value) if isinstance(value, str) else _finite(value)


class _Text(DataType):
    kind = ValueKind.TEXT
    expected = "a string"
    cure = "pass a str without lone surrogates, which UTF-8 cannot hold"
    senml_field = "vs"

    def accept(self, value: object) -> str | None:
        if not isinstance(value, str):
            return None
        # JSON and Python strings may contain lone surrogates, which tables and terminals reject. str.__str__ converts
        # an instance of a subclass, such as the member of a StrEnum, to a plain string.
        return str.__str__(value) if value == value.encode("utf-8", "ignore").decode() else None

    def from_bytes(self, content: bytes) -> str | None:
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def to_bytes(self, value: str) -> bytes:
        return value.encode()


class _CoreLink(_Text):
    expected = "links as a string"
    cure = "pass a str such as '</3/0>,</3303/0>'"


class _Integer(DataType):
    kind = ValueKind.NUMBER
    expected = "a whole number"
    cure = "pass an int of at most 64 bits"
    senml_field = "v"
    allowed = _SIGNED_64
    is_signed = True

    def accept(self, value: object) -> int | None:
        # A DataFrame may convert integers to floats. This is exact only below 2**53.
        is_rounded = isinstance(value, float) and abs(value) >= _EXACT_FLOATS
        return None if is_rounded else self.from_item(value)

    def from_item(self, item: object) -> int | None:
        number = _finite(item)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        return number if isinstance(number, int) and number in self.allowed else None

    def from_text(self, text: str) -> int | None:
        # Some devices also send a whole number as 13.0 or 1.300000e+01.
        if not _NUMBER.fullmatch(text):
            return None
        number = Decimal(text)
        # The conversion of 250,000 digits to an integer would take seconds.
        if number.adjusted() >= _LONGEST_INTEGER or number != number.to_integral_value():
            return None
        return self.from_item(int(number))

    def from_bytes(self, content: bytes) -> int | None:
        return int.from_bytes(content, "big", signed=self.is_signed) if len(content) in _INTEGER_SIZES else None

    def to_bytes(self, value: int) -> bytes:
        bits = (value if value >= 0 else ~value).bit_length() + self.is_signed
        size = next(size for size in _INTEGER_SIZES if bits <= 8 * size)
        return value.to_bytes(size, "big", signed=self.is_signed)


class _Unsigned(_Integer):
    expected = "a whole number from 0 on"
    allowed = _UNSIGNED_64
    is_signed = False


class _Float(DataType):
    kind = ValueKind.NUMBER
    expected = "a finite number"
    cure = "pass a float or an int"
    senml_field = "v"

    def accept(self, value: object) -> float | int | None:
        return _finite(value)

    def from_item(self, item: object) -> float | None:
        return as_float(item)

    def from_text(self, text: str) -> float | None:
        grammar = _NUMBER.fullmatch(text)
        if grammar is None:
            return None
        number = float(text)
        has_vanished = number == 0 and grammar[1].strip("0.") != ""
        return None if has_vanished or math.isinf(number) else number

    def from_bytes(self, content: bytes) -> float | None:
        if len(content) not in _FLOAT_FORMATS:
            return None
        number: float = struct.unpack(_FLOAT_FORMATS[len(content)], content)[0]
        return number if math.isfinite(number) else None

    def to_bytes(self, value: float) -> bytes:
        """Return the 4-byte form if it is exact and cannot be mistaken for an integer, or else the 8-byte form."""
        try:
            short = struct.pack(">f", value)
        except OverflowError:
            return struct.pack(">d", value)
        is_exact = struct.unpack(">f", short)[0] == value and not is_integer_for_float(short)
        return short if is_exact else struct.pack(">d", value)


class _Boolean(DataType):
    kind = ValueKind.BOOLEAN
    expected = "a boolean"
    cure = "pass True or False"
    senml_field = "vb"

    def accept(self, value: object) -> bool | None:
        return value if isinstance(value, bool) else None

    def from_text(self, text: str) -> bool | None:
        return {"0": False, "1": True}.get(text)

    def from_bytes(self, content: bytes) -> bool | None:
        return {b"\x00": False, b"\x01": True}.get(content)

    def to_bytes(self, value: bool) -> bytes:
        return bytes([value])


class _Time(DataType):
    kind = ValueKind.TIME
    expected = "an aware datetime of whole seconds"
    cure = "add a zone with value.replace(tzinfo=UTC), and drop fractions with value.replace(microsecond=0)"
    senml_field = "v"

    def accept(self, value: object) -> datetime | None:
        if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
            return None
        # A pandas.Timestamp also has nanoseconds, which are part of the remainder.
        seconds, rest = divmod(value - _EPOCH, _SECOND)
        return None if rest else from_epoch(int(seconds))

    def from_item(self, item: object) -> datetime | None:
        if not isinstance(item, datetime):
            return from_epoch(_INTEGER.from_item(item))
        try:
            utc = item.astimezone(UTC) if item.tzinfo else None
        except OverflowError:  # a time within the first or last hours of the calendar may be outside it in UTC
            return None
        # A pandas.Timestamp is also a datetime. Its nanoseconds are cut off.
        return None if utc is None else datetime.combine(utc.date(), utc.time(), UTC)

    def from_text(self, text: str) -> datetime | None:
        return from_epoch(_INTEGER.from_text(text))

    def from_bytes(self, content: bytes) -> datetime | None:
        return from_epoch(_INTEGER.from_bytes(content))

    def to_bytes(self, value: datetime) -> bytes:
        return _INTEGER.to_bytes(to_epoch(value))


class _ObjectLink(DataType):
    kind = ValueKind.OBJLINK
    expected = "an object link"
    cure = "pass object and instance id as text, such as '3303:0'"
    senml_field = "vlo"

    def accept(self, value: object) -> str | None:
        return object_link(value)

    def from_bytes(self, content: bytes) -> str | None:
        return "{}:{}".format(*struct.unpack(">HH", content)) if len(content) == struct.calcsize(">HH") else None

    def to_bytes(self, value: str) -> bytes:
        return struct.pack(">HH", *map(int, value.split(":")))


class _Opaque(DataType):
    kind = ValueKind.OPAQUE
    expected = "bytes"
    cure = "pass bytes"
    senml_field = "vd"

    def accept(self, value: object) -> bytes | None:
        return bytes(value) if isinstance(value, bytes) else None

    def from_text(self, text: str) -> bytes | None:
        return from_base64(text)

    def from_bytes(self, content: bytes) -> bytes:
        return content

    def to_bytes(self, value: bytes) -> bytes:
        return value


_TEXT = _Text()
_INTEGER = _Integer()
_UNDECLARED = _Undeclared()
DATA_TYPES: Mapping[ResourceType, DataType] = {
    ResourceType.STRING: _TEXT,
    ResourceType.INTEGER: _INTEGER,
    ResourceType.UNSIGNED: _Unsigned(),
    ResourceType.FLOAT: _Float(),
    ResourceType.BOOLEAN: _Boolean(),
    ResourceType.OPAQUE: _Opaque(),
    ResourceType.TIME: _Time(),
    ResourceType.OBJLINK: _ObjectLink(),
    ResourceType.CORELINK: _CoreLink(),
    ResourceType.NONE: DataType(),
}

_TYPED_CURE = (
    "for text that a person typed, pass text=... (in a table, the column text), or use"
    " mirror_sdk.parse_value(text, path)"
)


def accept(value: object, definition: ResourceDefinition | None, path: str) -> PythonValue:
    """Return a value in the form of the declared type of the path, after checking it.

    Raises:
        InvalidValue: The value does not have the declared type, is out of its range, or is a string that UTF-8 cannot
            encode.
    """
    data_type = _data_type(definition)
    low, high = (definition and definition.range) or (-math.inf, math.inf)
    accepted = data_type.accept(value)
    if accepted is None:
        cure = data_type.cure
        if isinstance(data_type, _Integer) and definition is not None and definition.range is not None:
            cure = f"pass an int from {number_text(low)} to {number_text(high)}"
        # A string is always true for bool(), and an error for round(), so it needs a more helpful message.
        if isinstance(value, str) and not isinstance(data_type, _Text):
            cure = f"{_TYPED_CURE}; otherwise {cure}"
        elif isinstance(value, float) and abs(value) >= _EXACT_FLOATS and isinstance(data_type, _Integer):
            cure += "; a float of 2**53 or more may have been rounded"
        raise invalid_value(path, definition, value, expected(definition), cure)
    if isinstance(accepted, int | float) and not low <= accepted <= high:
        raise invalid_value(path, definition, value, expected(definition), "pass a number in this range")
    return accepted


def expected(definition: ResourceDefinition | None) -> str:
    """Describe the values that a resource accepts, with their range."""
    words = _data_type(definition).expected
    if definition is None or definition.range is None:
        return words
    low, high = definition.range
    return f"{words} from {number_text(low)} to {number_text(high)}"


def _data_type(definition: ResourceDefinition | None) -> DataType:
    return _UNDECLARED if definition is None else DATA_TYPES[definition.type]


def invalid_value(
    path: str, definition: ResourceDefinition | None, value: object, accepted: str, cure: str
) -> InvalidValue:
    """Return the error for a value that a resource does not accept."""
    label = f" ({definition.label}, {definition.type})" if definition else ""
    if definition is not None and definition.multiple and _may_be_several(value):
        accepted = f"{accepted} for each instance"
        cure = (
            "pass a dict of instance ids and values, such as {0: 3800, 1: 5000}, in Python; a string, a cell of a table"
            " or an argument in a shell holds a single value"
        )
    return InvalidValue(f"{path}{label} takes {accepted}, not {reprlib.repr(value)}; {cure}")


def _may_be_several(value: object) -> bool:
    """Return whether a value is a sequence or a mapping, or a string that contains one as JSON."""
    if isinstance(value, str):
        return value.strip()[:1] in {"[", "{"}
    return isinstance(value, Mapping | Sequence) and not isinstance(value, bytes)


def reading_of(resource_type: ResourceType, python: PythonValue | None, raw: bytes) -> DecodedValue:
    """Return the decoded value, or an opaque value with the bytes of the payload if ``python`` is ``None``."""
    if python is None:
        beginning = f"{raw[:_EXCERPT_BYTES]!r}{'...' if len(raw) > _EXCERPT_BYTES else ''}"
        return DecodedValue(ValueKind.OPAQUE, raw, f"{beginning} cannot be read as the type {resource_type}")
    return DecodedValue(DATA_TYPES[resource_type].kind, python)


_OWN_TYPES: Mapping[type, ResourceType] = {
    bool: ResourceType.BOOLEAN,
    int: ResourceType.INTEGER,
    float: ResourceType.FLOAT,
    str: ResourceType.STRING,
    bytes: ResourceType.OPAQUE,
    datetime: ResourceType.TIME,
}


def plain_scalar(value: object) -> object:
    """Return the Python equivalent of a NumPy scalar, and any other object unchanged."""
    item = getattr(value, "item", None)
    if item is None or getattr(value, "shape", None) != ():
        return value
    plain = item()
    # The Python equivalent of datetime64[ns] is an int, which would be written as a number.
    return plain if isinstance(value, numbers.Real) or isinstance(plain, bool) else value


def read_item(item: object, path: str, raw: bytes) -> DecodedValue:
    """Read a JSON or CBOR item as the declared type of its path, or as its own type if the path is not declared."""
    definition = lookup(path)
    return item_of(None if definition is None else definition.type, item, raw)


def item_of(resource_type: ResourceType | None, item: object, raw: bytes) -> DecodedValue:
    """Read a JSON or CBOR item as a declared type, or as its own type if ``resource_type`` is ``None``."""
    item = _without_decimals(item)
    own_type = resource_type or next((own for plain, own in _OWN_TYPES.items() if isinstance(item, plain)), None)
    if own_type is None:
        return DecodedValue(ValueKind.OPAQUE, raw, "the payload is not one number, text, boolean or time")
    if resource_type is None and isinstance(item, int) and item > _SIGNED_64[-1]:
        own_type = ResourceType.UNSIGNED
    return reading_of(own_type, DATA_TYPES[own_type].from_item(item), raw)
