"""The binary and structured formats: round trips, payloads that stay bytes and why, and malicious payloads."""

import base64
import json
import math
import time
import tracemalloc
from datetime import UTC, datetime

import cbor2
import numpy as np
import pytest
from client_test_data import BOOLEAN, EXECUTABLE, FLOAT, INTEGER, OBJLINK, OPAQUE, STRING, TIME, UNSIGNED
from hypothesis import given, settings
from hypothesis import strategies as st
from resource_paths import UNDECLARED
from value_strategies import FULL_SECONDS, LINKS, VALUES, pairs_of

from mirror_sdk.errors import InvalidValue
from mirror_sdk.values import (
    CBOR,
    JSON,
    LINK_FORMAT,
    LWM2M_JSON,
    LWM2M_TLV,
    OCTET_STREAM,
    SENML_CBOR,
    SENML_JSON,
    TEXT_PLAIN,
    Value,
    ValueKind,
    decode,
    decode_many,
    encode,
)

MANY, OTHER = "/1/0/24/3", "/3308/1/5900"
ONE_O_CLOCK = datetime(1970, 1, 1, 1, tzinfo=UTC)
TYPED = [LWM2M_TLV, LWM2M_JSON, SENML_JSON, SENML_CBOR, CBOR]
EVERY = [*TYPED, JSON, TEXT_PLAIN, OCTET_STREAM, LINK_FORMAT]
PATHS = [FLOAT, INTEGER, UNSIGNED, BOOLEAN, STRING, TIME, OBJLINK, OPAQUE, EXECUTABLE, UNDECLARED, "/3/0", "/3", ""]

# A subnormal float of a TLV looks like an integer.
finite = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
declared = {path: values for path, values in VALUES.items() if path != UNDECLARED} | {FLOAT: finite, MANY: LINKS}
no_bytes = {path: values for path, values in declared.items() if path != OPAQUE}


def check_round_trip(value, path, content_type):
    raw, named = encode(value, path, content_type)
    decoded = decode(raw, named, path)
    assert (decoded.python, decoded.problem) == (value, None)
    assert type(decoded.python) is type(value)
    assert (decoded.raw, decoded.content_type) == (raw, named)
    assert content_type in (named, None)
    assert decode_many(raw, named, path) == {path: decoded}


@pytest.mark.parametrize(("content_type", "cases"), [*((one, declared) for one in (None, *TYPED)), (JSON, no_bytes)])
@settings(max_examples=60)
@given(data=st.data())
def test_encoded_values_decode_to_the_same_value_and_type(content_type, cases, data):
    path, value = data.draw(pairs_of(cases))
    check_round_trip(value, path, content_type)


undeclared_items = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False)
)


@pytest.mark.parametrize("content_type", [JSON, CBOR, SENML_JSON, SENML_CBOR, LWM2M_JSON])
@given(value=undeclared_items)
def test_formats_with_types_of_their_own_need_no_declaration(content_type, value):
    check_round_trip(value, UNDECLARED, content_type)


@pytest.mark.parametrize(
    ("length", "head"), [(0, 2), (7, 2), (8, 3), (255, 3), (256, 4), (65535, 4), (65536, 5), (2**17, 5)]
)
def test_the_length_field_of_a_tlv_is_minimal(length, head):
    raw, _ = encode(bytes(length), OPAQUE, LWM2M_TLV)
    assert len(raw) == head + length
    assert decode(raw, LWM2M_TLV, OPAQUE).python == bytes(length)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
trees = st.recursive(
    scalars | FULL_SECONDS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(-7, 9) | st.booleans(), inner),
    max_leaves=10,
)
payloads = st.binary() | st.text().map(str.encode) | trees.map(cbor2.dumps)
SENML_MEMBERS = ["bn", "bt", "bv", "bver", "n", "v", "vs", "vb", "vd", "vlo", "t", "x_"]
members = st.sampled_from([None, "", "/3/0/", "0", "6/0", "3303:0", "AA==", True, 1, 2.5, 10**400, math.inf, [], {}])
records = st.lists(st.dictionaries(st.sampled_from(SENML_MEMBERS), members), max_size=4)


