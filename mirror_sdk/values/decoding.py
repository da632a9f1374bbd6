"""Decoding of payloads to typed values, and encoding of values. Each known content type has a codec in ``_CODECS``.

Source: LwM2M core, data formats.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, NoReturn

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import ResourceDefinition, ResourceType, lookup
from mirror_sdk.values.codec import Codec, DecodedValue, PayloadPart, UnreadablePayload
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
from mirror_sdk.values.lwm2m_types import HIGHEST_ID, accept, invalid_value, plain_scalar
from mirror_sdk.values.registered_decoders import registered_codec
from mirror_sdk.values.senml import LWM2M_JSON_CODEC, SENML_CBOR_CODEC, SENML_JSON_CODEC
from mirror_sdk.values.single_value_formats import CBOR_CODEC, JSON_CODEC, LINKS_CODEC, OCTETS_CODEC, TEXT_CODEC
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
    """Decode a payload as the declared type of its path, without guessing. This function never raises an error.

    Args:
        raw: The payload, or ``None`` if there is no value yet.
        content_type: The content type, with or without parameters, or its CoAP number. ``None`` means text/plain, or
            bytes if the resource is declared opaque.
        path: The resource path, such as ``/3303/0/5700``.

    Returns:
        A value of the declared kind. For an undeclared resource, payloads in JSON, CBOR and SenML determine the kind
        themselves, and other payloads are strings. A payload with resource instances becomes a ``MULTIPLE`` value,
        which is a mapping from instance ids to values. ``None`` becomes a value of the kind ``NONE``.

        A payload that cannot be decoded becomes an ``OPAQUE`` value with the bytes. ``problem`` then contains the
        reason: the payload does not match the declaration, its content type is unknown, or it contains values of other
        paths. :func:`decode_many` returns such values.
    """
    if raw is None:
        return Value(ValueKind.NONE, None, None, content_type)
    try:
        readings = _codec(content_type, path).read(raw, path)
    except UnreadablePayload as exc:
        return _opaque(raw, content_type, exc)
    if path not in readings and _are_instances(path, readings):
        return _multiple(raw, content_type, path, readings)
    reading = readings.get(path) or DecodedValue(ValueKind.OPAQUE, raw, _no_value_at(path, readings))
    return Value(reading.kind, reading.python, raw, content_type, reading.problem)


def _are_instances(path: str, readings: Mapping[str, DecodedValue]) -> bool:
    """Return whether a payload contains only instances of a resource.

    It may contain no instances if the resource is declared multiple.
    """
    if not is_resource(path) or parse_path(path).resource_instance_id is not None:
        return False
    definition = lookup(path)
    may_be_empty = definition is not None and definition.multiple
    return all(found.startswith(f"{path}/") for found in readings) if readings else may_be_empty


def _multiple(raw: bytes, content_type: str | None, path: str, readings: Mapping[str, DecodedValue]) -> Value:
    """Return the values by instance id. If one of them does not match the declaration, the payload stays opaque."""
    problem = next((f"{found}: {one.problem}" for found, one in readings.items() if one.problem is not None), None)
    if problem is not None:
        return Value(ValueKind.OPAQUE, raw, raw, content_type, problem)
    values = {int(found.removeprefix(f"{path}/")): one.python for found, one in readings.items()}
    return Value(ValueKind.MULTIPLE, dict(sorted(values.items())), raw, content_type)


def plain_type(content_type: str | None, path: str) -> ResourceType | None:
    """Return the type that all payloads with this content type have, if it is always the same.

    Returns:
        ``OPAQUE`` for payloads that always stay bytes, and ``STRING`` for undeclared text. ``None`` means that only
        :func:`decode` can determine the type.
    """
    codec = _codec(content_type, path)
    if codec is _CODECS[OCTET_STREAM]:
        return ResourceType.OPAQUE
    definition = lookup(path)
    declared = ResourceType.STRING if definition is None else definition.type
    return declared if codec is _CODECS[TEXT_PLAIN] else None


def decode_many(raw: bytes | None, content_type: str | None, path: str) -> dict[str, Value]:
    """Decode all values of a payload, such as the response to a read of an object instance, without raising errors.

    Args:
        raw: The payload.
        content_type: The content type, as in :func:`decode`.
        path: The path that was read: a resource, an object instance (``/3303/0``) or an object (``/3303``).

    Returns:
        The values by the path of each resource or resource instance (``/3/0/6/0``). If the payload contains several
        values of a resource, each with its own timestamp, the result contains only the newest one. A value that does
        not match its declaration is ``OPAQUE``, with the reason in ``problem``. If the payload cannot be decoded at
        all, the result is one such value under ``path``. The ``raw`` of each value is the whole payload.

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


def split(raw: bytes, content_type: str, path: str) -> list[PayloadPart]:
    """Split a payload, such as the response to a read of an object instance, into one part for each resource.

    If the payload contains several values of a resource with different timestamps, the resource has one part for each
    timestamp. Parts of SenML and LwM2M JSON are SenML JSON. For a part, :func:`decode` and :func:`decode_many` return
    the same values as for the whole payload.

    Args:
        raw: The payload.
        content_type: The content type, as in :func:`decode`.
        path: The path that was read: a resource, an object instance (``/3303/0``) or an object (``/3303``).

    Raises:
        UnreadablePayload: The payload is not in the format of its content type, or does not contain the resource path.

    Source: LwM2M core, data formats.
    """
    codec = _CODECS.get(media_type(content_type))
    if codec is not None and codec.split is not None:
        return codec.split(raw, path)
    if not is_resource(path):
        raise UnreadablePayload(f"{content_type} contains the value of one resource, but {path!r} is not a resource")
    return [PayloadPart(path, raw, content_type)]


