"""Payloads: from content type and object table to typed values, and back; never a guess.

Payloads in text, TLV, SenML, CBOR and JSON are typed by the table of LwM2M and IPSO objects
(:mod:`mirror_sdk.object_table`; ``register_object`` and ``load_object_definitions`` add objects of your own).
text/plain and TLV have no types: the object table has them, and undeclared values stay text or bytes. JSON, CBOR and
SenML have types of their own, which the table narrows down. A payload that cannot be read as its type becomes a value
of kind ``opaque`` with its bytes and the reason, never an error.

>>> from mirror_sdk.values import decode, encode, parse_value
>>> decode(b"21.5", "text/plain", "/3303/0/5700").python
21.5
>>> decode(b"warm", "text/plain", "/3303/0/5700").problem
"b'warm' cannot be read as the type float"

A resource may have several instances, such as the voltages of the power sources of a device. Then its value is a
mapping from the id of each resource instance to its value, and a mapping is written as all of them. Tables hold the
same as JSON text in their columns of texts, with the ``value_kind`` ``multiple``, so that a resource still is one row.

>>> decode(bytes.fromhex("88070842000ed842011388"), "application/vnd.oma.lwm2m+tlv", "/3/0/7").python
{0: 3800, 1: 5000}

:func:`~mirror_sdk.parse_value` reads text that people type, and so do ``write_value(..., text=...)``, a plan's column
``text`` and ``mirror write``: "off" and " 55 " are values. Text that is none, such as "5,5", fails with the reason.

>>> parse_value(" 55 ", "/3311/0/5851")
55
>>> parse_value("5,5", "/3311/0/5851")
Traceback (most recent call last):
mirror_sdk.errors.InvalidValue: ...

A content type of your own gets a decoder, and for writes an encoder, with :func:`~mirror_sdk.register_decoder`. Every
client, table, explanation and widget of the process then uses it; a payload that the decoder rejects stays ``opaque``.
Other processes, such as workers of Dask, have to register it themselves.

>>> import json
>>> from mirror_sdk import register_decoder, unregister_decoder
>>> EXAMPLE = "application/vnd.example+json"
>>> register_decoder(
...     EXAMPLE,
...     decode=lambda payload, path: json.loads(payload)["value"],
...     encode=lambda value, path: json.dumps({"value": value}).encode(),
... )
>>> decode(b'{"value": 21.5, "battery": 93}', EXAMPLE, "/3303/0/5700").python
21.5
>>> encode(40, "/3311/0/5851", EXAMPLE)
(b'{"value": 40}', 'application/vnd.example+json')
>>> decode(b"{}", EXAMPLE, "/3303/0/5700").problem
"the decoder of application/vnd.example+json failed: KeyError: 'value'"
>>> unregister_decoder(EXAMPLE)  # such as at the end of a test

Source: LwM2M core, data types and data formats; wire.md 1 and 2.
"""

from mirror_sdk.values.codecs import decode, decode_many, encode, plain_type
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
from mirror_sdk.values.decoders import Decoder, Encoder, register_decoder, unregister_decoder
from mirror_sdk.values.typed_input import parse_value
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