def check_result(raw, content_type, path):
    value, values = decode(raw, content_type, path), decode_many(raw, content_type, path)
    for each in (value, *values.values()):
        assert (each.raw, each.content_type) == (raw, content_type)
        assert each.kind is not ValueKind.NONE
        assert isinstance(str(each), str)
        assert each.problem is None or each.kind is ValueKind.OPAQUE
        assert isinstance(each.python, bytes) == (each.kind is ValueKind.OPAQUE)


@settings(max_examples=200)
@given(raw=payloads, content_type=st.sampled_from(EVERY), path=st.sampled_from(PATHS) | st.text())
def test_no_payload_raises(raw, content_type, path):
    check_result(raw, content_type, path)


@given(records, st.sampled_from(PATHS))
def test_no_record_raises(body, path):
    check_result(json.dumps(body).encode(), SENML_JSON, path)
    check_result(json.dumps({"bn": "/3/0/", "e": body}).encode(), LWM2M_JSON, path)
    check_result(cbor2.dumps(body), SENML_CBOR, path)


MALICIOUS = [
    *((CBOR, head * 10_000 + b"\x00") for head in (b"\x81", b"\xa1", b"\xc1", b"\x9f")),
    *((CBOR, head + (2**power).to_bytes(8, "big")) for head in (b"\x9b", b"\xbb", b"\x5b") for power in (32, 63)),
    *((CBOR, bytes.fromhex(number)) for number in ("c5821b7fffffffffffffff01", "c4821a3b9aca0001", "d81c81d81d00")),
    *((SENML_CBOR, raw) for raw in (b"\x81" * 10_000 + b"\x00", b"\x9b" + (2**40).to_bytes(8, "big"))),
    *((JSON, raw) for raw in (b"[" * 100_000, b"9" * 100_000, b"1e999999999")),
    *((SENML_JSON, b'{"v":' * 100_000), (SENML_JSON, b'[{"n":"/3/0/9","v":1e400}]')),
    *((LWM2M_TLV, raw) for raw in (b"\x00\x00" * 100_000, b"\x18\x00\xff\xff\xff" * 1000)),
]


