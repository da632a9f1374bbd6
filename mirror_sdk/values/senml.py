"""SenML in JSON and CBOR, and the older LwM2M JSON. A payload contains named records, each with one value.

The format itself distinguishes numbers, strings, booleans, bytes and object links. Whether a number is a float, an
integer or a time is declared in the object definition. If the kind of a record does not match the declaration, the
value stays bytes.

Source: RFC 8428; LwM2M core, SenML and JSON data formats.
"""

from __future__ import annotations

import base64
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import cbor2

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.values.codec import Codec, DecodedValue, PayloadPart, UnreadablePayload
from mirror_sdk.values.content_types import SENML_JSON
from mirror_sdk.values.lwm2m_types import DATA_TYPES, as_float, item_of, to_epoch
from mirror_sdk.values.single_value_formats import parse_cbor, parse_json
from mirror_sdk.values.value import PythonValue, ValueKind
from mirror_sdk.wire.paths import PathParts, is_resource, parse_path

_Record = dict[str, object]

_CBOR_LABELS = {
    "bver": -1,
    "bn": -2,
    "bt": -3,
    "bu": -4,
    "bv": -5,
    "bs": -6,
    "n": 0,
    "u": 1,
    "v": 2,
    "vs": 3,
    "vb": 4,
    "s": 5,
    "t": 6,
    "ut": 7,
    "vd": 8,
}
# LwM2M adds a label for object links, for which CBOR has no number.
_NAMES_OF_LABELS: Mapping[object, str] = {"vlo": "vlo"} | {label: name for name, label in _CBOR_LABELS.items()}
_LWM2M_JSON_MEMBERS = {"v": "v", "sv": "vs", "bv": "vb", "ov": "vlo"}
_MEMBERS_OF_FIELDS = {field: member for member, field in _LWM2M_JSON_MEMBERS.items()}
# The version of RFC 8428, which also applies to a pack without a version.
_VERSION = 10

_TYPES_OF_FIELDS = {
    "vs": ResourceType.STRING,
    "vb": ResourceType.BOOLEAN,
    "vd": ResourceType.OPAQUE,
    "vlo": ResourceType.OBJLINK,
}
_VALUE_FIELDS = ("v", *_TYPES_OF_FIELDS)


class _Entry(NamedTuple):
    path: str
    field: str
    item: object
    time: float


_Entries = Callable[[bytes, str], Iterable[_Entry]]
_Write = Callable[[PythonValue, str, ResourceType | None], bytes]


def _records_codec(entries: _Entries, write: _Write) -> Codec:
    """Return the codec of a SenML format. The formats differ only in the form of their records."""

    def read(raw: bytes, path: str) -> dict[str, DecodedValue]:
        return _newest(entries(raw, path), raw)

    def split(raw: bytes, path: str) -> list[PayloadPart]:
        return _parts(entries(raw, path), path)

    return Codec(read, write, split)


def _senml_json_entries(raw: bytes, _: str) -> Iterator[_Entry]:
    return (_with_bytes(entry, b"-_") for entry in _senml(_records(parse_json(raw))))


def _senml_cbor_entries(raw: bytes, _: str) -> Iterator[_Entry]:
    return _senml([_named(record) for record in _records(parse_cbor(raw))])


def _lwm2m_json_entries(raw: bytes, path: str) -> Iterator[_Entry]:
    body = parse_json(raw)
    if not isinstance(body, dict):
        raise UnreadablePayload("LwM2M JSON is an object with a member 'e', an array of records")
    return _lwm2m_entries(body, path)


def _parts(entries: Iterable[_Entry], path: str) -> list[PayloadPart]:
    """Return the records of each resource and time as SenML JSON, in the order of the payload."""
    records: dict[tuple[str, float], list[_Record]] = {}
    for entry in entries:
        parts = _resource_parts(entry.path)
        resource = path if entry.path == path else f"/{parts.object_id}/{parts.instance_id}/{parts.resource_id}"
        record: _Record = {"n": entry.path, entry.field: _json_item(_plain_item(entry))}
        records.setdefault((resource, entry.time), []).append(record)
    return [
        PayloadPart(resource, _json(of_resource), SENML_JSON, len(of_resource), seconds)
        for (resource, seconds), of_resource in records.items()
    ]


