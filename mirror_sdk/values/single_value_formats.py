"""Formats whose payloads contain one value: text, links, bytes, JSON and CBOR.

A decoder never trusts a payload. It allocates no memory for a length or a nesting depth that the payload merely claims.

Source: LwM2M core, text/plain and CBOR data formats; RFC 6690, RFC 8259, RFC 8949.
"""

from __future__ import annotations

import base64
import io
import json
from collections import deque
from datetime import datetime
from decimal import Decimal
from typing import NoReturn

import cbor2

from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.values.codec import Codec, DecodedValue, UnreadablePayload
from mirror_sdk.values.lwm2m_types import DATA_TYPES, read_item, reading_of, to_epoch
from mirror_sdk.values.value import PythonValue, ValueKind
from mirror_sdk.wire.link_format import InvalidLinkFormat, parse_links


def _utf_8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UnreadablePayload(f"the text is not UTF-8 ({exc.reason} at byte {exc.start})") from exc


def _read_text(raw: bytes, path: str) -> dict[str, DecodedValue]:
    text = _utf_8(raw)
    definition = lookup(path)
    if definition is None:
        return {path: DecodedValue(ValueKind.TEXT, text)}
    return {path: reading_of(definition.type, DATA_TYPES[definition.type].from_text(text), raw)}


def write_text(value: PythonValue, *_: object) -> bytes:
    """Encode a checked value as text/plain."""
    match value:
        case bool():
            return b"1" if value else b"0"
        case float():
            # Some devices cannot read exponents, so a decimal is written. The digits of repr are enough for the same
            # float.
            return format(Decimal(repr(value)), "f").encode()
        case datetime():
            return str(to_epoch(value)).encode()
        case bytes():
            return base64.b64encode(value)
    return str(value).encode()


def _read_links(raw: bytes, path: str) -> dict[str, DecodedValue]:
    """Read links (``</3/0>,</3303/0>``) as a string, regardless of the declaration of the path."""
    text = _utf_8(raw)
    try:
        # The links are parsed only to check them. The value is the unchanged text.
        deque(parse_links(text), maxlen=0)
    except InvalidLinkFormat as exc:
        raise UnreadablePayload(f"the payload is not in the CoRE link format: {exc}") from exc
    return {path: DecodedValue(ValueKind.TEXT, text)}


def _read_octets(raw: bytes, path: str) -> dict[str, DecodedValue]:
    return {path: DecodedValue(ValueKind.OPAQUE, raw)}


def parse_json(raw: bytes) -> object:
    """Return the value of a JSON document.

    Raises:
        UnreadablePayload: The payload is not valid JSON, or is nested too deeply.
    """
    try:
        parsed: object = json.loads(raw.decode("utf-8"), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as exc:
        raise UnreadablePayload(f"the payload is not JSON: {exc}") from exc
    return parsed


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def parse_cbor(raw: bytes) -> object:
    """Return the only item of a CBOR payload.

    Raises:
        UnreadablePayload: The payload is not valid CBOR, is nested too deeply, or continues after its first item.
    """
    stream = io.BytesIO(raw)
    try:
        item: object = cbor2.CBORDecoder(stream, read_size=1).decode()
    except (cbor2.CBORDecodeError, ValueError, TypeError, ArithmeticError, RecursionError) as exc:
        raise UnreadablePayload(f"the payload is not CBOR: {exc}") from exc
    if stream.tell() != len(raw):
        raise UnreadablePayload(f"the payload continues after its CBOR item, at byte {stream.tell()}")
    return item


def _read_json(raw: bytes, path: str) -> dict[str, DecodedValue]:
    return {path: read_item(parse_json(raw), path, raw)}


def _read_cbor(raw: bytes, path: str) -> dict[str, DecodedValue]:
    return {path: read_item(parse_cbor(raw), path, raw)}


def _write_json(value: PythonValue, path: str, _: ResourceType | None) -> bytes:
    if isinstance(value, bytes):
        raise InvalidValue(f"{path}: JSON cannot contain bytes; omit content_type, or pass another one")
    return json.dumps(to_epoch(value) if isinstance(value, datetime) else value, ensure_ascii=False).encode()


def _write_cbor(value: PythonValue, *_: object) -> bytes:
    """Encode a value as CBOR. A time becomes the seconds since 1970 with the tag 1."""
    return cbor2.dumps(value, datetime_as_timestamp=True)


TEXT_CODEC = Codec(_read_text, write_text)
LINKS_CODEC = Codec(_read_links)
OCTETS_CODEC = Codec(_read_octets)
JSON_CODEC = Codec(_read_json, _write_json)
CBOR_CODEC = Codec(_read_cbor, _write_cbor)