@pytest.mark.parametrize(("content_type", "raw"), MALICIOUS, ids=lambda part: repr(part[:12]))
def test_a_payload_made_to_do_harm_costs_little(content_type, raw):
    began = time.process_time()
    check_result(raw, content_type, FLOAT)
    assert time.process_time() - began < 5
    tracemalloc.start()
    value = decode(raw, content_type, FLOAT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value.kind is ValueKind.OPAQUE
    assert peak < 20_000_000


hexed = bytes.fromhex


@pytest.mark.parametrize(
    ("content_type", "raw", "path", "problem"),
    [
        (LWM2M_TLV, hexed("e4170c41ac00"), FLOAT, "continues to byte 7 of 6"),
        (LWM2M_TLV, hexed("e116da02"), BOOLEAN, "cannot be read as the type boolean"),
        (LWM2M_TLV, hexed("c10901c10902"), "/3/0", "contains /3/0/9 twice"),
        (LWM2M_TLV, hexed("860641000141 0105"), "/3/0", "decode_many"),
        (LWM2M_TLV, hexed("880709 42000ed8 43011388aa"), "/3/0/7", "/3/0/7/1: b'\\x13\\x88\\xaa' cannot be read"),
        (LWM2M_TLV, b"", "/3/0/9", "contains no value for /3/0/9"),
        (CBOR, hexed("0102"), INTEGER, "continues after its CBOR item, at byte 1"),
        (CBOR, hexed("1b8000000000000000"), INTEGER, "cannot be read as the type integer"),
        (CBOR, b"\x01", EXECUTABLE, "type none"),
        (CBOR, b"\xc0\x78\x190001-01-01T00:00:00+14:00", TIME, "type time"),
        (SENML_CBOR, hexed("81a2006c2f333330382f302f35393030036131"), FLOAT, "declares float"),
        (SENML_CBOR, hexed("81a1f501"), FLOAT, "labels"),
        (JSON, b'"21.5"', FLOAT, "type float"),
        (JSON, b"[1]", UNDECLARED, "not one number"),
        (JSON, rb'"\ud800"', STRING, "type string"),
        (SENML_JSON, rb'[{"n":"/3/0/15","vs":"\ud800"}]', STRING, "type string"),
        (JSON, b"36893488147419103232", UNDECLARED, "cannot be read"),
        (SENML_JSON, b"{}", FLOAT, "no array of records"),
        (SENML_JSON, b'[{"n":"/3308/0/5900","v":1,"vs":"1"}]', FLOAT, "2 values"),
        (SENML_JSON, b'[{"n":"/3308/0/5900","v":"21.5"}]', FLOAT, "type float"),
        (SENML_JSON, b'[{"bver":11,"n":"/3308/0/5900","v":1}]', FLOAT, "version is later than"),
        (SENML_JSON, b'[{"must_":1,"n":"/3308/0/5900","v":1}]', FLOAT, "which is unknown"),
        (SENML_JSON, b'[{"n":"/3308/0/5901","v":1}]', FLOAT, "the values of /3308/0/5901"),
        (SENML_JSON, b'[{"n":"/1/0/10","vlo":"3303"}]', OBJLINK, "type objlink"),
        (LWM2M_JSON, b"[]", FLOAT, "an object"),
        *((LINK_FORMAT, raw, "/3", "CoRE link format") for raw in (b"/3/0", b"</3/0", b"3/0>", b"</3/0>\xef\xbf\xbd")),
        ("text/html", b"21.5", FLOAT, "unknown"),
    ],
)
def test_an_unreadable_payload_has_a_reason(content_type, raw, path, problem):
    value = decode(raw, content_type, path)
    assert value.kind is ValueKind.OPAQUE
    assert content_type == LWM2M_TLV or value == Value(ValueKind.OPAQUE, raw, raw, content_type)
    assert value.problem is not None
    assert problem in value.problem


def test_a_payload_that_cannot_be_read_at_all_is_one_value_under_the_requested_path():
    for content_type in (LWM2M_TLV, SENML_JSON, CBOR, "text/html"):
        assert decode_many(b"\xff", content_type, "/3/0") == {"/3/0": decode(b"\xff", content_type, "/3/0")}
    assert decode_many(None, LWM2M_TLV, "/3/0") == {}
    # Values other than the requested one are named.
    pack = json.dumps([{"bn": "/3/0/", "n": str(number), "v": 1} for number in (9, 10, 13, 15)]).encode()
    problem = decode(pack, SENML_JSON, "/3/0").problem
    found = "/3/0/9, /3/0/10, /3/0/13 ..."
    assert problem == f"the payload contains the values of {found} instead of one for /3/0; decode_many() returns them"


def test_an_eight_byte_integer_in_tlv_is_not_read_as_a_tiny_float():
    for raw, integer in (
        ("e4170c 00000015", 21),
        ("e4170c ffffffeb", -21),
        ("e4170c 00989680", 10_000_000),
        ("e8170c08 0000000000000015", 21),
        ("e1170c 15", 21),
    ):
        value = decode(hexed(raw), LWM2M_TLV, FLOAT)
        assert value.kind is ValueKind.OPAQUE, raw
        assert f"looks like the integer {integer}" in value.problem
    for raw, number in (("e4170c 80000000", 0.0), ("e4170c 0da24260", 1e-30), ("e4170c 42c80000", 100.0)):
        assert decode(hexed(raw), LWM2M_TLV, FLOAT).python == pytest.approx(number)
    payload, _ = encode(2.0**-130, FLOAT, LWM2M_TLV)
    assert len(payload) == 4 + 8
    assert decode(payload, LWM2M_TLV, FLOAT).python == 2.0**-130


VOLTAGES = "/3/0/7"
TWO_VOLTAGES = [
    (LWM2M_TLV, bytes.fromhex("880708 42000ed8 42011388")),
    (LWM2M_TLV, bytes.fromhex("880708 42011388 42000ed8")),
    (SENML_JSON, b'[{"bn":"/3/0/7/","n":"0","v":3800},{"n":"1","v":5000}]'),
    (SENML_CBOR, cbor2.dumps([{-2: "/3/0/7/", 0: "0", 2: 3800}, {0: "1", 2: 5000}])),
    (LWM2M_JSON, b'{"bn":"/3/0/7/","e":[{"n":"0","v":3800},{"n":"1","v":5000}]}'),
    (LWM2M_JSON, b'{"e":[{"n":"0","v":3800},{"n":"1","v":5000}]}'),
]


@pytest.mark.parametrize(("content_type", "raw"), TWO_VOLTAGES)
def test_a_multiple_resource_is_a_mapping_by_instance_id(content_type, raw):
    value = decode(raw, content_type, VOLTAGES)
    assert (value.kind, value.python, value.problem) == (ValueKind.MULTIPLE, {0: 3800, 1: 5000}, None)
    assert list(value.python) == [0, 1]
    assert str(value) == '{"0": 3800, "1": 5000}'
    assert value.to_dict()["value"] == {"0": 3800, "1": 5000}
    assert hash(value) == hash(decode(raw, content_type, VOLTAGES))


@pytest.mark.parametrize(
    ("raw", "path", "values", "text"),
    [
        ("8007", VOLTAGES, {}, "{}"),
        ("830b410000", "/3/0/11", {0: 0}, '{"0": 0}'),
        ("83014100ff", "/27000/0/1", {0: b"\xff"}, '{"0": "ff"}'),
        ("88160c 440000420001 440700430002", "/3/0/22", {0: "66:1", 7: "67:2"}, None),
    ],
)
def test_a_tlv_of_a_multiple_resource(raw, path, values, text):
    value = decode(bytes.fromhex(raw), LWM2M_TLV, path)
    assert (value.kind, value.python) == (ValueKind.MULTIPLE, values)
    assert text is None or str(value) == text


def test_a_mapping_is_written_as_tlv_and_as_senml_where_nothing_is_declared():
    assert encode({1: 5000, 0: 3800}, VOLTAGES, allow_read_only=True) == (TWO_VOLTAGES[0][1], LWM2M_TLV)
    assert encode({2: b"\xff", 0: b""}, "/5/0/0", LWM2M_TLV)[0].hex() == "850040004102ff"
    payload, content_type = encode({0: 1.5, 1: "x"}, UNDECLARED)
    assert content_type == SENML_JSON
    assert decode(payload, content_type, UNDECLARED).python == {0: 1.5, 1: "x"}


@pytest.mark.parametrize(
    ("values", "path", "content_type", "message"),
    [
        ({0: "low"}, VOLTAGES, None, "/3/0/7/0 .* takes a whole number"),
        ({"0": 1}, VOLTAGES, None, "by instance ids"),
        ({65536: 1}, VOLTAGES, None, "by instance ids"),
        ({True: 1}, VOLTAGES, None, "by instance ids"),
        ({0: 1}, f"{VOLTAGES}/0", None, "has no instances"),
        ({0: 1}, "/3/0", None, "has no instances"),
        ({0: 1}, VOLTAGES, TEXT_PLAIN, "cannot contain a mapping"),
        ({0: {0: 1}}, VOLTAGES, None, "has no instances"),
    ],
)
def test_an_invalid_mapping_for_a_multiple_resource_is_rejected(values, path, content_type, message):
    with pytest.raises(InvalidValue, match=message):
        encode(values, path, content_type, allow_read_only=True)


def test_texts_and_times_of_a_multiple_resource_are_json_texts():
    pack = b'[{"bn":"/27000/0/1/","n":"0","vs":"\xc3\xbc\\"x"},{"n":"2","vb":true},{"n":"1","v":1.5}]'
    value = decode(pack, SENML_JSON, "/27000/0/1")
    assert value.python == {0: 'ü"x', 1: 1.5, 2: True}
    assert json.loads(str(value)) == {"0": 'ü"x', "1": 1.5, "2": True}


def test_bytes_meant_as_bytes_are_no_problem():
    for value in (
        decode(b"\x01", OCTET_STREAM, FLOAT),
        decode(b"\x01", None, OPAQUE),
        decode(b"AQ==", TEXT_PLAIN, OPAQUE),
    ):
        assert (value.kind, value.python, value.problem) == (ValueKind.OPAQUE, b"\x01", None)


def test_undeclared_tlv_resources_are_bytes_and_invalid_ones_do_not_affect_others():
    values = decode_many(bytes.fromhex("c1 09 64 c3 0a 000001 c1 10 55"), LWM2M_TLV, "/3/0")
    assert (values["/3/0/9"].python, values["/3/0/16"].python) == (100, "U")
    assert (values["/3/0/10"].kind, values["/3/0/10"].python) == (ValueKind.OPAQUE, b"\x00\x00\x01")
    assert "type integer" in (values["/3/0/10"].problem or "")
    values = decode_many(bytes.fromhex("c10101e4100041ac0000"), LWM2M_TLV, "/27000/5")
    assert {path: (value.kind, value.python, value.problem) for path, value in values.items()} == {
        "/27000/5/1": (ValueKind.OPAQUE, b"\x01", None),
        "/27000/5/4096": (ValueKind.OPAQUE, b"\x41\xac\x00\x00", None),
    }


SPELLINGS = {
    "0": TEXT_PLAIN,
    "42": OCTET_STREAM,
    "11542": LWM2M_TLV,
    "1542": LWM2M_TLV,
    "application/nanoservice-tlv": LWM2M_TLV,
    "application/vnd.oma.lwm2m+text": TEXT_PLAIN,
    "application/vnd.oma.lwm2m+opaq": OCTET_STREAM,
}


@pytest.mark.parametrize(("spelling", "content_type"), SPELLINGS.items())
def test_other_spellings_of_a_content_type_mean_the_same(spelling, content_type):
    raw = encode(True, BOOLEAN, content_type)[0] if content_type != OCTET_STREAM else b"</3/0>"
    read, named = decode(raw, spelling, BOOLEAN), decode(raw, content_type, BOOLEAN)
    assert (read.kind, read.python, read.problem) == (named.kind, named.python, None)


def test_the_labels_of_senml_cbor_are_those_of_the_rfc():
    of_all = {-1: 10, -2: "/", -3: 100, -4: "Cel", -5: 0.5, -6: 0, 1: "Cel", 6: 0, 7: 0, 9: "of a later version"}
    others = [{0: STRING[1:], 3: "x"}, {0: BOOLEAN[1:], 4: True}, {0: OPAQUE[1:], 8: b"x"}]
    pack = [of_all | {0: FLOAT[1:], 2: 20}, *others, {0: FLOAT[1:], 2: 19, 6: -1}, {0: OBJLINK[1:], "vlo": "3303:0"}]
    values = decode_many(cbor2.dumps(pack), SENML_CBOR, "/")
    expected = {FLOAT: 20.5, STRING: "x", BOOLEAN: True, OPAQUE: b"x", OBJLINK: "3303:0"}
    assert {path: value.python for path, value in values.items()} == expected
    assert cbor2.loads(encode("x", STRING, SENML_CBOR)[0]) == [{0: STRING, 3: "x"}]


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        ([{"bn": "/3308/0/", "n": "5900", "v": 2}, {"bn": "/3308/1/", "n": "5900", "v": 3}], "", {FLOAT: 2, OTHER: 3}),
        ([{"bn": FLOAT}, {"v": 20}], "", {FLOAT: 20.0}),
        ([{"bn": FLOAT, "bv": 0.5, "v": 20}], "", {FLOAT: 20.5}),
        ([{"bn": FLOAT, "bt": 100, "t": 2, "v": 22}, {"t": 1, "v": 21}], "", {FLOAT: 22.0}),
        ([{"bn": FLOAT, "v": 22}, {"v": 21}], "", {FLOAT: 21.0}),
        ([{"bn": FLOAT, "v": 22}, {"t": -0.5, "v": 21}], "", {FLOAT: 22.0}),
        ([{"bn": "", "bv": 1, "n": STRING, "vs": "x"}, {"n": BOOLEAN, "vb": True}], "", {STRING: "x", BOOLEAN: True}),
        ([{"n": INTEGER, "v": 20.0}, {"n": TIME, "v": 3600}], "", {INTEGER: 20, TIME: ONE_O_CLOCK}),
        ([{"n": OPAQUE, "vd": "-_8"}, {"n": MANY, "vlo": "3303:0"}], "", {OPAQUE: b"\xfb\xff", MANY: "3303:0"}),
        ({"e": [{"n": "9", "v": 100}]}, "/3/0", {"/3/0/9": 100}),
        ({"e": [{"n": "/3/0/9", "v": 100}]}, "/3/0", {"/3/0/9": 100}),
        ({"e": [{"v": 100}]}, "/3/0/9", {"/3/0/9": 100}),
        ({"bn": "/3/0/9", "e": [{"n": "", "v": 100}]}, "/3/0/9", {"/3/0/9": 100}),
        ({"bt": 5, "e": [{"n": "9", "v": 100}, {"n": "9", "v": 99, "t": -0.5}]}, "/3/0", {"/3/0/9": 100}),
        ({"bn": "/3/0/", "e": [{"n": "22/1", "ov": "3303:1"}]}, "/3", {"/3/0/22/1": "3303:1"}),
        ({"e": [{"sv": base64.b64encode(b"\xfb\xff").decode()}]}, OPAQUE, {OPAQUE: b"\xfb\xff"}),
    ],
)
def test_names_and_bases_of_records_of_senml_and_lwm2m_json_are_resolved(body, path, expected):
    content_type = LWM2M_JSON if isinstance(body, dict) else SENML_JSON
    values = decode_many(json.dumps(body).encode(), content_type, path or "/3308")
    assert {found: value.python for found, value in values.items()} == expected


