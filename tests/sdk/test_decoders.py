"""Decoders of content types that programs register, in all places that display values."""

import base64
import json
import re
import reprlib
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from changed_responses import Between, response_with, without_arrow
from client_test_data import DIMMER, URL
from resource_paths import LEVEL, TEMPERATURE

from mirror_sdk import InvalidValue, MirrorClient, register_decoder, unregister_decoder
from mirror_sdk.arrow_tables.payload_columns import read_payloads
from mirror_sdk.values import TEXT_PLAIN, ValueKind, decode, decode_many, encode
from mirror_sdk.widgets.models.explorer_model import ExplorerModel

EXAMPLE = "application/vnd.example+json"
NOT_DECLARED = "/33000/0/1"
INSTANT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


class Text(StrEnum):
    WARM = "warm"


class Number(IntEnum):
    ONE = 1


class Fraction(float):
    pass


class Silent(Exception):
    def __str__(self):
        raise ValueError

    __repr__ = __str__


class Unfinished(dict):
    def items(self):
        raise OSError("no more items")


def read(payload, path):
    return json.loads(payload)["value"]


def write(value, path):
    return json.dumps({"value": value}).encode()


@pytest.fixture(autouse=True)
def example():
    register_decoder(EXAMPLE, read, write)
    yield
    unregister_decoder(EXAMPLE)


def from_vendor(request, answer):
    """Change the responses as if the devices reported in a vendor's JSON format."""
    answer = without_arrow(request, answer)
    if not (content := answer.content):
        return answer
    for text in (b"21.5", b"10"):
        vendor = b'{"value": %s}' % text
        content = content.replace(base64.b64encode(text), base64.b64encode(vendor))
    return response_with(answer, content.replace(b'"text/plain"', b'"%s"' % EXAMPLE.encode()))


@pytest.mark.parametrize("content_type", [EXAMPLE, "Application/Vnd.Example+JSON", f"{EXAMPLE}; v=2; charset=UTF-8"])
def test_registered_decoder_reads_its_content_type_in_any_case_and_with_parameters(content_type):
    value = decode(b'{"value": 21}', content_type, TEMPERATURE)
    assert (value.python, type(value.python), value.kind) == (21.0, float, ValueKind.NUMBER)
    assert (value.raw, value.content_type, value.problem) == (b'{"value": 21}', content_type, None)


@pytest.mark.parametrize(
    ("returned", "path", "kind", "python"),
    [
        (True, "/3311/0/5850", ValueKind.BOOLEAN, True),
        (1_700_000_000, "/3/0/13", ValueKind.TIME, INSTANT),
        (np.float32(0.5), NOT_DECLARED, ValueKind.NUMBER, 0.5),
        (b"\x01", NOT_DECLARED, ValueKind.OPAQUE, b"\x01"),
        ({1: 5000, 0: 3800}, "/3/0/7", ValueKind.MULTIPLE, {0: 3800, 1: 5000}),
        *[
            (returned, path, kind, python)
            for returned, declared, kind, python in (
                (Text.WARM, "/3/0/0", ValueKind.TEXT, "warm"),
                (Number.ONE, "/3/0/9", ValueKind.NUMBER, 1),
                (Fraction(0.5), TEMPERATURE, ValueKind.NUMBER, 0.5),
                (pd.Timestamp(INSTANT) + pd.Timedelta(1, "ns"), "/3/0/13", ValueKind.TIME, INSTANT),
            )
            for path in (declared, NOT_DECLARED)
        ],
    ],
)
def test_returned_value_is_narrowed_down_by_the_object_definition(returned, path, kind, python):
    register_decoder(EXAMPLE, lambda *_: returned)
    value = decode(b"?", EXAMPLE, path)
    assert (value.kind, value.python, value.problem) == (kind, python, None)
    assert type(value.python) is type(python)


def test_dict_for_an_object_instance_holds_the_values_of_its_resources():
    register_decoder(EXAMPLE, lambda payload, path: {5700: 21, 5701: "Cel"})
    assert {path: value.python for path, value in decode_many(b"?", EXAMPLE, "/3303/0").items()} == {
        TEMPERATURE: 21.0,
        "/3303/0/5701": "Cel",
    }


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (KeyError("value"), r"the decoder of application/vnd\.example\+json failed: KeyError: 'value'"),
        (RecursionError(), "failed: RecursionError$"),
        (Silent(), "failed: Silent$"),
        (Unfinished(), "failed: OSError: no more items"),
        (None, "returned None, which is not a value"),
        (["21.5"], "which is not a value"),
        ("warm", "json returned 'warm', which cannot be read as the type float"),
        (float("nan"), "json returned nan, which cannot be read as the type float"),
        ({"0": 21.5}, "keys are not ids"),
        ({True: 21.5}, "keys are not ids"),
        ({65536: 21.5}, "keys are not ids"),
    ],
)
def test_bad_payload_stays_bytes_with_the_reason(returned, problem):
    def fail(payload, path):
        if isinstance(returned, Exception):
            raise returned
        return returned

    register_decoder(EXAMPLE, fail)
    value = decode(b"\xff", EXAMPLE, TEMPERATURE)
    assert (value.kind, value.python, value.raw) == (ValueKind.OPAQUE, b"\xff", b"\xff")
    assert re.search(problem, value.problem)


