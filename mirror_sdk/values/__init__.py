"""Payloads: from content type and object table to typed values, and back; never a guess.

text/plain and TLV say nothing of types: the object table does, and what it does not declare stays text or bytes. JSON,
CBOR and SenML have types of their own, which the table narrows down. A payload that is not what it should be becomes a
value of kind ``opaque`` with its bytes and the reason, never an error. What people type is read by :func:`parse_value`.

Source: LwM2M core, data types and data formats; wire.md 1 and 2.
"""

from mirror_sdk.values.codecs import (
    CBOR,
    JSON,
    LINK_FORMAT,
    LWM2M_JSON,
    LWM2M_TLV,
    OCTET_STREAM,
    SENML_CBOR,
    SENML_JSON,
    TEXT_PLAIN,
    decode,
    decode_many,
    encode,
    plain_type,
)
from mirror_sdk.values.typed import parse_value
from mirror_sdk.values.value import NO_VALUE, PythonValue, Value, ValueKind, written

__all__ = [
    "CBOR",
    "JSON",
    "LINK_FORMAT",
    "LWM2M_JSON",
    "LWM2M_TLV",
    "NO_VALUE",
    "OCTET_STREAM",
    "SENML_CBOR",
    "SENML_JSON",
    "TEXT_PLAIN",
    "PythonValue",
    "Value",
    "ValueKind",
    "decode",
    "decode_many",
    "encode",
    "parse_value",
    "plain_type",
    "written",
]
