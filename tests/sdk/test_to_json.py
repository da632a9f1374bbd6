"""JSON output for users: it always succeeds, is strict JSON, and works unchanged with any web framework."""

import base64
import enum
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import flask
import numpy as np
import pytest
from client_test_data import DIMMER
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from hypothesis import given
from hypothesis import strategies as st
from resource_paths import LEVEL

from mirror_sdk import Explanation
from mirror_sdk.errors import ConnectionFailed
from mirror_sdk.recording.audit import Audit, RecordingGap
from mirror_sdk.values import decode
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.log_entries import Unreadable
from mirror_sdk.wire.model import JsonForm, plain

AT = datetime(2026, 11, 20, 12, 37, 55, 576123, tzinfo=UTC)
FLASK = flask.Flask(__name__)


def reject(constant):
    raise AssertionError(f"{constant} is not JSON")


def check(value):
    """Check that the JSON is strict, and the same by ``to_json()``, ``to_dict()`` and other encoders."""
    body = value.to_dict()
    text = value.to_json()
    assert json.loads(text, parse_constant=reject) == body
    assert json.loads(text.encode("utf-8")) == body
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert jsonable_encoder(body) == body
    assert json.loads(JSONResponse(body).body) == body
    assert json.loads(FLASK.json.dumps(body)) == body
    return body


instants = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))]))
texts = st.text(st.characters(), max_size=20)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(min_value=2**63 - 2, max_value=2**70), st.floats(), texts
)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
odd_types = st.sampled_from([None, "", "application/x-nobody", "\ud800", "11542"])
applications = ("json", "cbor", "octet-stream", "senml+json", "senml+cbor", "vnd.oma.lwm2m+tlv")
content_types = odd_types | st.sampled_from(["text/plain", *(f"application/{one}" for one in applications)])
paths = st.sampled_from(["/3303/0/5700", "/3311/0/5850", "/3311/0/5851", "/3/0/13", "/9999/0/1", "/3/0/0"])
odd_payloads = [b"NaN", b"-inf", b"1e999", b"9" * 5000, b'{"v":NaN}', b"\xf9\x7e\x00", b"\xfb\x7f\xf0" + bytes(6)]
json_payloads = trees.map(lambda tree: json.dumps(tree).encode())
payloads = st.one_of(st.binary(max_size=40), json_payloads, st.sampled_from(odd_payloads))
values = st.builds(decode, payloads, content_types, paths)


@given(trees | values | instants | st.binary() | st.timedeltas())
def test_anything_becomes_json(value):
    class Holder(JsonForm):
        def to_dict(self):
            return {"value": plain(value)}

    check(Holder())


@given(values)
def test_a_value_becomes_json(value):
    body = check(value)
    assert list(body) == ["kind", "value", "base64", "content_type", "problem"]
    if isinstance(value.python, bytes):
        assert (body["value"], base64.b64decode(body["base64"])) == (None, value.python)


def test_reports_become_json():
    text = "a\ud800b"
    gap = RecordingGap(first_seq=None, last_seq=2, reason=text)
    counts = {"after_seq": 0, "last_seq": 1, "events": 0, "duplicates": 0, "finalized_events": 0}
    times = {"from_at": AT, "until_at": None, "finalized_until_at": None}
    audit = Audit(complete=False, gaps=(gap,), **counts, **times)
    assert check(audit)["gaps"] == [check(gap)]
    assert check(Explanation(text, (text,), ()))["refresh"] == []
    check(Unreadable(text, {text: math.nan}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (2**64, "0x10000000000000000"),
        (-(2**63) - 1, "-0x8000000000000001"),
        pytest.param(10**5000, hex(10**5000), id="5000 digits"),
        ("a\ud800b", "a\\ud800b"),
        (b"\x00\xff", "AP8="),
        (datetime(2026, 1, 5, 9, 0, tzinfo=timezone(timedelta(hours=1))), "2026-01-05T08:00:00.000Z"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "0001-01-01T00:00:00.000+01:00"),
        (timedelta(milliseconds=1500), 1.5),
        (DesiredStatus.SUCCESS, "success"),
        (enum.Enum("Odd", {"A": b"\x00"}).A, "AA=="),
        ({1: {2.5: None}}, {"1": {"2.5": None}}),
        ({math.nan: 1}, {"NaN": 1}),
        ((1, frozenset({2})), [1, [2]]),
        (np.float32(0.5), 0.5),
        (np.int64(5), 5),
        (Fraction(1, 2), 0.5),
        (Decimal("1.5"), "1.5"),
        (ConnectionFailed("no answer"), "no answer"),
    ],
)
def test_values_without_a_json_form_have_a_documented_one(value, expected):
    assert plain(value) == expected


def test_results_of_a_client_become_json(client, simulator):
    light = simulator.add_device("light-01", [DIMMER], endpoint_type="Light")
    client.read_value("light-01", LEVEL)
    request = client.requests.begin_write("light-01", LEVEL, 40)
    check(request)
    request.result()
    body = check(request)
    assert (body["device_id"], body["requested_value"]["value"], body["response"]["status"]) == (light, 40, 200)
    resource = check(client.get_device("light-01"))["resources"][LEVEL]
    reported, desired = resource["reported"], resource["desired"]
    assert (reported["value"], reported["kind"], resource["label"]) == (10, "number", "Light Control · Dimmer")
    assert (desired["value"], desired["status"]) == (40, "success")
    assert check(client.devices.list())["devices"] == [check(client.devices.get("light-01"))]
    assert check(client.devices.explain("light-01", LEVEL))["title"].endswith(f"({LEVEL})")
    assert check(client.notifications.status())["is_connected"] is True
    client.requests.begin_read("light-01", LEVEL)
    for found in (client.events(after=0, timeout=0), client.requests.list(), client.devices.resources("light-01")):
        for one in found:
            check(one)
    plan = client.plan([*[("light-01", LEVEL, 50)] * 2, ("nobody", LEVEL, object()), ("aaaaa", LEVEL, b"x")])
    body = check(plan)
    assert body["decisions"] == {"write": 1, "skip": 1, "refuse": 2}
    assert [write["status"] for write in body["writes"]] == ["queued", None, None, None]
    plan.apply()
    first = check(plan)["writes"][0]
    assert (first["status"], first["wanted"]["value"], first["request"]["response"]["status"]) == ("success", 50, 200)
