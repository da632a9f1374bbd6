"""JSON and CBOR: formats whose items have types of their own; a payload of one item is the value of one resource.

A decoder never trusts a payload: nesting and lengths that it only claims cost nothing.

Source: RFC 8259, RFC 8949; LwM2M core, CBOR data format.
"""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import NoReturn

import cbor2

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.values.declared import Reading, UnreadablePayload, from_item, to_epoch
from mirror_sdk.values.value import PythonValue


def parse_json(raw: bytes) -> object:
    """What a JSON text holds.

    Raises:
        UnreadablePayload: It is not JSON, or nests too deep.
    """
    try:
        parsed: object = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as exc:
        raise UnreadablePayload(f"the payload is not JSON: {exc}") from exc
    return parsed


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def parse_cbor(raw: bytes) -> object:
    """The one item a CBOR payload holds.

    Raises:
        UnreadablePayload: It is not CBOR, nests too deep, or goes on after its first item.
    """
    stream = io.BytesIO(raw)
    try:
        item: object = cbor2.CBORDecoder(stream, read_size=1).decode()
    except (cbor2.CBORDecodeError, ValueError, TypeError, ArithmeticError, RecursionError) as exc:
        raise UnreadablePayload(f"the payload is not CBOR: {exc}") from exc
    if stream.tell() != len(raw):
        raise UnreadablePayload(f"the payload goes on after its CBOR item, at byte {stream.tell()}")
    return item


def read_json(raw: bytes, path: str) -> dict[str, Reading]:
    """The one value of a JSON text.

    Raises:
        UnreadablePayload: It is not JSON.
    """
    return {path: _reading(parse_json(raw), path, raw)}


def read_cbor(raw: bytes, path: str) -> dict[str, Reading]:
    """The one value of a CBOR payload.

    Raises:
        UnreadablePayload: It is not CBOR.
    """
    return {path: _reading(parse_cbor(raw), path, raw)}


def _reading(item: object, path: str, raw: bytes) -> Reading:
    definition = lookup(path)
    return from_item(None if definition is None else definition.type, item, raw)


def write_json(value: PythonValue, path: str, _: ResourceType | None) -> bytes:
    """A checked value as JSON.

    Raises:
        InvalidValue: It is bytes, which JSON does not have.
    """
    if isinstance(value, bytes):
        raise InvalidValue(f"{path}: JSON has no bytes; leave content_type out, or take another one")
    return json.dumps(to_epoch(value) if isinstance(value, datetime) else value, ensure_ascii=False).encode()


def write_cbor(value: PythonValue, *_: object) -> bytes:
    """A checked value as CBOR; a time is seconds with the tag 1."""
    return cbor2.dumps(value, datetime_as_timestamp=True)