@pytest.mark.parametrize("returned", [float("nan"), float("inf"), 10**400, datetime(2026, 1, 2)])
def test_unusable_value_at_an_undeclared_path_is_blamed_on_the_decoder(returned):
    register_decoder(EXAMPLE, lambda *_: returned)
    problem = decode(b"abc", EXAMPLE, NOT_DECLARED).problem
    assert problem.startswith(
        f"the decoder of {EXAMPLE} returned {reprlib.repr(returned)}, which is not a value; return a"
    )


def test_encoder_writes_a_checked_value_and_bytes_go_as_they_are():
    assert encode(40, LEVEL, EXAMPLE) == (b'{"value": 40}', EXAMPLE)
    assert encode(b"{}", LEVEL, EXAMPLE) == (b"{}", EXAMPLE)
    with pytest.raises(InvalidValue, match="from 0 to 100, not 101"):
        encode(101, LEVEL, EXAMPLE)
    register_decoder(EXAMPLE, read)
    with pytest.raises(InvalidValue, match="bytes with this content type"):
        encode(40, LEVEL, EXAMPLE)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda *_: 1 / 0, "failed for 40: ZeroDivisionError: division by zero"),
        (lambda *_: "40", "has to return bytes"),
        (lambda *_: Silent(), "returned <Silent instance at .*>; it has to return bytes"),
        (Mock(side_effect=Silent), "failed for 40: Silent$"),
    ],
)
def test_failing_encoder_rejects_the_value(write, said):
    register_decoder(EXAMPLE, read, write)
    with pytest.raises(InvalidValue, match=said):
        encode(40, LEVEL, EXAMPLE)


@pytest.mark.parametrize("content_type", [TEXT_PLAIN, "Application/JSON", "application/vnd.oma.lwm2m+text"])
def test_content_type_of_the_sdk_keeps_its_meaning(content_type):
    with pytest.raises(ValueError, match=r"is read by mirror_sdk itself .*register a content type of your own"):
        register_decoder(content_type, read)


def test_malformed_registration_is_rejected_with_the_cure():
    for content_type in ("example", "11542", f"{EXAMPLE}; v=2", "", None):
        with pytest.raises(ValueError, match="write it like application/vnd"):
            register_decoder(content_type, read)
    for functions in ((None,), (read, b"")):
        with pytest.raises(TypeError, match=r"cannot be called; pass a function"):
            register_decoder(EXAMPLE, *functions)
    for functions in ((lambda payload: payload,), (read, lambda value, path, unit: value)):
        with pytest.raises(TypeError, match=r"does not take two arguments; pass a function of the (payload|value) and"):
            register_decoder(EXAMPLE, *functions)


def test_last_registration_counts_until_it_is_removed():
    register_decoder("application/vnd.example.other", lambda *_: 1)
    register_decoder("Application/vnd.example.other", lambda *_: 2)
    assert decode(b"", "application/vnd.example.other", NOT_DECLARED).python == 2
    unregister_decoder("application/vnd.example.Other")
    assert decode(b"", "application/vnd.example.other", NOT_DECLARED).problem == "the content type is unknown"
    with pytest.raises(ValueError, match=r"has no registered decoder; register_decoder\(\) adds one"):
        unregister_decoder("application/vnd.example.other")
    assert decode(b'{"value": 1}', EXAMPLE, NOT_DECLARED).python == 1


def test_typed_columns_have_the_values_and_one_bad_payload_breaks_nothing():
    raw = pa.array([b'{"value": 21.5}', b"{}", b"22.5", b'{"value": true}'])
    types = pa.array([EXAMPLE, EXAMPLE, TEXT_PLAIN, EXAMPLE]).dictionary_encode()
    paths = pa.array([TEMPERATURE, TEMPERATURE, TEMPERATURE, "/3311/0/5850"]).dictionary_encode()
    columns = read_payloads(raw, types, paths)
    assert columns.num.to_pylist() == [21.5, None, 22.5, None]
    assert columns.bool.to_pylist() == [None, None, None, True]
    kinds = [list(ValueKind)[code] for code in columns.kind.to_pylist()]
    assert kinds == [ValueKind.NUMBER, ValueKind.OPAQUE, ValueKind.NUMBER, ValueKind.BOOLEAN]


def test_client_reads_explains_and_shows_values_of_the_decoder(client_over, device_id):
    client = client_over(from_vendor)
    assert client.read_value(device_id, TEMPERATURE) == 21.5
    assert client.get_device(device_id)[TEMPERATURE].reported.value.content_type == EXAMPLE
    for table in (client.fleet.snapshot(paths=[TEMPERATURE]), client.state_frame(paths=[TEMPERATURE])):
        assert table["reported_num"].tolist() == [21.5]
    assert "The last reported value is 21.5, received" in str(client.devices.explain(device_id, TEMPERATURE))


def test_widgets_show_values_of_the_decoder(mirror, plain, device_id):
    plain.read_value(device_id, TEMPERATURE)
    with MirrorClient(URL, mirror.new_key(), transport=Between(mirror, from_vendor)) as client:
        model = ExplorerModel(client)
        model.choose(device_id)
        (row,) = [one for one in model.rows if one["key"] == TEMPERATURE]
        assert row["value"] == "21.5"


def test_write_sends_the_encoded_value(client, simulator):
    light = simulator.add_device("light", [DIMMER])
    request = client.requests.begin_write(light, LEVEL, 40, content_type=EXAMPLE)
    assert (request.requested_value.raw, request.requested_value.python, request.requested_value.content_type) == (
        b'{"value": 40}',
        40,
        EXAMPLE,
    )
    desired = client.get_device(light)[LEVEL].desired.value
    assert (desired.raw, desired.python) == (b'{"value": 40}', 40)
