"""Decodes payloads to typed values, and encodes values; ``_CODECS`` has the codec of each known content type.

Source: wire.md 1 and 2; LwM2M core, data formats.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, NoReturn

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_table import ResourceDefinition, ResourceType, lookup
from mirror_sdk.values.codec import Codec, Part, Reading, UnreadablePayload
from mirror_sdk.values.content_types import (
    ALIASES,
    CBOR,
    JSON,
    LINK_FORMAT,
    LWM2M_JSON,
    LWM2M_TLV,
    OCTET_STREAM,
    SENML_CBOR,
    SENML_JSON,
    TEXT_PLAIN,
    media_type,
)
from mirror_sdk.values.data_types import HIGHEST_ID, accept, invalid_value, plain_scalar
from mirror_sdk.values.named_records import LWM2M_JSON_CODEC, SENML_CBOR_CODEC, SENML_JSON_CODEC
from mirror_sdk.values.registered_decoders import registered_codec
from mirror_sdk.values.single_values import CBOR_CODEC, JSON_CODEC, LINKS_CODEC, OCTETS_CODEC, TEXT_CODEC
from mirror_sdk.values.tlv import TLV_CODEC, join_instances
from mirror_sdk.values.value import Value, ValueKind
from mirror_sdk.wire.paths import is_resource, parse_path

_MAX_INTEGER_BITS = 64

_CODECS: Mapping[str, Codec] = {
    TEXT_PLAIN: TEXT_CODEC,
    OCTET_STREAM: OCTETS_CODEC,
    LINK_FORMAT: LINKS_CODEC,
    JSON: JSON_CODEC,
    CBOR: CBOR_CODEC,
    SENML_JSON: SENML_JSON_CODEC,
    SENML_CBOR: SENML_CBOR_CODEC,
    LWM2M_TLV: TLV_CODEC,
    LWM2M_JSON: LWM2M_JSON_CODEC,
}


def decode(raw: bytes | None, content_type: str | None, path: str) -> Value:
    """Read a payload as the type declared for its path; never raises, never guesses.

    Args:
        raw: The payload; ``None`` if there is no value yet.
        content_type: With or without parameters, or CoAP's number of it. ``None`` is read as text/plain, the
            interface's default, and as bytes for a resource declared opaque.
        path: Resource path such as ``/3303/0/5700``.

    Returns:
        A value of the declared kind. If nothing is declared, it has the kind in the payload (JSON, CBOR, SenML), or is
        the text as it is. ``MULTIPLE`` is for a resource whose payload has resource instances, with a mapping of
        instance id to value; ``NONE`` is for ``None``. A payload that cannot be read as declared or has an unknown
        content type is ``OPAQUE`` with the bytes, and ``problem`` has the reason. So is a payload with values of other
        paths, which :func:`decode_many` returns.

    Source: wire.md 1 and 2.
    """
    if raw is None:
        return Value(ValueKind.NONE, None, None, content_type)
    try:
        readings = _codec(content_type, path).read(raw, path)
    except UnreadablePayload as exc:
        return _opaque(raw, content_type, exc)
    if path not in readings and _are_instances(path, readings):
        return _multiple(raw, content_type, path, readings)
    reading = readings.get(path) or Reading(ValueKind.OPAQUE, raw, _no_value_at(path, readings))
    return Value(reading.kind, reading.python, raw, content_type, reading.problem)


def _are_instances(path: str, readings: Mapping[str, Reading]) -> bool:
    """Whether a payload holds instances of a resource and nothing else; none at all only if it is declared multiple."""
    if not is_resource(path) or parse_path(path).resource_instance_id is not None:
        return False
    definition = lookup(path)
    may_be_empty = definition is not None and definition.multiple
    return all(found.startswith(f"{path}/") for found in readings) if readings else may_be_empty


def _multiple(raw: bytes, content_type: str | None, path: str, readings: Mapping[str, Reading]) -> Value:
    """Return the values by instance id. If one of them cannot be read as declared, the payload stays opaque."""
    problem = next((f"{found}: {one.problem}" for found, one in readings.items() if one.problem is not None), None)
    if problem is not None:
        return Value(ValueKind.OPAQUE, raw, raw, content_type, problem)
    values = {int(found.removeprefix(f"{path}/")): one.python for found, one in readings.items()}
    return Value(ValueKind.MULTIPLE, dict(sorted(values.items())), raw, content_type)


def plain_type(content_type: str | None, path: str) -> ResourceType | None:
    """Return the declared type as which payloads of this content type are read, if they are text or bytes for certain.

    Returns:
        ``OPAQUE`` for payloads that always stay bytes, ``STRING`` for an undeclared text; ``None`` if it takes
        :func:`decode` to find out.
    """
    codec = _codec(content_type, path)
    if codec is _CODECS[OCTET_STREAM]:
        return ResourceType.OPAQUE
    definition = lookup(path)
    declared = ResourceType.STRING if definition is None else definition.type
    return declared if codec is _CODECS[TEXT_PLAIN] else None


def decode_many(raw: bytes | None, content_type: str | None, path: str) -> dict[str, Value]:
    """Read all values of a payload, such as the response to a read of an object instance; never raises, never guesses.

    Args:
        raw: The payload.
        content_type: As for :func:`decode`.
        path: The path that was read: a resource, an object instance (``/3303/0``) or an object (``/3303``).

    Returns:
        The values by the path of each resource, or resource instance (``/3/0/6/0``). If a resource has values of
        several times, the newest one. A part that is not of the declared type is ``OPAQUE``, with the reason in
        ``problem``. A payload that cannot be read at all is one such value under the given path. The ``raw`` of each is
        the whole payload.

    Source: LwM2M core, data formats.
    """
    if raw is None:
        return {}
    try:
        readings = _codec(content_type, path).read(raw, path)
    except UnreadablePayload as exc:
        return {path: _opaque(raw, content_type, exc)}
    return {
        found: Value(reading.kind, reading.python, raw, content_type, reading.problem)
        for found, reading in readings.items()
    }


def split(raw: bytes, content_type: str, path: str) -> list[Part]:
    """Split a payload, such as the response to a read of an object instance, by resource, in their order.

    A resource with instances is one part, or one for each time if the payload has several. Records of SenML and LwM2M
    JSON become SenML JSON. :func:`decode` and :func:`decode_many` return the same values for a part as for the whole.

    Args:
        raw: The payload.
        content_type: As for :func:`decode`.
        path: The path that was read: a resource, an object instance (``/3303/0``) or an object (``/3303``).

    Raises:
        UnreadablePayload: It is not in its content type, or does not name its resource.

    Source: LwM2M core, data formats.
    """
    codec = _CODECS.get(media_type(content_type))
    if codec is not None and codec.split is not None:
        return codec.split(raw, path)
    if not is_resource(path):
        raise UnreadablePayload(f"{content_type} contains the value of one resource, but {path!r} is not a resource")
    return [Part(path, raw, content_type)]


def _opaque(raw: bytes, content_type: str | None, problem: UnreadablePayload) -> Value:
    return Value(ValueKind.OPAQUE, raw, raw, content_type, str(problem))


def _no_value_at(path: str, readings: Mapping[str, Reading]) -> str:
    if not readings:
        return f"the payload holds no value for {path}"
    found = ", ".join(list(readings)[:3]) + (" ..." if len(readings) > 3 else "")
    return f"the payload holds no one value for {path} but {found}; decode_many gives them"


def encode(
    value: object, path: str, content_type: str | None = None, *, allow_read_only: bool = False
) -> tuple[bytes, str]:
    """Write a value as the payload of a device request, checked against the declaration of its path.

    Args:
        value: ``float``, ``int``, ``str``, ``bool``, aware ``datetime``, ``bytes`` or a numpy scalar of these. A
            multiple resource takes a mapping of instance id to such a value, which replaces all its instances. A
            declared integer may be a ``float`` without a fraction below 2**53; larger ones may have been rounded.
        path: Resource path such as ``/3311/0/5850``.
        content_type: ``None`` is text/plain, and application/octet-stream for bytes. For a mapping it is TLV, or SenML
            JSON if nothing is declared; no other type holds a mapping. Bytes with any other content type are sent as
            they are, unless the resource is declared opaque.
        allow_read_only: Also write a resource that is declared read-only, for a device that accepts writes anyway.

    Returns:
        The payload and its content type.

    Raises:
        InvalidValue: The value is not of the declared type, out of its range, a naive datetime or not finite. Or the
            resource is executable or read-only, the content type is unknown or cannot hold the value, or a registered
            encoder failed. The message says which values the resource takes.

    Source: wire.md 2.
    """
    if isinstance(value, Mapping):
        return _encode_instances(value, path, content_type, allow_read_only=allow_read_only)
    definition = lookup(path)
    if definition is not None:
        _check_access(definition, path, allow_read_only=allow_read_only)
    plain = plain_scalar(value)
    # Checked first: Python formats no integer of more than 4,300 digits, so other messages would fail.
    if isinstance(plain, int) and plain.bit_length() > _MAX_INTEGER_BITS:
        raise InvalidValue(f"{path} takes integers of at most 64 bits, not {plain.bit_length()}; pass a float")
    opaque = definition is not None and definition.type is ResourceType.OPAQUE
    if content_type is None:
        content_type = OCTET_STREAM if isinstance(plain, bytes) and (opaque or definition is None) else TEXT_PLAIN
    name = media_type(_written_type(content_type))
    codec = _CODECS.get(name) or registered_codec(name)
    # Bytes are a payload already, unless the resource is opaque. As text/plain they are checked, and so rejected.
    if codec is None or codec.write is None or (isinstance(plain, bytes) and not opaque and name != TEXT_PLAIN):
        if not isinstance(plain, bytes):
            cure = "pass bytes, or leave content_type out"
            raise invalid_value(path, definition, plain, "bytes with this content type", cure)
        return plain, content_type
    resource_type = None if definition is None else definition.type
    return codec.write(accept(plain, definition, path), path, resource_type), content_type


def _encode_instances(
    values: Mapping[Any, object], path: str, content_type: str | None, *, allow_read_only: bool
) -> tuple[bytes, str]:
    """Write each resource instance by itself, and join them to a multiple resource."""
    if not is_resource(path) or parse_path(path).resource_instance_id is not None:
        raise InvalidValue(f"{path!r} has no instances; pass a mapping for a resource, such as /3/0/7")
    if not all(type(number) is int and 0 <= number <= HIGHEST_ID for number in values):
        raise InvalidValue(
            f"{path} takes a mapping by instance ids, whole numbers from 0 to {HIGHEST_ID}, such as"
            f" {{0: 3800, 1: 5000}}; {reprlib.repr(dict(values))} has others"
        )
    if content_type is None:
        content_type = LWM2M_TLV if lookup(path) else SENML_JSON
    name = media_type(_written_type(content_type))
    if name not in {LWM2M_TLV, SENML_JSON}:
        raise InvalidValue(f"{path}: {name} holds no mapping; take {LWM2M_TLV} or {SENML_JSON}")
    parts = [
        encode(values[number], f"{path}/{number}", name, allow_read_only=allow_read_only)[0]
        for number in sorted(values)
    ]
    if name == LWM2M_TLV:
        return join_instances(parts, path), content_type
    # Each part is an array of one record.
    return b"[" + b",".join(part[1:-1] for part in parts) + b"]", content_type


def _written_type(content_type: object) -> str:
    """Return the content type if it is a name: the interface takes no numbers."""
    if isinstance(content_type, str) and "/" in content_type:
        return content_type
    name = ALIASES.get(str(content_type), TEXT_PLAIN)
    raise InvalidValue(f"content_type={content_type!r} is not a content type; write it like {name!r}")


def _check_access(definition: ResourceDefinition, path: str, *, allow_read_only: bool) -> None:
    if definition.access == "E":
        raise InvalidValue(f"{path} ({definition.label}) takes no value, it is executable; execute it instead")
    if definition.access == "R" and not allow_read_only:
        raise InvalidValue(
            f"{path} ({definition.label}) is declared read-only; if this device accepts writes anyway, "
            "pass allow_read_only=True"
        )


def _codec(content_type: str | None, path: str) -> Codec:
    if content_type is None:
        definition = lookup(path)
        opaque = definition is not None and definition.type is ResourceType.OPAQUE
        return _CODECS[OCTET_STREAM if opaque else TEXT_PLAIN]
    name = media_type(content_type)
    return _CODECS.get(name) or registered_codec(name) or Codec(_read_unknown)


def _read_unknown(*_: object) -> NoReturn:
    raise UnreadablePayload("the content type is unknown")
