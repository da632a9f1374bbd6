"""Conversion between payloads and typed values, according to the content type and the object definition."""

from mirror_sdk.values.content_types import (
    CBOR,
    JSON,
    LINK_FORMAT,
    LWM2M_JSON,
    LWM2M_TLV,
    OCTET_STREAM,
    SENML_CBOR,
    SENML_JSON,
    TEXT_PLAIN,
)
from mirror_sdk.values.decoding import decode, decode_many, encode, plain_type
from mirror_sdk.values.registered_decoders import Decoder, Encoder, register_decoder, unregister_decoder
from mirror_sdk.values.text_input import parse_value
from mirror_sdk.values.value import NO_VALUE, InstanceValues, PythonValue, Value, ValueKind, plain_text, written

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
    "Decoder",
    "Encoder",
    "InstanceValues",
    "PythonValue",
    "Value",
    "ValueKind",
    "decode",
    "decode_many",
    "encode",
    "parse_value",
    "plain_text",
    "plain_type",
    "register_decoder",
    "unregister_decoder",
    "written",
]
