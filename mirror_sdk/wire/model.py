"""The base of all wire models, which defines unknown members, timestamps, payloads and the JSON form."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import numbers
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    WithJsonSchema,
)

_FAULTS = {
    "extra_forbidden": "unknown field; remove the field or correct its name",
    "missing": "missing; this field is required",
    "model_type": "must be an object, like {...}",
    "dict_type": "must be an object, like {...}",
    "list_type": "must be a list, like [...]",
    "string_type": 'must be a string, like "..."',
    "none_required": "cannot be set; remove the field",
    "string_too_short": "must not be empty",
    "string_too_long": "takes at most %(max_length)s characters",
    "too_short": "must not be empty",
    "too_long": "takes at most %(max_length)s entries",
}


def location_and_fault(detail: Mapping[str, Any]) -> tuple[str, str]:
    """Return the location of a validation error, and its message with the fix.

    The location is empty for the whole input. The message never contains the value.

    Args:
        detail: An entry of ``errors()`` of pydantic's ``ValidationError``.
    """
    location = ".".join(str(part) or "''" for part in detail["loc"] if part != "[key]")
    message = _FAULTS.get(detail["type"])
    if message is None:
        return location, detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    return location, message % detail.get("ctx", {})


class JsonForm:
    r"""An object that can be converted to JSON, for example for a web application. Both methods always succeed.

    Members have the names of the attributes. Times become RFC 3339 strings in UTC with milliseconds and ``Z``.
    Durations become seconds, enumerations become words (``success``), and bytes become base64. Numbers that JSON cannot
    represent become strings: ``NaN``, ``Infinity``, ``-Infinity``, and integers beyond 64 bits in hexadecimal digits. A
    lone surrogate, which UTF-8 cannot encode, becomes an escape (``\ud800``).
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return dicts, lists, strings, numbers, booleans and ``None``, which any JSON encoder accepts."""
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type] # else overridden
        return {name: plain(getattr(self, name)) for name in names if not name.startswith("_")}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result of :meth:`to_dict` as a JSON string (RFC 8259)."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=indent)


_PYDANTIC_NAMES = frozenset(dir(BaseModel))


class WireModel(BaseModel, JsonForm):
    """The base class of all objects of the interface.

    Reading is lenient: unknown members are kept, so that an older client works with a newer server. The server
    validates requests with ``extra="forbid"``, so its errors contain the names of unknown members.
    """

    # A validator is built when it is first used, because no program uses all of them.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow", frozen=True, validate_by_name=True, validate_by_alias=True, defer_build=True
    )

    def __dir__(self) -> list[str]:
        """Return the names of the object itself without those of pydantic, for a shorter completion list."""
        return [name for name in super().__dir__() if name.startswith("__") or name not in _PYDANTIC_NAMES]

    def to_dict(self) -> dict[str, Any]:
        """Return all members under their names in the interface, for any JSON encoder; see :class:`JsonForm`."""
        found: dict[str, Any] = plain(self.model_dump(by_alias=True))
        return found

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON form with the names of the interface, and only the members that were set."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


def in_utc(instant: datetime) -> datetime:
    """Convert a time to UTC with one shared time zone object, because pydantic creates a new object for each time."""
    try:
        return instant.astimezone(UTC)
    except OverflowError:  # UTC cannot represent this time
        return instant


def write_timestamp(instant: datetime) -> str:
    """Return a time as an RFC 3339 string in UTC with milliseconds and ``Z``. Source: wire.md 0."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain(value: object) -> Any:  # noqa: PLR0911 - one return statement for each kind of value
    """Return the JSON form of any value; see :class:`JsonForm`."""
    match value:
        case None | bool():
            return value
        case Enum():
            return value.name.lower() if isinstance(value, int) else plain(value.value)
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case numbers.Integral():
            return _integer(int(value))
        case numbers.Real():
            return _real(float(value))
        case bytes():
            return write_payload(value)
        case datetime():
            return _instant(value)
        case timedelta():
            return value.total_seconds()
        case JsonForm():
            return value.to_dict()
        case BaseModel():
            return plain(value.model_dump())
        case Mapping():
            return {str(plain(key)): plain(one) for key, one in value.items()}
        case Collection():
            return [plain(one) for one in value]
    return plain(str(value))


def _integer(number: int) -> int | str:
    # Many JSON parsers round numbers of more than 64 bits, and Python cannot write thousands of digits.
    return number if -(2**63) <= number < 2**64 else hex(number)


def _real(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"


def _instant(at: datetime) -> str:
    try:
        return write_timestamp(at)
    except OverflowError:  # UTC cannot represent this time
        return at.isoformat(timespec="milliseconds")


Timestamp = Annotated[
    AwareDatetime,
    AfterValidator(in_utc),
    PlainSerializer(write_timestamp, return_type=str, when_used="json"),
]


def read_payload(value: object) -> object:
    """Decode base64 strictly: an invalid character is an error and is never skipped."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not base64: {error}") from None


def write_payload(payload: bytes) -> str:
    """Encode a payload as base64, which is its form in JSON. Source: wire.md 1, 2 and 5."""
    return base64.b64encode(payload).decode("ascii")


_BASE64: dict[str, Any] = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
Payload = Annotated[
    bytes,
    BeforeValidator(read_payload),
    PlainSerializer(write_payload, return_type=str, when_used="json"),
    WithJsonSchema(_BASE64),
]

Kind: TypeAlias = Literal["word", "bytes", "instant", "integer", "small integer", "flag"]
"""The type of a column in the database and in Arrow. A word is a string that occurs in many rows."""

_KINDS: Mapping[type, Kind] = {
    str: "word",
    bytes: "bytes",
    AwareDatetime: "instant",
    int: "integer",
    IntEnum: "small integer",
    bool: "flag",
}


def kinds_of(model: type[BaseModel]) -> dict[str, Kind]:
    """Return the members of a model that are columns, with the type of each. The member ``object`` is excluded."""
    hints = get_type_hints(model)
    return {name: _kind_of(hints[name]) for name in model.model_fields if name != "object"}


def _kind_of(hint: Any) -> Kind:
    """Return the column type of a member, which may be optional."""
    base = next(each for each in (*get_args(hint), hint) if each is not NoneType)
    return _KINDS[next(each for each in base.__mro__ if each in _KINDS)]


Order = Literal["ASC", "DESC"]


class EntryPage(WireModel):
    """One page of a list.

    Attributes:
        data: The entries.
        has_more: Whether another page follows.
        limit: The maximum number of entries in a page.
        order: The order of the entries.
        after: The id after which the page begins, as in the request.
    """

    object: Literal["list"] = "list"
    # A generic model would take as long to import as all other models together.
    data: list[Any]
    has_more: bool
    limit: int
    order: Order
    after: str | None = None
