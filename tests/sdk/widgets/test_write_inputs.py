"""What a value is entered with, and what becomes of what was entered."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from usual import LEVEL, SWITCH

from mirror_sdk.values import decode, encode
from mirror_sdk.widgets.models.write_inputs import InputKind, entry_of, form_of, read_entry

SET_POINT, TIME, PACKAGE = "/3308/0/5900", "/3/0/13", "/5/0/0"
LINK, DEBOUNCE, NAME, UNKNOWN = "/3/0/22", "/3200/0/5503", "/3311/0/5750", "/10250/0/1"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (SWITCH, InputKind.BOOLEAN),
        (LEVEL, InputKind.RANGE),
        (DEBOUNCE, InputKind.INTEGER),
        (SET_POINT, InputKind.FLOAT),
        (NAME, InputKind.TEXT),
        (TIME, InputKind.TIME),
        (LINK, InputKind.LINK),
        (PACKAGE, InputKind.BYTES),
        (UNKNOWN, InputKind.TEXT),
        ("no path", InputKind.TEXT),
    ],
)
def test_the_input_fits_the_declared_type(path, kind):
    assert form_of(path).kind is kind


def test_a_slider_has_the_declared_range_and_the_unit():
    form = form_of(LEVEL)
    assert (form.range, form.unit, form.initial) == ((0, 100), "%", "")
    assert form.hint == "a whole number from 0 to 100"
    assert form_of(SET_POINT, "Cel").unit == "Cel"


@pytest.mark.parametrize(
    ("path", "entry", "value"),
    [
        (LEVEL, "40", 40),
        (DEBOUNCE, " 9007199254740993 ", 9007199254740993),
        (NAME, " as it is ", " as it is "),
        (TIME, "2026-01-05T08:00:00Z", datetime(2026, 1, 5, 8, tzinfo=UTC)),
        (LINK, " 3303:0 ", "3303:0"),
        (PACKAGE, b"a file", b"a file"),
        (UNKNOWN, "000012300007", "000012300007"),
    ],
)
def test_what_is_entered_is_read(path, entry, value):
    read = read_entry(entry, path)
    assert (read, type(read)) == (value, type(value))


VALUES = {
    SWITCH: st.booleans(),
    LEVEL: st.integers(0, 100),
    DEBOUNCE: st.integers(-(2**63), 2**63 - 1),
    SET_POINT: st.floats(allow_nan=False, allow_infinity=False),
    NAME: st.text(st.characters(codec="utf-8")),
    UNKNOWN: st.text(st.characters(codec="utf-8")),
    TIME: st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)),
    PACKAGE: st.binary(min_size=1),
}


@given(st.sampled_from(list(VALUES)).flatmap(lambda path: st.tuples(st.just(path), VALUES[path])))
def test_a_value_that_a_device_has_can_be_entered_as_it_is(pair):
    path, value = pair
    had = decode(*encode(value, path), path)
    form = form_of(path)
    assert read_entry(entry_of(form, had), path) == had.python


@given(st.sampled_from(list(VALUES)), st.binary(), st.sampled_from(["text/plain", "application/octet-stream", None]))
def test_whatever_a_device_has_there_is_an_entry_of_the_right_kind(path, raw, content_type):
    form = form_of(path)
    assert type(entry_of(form, decode(raw, content_type, path))) is type(form.initial)
