"""Typed input becomes the intended value or is rejected with a reason. Displayed values can be typed again."""

from contextlib import suppress
from datetime import UTC, datetime

import pandas as pd
import pytest
from client_test_data import DIMMER, EXECUTABLE, FLOAT, INTEGER, LAMP, OBJLINK, OPAQUE, STRING, TIME, statuses
from hypothesis import given
from hypothesis import strategies as st
from resource_paths import LEVEL, SWITCH, UNDECLARED
from value_strategies import VALUES, pairs_of

from mirror_sdk import InvalidValue, parse_value
from mirror_sdk.values import ValueKind, decode, encode, plain_text, written

ANALOG = "/3203/0/5650"
EIGHT = datetime(2026, 1, 5, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        *[(SWITCH, text, True) for text in ("true", "True", "on", "ON", "yes", " 1 ", "1\n")],
        *[(SWITCH, text, False) for text in ("false", "FALSE", "off", "Off", "no", "0")],
        *[(LEVEL, text, 55) for text in ("55", " 55 ", "+55", "055", "55.0", "5.5e1")],
        (INTEGER, "9007199254740993", 9007199254740993),
        *[(FLOAT, text, 0.5) for text in (".5", "0.5", "5e-1")],
        *[(TIME, f"2026-01-05{text}", EIGHT) for text in ("T08:00:00Z", " 08:00:00+00:00", "T09:00:00.000+01:00")],
        (TIME, " 1767600000 ", EIGHT),
        (OBJLINK, " 3303:0 ", "3303:0"),
        *[(OPAQUE, text, b"\x00\xff\x1a") for text in ("00 ff 1a", "00FF1A", "0x00 ff 1a", "base64:AP8a", "AP8a")],
        (OPAQUE, "base64:deadbeef", b"u\xe6\x9dm\xe7\x9f"),
        (STRING, " as it is ", " as it is "),
        (UNDECLARED, "0012", "0012"),
    ],
)
def test_typed_input_becomes_the_intended_value(path, text, value):
    read = parse_value(text, path)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        *[
            (path, text, f"; write it like {example}$")
            for path, example in ((LEVEL, "50"), (INTEGER, "40"), (FLOAT, r"21\.5"), (ANALOG, r"0\.5"))
            for text in ("", " ", "nan", "inf")
        ],
        *[(path, "5,5", "a comma is not a decimal point") for path in (LEVEL, FLOAT)],
        *[(path, text, "without a unit") for path in (LEVEL, FLOAT) for text in ("12abc", "40 %", "1_0", "1 0")],
        (LEVEL, "101", r"from 0 to 100, not 101; pass a number in this range"),
        (INTEGER, str(2**63), "at most 64 bits"),
        (FLOAT, "1e999", "a float cannot represent this number"),
        *[(SWITCH, text, "takes a boolean, .* write true or false") for text in ("", "2", "maybe", "tru", "1.0")],
        *[(TIME, text, "write it like 2026-01-05T08:00:00Z") for text in ("", "tomorrow", "2026", "20260105", "1e9")],
        *[(TIME, text, "the time has no time zone") for text in ("2026-01-05", "2026-01-05T08:00:00")],
        *[(TIME, text, "a date or the seconds since 1970") for text in ("2026010508", " 202601050830 ")],
        (TIME, "2026-01-05T08:00:00.5Z", "a device takes whole seconds; write it like"),
        *[(OBJLINK, text, "like 3303:0") for text in ("", "3303", "65536:0", "a:b")],
        *[(OPAQUE, text, "two hex digits for each byte") for text in ("", " ", "0", "zz", "base64:!")],
        (
            OPAQUE,
            "deadbeef",
            "the text is both valid hex and valid base64; write 'de ad be ef' for hex, or 'base64:deadbeef' for base64",
        ),
        (STRING, "\ud800", "UTF-8"),
        (EXECUTABLE, "1", "execute it instead"),
    ],
)
def test_an_invalid_value_is_rejected_with_resource_reason_and_example(path, text, message):
    with pytest.raises(InvalidValue, match=message) as caught:
        parse_value(text, path)
    assert str(caught.value).startswith(path)
    assert len(str(caught.value)) < 300


