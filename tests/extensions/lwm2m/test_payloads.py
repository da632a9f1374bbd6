"""Payloads of devices in each format, and the values that the mirror stores."""

import json
from datetime import UTC

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_sdk.values import CBOR as CBOR_TYPE
from mirror_sdk.values import LWM2M_TLV, SENML_JSON, ValueKind, decode, decode_many, encode
from mirror_sdk.values.content_types import CONTENT_FORMATS
from mirror_server.devices.interface import Content
from mirror_server.extensions.lwm2m.payloads import EVERYTHING, BadPayload, ReportedPayload, content_type, contents

NOW = 1_700_000_000_000
TEXT, LINKS, OCTETS, JSON, CBOR, SENML, SENML_CBOR, TLV, OLD_JSON = 0, 40, 42, 50, 60, 110, 112, 11542, 11543
TEMPERATURE, DIMMER, UNDECLARED = "/3303/0/5700", "/3311/0/5851", "/27000/0/1"

# The Device object of the specification: LwM2M core 1.0, 6.4.3.1; 1.1, 7.4.3 to 7.4.6.
DEVICE_TLV = bytes.fromhex(
    "c800144f70656e204d6f62696c6520416c6c69616e6365c801164c69676874776569676874204d324d20436c69656e74"
    "c80209333435303030313233c303312e30860641000141010588070842000ed842011388870841007d42010384"
    "c10964c10a0f830b410000c40d5182428fc60e2b30323a3030c11055"
)
DEVICE_SENML = b"""[{"bn":"/3/0/","n":"0","vs":"Open Mobile Alliance"},{"n":"1","vs":"Lightweight M2M Client"},
    {"n":"2","vs":"345000123"},{"n":"3","vs":"1.0"},{"n":"6/0","v":1},{"n":"6/1","v":5},{"n":"7/0","v":3800},
    {"n":"7/1","v":5000},{"n":"8/0","v":125},{"n":"8/1","v":900},{"n":"9","v":100},{"n":"10","v":15},{"n":"11/0","v":0},
    {"n":"13","v":1367491215},{"n":"14","vs":"+02:00"},{"n":"16","vs":"U"}]"""
_RECORDS = json.loads(DEVICE_SENML)
_LABELS = {"bn": -2, "n": 0, "v": 2, "vs": 3}
DEVICE_CBOR = cbor2.dumps([{_LABELS[name]: item for name, item in record.items()} for record in _RECORDS])
_ENTRIES = [{"sv" if name == "vs" else name: item for name, item in record.items()} for record in _RECORDS]
DEVICE_JSON = json.dumps({"bn": _ENTRIES[0].pop("bn"), "e": _ENTRIES}).encode()


def reported(payload, number, path, max_age_seconds=None):
    return contents(payload, number, path, NOW, max_age_seconds)


def test_device_object_of_the_specification_in_all_formats():
    for payload, number in (
        (DEVICE_TLV, TLV),
        (DEVICE_SENML, SENML),
        (DEVICE_CBOR, SENML_CBOR),
        (DEVICE_JSON, OLD_JSON),
    ):
        found = {path: content for path, content, _ in reported(payload, number, "/3/0")}
        texts = {
            path: content.payload.decode() for path, content in found.items() if content.content_type == "text/plain"
        }
        single = [record for record in _RECORDS if "/" not in record["n"]]
        assert texts == {f"/3/0/{record['n']}": str(record.get("vs") or record.get("v")) for record in single}
        with_instances = {path: decode_many(*found[path][:2], path) for path in found if path not in texts}
        values = {path: [value.python for value in values.values()] for path, values in with_instances.items()}
        assert values == {"/3/0/6": [1, 5], "/3/0/7": [3800, 5000], "/3/0/8": [125, 900], "/3/0/11": [0]}
        assert list(with_instances["/3/0/7"]) == ["/3/0/7/0", "/3/0/7/1"]


def test_tlv_with_two_object_instances_updates_both():
    # LwM2M core 1.0, 6.4.3.2: the access control object, which the table does not have.
    payload = bytes.fromhex("08000ec10001c101008302417f07c1037f080212c10003c101008702417f0761013601c1037f")
    found = {path: content for path, content, _ in reported(payload, TLV, "/2")}
    assert list(found) == [f"/2/{instance}/{resource}" for instance in (0, 2) for resource in (0, 1, 2, 3)]
    assert found["/2/0/0"] == Content(b"\xc1\x00\x01", LWM2M_TLV)
    assert found["/2/2/2"] == Content(bytes.fromhex("8702417f0761013601"), LWM2M_TLV)


