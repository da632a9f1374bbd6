"""The examples of the standards: the device object in every format, objects of several instances, SenML."""

from datetime import UTC, datetime

from mirror_sdk.values import LWM2M_JSON, LWM2M_TLV, SENML_CBOR, SENML_JSON, decode_many

# LwM2M core 1.0, 6.4.3.1 and 1.1, 7.4.3.1: the response to GET /3/0.
DEVICE_TLV = bytes.fromhex("""
    C8 00 14 4F 70 65 6E 20 4D 6F 62 69 6C 65 20 41 6C 6C 69 61 6E 63 65
    C8 01 16 4C 69 67 68 74 77 65 69 67 68 74 20 4D 32 4D 20 43 6C 69 65 6E 74
    C8 02 09 33 34 35 30 30 30 31 32 33
    C3 03 31 2E 30
    86 06 41 00 01 41 01 05
    88 07 08 42 00 0E D8 42 01 13 88
    87 08 41 00 7D 42 01 03 84
    C1 09 64
    C1 0A 0F
    83 0B 41 00 00
    C4 0D 51 82 42 8F
    C6 0E 2B 30 32 3A 30 30
    C1 10 55
""")
DEVICE = {
    "/3/0/0": "Open Mobile Alliance",
    "/3/0/1": "Lightweight M2M Client",
    "/3/0/2": "345000123",
    "/3/0/3": "1.0",
    "/3/0/6/0": 1,
    "/3/0/6/1": 5,
    "/3/0/7/0": 3800,
    "/3/0/7/1": 5000,
    "/3/0/8/0": 125,
    "/3/0/8/1": 900,
    "/3/0/9": 100,
    "/3/0/10": 15,
    "/3/0/11/0": 0,
    "/3/0/13": datetime(2013, 5, 2, 10, 40, 15, tzinfo=UTC),
    "/3/0/14": "+02:00",
    "/3/0/16": "U",
}
# LwM2M core 1.1, SenML data formats: the same response in SenML JSON, and in SenML CBOR.
DEVICE_SENML_JSON = b"""[
    {"bn":"/3/0/","n":"0","vs":"Open Mobile Alliance"}, {"n":"1","vs":"Lightweight M2M Client"},
    {"n":"2","vs":"345000123"}, {"n":"3","vs":"1.0"}, {"n":"6/0","v":1}, {"n":"6/1","v":5}, {"n":"7/0","v":3800},
    {"n":"7/1","v":5000}, {"n":"8/0","v":125}, {"n":"8/1","v":900}, {"n":"9","v":100}, {"n":"10","v":15},
    {"n":"11/0","v":0}, {"n":"13","v":1367491215}, {"n":"14","vs":"+02:00"}, {"n":"16","vs":"U"}
]"""
DEVICE_SENML_CBOR = bytes.fromhex("""
    90 a3 21 65 2f 33 2f 30 2f 00 61 30 03 74 4f 70 65 6e 20 4d 6f 62 69 6c 65 20 41 6c 6c 69 61 6e 63 65
    a2 00 61 31 03 76 4c 69 67 68 74 77 65 69 67 68 74 20 4d 32 4d 20 43 6c 69 65 6e 74
    a2 00 61 32 03 69 33 34 35 30 30 30 31 32 33 a2 00 61 33 03 63 31 2e 30
    a2 00 63 36 2f 30 02 01 a2 00 63 36 2f 31 02 05 a2 00 63 37 2f 30 02 19 0e d8 a2 00 63 37 2f 31 02 19 13 88
    a2 00 63 38 2f 30 02 18 7d a2 00 63 38 2f 31 02 19 03 84 a2 00 61 39 02 18 64 a2 00 62 31 30 02 0f
    a2 00 64 31 31 2f 30 02 00 a2 00 62 31 33 02 1a 51 82 42 8f a2 00 62 31 34 03 66 2b 30 32 3a 30 30
    a2 00 62 31 36 03 61 55
""")
# LwM2M core 1.0, JSON data format: the same response in LwM2M JSON.
DEVICE_JSON = b"""{"bn":"/3/0/","e":[
    {"n":"0","sv":"Open Mobile Alliance"}, {"n":"1","sv":"Lightweight M2M Client"}, {"n":"2","sv":"345000123"},
    {"n":"3","sv":"1.0"}, {"n":"6/0","v":1}, {"n":"6/1","v":5}, {"n":"7/0","v":3800}, {"n":"7/1","v":5000},
    {"n":"8/0","v":125}, {"n":"8/1","v":900}, {"n":"9","v":100}, {"n":"10","v":15}, {"n":"11/0","v":0},
    {"n":"13","v":1367491215}, {"n":"14","sv":"+02:00"}, {"n":"16","sv":"U"}
]}"""


def read(payload, content_type, path):
    values = decode_many(payload, content_type, path)
    assert [value.problem for value in values.values() if value.problem] == []
    return {found: value.python for found, value in values.items()}


def test_device_object_in_tlv():
    assert len(DEVICE_TLV) == 121
    assert read(DEVICE_TLV, LWM2M_TLV, "/3/0") == DEVICE
    # LwM2M core 1.0, 6.4.3.2 A: the response to GET /3.
    assert read(bytes.fromhex("08 00 79") + DEVICE_TLV, LWM2M_TLV, "/3") == DEVICE


def test_the_device_object_in_the_other_formats():
    assert read(DEVICE_SENML_JSON, SENML_JSON, "/3/0") == DEVICE
    assert read(DEVICE_SENML_CBOR, SENML_CBOR, "/3/0") == DEVICE
    assert read(DEVICE_JSON, LWM2M_JSON, "/3/0") == DEVICE


def test_undeclared_object_of_two_instances():
    # LwM2M core 1.0, 6.4.3.2 B: the response to GET /2.
    access_control = bytes.fromhex("""
        08 00 0E C1 00 01 C1 01 00 83 02 41 7F 07 C1 03 7F
        08 02 12 C1 00 03 C1 01 00 87 02 41 7F 07 61 01 36 01 C1 03 7F
    """)
    assert read(access_control, LWM2M_TLV, "/2") == {
        "/2/0/0": b"\x01",
        "/2/0/1": b"\x00",
        "/2/0/2/127": b"\x07",
        "/2/0/3": b"\x7f",
        "/2/2/0": b"\x03",
        "/2/2/1": b"\x00",
        "/2/2/2/127": b"\x07",
        "/2/2/2/310": b"\x01",
        "/2/2/3": b"\x7f",
    }