def _plain_item(entry: _Entry) -> PythonValue:
    """Return the value of a record, after checking that its type matches its field.

    ``v`` must be a number, although CBOR allows other types.
    """
    reading = item_of(_TYPES_OF_FIELDS.get(entry.field), entry.item, b"")
    if entry.field != "v" and reading.problem is None:
        return reading.python
    if entry.field == "v" and reading.kind in {ValueKind.NUMBER, ValueKind.TIME}:
        return reading.python
    number = as_float(entry.item) if entry.field == "v" else None
    if number is None:
        raise UnreadablePayload(f"the value of {entry.field!r} in the record of {entry.path} is not valid")
    return number


def _records(body: object) -> list[_Record]:
    if not isinstance(body, list) or not all(isinstance(record, dict) for record in body):
        raise UnreadablePayload("there is no array of records in the payload")
    return body


def _named(record: _Record) -> _Record:
    """Return a SenML CBOR record with the field names of SenML JSON instead of the numeric labels."""
    # In CBOR, True and 2.0 are different labels than 1 and 2. In Python they are equal, so the types are checked.
    if not all(type(label) in (int, str) for label in record):
        raise UnreadablePayload("the labels of a SenML record are integers and texts")
    return {_NAMES_OF_LABELS.get(label, f"?{label}"): item for label, item in record.items()}


def _senml(records: Iterable[_Record]) -> Iterator[_Entry]:
    base_name, base_time, base_value = "", 0.0, 0.0
    for record in records:
        _check_understood(record)
        base_name = _text(record, "bn", base_name)
        base_time = _number(record, "bt", base_time)
        base_value = _number(record, "bv", base_value)
        # A record may contain only base fields, which apply to the records after it.
        if not record.keys() & {"n", *_VALUE_FIELDS}:
            continue
        field = _only_value(record, _VALUE_FIELDS)
        # Without a base value, the item stays unchanged, because a sum would convert an integer to a float.
        item = _number(record, "v", 0.0) + base_value if field == "v" and base_value else record[field]
        yield _Entry(base_name + _text(record, "n", ""), field, item, base_time + _number(record, "t", 0.0))


def _check_understood(record: _Record) -> None:
    if _number(record, "bver", _VERSION) > _VERSION:
        raise UnreadablePayload(f"the SenML version is later than {_VERSION}")
    unknown = [name for name in record if name.endswith("_")]
    if unknown:
        raise UnreadablePayload(f"the SenML record requires {reprlib.repr(unknown[0])}, which is unknown")


def _lwm2m_entries(body: _Record, path: str) -> Iterator[_Entry]:
    base_time = _number(body, "bt", 0.0)
    for record in _records(body.get("e")):
        name = _text(record, "n", "")
        base_name = _text(body, "bn", _base_of(path, name))
        member = _only_value(record, _LWM2M_JSON_MEMBERS)
        time = base_time + _number(record, "t", 0.0)
        yield _texts_as_bytes(_Entry(base_name + name, _LWM2M_JSON_MEMBERS[member], record[member], time))


def _base_of(path: str, name: str) -> str:
    if name.startswith("/"):
        return ""
    return f"{path.rstrip('/')}/" if name else path


def _texts_as_bytes(entry: _Entry) -> _Entry:
    """Read a string as base64 if bytes are declared, because LwM2M JSON has no member for bytes."""
    definition = lookup(entry.path)
    if entry.field != "vs" or definition is None or definition.type is not ResourceType.OPAQUE:
        return entry
    return _with_bytes(entry._replace(field="vd"), b"+/")


def _with_bytes(entry: _Entry, last_characters: bytes) -> _Entry:
    """Decode the base64 string of an entry with bytes. A string that is not base64 later fails the type check."""
    if entry.field != "vd" or not isinstance(entry.item, str):
        return entry
    # SenML uses base64 without padding, but b64decode() requires padding.
    padded = entry.item.rstrip("=") + "=" * (-len(entry.item.rstrip("=")) % 4)
    try:
        return entry._replace(item=base64.b64decode(padded, last_characters, validate=True))
    except ValueError:
        return entry