def test_senml_history_is_returned_oldest_first():
    # LwM2M core 1.1, 7.4.4; its base time is below 2**28, and so in the future.
    pack = b"""[{"bn":"/72/","bt":25462634,"n":"1/2","v":22.4,"t":-5},{"n":"1/2","v":22.9,"t":-30},
        {"n":"1/2","v":24.1,"t":-50}]"""
    found = reported(pack, SENML, "/72")
    assert [decode(*part.content[:2], part.path).python for part in found] == [24.1, 22.9, 22.4]
    assert {(part.path, part.changed_at) for part in found} == {("/72/1/2", None)}


def test_text_payload_is_unchanged():
    assert reported(b"2.050000e+01", TEXT, TEMPERATURE) == [ReportedPayload(TEMPERATURE, Content(b"2.050000e+01"))]
    assert reported(b"13.0", None, DIMMER, 30) == [ReportedPayload(DIMMER, Content(b"13.0", max_age_seconds=30))]
    assert reported(b"\xff", TEXT, TEMPERATURE) == [ReportedPayload(TEMPERATURE, Content(b"\xff"))]
    # Without a format it is text, or the bytes that are declared.
    assert reported(b"\x00\x01", None, "/5/0/0")[0].content == Content(b"\x00\x01", "application/octet-stream")
    assert reported(b"a", None, UNDECLARED)[0].content == Content(b"a")


def test_typed_value_is_converted_to_text_of_declared_type():
    for number, payload in (
        (TLV, bytes.fromhex("e41644 41a40000")),
        (1542, bytes.fromhex("e81644 084034800000000000")),
        (SENML, b'[{"bn":"/3303/0/5700","bv":20,"v":0.5}]'),
        (SENML_CBOR, cbor2.dumps([{-2: "/3303/0/5700", 2: 20.5}])),
        (CBOR, cbor2.dumps(20.5)),
        (1543, b'{"e":[{"v":20.5}]}'),
    ):
        assert reported(payload, number, TEMPERATURE, 9) == [
            ReportedPayload(TEMPERATURE, Content(b"20.5", "text/plain", 9))
        ], number
    # An integer that is sent as a float stays an integer.
    for number, payload in (
        (SENML, b'[{"n":"/3311/0/5851","v":13.0}]'),
        (SENML_CBOR, cbor2.dumps([{0: DIMMER, 2: 13.0}])),
        (CBOR, cbor2.dumps(13.0)),
    ):
        assert reported(payload, number, DIMMER) == [ReportedPayload(DIMMER, Content(b"13"))], number


FLOAT, INTEGER, UNSIGNED, BOOLEAN = "/3308/0/5900", "/3311/0/5852", "/5/0/13", "/3311/0/5850"
STRING, TIME, OBJLINK, OPAQUE, EXECUTABLE = "/3/0/15", "/3/0/13", "/1/0/10", "/5/0/0", "/3/0/4"
declared = st.one_of(
    # A subnormal float of a TLV looks like an integer.
    st.tuples(st.just(FLOAT), st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)),
    st.tuples(st.just(INTEGER), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(UNSIGNED), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(BOOLEAN), st.booleans()),
    st.tuples(st.just(STRING), st.text()),
    st.tuples(st.just(TIME), st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0))),
    st.tuples(st.just(OBJLINK), st.builds("{}:{}".format, st.integers(0, 65535), st.integers(0, 65535))),
    st.tuples(st.just(OPAQUE), st.binary()),
)


@settings(max_examples=40)
@given(declared)
def test_value_is_stored_equally_from_every_format(case):
    path, value = case
    instance = path.rpartition("/")[0]
    numbers = {TEXT, CBOR, SENML, SENML_CBOR, TLV, OLD_JSON} | ({OCTETS} if path == OPAQUE else set())
    stored = set()
    for number in numbers:
        payload, _ = encode(value, path, CONTENT_FORMATS[number], allow_read_only=True)
        for requested in {path} | ({path, instance} if number not in {TEXT, CBOR, OCTETS} else set()):
            ((found, content, _),) = reported(payload, number, requested)
            read = decode(content.payload, content.content_type, path)
            assert (found, read.python, read.problem) == (path, value, None)
            assert type(read.python) is type(value)
            stored |= {content} if number != TEXT else set()
    assert len(stored) == 1
    assert stored.pop().content_type == ("application/octet-stream" if path == OPAQUE else "text/plain")


undeclared = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False)
)


