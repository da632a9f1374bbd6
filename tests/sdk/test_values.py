import math
import re
import time
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from client_test_data import BOOLEAN, EXECUTABLE, FLOAT, INTEGER, OBJLINK, OPAQUE, STRING, TIME, UNSIGNED
from hypothesis import given
from hypothesis import strategies as st
from resource_paths import LEVEL, UNDECLARED

from mirror_sdk.errors import InvalidValue
from mirror_sdk.values import Value, ValueKind, decode, encode

PATHS = [FLOAT, INTEGER, UNSIGNED, BOOLEAN, STRING, TIME, OBJLINK, OPAQUE, EXECUTABLE, LEVEL, UNDECLARED, "no path"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_written_without_an_exponent(value):
    payload, _ = encode(value, FLOAT)
    assert set(payload) <= set(b"-.0123456789")


@given(
    st.none() | st.binary(),
    st.none() | st.text() | st.sampled_from(["text/plain", "text/plain;charset=utf-8", "application/octet-stream"]),
    st.sampled_from(PATHS) | st.text(),
)
def test_decode_never_raises_and_never_loses_the_payload(raw, content_type, path):
    value = decode(raw, content_type, path)
    assert (value.raw, value.content_type) == (raw, content_type)
    assert (value.kind is ValueKind.NONE) == (raw is None) == (value.python is None)
    assert isinstance(str(value), str)


@pytest.mark.parametrize(
    ("raw", "path", "kind", "python"),
    [
        (b"21.5", FLOAT, ValueKind.NUMBER, 21.5),
        (b"-1.5E2", FLOAT, ValueKind.NUMBER, -150.0),
        *((text, FLOAT, ValueKind.NUMBER, 0.0) for text in (b"0", b"0.00", b"+0e5", b"0.0E-9")),
        (b"2.050000e+01", FLOAT, ValueKind.NUMBER, 20.5),
        *((text, INTEGER, ValueKind.NUMBER, 13) for text in (b"13.0", b"1.300000e+01", b"+013", b"130e-1")),
        (b"9223372036854775807.0", INTEGER, ValueKind.NUMBER, 2**63 - 1),
        (b"1.8446744073709551615e19", UNSIGNED, ValueKind.NUMBER, 2**64 - 1),
        (b"1700000000.0", TIME, ValueKind.TIME, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (b"101", LEVEL, ValueKind.NUMBER, 101),
        (b"0", BOOLEAN, ValueKind.BOOLEAN, False),
        (b"000012300007", UNDECLARED, ValueKind.TEXT, "000012300007"),
        (b"65535:65535", OBJLINK, ValueKind.OBJLINK, "65535:65535"),
        (b"AAE=", OPAQUE, ValueKind.OPAQUE, b"\x00\x01"),
    ],
)
def test_text_is_read_as_the_declared_type(raw, path, kind, python):
    value = decode(raw, "text/plain", path)
    assert (value.kind, value.python) == (kind, python)
    assert type(value.python) is type(python)


NOT_NUMBERS = [
    *("nan", "NaN", "inf", "-inf", "Infinity", "1e999", "1e-999", "1e1000", "1" * 400, "0." + "0" * 400 + "1"),
    *("1_000", "0x10", "1,5", "1.", ".5", ".", "-", "+", "--1", "1e", "1e+", "1.5.2", "True"),
    *("", " 21", "21 ", "21\n", "1\n2", "\t21", "2 1", "21\x00", "\u0663", "\uff12\uff11", "\u00bd", "\u221221"),
]


def test_a_number_with_very_many_digits_is_handled_quickly():
    start = time.thread_time()
    assert decode(b"1" * 2**18, "text/plain", INTEGER).kind is ValueKind.OPAQUE
    assert time.thread_time() - start < 1


OTHER_TYPES = {
    INTEGER: [b"-9223372036854775809.0"],
    UNSIGNED: [b"-1", b"18446744073709551616"],
    BOOLEAN: [b"true"],
    TIME: [b"99999999999999", b"1700000000.5"],
    OBJLINK: [b"65536:0", b"3303"],
    OPAQUE: [b"AA"],
    EXECUTABLE: [b"1"],
    STRING: [b"\xff\xfe"],
    FLOAT: [],
}


@pytest.mark.parametrize("path", OTHER_TYPES)
def test_a_payload_that_does_not_match_its_type_remains_opaque(path):
    is_number = path in {FLOAT, INTEGER, UNSIGNED, TIME}
    for raw in [*OTHER_TYPES[path], *(map(str.encode, NOT_NUMBERS) if is_number else ())]:
        assert decode(raw, "text/plain", path) == Value(ValueKind.OPAQUE, raw, raw, "text/plain")


@pytest.mark.parametrize(
    "content_type",
    ["application/octet-stream", "application/vnd.oma.lwm2m+tlv", "text/plain; charset=utf-16", "text/html", "", "42"],
)
def test_other_content_types_than_that_of_a_text_with_its_parameters_are_opaque(content_type):
    assert decode(b"AAE=", None, OPAQUE).python == b"AAE="
    assert decode(b"21.5", content_type, FLOAT) == Value(ValueKind.OPAQUE, b"21.5", b"21.5", content_type)
    for text in ("text/plain;charset=utf-8", 'TEXT/PLAIN ; Charset="UTF-8"', "text/plain; q=1", None):
        assert decode(b"21.5", text, FLOAT).python == 21.5


@pytest.mark.parametrize(
    ("value", "path", "payload"),
    [
        (np.float32(1.5), FLOAT, b"1.5"),
        (np.int64(7), FLOAT, b"7"),
        (50.0, LEVEL, b"50"),
        (np.bool_(True), BOOLEAN, b"1"),
        (np.str_("Europe/Zurich"), STRING, b"Europe/Zurich"),
        (True, UNDECLARED, b"1"),
        (1e22, UNDECLARED, b"10000000000000000000000"),
        (pd.Timestamp("1970-01-01T01:00", tz="UTC"), TIME, b"3600"),
    ],
)
def test_values_are_written_as_text(value, path, payload):
    assert encode(value, path) == (payload, "text/plain")


class Word(str, Enum):  # noqa: UP042 - of a StrEnum the str() is the value, of this it is not
    ZONE = "Europe/Zurich"


class Step(IntEnum):
    HIGH = 50


class Share(float, Enum):
    HALF = 0.5


@pytest.mark.parametrize("content_type", ["text/plain", "application/cbor"])
def test_members_of_an_enum_are_written_as_the_values_they_are(content_type):
    of_declared = ((Word.ZONE, STRING), (Step.HIGH, LEVEL), (Share.HALF, FLOAT))
    for member, path in (*of_declared, (Word.ZONE, UNDECLARED), (Step.HIGH, UNDECLARED)):
        value = decode(encode(member, path, content_type)[0], content_type, path).python
        assert value == (member.value if path != UNDECLARED or content_type != "text/plain" else str(member.value))
        assert type(value) in (str, int, float)


NAIVE = datetime(2026, 11, 20, 12)
NOT_WRITABLE = {
    FLOAT: [math.nan, math.inf, True, "21.5", None, b"1", 1j, Fraction(1, 2), Decimal(1), np.longdouble(1), pd.NA],
    INTEGER: [1.5, 2**63, 1e300, math.nan, True, "1", None, np.array([1, 2]), pd.Series([1, 2])],
    UNSIGNED: [-1, 2**64],
    LEVEL: [-1, 101, 100.5, False],
    BOOLEAN: [1, 0, "1", np.int8(1)],
    STRING: [1, b"x", "\ud800", NAIVE],
    TIME: [NAIVE, NAIVE.replace(tzinfo=UTC, microsecond=1), 1700000000, pd.NaT, pd.Timestamp(1, unit="ns", tz="UTC")],
    OBJLINK: ["3303", "65536:0", 3303, "\u0663:1"],
    OPAQUE: ["AAE=", 1],
    EXECUTABLE: ["", 1],
    UNDECLARED: [math.nan, None, NAIVE, 2**65, np.datetime64("2026-01-01", "ns"), np.array(1), [1]],
}


@pytest.mark.parametrize(("path", "values"), NOT_WRITABLE.items())
def test_invalid_values_are_rejected_with_the_path(path, values):
    for value in values:
        with pytest.raises(InvalidValue, match=path):
            encode(value, path)


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        (120, LEVEL, [LEVEL, "Light Control · Dimmer, integer", "whole number from 0 to 100", "120", "in this range"]),
        (NAIVE, TIME, ["Device · Current Time", "aware datetime", "value.replace(tzinfo=UTC)"]),
        ("on", BOOLEAN, ["Light Control · On/Off", "boolean", "'on'", "True or False"]),
        ("x", EXECUTABLE, ["Device · Reboot", "execute it"]),
        (2**65, UNDECLARED, ["at most 64 bits, but this one has 66", "or a float"]),
    ],
)
def test_a_rejection_states_the_expected_type_and_the_cure(value, path, words):
    with pytest.raises(InvalidValue) as caught:
        encode(value, path)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_an_integer_too_long_to_print_is_rejected():
    with pytest.raises(InvalidValue, match="64 bits, but this one has 16610;"):
        encode(10**5000, FLOAT)