def _opaque(raw: bytes, content_type: str | None, problem: UnreadablePayload) -> Value:
    return Value(ValueKind.OPAQUE, raw, raw, content_type, str(problem))


def _no_value_at(path: str, readings: Mapping[str, DecodedValue]) -> str:
    if not readings:
        return f"the payload contains no value for {path}"
    found = ", ".join(list(readings)[:3]) + (" ..." if len(readings) > 3 else "")
    return f"the payload contains the values of {found} instead of one for {path}; decode_many() returns them"


def encode(
    value: object, path: str, content_type: str | None = None, *, allow_read_only: bool = False
) -> tuple[bytes, str]:
    """Encode a value as the payload of a write, after checking whether it matches the declaration of the path.

    Args:
        value: A ``float``, ``int``, ``str``, ``bool``, ``datetime`` with a time zone, ``bytes`` or a NumPy scalar of
            these types. For a multiple resource, pass a mapping from instance ids to such values, which replaces all
            instances. For a declared integer, a ``float`` is accepted if it has no fraction and is below 2**53. A
            larger ``float`` might have been rounded.
        path: The resource path, such as ``/3311/0/5850``.
        content_type: The content type. The default is text/plain, and application/octet-stream for bytes. A mapping can
            only be encoded as TLV, which is the default if the resource is declared, or as SenML JSON. Bytes with any
            other content type are sent unchanged, unless the resource is declared opaque.
        allow_read_only: Whether to encode a value for a resource that is declared read-only.

    Returns:
        The payload and its content type.

    Raises:
        InvalidValue: The value does not have the declared type, is out of its range, is a datetime without a time zone
            or is not finite. The error is also raised if the resource is executable or read-only, if the content type
            is unknown or cannot contain the value, or if a registered encoder fails. The message describes the values
            that the resource accepts.
    """
    if isinstance(value, Mapping):
        return _encode_instances(value, path, content_type, allow_read_only=allow_read_only)
    definition = lookup(path)
    if definition is not None:
        _check_access(definition, path, allow_read_only=allow_read_only)
    plain = plain_scalar(value)
    # This check comes first. Python formats no integer of more than 4,300 digits, so other error messages would fail.
    if isinstance(plain, int) and plain.bit_length() > _MAX_INTEGER_BITS:
        may_be_float = definition is None or definition.type is ResourceType.FLOAT
        cure = "pass a smaller number or a float" if may_be_float else "pass a smaller number"
        raise InvalidValue(f"{path} takes integers of at most 64 bits, but this one has {plain.bit_length()}; {cure}")
    opaque = definition is not None and definition.type is ResourceType.OPAQUE
    if content_type is None:
        content_type = OCTET_STREAM if isinstance(plain, bytes) and (opaque or definition is None) else TEXT_PLAIN
    name = media_type(_written_type(content_type))
    codec = _CODECS.get(name) or registered_codec(name)
    # Bytes already are a payload, unless the resource is opaque. As text/plain they are checked, and therefore
    # rejected.
    if codec is None or codec.write is None or (isinstance(plain, bytes) and not opaque and name != TEXT_PLAIN):
        if not isinstance(plain, bytes):
            cure = "pass bytes, or omit content_type"
            raise invalid_value(path, definition, plain, "bytes with this content type", cure)
        return plain, content_type
    resource_type = None if definition is None else definition.type
    return codec.write(accept(plain, definition, path), path, resource_type), content_type


def _encode_instances(
    values: Mapping[Any, object], path: str, content_type: str | None, *, allow_read_only: bool
) -> tuple[bytes, str]:
    """Encode each resource instance separately, and join them to a multiple resource."""
    if not is_resource(path) or parse_path(path).resource_instance_id is not None:
        raise InvalidValue(f"{path!r} has no instances; pass a mapping for a resource, such as /3/0/7")
    if not all(type(number) is int and 0 <= number <= HIGHEST_ID for number in values):
        raise InvalidValue(
            f"{path} takes a mapping by instance ids, whole numbers from 0 to {HIGHEST_ID}, such as"
            f" {{0: 3800, 1: 5000}}, not {reprlib.repr(dict(values))}"
        )
    if content_type is None:
        content_type = LWM2M_TLV if lookup(path) else SENML_JSON
    name = media_type(_written_type(content_type))
    if name not in {LWM2M_TLV, SENML_JSON}:
        raise InvalidValue(
            f"{path}: {name} cannot contain a mapping; pass content_type={LWM2M_TLV!r} or {SENML_JSON!r}"
        )
    parts = [
        encode(values[number], f"{path}/{number}", name, allow_read_only=allow_read_only)[0]
        for number in sorted(values)
    ]
    if name == LWM2M_TLV:
        return join_instances(parts, path), content_type
    # Each part is a JSON array of one record.
    return b"[" + b",".join(part[1:-1] for part in parts) + b"]", content_type


def _written_type(content_type: object) -> str:
    """Return the content type if it is a name.

    Raise an error for a CoAP number, because requests must not contain one.
    """
    if isinstance(content_type, str) and "/" in content_type:
        return content_type
    name = ALIASES.get(str(content_type), TEXT_PLAIN)
    raise InvalidValue(f"content_type={content_type!r} is not a content type; write it like {name!r}")


def _check_access(definition: ResourceDefinition, path: str, *, allow_read_only: bool) -> None:
    if definition.access == "E":
        raise InvalidValue(
            f"{path} ({definition.label}) is executable and takes no value; execute it instead of writing it"
        )
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
