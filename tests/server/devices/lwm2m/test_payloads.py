"""What devices tell in each format, as the mirror stores it."""

import cbor2
import pytest

from mirror_sdk.values import LWM2M_TLV, decode_many
from mirror_server.devices.link import Content
from mirror_server.devices.lwm2m.payloads import EVERYTHING, Told, contents

NOW = 1_700_000_000_000
TEXT, OCTETS, CBOR, SENML, SENML_CBOR, TLV, OLD_JSON = 0, 42, 60, 110, 112, 11542, 11543
DEVICE_TLV = bytes.fromhex(
    "c800144f70656e204d6f62696c6520416c6c69616e6365c80116"
    "4c69676874776569676874204d324d20436c69656e74"
    "c80209333435303030313233c303312e30860641000141010588070842000ed842011388870841007d42010384"
    "c10964c10a0f830b410000c40d5182428fc60e2b30323a3030c11055"
)
"""The Device object as the specification has it: LwM2M core 1.0, 6.4.3.1."""


def told(payload, number, path):
    return contents(payload, number, path, NOW)


def test_a_text_stays_the_very_bytes():
    assert told(b"2.050000e+01", TEXT, "/3303/0/5700") == [Told("/3303/0/5700", Content(b"2.050000e+01"))]
    assert told(b"13.0", None, "/3311/0/5851") == [Told("/3311/0/5851", Content(b"13.0"))]


def test_the_device_object_of_the_specification_in_tlv():
    found = {part.path: part.content for part in told(DEVICE_TLV, TLV, "/3/0")}
    texts = {path: content.payload.decode() for path, content in found.items() if content.content_type == "text/plain"}
    assert texts == {
        "/3/0/0": "Open Mobile Alliance",
        "/3/0/1": "Lightweight M2M Client",
        "/3/0/2": "345000123",
        "/3/0/3": "1.0",
        "/3/0/9": "100",
        "/3/0/10": "15",
        "/3/0/13": "1367491215",
        "/3/0/14": "+02:00",
        "/3/0/16": "U",
    }
    assert {path for path in found if path not in texts} == {"/3/0/6", "/3/0/7", "/3/0/8", "/3/0/11"}
    voltages = found["/3/0/7"]
    assert voltages == Content(bytes.fromhex("88070842000ed842011388"), LWM2M_TLV)
    values = decode_many(*voltages[:2], "/3/0/7")
    assert {path: value.python for path, value in values.items()} == {"/3/0/7/0": 3800, "/3/0/7/1": 5000}


@pytest.mark.parametrize(
    ("number", "payload"),
    [
        (TLV, bytes.fromhex("e41644") + b"\x41\xa4\x00\x00"),
        (SENML, b'[{"bn":"/3303/0/","n":"5700","v":20.5}]'),
        (SENML_CBOR, cbor2.dumps([{-2: "/3303/0/5700", 2: 20.5}])),
        (CBOR, cbor2.dumps(20.5)),
        (OLD_JSON, b'{"bn":"/3303/0/5700","e":[{"v":20.5}]}'),
        (1543, b'{"e":[{"v":20.5}]}'),
    ],
)
def test_a_typed_value_becomes_the_text_of_its_type(number, payload):
    assert told(payload, number, "/3303/0/5700") == [Told("/3303/0/5700", Content(b"20.5"))]


def test_send_with_history_tells_each_value_with_its_time():
    pack = b'[{"bn":"/3303/0/5700","bt":1699999990,"v":20.5},{"v":21.5,"t":5},{"bt":0,"n":"","v":22.5}]'
    assert told(pack, SENML, EVERYTHING) == [
        Told("/3303/0/5700", Content(b"22.5")),
        Told("/3303/0/5700", Content(b"20.5"), NOW - 10_000),
        Told("/3303/0/5700", Content(b"21.5"), NOW - 5_000),
    ]
