"""Payloads: from content type and object table to a typed value, and back; never a guess.

A content type is one entry of ``_CODECS``. A text payload is read and written in the form its declared type has in
LwM2M; numbers follow a strict grammar (ASCII digits, digits on both sides of a point, finite), so that neither ``nan``
nor ``1_000`` nor `` 21`` becomes a number.

Source: LwM2M core, data types in the text/plain format; wire.md 1 and 2.
"""

from __future__ import annotations

import base64
import binascii
import math
import numbers
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from mirror_sdk.errors import ValueRefused
from mirror_sdk.object_table import ResourceDefinition, ResourceType, lookup
from mirror_sdk.wire.model import write_timestamp

TEXT_PLAIN = "text/plain"
OCTET_STREAM = "application/octet-stream"

PythonValue: TypeAlias = float | int | str | bool | datetime | bytes


class ValueKind(StrEnum):
    """What a value is; ``OPAQUE`` are bytes, ``NONE`` is no value at all."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    OBJLINK = "objlink"
    OPAQUE = "opaque"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Value:
    """A value and the payload it was read from.

    ``python`` is a ``float`` or ``int`` (number), ``str`` (text, objlink), ``bool``, aware UTC ``datetime`` (time),
    ``bytes`` (opaque) or ``None``.
    """

    kind: ValueKind
    python: PythonValue | None
    raw: bytes | None
    content_type: str | None

    def __str__(self) -> str:
        """The value for people: times in RFC 3339, booleans as ``true``/``false``, bytes by size and beginning."""
        match self.python:
            case None:
                return ""
            case bool():
                return "true" if self.python else "false"
            case datetime():
                return write_timestamp(self.python)
            case bytes():
                return f"{len(self.python)} bytes {self.python[:8].hex(' ')}".rstrip()
        return str(self.python)


NO_VALUE = Value(ValueKind.NONE, None, None, None)


class _TextForm(NamedTuple):
    """How one declared type is written as text; ``read`` and ``write`` give ``None`` for what is not of the type."""

    kind: ValueKind
    read: Callable[[str], PythonValue | None]
    write: Callable[[object], str | None]
    expected: str
    cure: str


class _Codec(NamedTuple):
    """One content type; ``read`` gives ``None`` when the payload is not of the declared type."""

    read: Callable[[bytes, ResourceDefinition | None], tuple[ValueKind, PythonValue] | None]
    write: Callable[[object, ResourceDefinition | None, str], bytes]


_FLOAT = re.compile(r"[+-]?([0-9]+(?:\.[0-9]+)?)(?:[eE][+-]?[0-9]{1,3})?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_OBJLINK = re.compile(r"([0-9]{1,5}):([0-9]{1,5})")
_SIGNED_64 = range(-(2**63), 2**63)
_UNSIGNED_64 = range(2**64)
_MAX_INTEGER_BITS = 64
_HIGHEST_ID = 65535
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def _read_float(text: str) -> float | None:
    grammar = _FLOAT.fullmatch(text)
    if grammar is None:
        return None
    number = float(text)
    vanished = number == 0 and grammar[1].strip("0.") != ""
    return None if vanished or math.isinf(number) else number


def _read_integer(text: str, allowed: range = _SIGNED_64) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in allowed else None


def _read_unsigned(text: str) -> int | None:
    return _read_integer(text, _UNSIGNED_64)


def _read_boolean(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


def _read_time(text: str) -> datetime | None:
    seconds = _read_integer(text)
    if seconds is None:
        return None
    try:
        return _EPOCH + seconds * _SECOND
    except OverflowError:
        return None


def _read_objlink(text: str) -> str | None:
    link = _OBJLINK.fullmatch(text)
    return text if link and max(int(link[1]), int(link[2])) <= _HIGHEST_ID else None


def _read_opaque(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _write_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _write_float(value: object) -> str | None:
    match value:
        case bool():
            return None
        case int():
            return str(int(value))
        case float() if math.isfinite(value):
            # Devices read decimals, not every one an exponent; the digits of repr are enough for the same float.
            return format(Decimal(repr(float(value))), "f")
    return None


def _write_integer(value: object, allowed: range = _SIGNED_64) -> str | None:
    # Frames turn integers into floats; a float without a fraction loses nothing as an integer.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        return None
    return str(int(value))


def _write_unsigned(value: object) -> str | None:
    return _write_integer(value, _UNSIGNED_64)


def _write_boolean(value: object) -> str | None:
    return str(int(value)) if isinstance(value, bool) else None


def _write_time(value: object) -> str | None:
    if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
        return None
    seconds, rest = divmod(value - _EPOCH, _SECOND)
    return None if rest else str(int(seconds))


def _write_objlink(value: object) -> str | None:
    return _read_objlink(value) if isinstance(value, str) else None


def _write_opaque(value: object) -> str | None:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else None


def _write_undeclared(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return _write_boolean(value) or _write_float(value)


def _nothing(_: object) -> None:
    return None


_TEXT_FORMS: Mapping[ResourceType, _TextForm] = {
    ResourceType.STRING: _TextForm(ValueKind.TEXT, str, _write_text, "a text", "give a str"),
    ResourceType.FLOAT: _TextForm(
        ValueKind.NUMBER, _read_float, _write_float, "a finite number", "give a float or an int"
    ),
    ResourceType.INTEGER: _TextForm(
        ValueKind.NUMBER,
        _read_integer,
        _write_integer,
        "a whole number",
        "give an int of at most 64 bits, or round(value)",
    ),
    ResourceType.UNSIGNED: _TextForm(
        ValueKind.NUMBER, _read_unsigned, _write_unsigned, "a whole number from 0 on", "give an int of at most 64 bits"
    ),
    ResourceType.BOOLEAN: _TextForm(
        ValueKind.BOOLEAN, _read_boolean, _write_boolean, "a boolean", "give True or False, or bool(value)"
    ),
    ResourceType.TIME: _TextForm(
        ValueKind.TIME,
        _read_time,
        _write_time,
        "an aware datetime of whole seconds",
        "give it a zone with value.replace(tzinfo=UTC) and cut it with value.replace(microsecond=0)",
    ),
    ResourceType.OBJLINK: _TextForm(
        ValueKind.OBJLINK,
        _read_objlink,
        _write_objlink,
        "an object link",
        "give object and instance id as text, such as '3303:0'",
    ),
    ResourceType.OPAQUE: _TextForm(ValueKind.OPAQUE, _read_opaque, _write_opaque, "bytes", "give bytes"),
    ResourceType.NONE: _TextForm(
        ValueKind.NONE, _nothing, _nothing, "no value, it is executable", "execute it instead of writing it"
    ),
}
_UNDECLARED = _TextForm(
    ValueKind.TEXT, str, _write_undeclared, "a text, a finite number or a boolean", "give a str, int, float or bool"
)


def _text_form(definition: ResourceDefinition | None) -> _TextForm:
    return _UNDECLARED if definition is None else _TEXT_FORMS[definition.type]


def _read_text_plain(raw: bytes, definition: ResourceDefinition | None) -> tuple[ValueKind, PythonValue] | None:
    form = _text_form(definition)
    try:
        python = form.read(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    return None if python is None else (form.kind, python)


def _write_text_plain(value: object, definition: ResourceDefinition | None, path: str) -> bytes:
    form = _text_form(definition)
    low, high = (definition and definition.range) or (-math.inf, math.inf)
    expected = form.expected if low == -math.inf else f"{form.expected} from {low:g} to {high:g}"
    text = form.write(value)
    if text is None:
        raise _refused(path, definition, value, expected, form.cure)
    if form.kind is ValueKind.NUMBER and not low <= float(text) <= high:
        raise _refused(path, definition, value, expected, "give a number in this range")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise _refused(path, definition, value, "a text that UTF-8 can hold", "remove its lone surrogates") from exc


def _read_octets(raw: bytes, _: ResourceDefinition | None) -> tuple[ValueKind, PythonValue]:
    return ValueKind.OPAQUE, raw


def _write_octets(value: object, definition: ResourceDefinition | None, path: str) -> bytes:
    if not isinstance(value, bytes):
        raise _refused(path, definition, value, "bytes with this content type", "give bytes, or leave content_type out")
    return value


_CODECS: Mapping[str, _Codec] = {
    TEXT_PLAIN: _Codec(_read_text_plain, _write_text_plain),
    OCTET_STREAM: _Codec(_read_octets, _write_octets),
}


def decode(raw: bytes | None, content_type: str | None, path: str) -> Value:
    """Read a payload as the type declared for its path; never raises, never guesses.

    Args:
        raw: The payload; ``None`` where there is no value yet.
        content_type: With or without parameters. ``None`` is read as text/plain, the interface's default, except for
            a resource declared opaque, whose bytes are then left as they are.
        path: Resource path such as ``/3303/0/5700``.

    Returns:
        A value of the declared kind; text exactly as it is where nothing is declared; ``OPAQUE`` with the bytes where
        they cannot be read as declared or the content type is unknown; ``NONE`` for ``None``.

    Source: wire.md 1 and 2.
    """
    if raw is None:
        return Value(ValueKind.NONE, None, None, content_type)
    definition = lookup(path)
    codec = _codec(content_type, definition)
    read = codec.read(raw, definition) if codec else None
    kind, python = read or (ValueKind.OPAQUE, raw)
    return Value(kind, python, raw, content_type)


def encode(value: object, path: str, content_type: str | None = None) -> tuple[bytes, str]:
    """Write a value as the payload of a device request, checked against the type and range declared for its path.

    Whether the resource is writable is not checked: the device decides (specification 3.1).

    Args:
        value: ``float``, ``int``, ``str``, ``bool``, aware ``datetime``, ``bytes`` or a numpy scalar of these.
        path: Resource path such as ``/3311/0/5850``.
        content_type: ``None`` is text/plain, and application/octet-stream for bytes. Bytes with any other content
            type are taken as a payload that is already written in it.

    Returns:
        The payload and its content type.

    Raises:
        ValueRefused: The value is not of the declared type, out of its range, a naive datetime or not finite, or the
            content type is unknown; the message says what the resource takes.

    Source: wire.md 2.
    """
    definition = lookup(path)
    plain = _plain(value)
    if isinstance(plain, int) and plain.bit_length() > _MAX_INTEGER_BITS:
        raise ValueRefused(f"{path} takes no integer of {plain.bit_length()} bits; 64 are the most, or give a float")
    if content_type is None:
        undeclared_bytes = isinstance(plain, bytes) and (definition is None or definition.type is ResourceType.OPAQUE)
        content_type = OCTET_STREAM if undeclared_bytes else TEXT_PLAIN
    codec = _codec(content_type, definition)
    write = codec.write if codec else _write_octets
    return write(plain, definition, path), content_type


def _codec(content_type: str | None, definition: ResourceDefinition | None) -> _Codec | None:
    if content_type is None:
        opaque = definition is not None and definition.type is ResourceType.OPAQUE
        return _CODECS[OCTET_STREAM if opaque else TEXT_PLAIN]
    return _CODECS.get(_media_type(content_type))


@lru_cache(maxsize=256)
def _media_type(content_type: str) -> str:
    """The content type without its parameters; a text in another encoding than UTF-8 stays a type of its own."""
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = {part.removeprefix("charset=").strip('"') for part in parameters if part.startswith("charset=")}
    return media_type if charsets <= {"utf-8", "utf8", "us-ascii"} else content_type


def _plain(value: object) -> object:
    """A numpy scalar as its Python twin, anything else as it is."""
    item = getattr(value, "item", None)
    if item is None or getattr(value, "shape", None) != ():
        return value
    twin = item()
    # datetime64[ns] has a plain int as its twin, which would be written as a number.
    return twin if isinstance(value, numbers.Real) or isinstance(twin, bool) else value


def _refused(path: str, definition: ResourceDefinition | None, value: object, expected: str, cure: str) -> ValueRefused:
    label = f" ({definition.label})" if definition else ""
    return ValueRefused(f"{path}{label} takes {expected}, not {reprlib.repr(value)}; {cure}")