@pytest.mark.parametrize(
    ("item", "path", "python"),
    [
        (cbor2.CBORTag(4, [-1, 215]), FLOAT, 21.5),
        (cbor2.CBORTag(4, [0, 2**53 + 1]), INTEGER, 2**53 + 1),
        (cbor2.CBORTag(1, 3600), TIME, ONE_O_CLOCK),
        (ONE_O_CLOCK, UNDECLARED, ONE_O_CLOCK),
        (b"\x01", UNDECLARED, b"\x01"),
    ],
)
def test_cbor_items_are_read(item, path, python):
    value = decode(cbor2.dumps(item), CBOR, path)
    assert (value.python, type(value.python), value.problem) == (python, type(python), None)


def test_the_longest_value_of_a_tlv_is_read_again():
    longest = bytes(2**24 - 7)
    assert decode(encode(longest, OPAQUE, LWM2M_TLV)[0], LWM2M_TLV, OPAQUE).python == longest


@pytest.mark.parametrize(
    ("value", "path", "content_type", "written"),
    [
        (21.5, FLOAT, LWM2M_TLV, "e4170c41ac0000"),
        (0.1, FLOAT, LWM2M_TLV, "e8170c083fb999999999999a"),
        ("66:1", MANY, LWM2M_TLV, "8618440300420001"),
        (ONE_O_CLOCK, TIME, CBOR, "c1190e10"),
        (np.float32(21.5), FLOAT, SENML_CBOR, "81a2006c2f333330382f302f3539303002f94d60"),
        (21.5, FLOAT, SENML_JSON, [{"n": FLOAT, "v": 21.5}]),
        (b"\xfb\xff", OPAQUE, SENML_JSON, [{"n": OPAQUE, "vd": "-_8"}]),
        ("3303:0", OBJLINK, SENML_JSON, [{"n": OBJLINK, "vlo": "3303:0"}]),
        (True, BOOLEAN, LWM2M_JSON, {"bn": BOOLEAN, "e": [{"bv": True}]}),
        ("Zürich", STRING, JSON, "Zürich"),
    ],
)
def test_values_are_written_as_the_standards_have_it(value, path, content_type, written):
    raw, _ = encode(value, path, content_type)
    if content_type == SENML_CBOR:
        assert cbor2.loads(raw) == cbor2.loads(hexed(written))
    else:
        assert (json.loads(raw) if "json" in content_type else raw.hex()) == written


@pytest.mark.parametrize("content_type", [LWM2M_TLV, LWM2M_JSON, SENML_JSON, SENML_CBOR, CBOR, JSON])
def test_every_format_rejects_values_that_the_resource_does_not_accept(content_type):
    naive = datetime(2026, 11, 20, 12)
    for value, path in ((math.nan, FLOAT), (True, INTEGER), (naive, TIME), ("\ud800", STRING), (None, UNDECLARED)):
        with pytest.raises(InvalidValue, match=path):
            encode(value, path, content_type)


def test_values_that_a_format_cannot_represent_are_rejected_with_the_cure():
    with pytest.raises(InvalidValue, match="register_object"):
        encode(21.5, UNDECLARED, LWM2M_TLV)
    with pytest.raises(InvalidValue, match="JSON cannot contain bytes"):
        encode(b"\x00", OPAQUE, JSON)
    with pytest.raises(InvalidValue, match=f"{OPAQUE}: 16777216 bytes .* limit of TLV, 16777209"):
        encode(bytes(2**24), OPAQUE, LWM2M_TLV)
    for content_type in (SENML_JSON, SENML_CBOR, LWM2M_JSON):
        with pytest.raises(InvalidValue, match="not a resource path"):
            encode("x", "/27000/0", content_type)