@settings(max_examples=40)
@given(undeclared)
def test_undeclared_value_keeps_type_of_its_format(value):
    for number in (CBOR, SENML, SENML_CBOR, OLD_JSON):
        payload, _ = encode(value, UNDECLARED, CONTENT_FORMATS[number])
        ((path, content, _),) = reported(payload, number, UNDECLARED)
        read = decode(content.payload, content.content_type, path)
        assert (read.python, read.problem) == (value, None)
        assert type(read.python) is type(value)
        expected_type = CBOR_TYPE if number == CBOR else SENML_JSON
        assert content.content_type == ("text/plain" if isinstance(value, str) else expected_type)


def test_undeclared_bytes_and_undeclared_tlv_are_unchanged():
    (sent,) = reported(b'[{"n":"/27000/0/1","vd":"AAE"}]', SENML, UNDECLARED)
    assert sent.content == Content(b"\x00\x01", "application/octet-stream")
    payload = bytes.fromhex("c2010001")
    assert reported(payload, TLV, "/27000/0") == [ReportedPayload(UNDECLARED, Content(payload, LWM2M_TLV))]


def test_value_of_wrong_type_is_unchanged_and_other_values_are_converted():
    wrong, right = bytes.fromhex("e31644") + b"abc", bytes.fromhex("e415e1") + b"\x41\xa4\x00\x00"
    assert reported(wrong + right, TLV, "/3303/0") == [
        ReportedPayload(TEMPERATURE, Content(wrong, LWM2M_TLV)),
        ReportedPayload("/3303/0/5601", Content(b"20.5")),
    ]
    first, second = reported(b'[{"bn":"/3303/0/","n":"5700","vs":"warm"},{"n":"5601","v":20.5}]', SENML, "/3303/0")
    assert second == ReportedPayload("/3303/0/5601", Content(b"20.5"))
    value = decode(first.content.payload, first.content.content_type, TEMPERATURE)
    assert value.kind is ValueKind.OPAQUE
    assert "contains 'vs'" in value.problem


def test_resource_with_instances_is_one_payload():
    pack = reported(b'[{"bn":"/3/0/7/","n":"0","v":3800},{"n":"1","v":5000}]', SENML, "/3/0/7")
    assert [part.path for part in pack] == ["/3/0/7"]
    values = decode_many(*pack[0].content[:2], "/3/0/7")
    assert {path: value.python for path, value in values.items()} == {"/3/0/7/0": 3800, "/3/0/7/1": 5000}
    bare = bytes.fromhex("42000ed842011388")
    assert reported(bare, TLV, "/3/0/7") == [ReportedPayload("/3/0/7", Content(b"\x88\x07\x08" + bare, LWM2M_TLV))]
    assert reported(bare[:4], TLV, "/3/0/7/0") == [ReportedPayload("/3/0/7/0", Content(b"3800"))]
    assert reported(b'[{"n":"/3/0/7/0","v":3800}]', SENML, "/3/0/7/0") == [
        ReportedPayload("/3/0/7/0", Content(b"3800"))
    ]


def test_undecodable_payload_of_one_resource_is_unchanged():
    mixed = bytes.fromhex("c1070e41000e")
    assert reported(mixed, TLV, "/3/0/7") == [ReportedPayload("/3/0/7", Content(mixed, LWM2M_TLV))]
    for number, payload in [(TLV, b"\xc8"), (SENML, b"nonsense"), (CBOR, b"\xff"), (TLV, b""), (SENML, b"[]")]:
        assert reported(payload, number, TEMPERATURE) == [
            ReportedPayload(TEMPERATURE, Content(payload, CONTENT_FORMATS[number]))
        ]
    assert reported(b'{"a":1}', JSON, UNDECLARED) == [
        ReportedPayload(UNDECLARED, Content(b'{"a":1}', "application/json"))
    ]
    assert reported(b"</3/0>", LINKS, UNDECLARED)[0].content.content_type == "application/link-format"


def test_empty_instance_has_no_values():
    assert reported(b"", TLV, "/3303/0") == reported(b"[]", SENML, "/3303/0") == []


