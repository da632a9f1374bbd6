"""Inputs for values, and the conversion of what was entered."""

import pytest
from client_test_data import FLOAT, OPAQUE, OWN, TIME
from hypothesis import given
from hypothesis import strategies as st
from resource_paths import LEVEL, SWITCH
from value_strategies import VALUES, pairs_of

from mirror_sdk.object_definitions import ResourceType
from mirror_sdk.values import decode, encode
from mirror_sdk.widgets.models.write_inputs import entry_of, form_of, read_entry

LINKS, DEBOUNCE, NAME = "/3/0/22", "/3200/0/5503", "/3311/0/5750"


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        (SWITCH, ResourceType.BOOLEAN),
        (LEVEL, ResourceType.INTEGER),
        (DEBOUNCE, ResourceType.INTEGER),
        (FLOAT, ResourceType.FLOAT),
        (NAME, ResourceType.STRING),
        (TIME, ResourceType.TIME),
        (LINKS, ResourceType.OBJLINK),
        (OPAQUE, ResourceType.OPAQUE),
        (OWN, ResourceType.STRING),
        ("no path", ResourceType.STRING),
    ],
)
def test_the_input_fits_the_declared_type(path, type_):
    assert form_of(path).type is type_


def test_slider_has_the_declared_range_and_unit():
    form = form_of(LEVEL)
    assert (form.range, form.unit, form.initial) == ((0, 100), "%", "")
    assert form.hint == "a whole number from 0 to 100"
    assert form_of(FLOAT, "Cel").unit == "°C"


@given(pairs_of(VALUES))
def test_the_current_value_can_be_entered_unchanged(pair):
    path, value = pair
    had = decode(*encode(value, path, allow_read_only=True), path)
    form = form_of(path)
    read = read_entry(entry_of(form, had), path)
    assert (read, type(read)) == (had.python, type(had.python))


@given(st.sampled_from(list(VALUES)), st.binary(), st.sampled_from(["text/plain", "application/octet-stream", None]))
def test_any_value_of_a_device_has_an_entry_of_the_right_type(path, raw, content_type):
    form = form_of(path)
    assert type(entry_of(form, decode(raw, content_type, path))) is type(form.initial)
