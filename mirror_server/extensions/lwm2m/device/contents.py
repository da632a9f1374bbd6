"""Values of resources as payloads, in the content formats of LwM2M, and back. Source: LwM2M core, data formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import cbor2

from mirror_sdk.errors import ValueRefused
from mirror_sdk.values import (
    LWM2M_TLV,
    OCTET_STREAM,
    SENML_CBOR,
    SENML_JSON,
    TEXT_PLAIN,
    PythonValue,
    decode_many,
    encode,
)
from mirror_server.core.instants import Instant

TEXT, LINKS, OCTETS, JSON_RECORDS, CBOR_RECORDS, TLV = 0, 40, 42, 110, 112, 11542
CONTENT_TYPES: Mapping[int, str] = {
    TEXT: TEXT_PLAIN,
    OCTETS: OCTET_STREAM,
    JSON_RECORDS: SENML_JSON,
    CBOR_RECORDS: SENML_CBOR,
    TLV: LWM2M_TLV,
}
FORMATS_OF_VERSION: Mapping[str, frozenset[int]] = {
    "1.0": frozenset({TEXT, OCTETS, TLV}),
    "1.1": frozenset(CONTENT_TYPES),
}
_CBOR_TIME = 6


class NotAcceptable(Exception):
    """The values cannot be written in this content format."""


def encode_values(
    values: Mapping[str, PythonValue], path: str, content_format: int, at: Mapping[str, Instant] | None = None
) -> bytes:
    """The values of a resource, or of all resources of an instance, as a payload.

    Args:
        values: The values, by the paths of their resources.
        path: What was asked for.
        content_format: CoAP's number of the format.
        at: When resources got their values, where SenML is to tell it.

    Raises:
        NotAcceptable: The format does not hold them.
    """
    is_one = path in values
    if content_format in {TEXT, OCTETS} and not is_one:
        raise NotAcceptable(path)
    if content_format == OCTETS and not isinstance(values[path], bytes):
        raise NotAcceptable(path)
    if content_format == TLV and path.count("/") == 1:
        raise NotAcceptable(path)
    content_type = CONTENT_TYPES[content_format]
    try:
        parts = {each: encode(value, each, content_type, allow_read_only=True)[0] for each, value in values.items()}
    except ValueRefused as refused:
        raise NotAcceptable(path) from refused
    if content_format == JSON_RECORDS:
        records = [_timed(json.loads(part)[0], "t", each, at) for each, part in parts.items()]
        return json.dumps(records, separators=(",", ":")).encode()
    if content_format == CBOR_RECORDS:
        return cbor2.dumps([_timed(cbor2.loads(part)[0], _CBOR_TIME, each, at) for each, part in parts.items()])
    return b"".join(parts.values())


def _timed(record: dict[Any, Any], label: str | int, path: str, at: Mapping[str, Instant] | None) -> dict[Any, Any]:
    return record if at is None else {**record, label: at[path] / 1000}


def decode_values(payload: bytes, path: str, content_format: int) -> dict[str, PythonValue]:
    """The values of a payload, by the paths of their resources.

    Raises:
        ValueError: A value is not what the table declares, or cannot be read.
    """
    values = {}
    for found, value in decode_many(payload, CONTENT_TYPES[content_format], path).items():
        if value.problem is not None or value.python is None or isinstance(value.python, Mapping):
            raise ValueError(value.problem or f"{found} has no value")
        values[found] = value.python
    return values