def test_invalid_payload_fails_with_reason():
    for payload, number, path, reason in (
        (b"21", TEXT, "/3303/0", "contains the value of one resource"),
        (b"21", CBOR, "/3303/0", "contains the value of one resource"),
        (b"\xc8", TLV, "/3303/0", "is cut off"),
        (b"\xc1\x00\x01\xc1\x00\x01", TLV, "/3303/0", "twice"),
        (b"nonsense", SENML, "/3303/0", "not JSON"),
        (
            b'[{"n":"/3303/0/5700","v":"20.5"}]',
            SENML,
            "/3303/0",
            "the value of 'v' in the record of /3303/0/5700 is not valid",
        ),
        (
            b'[{"n":"/3303/0/5700","vd":"%"}]',
            SENML,
            "/3303/0",
            "the value of 'vd' in the record of /3303/0/5700 is not valid",
        ),
        (b'[{"n":"/3303/0","v":1}]', SENML, "/3303/0", "not a resource path"),
        (
            b'[{"n":"/3303/1/5700","v":20.5}]',
            SENML,
            "/3303/0",
            "has a value of /3303/1/5700, but /3303/0 was requested",
        ),
        (b'[{"n":"/3303/0/5701","v":20.5}]', SENML, TEMPERATURE, "has a value of /3303/0/5701"),
        (b'[{"n":"/33030/0/5701","v":20.5}]', SENML, "/3303", "has a value of /33030/0/5701"),
        (b"".join(b"\x61%b\x01" % at.to_bytes(2, "big") for at in range(3001)), TLV, "/3/0/7", "the maximum is 3000"),
        (b"[" + b'{"n":"/3/0/9","v":1},' * 3000 + b'{"n":"/3/0/9","v":1}]', SENML, EVERYTHING, "the maximum is 3000"),
        (b"x", TLV, EVERYTHING, "relative to a path"),
        (b"21", 41, TEMPERATURE, "unknown content format 41; supported formats are 0, 40"),
    ):
        with pytest.raises(BadPayload, match=reason):
            reported(payload, number, path)


def test_send_returns_each_value_with_its_time():
    pack = b"""[{"bn":"/3303/0/5700","bt":1699999990,"v":20.5},{"v":21.5,"t":5.5},{"bt":0,"n":"","v":22.5},
        {"bn":"/3/0/9","t":-7,"v":50}]"""
    assert reported(pack, SENML, EVERYTHING) == [
        ReportedPayload(TEMPERATURE, Content(b"20.5"), NOW - 10_000),
        ReportedPayload("/3/0/9", Content(b"50"), NOW - 7_000),
        ReportedPayload(TEMPERATURE, Content(b"21.5"), NOW - 4_500),
        ReportedPayload(TEMPERATURE, Content(b"22.5")),
    ]

    # LwM2M JSON has times too.
    pack = b'{"bn":"/3303/0/5700","bt":1699999990,"e":[{"v":21.5,"t":-5},{"v":20.5}]}'
    assert [part.changed_at for part in reported(pack, OLD_JSON, TEMPERATURE)] == [NOW - 15_000, NOW - 10_000]


def test_invalid_time_is_replaced_by_time_of_arrival():
    for seconds in ("0", "1", "1700000001", "1e300", "-1e300", "-1700000001", "1.7e308"):
        pack = f'[{{"n":"/3303/0/5700","v":1,"t":{seconds}}}]'.encode()
        assert reported(pack, SENML, EVERYTHING)[0].changed_at is None, seconds


def test_each_content_format_has_a_content_type():
    assert {number: content_type(number, TEMPERATURE) for number in CONTENT_FORMATS} == CONTENT_FORMATS


names = ["bn", "n", "v", "vs", "vb", "vd", "vlo", "t", "bt", "bv", "s", "x"]
item_values = st.sampled_from(["/3303/0/", "5700", "/3/0/7/0", "1:2", "AAE", None, True, [], {}])
items = item_values | st.integers() | st.floats()
records = st.lists(st.dictionaries(st.sampled_from(names), items, max_size=4), max_size=4)
labels = st.sampled_from([-6, -5, -3, -2, 0, 2, 3, 4, 6, 8, "vlo"])
labeled = st.lists(st.dictionaries(labels, items | st.binary() | st.decimals(), max_size=4), max_size=4)
payloads = (
    st.binary()
    | records.map(lambda body: json.dumps(body).encode())
    | records.map(lambda body: json.dumps({"bn": "/3303/0/", "e": body}).encode())
    | labeled.map(cbor2.dumps)
    | st.sampled_from([DEVICE_TLV, DEVICE_SENML, DEVICE_CBOR, DEVICE_JSON, b'[{"n":"/3/0/0","vs":"\\ud800"}]'])
)
requested = st.sampled_from([TEMPERATURE, "/3303/0", "/3303", "/3/0", "/3/0/7/0", EXECUTABLE, UNDECLARED, EVERYTHING])


@settings(max_examples=60)
@given(payloads, st.sampled_from([None, 41, *CONTENT_FORMATS]), requested)
def test_arbitrary_payloads_decode_or_raise_bad_payload(payload, number, path):
    reasons, parts = [], []
    try:
        parts = reported(payload, number, path)
    except BadPayload as exc:
        reasons.append(str(exc))
    assert all(reason.isprintable() and len(reason) < 300 for reason in reasons)
    assert sum(len(part.content.payload) for part in parts) <= 40 * (len(payload) + 1)
    assert all(part.changed_at is None or 0 <= part.changed_at < NOW for part in parts)
