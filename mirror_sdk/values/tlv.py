"""The LwM2M TLV format. Its entries have a type, an id and a length. Only object definitions give the bytes a meaning.

Source: LwM2M core, TLV data format (1.0: 6.4.3; 1.1: 7.4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.values.codec import Codec, DecodedValue, PayloadPart, UnreadablePayload
from mirror_sdk.values.content_types import LWM2M_TLV
from mirror_sdk.values.lwm2m_types import DATA_TYPES, is_integer_for_float, reading_of
from mirror_sdk.values.value import PythonValue, ValueKind
from mirror_sdk.wire.paths import parse_path


class _Kind(IntEnum):
    OBJECT_INSTANCE = 0
    RESOURCE_INSTANCE = 1
    MULTIPLE_RESOURCE = 2
    RESOURCE = 3


_LEVELS: Mapping[_Kind, int] = {
    _Kind.OBJECT_INSTANCE: 1,
    _Kind.MULTIPLE_RESOURCE: 2,
    _Kind.RESOURCE: 2,
    _Kind.RESOURCE_INSTANCE: 3,
}
"""The index of an entry's id in a path of object, instance, resource and resource instance."""

_HOLDS_ENTRIES = frozenset({_Kind.OBJECT_INSTANCE, _Kind.MULTIPLE_RESOURCE})
_WIDE_ID = 0x20
_SHORT = 8
_MOST_BYTES = 2**24 - 1 - 6
"""The maximum length of a value: the largest number that fits into three bytes, minus the header of an inner entry."""


def _read_tlv(raw: bytes, path: str) -> dict[str, DecodedValue]:
    values = {_path(ids): content for ids, content in _values(raw, _ids(path), lowest=1)}
    return {found: _reading(content, found) for found, content in values.items()}


def _split_tlv(raw: bytes, path: str) -> list[PayloadPart]:
    """Return one TLV for each resource with all of its instances, in the order of the payload."""
    parent = _ids(path)
    if len(parent) > _LEVELS[_Kind.RESOURCE_INSTANCE]:
        # The payload has one resource instance and needs no split. Its values are read only to check the payload.
        return [PayloadPart(path, raw, LWM2M_TLV) for _ in _values(raw, parent, lowest=1)]
    found: dict[tuple[int, ...], tuple[_Kind, list[bytes]]] = {}
    for ids, content in _values(raw, parent, lowest=1):
        is_instance = len(ids) > _LEVELS[_Kind.RESOURCE_INSTANCE]
        resource = ids[:-1] if is_instance else ids
        kind = _Kind.MULTIPLE_RESOURCE if is_instance else _Kind.RESOURCE
        of_resource = found.setdefault(resource, (kind, []))
        if of_resource[0] is not kind:
            raise UnreadablePayload(f"the TLV contains {_path(resource)} both with and without instances")
        of_resource[1].append(_entry(_Kind.RESOURCE_INSTANCE, ids[-1], content) if is_instance else content)
    return [
        PayloadPart(_path(ids), _entry(kind, ids[-1], b"".join(contents)), LWM2M_TLV, len(contents))
        for ids, (kind, contents) in found.items()
    ]


def _path(ids: tuple[int, ...]) -> str:
    return "".join(f"/{number}" for number in ids)


def _ids(path: str) -> tuple[int, ...]:
    try:
        return tuple(number for number in parse_path(path) if number is not None)
    except ValueError as exc:
        raise UnreadablePayload(f"TLV names resources relative to a path: {exc}") from exc


def _values(raw: bytes, parent: tuple[int, ...], lowest: int) -> Iterator[tuple[tuple[int, ...], bytes]]:
    seen: set[int] = set()
    for kind, number, content in _entries(raw):
        level = _LEVELS[kind]
        # The id of an entry is below the requested path, or repeats an id of this path.
        if not lowest <= level <= len(parent) or number != (*parent, number)[level]:
            name = kind.name.lower().replace("_", " ")
            raise UnreadablePayload(f"the TLV contains {name} {number}, which is not in {_path(parent)}")
        ids = (*parent[:level], number)
        if number in seen:
            raise UnreadablePayload(f"the TLV contains {_path(ids)} twice")
        seen.add(number)
        if kind in _HOLDS_ENTRIES:
            yield from _values(content, ids, level + 1)
        else:
            yield ids, content


def _entries(raw: bytes) -> Iterator[tuple[_Kind, int, bytes]]:
    position = 0
    # The bits of the first byte are: the kind (2 bits), whether the id has two bytes (1), the number of bytes of the
    # length (2), and, if that is 0, the length itself (3).
    while position < len(raw):
        head = raw[position]
        id_end = position + (3 if head & _WIDE_ID else 2)
        length_end = id_end + (head >> 3 & 0b11)
        length = int.from_bytes(raw[id_end:length_end], "big") if length_end > id_end else head & 0b111
        end = length_end + length
        if end > len(raw):
            raise UnreadablePayload(
                f"the TLV is cut off: its entry at byte {position} continues to byte {end} of {len(raw)}"
            )
        yield _Kind(head >> 6), int.from_bytes(raw[position + 1 : id_end], "big"), raw[length_end:end]
        position = end


def _reading(content: bytes, path: str) -> DecodedValue:
    definition = lookup(path)
    if definition is None:
        return DecodedValue(ValueKind.OPAQUE, content)
    if definition.type is ResourceType.FLOAT and is_integer_for_float(content):
        number = int.from_bytes(content, "big", signed=True)
        problem = f"{content!r} cannot be read as the type float: it looks like the integer {number}"
        return DecodedValue(ValueKind.OPAQUE, content, problem)
    return reading_of(definition.type, DATA_TYPES[definition.type].from_bytes(content), content)


def write_tlv(value: PythonValue, path: str, resource_type: ResourceType | None) -> bytes:
    """Return a TLV that contains a checked value as its only resource or resource instance.

    Raises:
        InvalidValue: The path is not declared, so the bytes that the device expects are unknown, or the value is too
            long for this format.
    """
    if resource_type is None:
        raise InvalidValue(
            f"{path} is not declared, so its bytes in TLV are unknown; declare it with register_object, "
            "or pass bytes that are TLV already"
        )
    _, _, resource_id, *instance_ids = _ids(path)
    content = DATA_TYPES[resource_type].to_bytes(value)
    if len(content) > _MOST_BYTES:
        raise InvalidValue(f"{path}: {len(content)} bytes exceed the limit of TLV, {_MOST_BYTES}; pass a shorter value")
    if not instance_ids:
        return _entry(_Kind.RESOURCE, resource_id, content)
    return _entry(_Kind.MULTIPLE_RESOURCE, resource_id, _entry(_Kind.RESOURCE_INSTANCE, instance_ids[0], content))


def join_instances(payloads: Iterable[bytes], path: str) -> bytes:
    """Join the TLVs of resource instances, as :func:`write_tlv` returns them, to the TLV of one multiple resource."""
    contents = (content for payload in payloads for _, _, content in _entries(payload))
    return _entry(_Kind.MULTIPLE_RESOURCE, _ids(path)[2], b"".join(contents))


def _entry(kind: _Kind, number: int, content: bytes) -> bytes:
    length = len(content)
    length_bytes = b"" if length < _SHORT else length.to_bytes((length.bit_length() + 7) // 8, "big")
    wide = number > 255
    head = kind << 6 | wide << 5 | len(length_bytes) << 3 | (0 if length_bytes else length)
    return bytes([head]) + number.to_bytes(2 if wide else 1, "big") + length_bytes + content


TLV_CODEC = Codec(_read_tlv, write_tlv, _split_tlv)