@pytest.mark.parametrize("path", ["/1/0/1", "/3/0/10"])
def test_a_float_that_may_be_a_rounded_integer_is_rejected(path):
    options = {"allow_read_only": True}
    assert encode(float(2**53 - 1), path, **options) == (b"9007199254740991", "text/plain")
    assert encode(2**53 + 1, path, **options) == (b"9007199254740993", "text/plain")
    for rounded in (float(2**53 + 1), np.float64(2**60)):
        with pytest.raises(InvalidValue, match=r"a float of 2\*\*53 or more may have been rounded"):
            encode(rounded, path, **options)
    assert decode(b"1e18", "application/json", path).python == 10**18


def test_a_write_to_a_read_only_resource_is_rejected_unless_allowed():
    with pytest.raises(InvalidValue, match=r"/3303/0/5700 \(Temperature · Sensor Value\) .*allow_read_only=True"):
        encode(21.5, "/3303/0/5700")
    assert encode(21.5, "/3303/0/5700", allow_read_only=True) == (b"21.5", "text/plain")
    with pytest.raises(InvalidValue, match="execute it"):
        encode(b"", EXECUTABLE, "application/vnd.oma.lwm2m+tlv", allow_read_only=True)


def test_bytes_are_octets_and_may_be_a_payload_already_written():
    tlv = "application/vnd.oma.lwm2m+tlv"
    for path in (UNDECLARED, OPAQUE):
        assert encode(b"\x00", path) == (b"\x00", "application/octet-stream")
    assert encode(b"\x00", FLOAT, tlv) == (b"\x00", tlv)
    assert encode(b"\x00", FLOAT, "text/html") == (b"\x00", "text/html")
    for no_typed_value in ("text/html", "application/octet-stream", "application/link-format"):
        with pytest.raises(InvalidValue, match="pass bytes, or omit content_type"):
            encode(21.5, FLOAT, no_typed_value)