@given(pairs_of(VALUES))
def test_the_displayed_form_of_a_value_can_be_typed_again(pair):
    path, value = pair
    had = decode(*encode(value, path), path)
    assert parse_value(written(had.python), path) == value
    if had.kind is not ValueKind.OPAQUE:
        # A displayed text has escapes for control characters.
        assert parse_value(plain_text(had), path) == value


@given(st.text(), st.sampled_from([*VALUES, EXECUTABLE]))
def test_every_text_is_a_value_or_rejected(text, path):
    with suppress(InvalidValue):
        encode(parse_value(text, path), path, allow_read_only=True)


@pytest.mark.parametrize(("path", "value"), [(SWITCH, "false"), (LEVEL, "55"), (FLOAT, "5,5"), (OBJLINK, "3303")])
def test_a_text_instead_of_a_value_is_rejected_with_the_parser(path, value):
    with pytest.raises(InvalidValue, match=r"pass text=\.\.\. .*mirror_sdk\.parse_value\(text, path\)") as caught:
        encode(value, path)
    assert "bool(" not in str(caught.value)
    assert "round" not in str(caught.value)


@pytest.fixture
def light(client, simulator):
    return simulator.add_device("light", [LAMP, DIMMER, {"path": STRING, "value": "", "writable": True}])


def test_a_value_or_a_typed_one_is_written_and_never_both(client, light):
    for arguments in ({}, {"value": 40, "text": "40"}, {"value": None}, {"value": 40, "text": ""}):
        for write in (client.write_value, client.requests.begin_write):
            with pytest.raises(InvalidValue, match=r"value= (and|nor) text= .*pass one of the two"):
                write(light, LEVEL, **arguments)
    with pytest.raises(InvalidValue, match="decimal point"):
        client.write_value(light, LEVEL, text="5,5")
    assert client.get_device(light)[LEVEL].desired is None
    for path, text, value in ((SWITCH, "on", True), (SWITCH, "off", False), (LEVEL, " 55 ", 55), (STRING, "", "")):
        client.write_value(light, path, text=text)
        assert client.read_value(light, path) == value
    request = client.requests.begin_write(light, LEVEL, text="55", content_type="application/json")
    assert (request.requested_value.python, request.requested_value.content_type) == (55, "application/json")


def test_texts_in_a_plan_are_parsed_as_typed_input_or_rejected_in_their_row(client, light):
    def plan(*rows):
        return client.plan(pd.DataFrame([(light, *row) for row in rows], columns=["device", "path", "text"]))

    assert statuses(plan((SWITCH, "true"), (LEVEL, " 55 "), (STRING, None)).apply()) == ["success"] * 2
    assert client.read_value(light, SWITCH) is True
    assert client.read_value(light, LEVEL) == 55
    frame = plan((LEVEL, "5,5"), (LEVEL, "101"), (SWITCH, "maybe"), ("no path", "x")).frame
    assert frame["decision"].tolist() == ["refuse"] * 4
    assert frame["check"].tolist() == ["wrong_type", "out_of_range", "wrong_type", "unknown_resource"]
    assert "decimal point" in frame["reason"][0]
    assert "parse_value" in client.plan([(light, SWITCH, "false")]).frame["reason"][0]
    table = pd.DataFrame({"device_id": light, "path": [LEVEL], "value": [1], "text": ["1"]})
    with pytest.raises(InvalidValue, match="both a column value and a column text"):
        client.plan(table)


def test_json_lists_and_other_keys_are_rejected_for_a_multiple_resource_with_the_valid_form():
    for text in ("[1, 2]", ' {"0": 1}', "[]"):
        with pytest.raises(InvalidValue, match=r"instance, not .*; pass a dict .* such as \{0: 3800, 1: 5000\}"):
            parse_value(text, "/3/0/7")
        with pytest.raises(InvalidValue, match="for each instance"):
            encode(text, "/3/0/7", allow_read_only=True)
    with pytest.raises(InvalidValue, match=r"for each instance, not \[1, 2\]; pass a dict"):
        encode([1, 2], "/3/0/7", allow_read_only=True)
    with pytest.raises(InvalidValue, match=r"such as \{0: 3800, 1: 5000\}, not \{'0': 1\}"):
        encode({"0": 1}, "/3/0/7", allow_read_only=True)
    # A resource with one instance accepts one value.
    with pytest.raises(InvalidValue, match=r"write it like 50$"):
        parse_value("[1]", "/3311/0/5851")