def _only_value(record: _Record, fields: Iterable[str]) -> str:
    found = [field for field in fields if field in record]
    if len(found) != 1:
        raise UnreadablePayload(f"a record contains {len(found)} values instead of one")
    return found[0]


def _text(record: _Record, name: str, default: str) -> str:
    text = record.get(name, default)
    if not isinstance(text, str):
        raise UnreadablePayload(f"member {name!r} of a record is not a string")
    return text


def _number(record: _Record, name: str, default: float) -> float:
    number = as_float(record.get(name, default))
    if number is None:
        raise UnreadablePayload(f"member {name!r} of a record is not a finite number")
    return number


def _newest(entries: Iterable[_Entry], raw: bytes) -> dict[str, DecodedValue]:
    newest: dict[str, _Entry] = {}
    for entry in entries:
        _resource_parts(entry.path)
        # Among values with the same time, the last one in the payload is used.
        if entry.path not in newest or entry.time >= newest[entry.path].time:
            newest[entry.path] = entry
    return {path: _reading(entry, raw) for path, entry in newest.items()}


def _resource_parts(path: str) -> PathParts:
    if not is_resource(path):
        raise UnreadablePayload(f"a record is named {reprlib.repr(path)}, which is not a resource path")
    return parse_path(path)


def _reading(entry: _Entry, raw: bytes) -> DecodedValue:
    definition = lookup(entry.path)
    if definition is None:
        return item_of(_TYPES_OF_FIELDS.get(entry.field), entry.item, raw)
    if DATA_TYPES[definition.type].senml_field != entry.field:
        problem = f"the definition declares {definition.type}, but the record of {entry.path} contains {entry.field!r}"
        return DecodedValue(ValueKind.OPAQUE, raw, problem)
    return item_of(definition.type, entry.item, raw)


def _check_resource(path: str) -> None:
    if not is_resource(path):
        raise InvalidValue(
            f"{path!r} is not a resource path, which this content type needs; write it like /3303/0/5700"
        )


def _field(value: PythonValue, resource_type: ResourceType | None) -> str:
    if resource_type is not None:
        return DATA_TYPES[resource_type].senml_field
    return "vs" if isinstance(value, str) else "vb" if isinstance(value, bool) else "v"


def _item(value: PythonValue) -> float | int | str | bool | bytes:
    return to_epoch(value) if isinstance(value, datetime) else value


def _json_item(value: PythonValue) -> float | int | str | bool:
    item = _item(value)
    return base64.urlsafe_b64encode(item).rstrip(b"=").decode("ascii") if isinstance(item, bytes) else item


def _json(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _write_senml_json(value: PythonValue, path: str, resource_type: ResourceType | None) -> bytes:
    _check_resource(path)
    return _json([{"n": path, _field(value, resource_type): _json_item(value)}])


def _write_senml_cbor(value: PythonValue, path: str, resource_type: ResourceType | None) -> bytes:
    _check_resource(path)
    field = _field(value, resource_type)
    return cbor2.dumps([{_CBOR_LABELS["n"]: path, _CBOR_LABELS.get(field, field): _item(value)}])


def _write_lwm2m_json(value: PythonValue, path: str, resource_type: ResourceType | None) -> bytes:
    _check_resource(path)
    field, item = _field(value, resource_type), _item(value)
    if isinstance(item, bytes):
        field, item = "vs", base64.b64encode(item).decode("ascii")
    return _json({"bn": path, "e": [{_MEMBERS_OF_FIELDS[field]: item}]})


SENML_JSON_CODEC = _records_codec(_senml_json_entries, _write_senml_json)
SENML_CBOR_CODEC = _records_codec(_senml_cbor_entries, _write_senml_cbor)
LWM2M_JSON_CODEC = _records_codec(_lwm2m_json_entries, _write_lwm2m_json)
