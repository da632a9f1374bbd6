"""Payloads: decoding to typed values, and encoding, by content type and object table.

>>> from mirror_sdk.values import decode, encode, parse_value
>>> decode(b"21.5", "text/plain", "/3303/0/5700").python
21.5
>>> decode(b"warm", "text/plain", "/3303/0/5700").problem
"b'warm' cannot be read as the type float"

Supported content types are text, TLV, SenML, CBOR and JSON. The object table (:mod:`mirror_sdk.object_table`) declares
the types of LwM2M and IPSO resources; ``register_object`` and ``load_object_definitions`` add objects of your own.

The object table supplies the types for text/plain and TLV, which carry none. Without a declaration the value stays text
or bytes. JSON, CBOR and SenML carry types of their own, which the table narrows. A malformed payload never raises an
error and is never guessed: it becomes a value of kind ``opaque`` with its bytes and the reason.

Resources with several instances
--------------------------------

A resource can have several instances, such as the voltages of a device's power sources. Its value is a mapping from the
id of each resource instance to its value. To write it, pass a mapping with all instances. Tables store it as JSON text
in their text columns, with the ``value_kind`` ``multiple``, so that a resource is always one row.

>>> decode(bytes.fromhex("88070842000ed842011388"), "application/vnd.oma.lwm2m+tlv", "/3/0/7").python
{0: 3800, 1: 5000}

Text that people type
---------------------

:func:`~mirror_sdk.parse_value` converts typed text, such as "off" or " 55 ". ``write_value(..., text=...)``, the column
``text`` of a plan, and ``mirror write`` use it too. Invalid text such as "5,5" is rejected with the reason.

>>> parse_value(" 55 ", "/3311/0/5851")
55
>>> parse_value("5,5", "/3311/0/5851")
Traceback (most recent call last):
mirror_sdk.errors.InvalidValue: ...

Content types of your own
-------------------------

:func:`~mirror_sdk.register_decoder` adds a decoder for a content type, and optionally an encoder for writes. Every
client, table, explanation and widget of the process then uses it. A payload that the decoder rejects stays ``opaque``.
Registration applies to one process: other processes, such as Dask workers, register the decoder themselves.

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
>>> unregister_decoder(EXAMPLE)  # for example at the end of a test
"""

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
from mirror_sdk.values.payloads import decode, decode_many, encode, plain_type
from mirror_sdk.values.registered_decoders import Decoder, Encoder, register_decoder, unregister_decoder
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