@pytest.mark.parametrize(
    ("content_type", "name"),
    [("50", "application/json"), (11542, "application/vnd.oma.lwm2m+tlv"), ("json", "text/plain"), ("", "text/plain")],
)
def test_a_content_type_is_sent_unchanged_and_matched_by_its_name(content_type, name):
    assert encode(21.5, FLOAT, "TEXT/plain;charset=utf-8") == (b"21.5", "TEXT/plain;charset=utf-8")
    with pytest.raises(InvalidValue, match=f"is not a content type; write it like '{re.escape(name)}'"):
        encode(21.5, FLOAT, content_type)


@pytest.mark.parametrize(
    ("raw", "path", "text", "form"),
    [
        (None, FLOAT, "", ("none", None, None)),
        (b"21.5", FLOAT, "21.5", ("number", 21.5, None)),
        (b"1", BOOLEAN, "true", ("boolean", True, None)),
        (b"0", TIME, "1970-01-01T00:00:00.000Z", ("time", "1970-01-01T00:00:00.000Z", None)),
        (b"\xff" + bytes(8), UNDECLARED, "9 bytes ff 00 00 00 00 00 00 00", ("opaque", None, "/wAAAAAAAAAA")),
        (b"", OPAQUE, "0 bytes", ("opaque", None, "")),
    ],
)
def test_values_have_a_readable_form_and_a_json_form_that_marks_bytes(raw, path, text, form):
    content_type = "application/octet-stream" if path == UNDECLARED else "text/plain"
    value = decode(raw, content_type, path)
    assert str(value) == text
    fields = value.to_dict()
    assert (fields["kind"], fields["value"], fields["base64"]) == form
    assert type(fields["kind"]) is str
    assert (fields["content_type"], fields["problem"]) == (content_type, None)
    assert "cannot be read" in decode(b"x", None, FLOAT).to_dict()["problem"]
