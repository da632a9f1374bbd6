"""The events, requests and drift tables, and what can be asked of a table by ``frame.mirror``."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta

import matplotlib as mpl
import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal

from mirror_sdk import Event, EventKind, ValueRefused
from mirror_sdk._inbox import Expectation
from mirror_sdk.device import DeviceObject
from mirror_sdk.device_request import PlacedRequest
from mirror_sdk.frames import (
    DRIFT_SCHEMA,
    EVENTS_RAW_SCHEMA,
    EVENTS_SCHEMA,
    REQUESTS_SCHEMA,
    DriftKind,
    drift_frame,
    events_frame,
    from_arrow,
    read_parquet,
    requests_frame,
    state_frame,
    to_arrow,
)
from mirror_sdk.values import decode
from mirror_sdk.wire import device_object as wire
from mirror_sdk.wire.notifications import AsyncResponse

mpl.use("agg")

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
TEMPERATURE, SET_POINT, NAME = "/3303/0/5700", "/3308/0/5900", "/3341/0/5527"
LEVEL, SWITCH = "/3311/0/5851", "/3311/0/5850"


def at(minutes):
    return NOW + timedelta(minutes=minutes)


# Events


def observation(value, minutes=0.0, path=TEMPERATURE, device_id="d1", **more):
    decoded = decode(value.encode(), "text/plain", path)
    given = {"seq": 1, "changed_at": at(minutes), "received_at": at(minutes), **more}
    return Event(kind=EventKind.OBSERVATION, device_id=device_id, path=path, value=decoded, **given)


def test_events_are_rows_with_typed_values():
    frame = events_frame(
        [
            observation("21.5", uid="u1", seq=4),
            observation("hot", path=NAME),
            observation("1", path=SWITCH),
            Event(kind=EventKind.ASYNC_RESPONSE, received_at=NOW, async_id="a", status=429, category="REQUEST_EXPIRED"),
            Event(kind=EventKind.GAP, received_at=NOW, first_seq=5, seq=9),
            Event(kind=EventKind.DEREGISTRATION, received_at=NOW, device_id="d2"),
        ],
        server="http://x",
    )
    assert list(frame["event"]) == [
        "observation",
        "observation",
        "observation",
        "async_response",
        "gap",
        "deregistration",
    ]
    assert list(frame.mirror.value.dropna()) == [21.5, "hot", True]
    assert frame["value_kind"].tolist()[:3] == ["number", "text", "boolean"]
    gap = frame[frame["event"] == "gap"].iloc[0]
    assert (gap["first_seq"], gap["seq"]) == (5, 9)
    answer = frame[frame["event"] == "async_response"].iloc[0]
    assert (answer["async_id"], answer["status"], answer["category"]) == ("a", 429, "REQUEST_EXPIRED")
    assert frame.attrs["mirror"] == {
        "taken_at": "2026-01-05T12:00:00.000Z",
        "devices": 2,
        "complete": False,
        "server": "http://x",
    }
    assert events_frame([]).attrs["mirror"] == {"taken_at": None, "devices": 0, "complete": True, "server": ""}


def test_a_payload_that_cannot_be_read_is_opaque_and_breaks_nothing():
    broken = observation("not a number")
    frame = events_frame([broken, observation("1.5")], raw=True)
    assert frame["value_kind"].tolist() == ["opaque", "number"]
    assert frame["value_raw"].tolist() == [b"not a number", b"1.5"]


def test_events_pivot_to_a_column_for_each_device_and_resource():
    frame = events_frame([observation("1", 0), observation("2", 1), observation("3", 1, device_id="d2")])
    table = frame.mirror.wide()
    assert list(table.columns) == [("d1", TEMPERATURE), ("d2", TEMPERATURE)]
    assert table[("d1", TEMPERATURE)].tolist() == [1.0, 2.0]
    assert table.index.tolist() == [pd.Timestamp(at(0)), pd.Timestamp(at(1))]


# Requests


def request(answer=None, method="PUT", asked=None, **more):
    expectation = Expectation("a1", answer)
    given = {"device_id": "d1", "path": LEVEL, "expiry_seconds": 60, "accepted_at": NOW, "expires_at": at(1), **more}
    expectation.received_seconds = None if answer is None else 103.0
    given.setdefault("_begun_seconds", 100.0)
    return PlacedRequest(async_id="a1", method=method, issued_at=NOW, asked=asked, _expectation=expectation, **given)


def test_requests_are_a_ledger():
    finished_at = int(at(1).timestamp() * 1000)
    asked = decode(b"40", "text/plain", LEVEL)
    frame = requests_frame(
        [
            request(AsyncResponse(id="a1", status=200, timestamp=finished_at), asked=asked),
            request(AsyncResponse(id="a1", status=429, error="REQUEST_EXPIRED", timestamp=finished_at), asked=asked),
            request(asked=asked),
            request(AsyncResponse(id="a1", status=200, payload=b"7", ct="text/plain"), method="GET"),
        ]
    )
    assert frame["status"].tolist() == ["success", "failure", "pending", "success"]
    assert frame["category"].tolist()[1] == "REQUEST_EXPIRED"
    assert frame["latency"].tolist()[0] == pd.Timedelta(seconds=3)
    assert frame["latency"].isna().tolist() == [False, False, True, False]
    assert frame["asked_num"].tolist()[:3] == [40.0, 40.0, 40.0]
    assert frame["value_num"].tolist()[3] == 7.0
    assert frame["expires_at"].iloc[0] == pd.Timestamp(at(1))
    assert frame["status"].cat.ordered
    assert frame.attrs["mirror"]["complete"] is False
    assert frame.mirror.desired.tolist()[:2] == [40.0, 40.0]


@pytest.mark.parametrize("service_is_off_by", [timedelta(days=-300), timedelta(days=300), timedelta(seconds=-1)])
def test_a_latency_is_never_the_difference_of_two_clocks(service_is_off_by):
    accepted_at = NOW + service_is_off_by
    told = int((at(1) + service_is_off_by).timestamp() * 1000)
    answered = request(AsyncResponse(id="a1", status=200, timestamp=told), accepted_at=accepted_at)
    answered._expectation.received_at = NOW + timedelta(seconds=9)
    resumed = request(AsyncResponse(id="a1", status=200, timestamp=told), accepted_at=None, _begun_seconds=None)
    latency = requests_frame([answered, resumed])["latency"]
    assert latency.iloc[0] == pd.Timedelta(seconds=3)
    assert latency.isna().tolist() == [False, True]


def test_a_ledger_tells_what_it_is_based_on():
    frame = requests_frame([request(), request(device_id="d2")], server="http://x")
    about = frame.attrs["mirror"]
    assert (about["devices"], about["complete"], about["server"]) == (2, False, "http://x")
    assert pd.Timestamp(about["taken_at"]) == NOW


def test_a_ledger_shows_how_the_last_request_of_each_resource_stands():
    done = AsyncResponse(id="a1", status=200)
    frame = requests_frame([request(), request(done), request(path=SWITCH)])
    table = frame.mirror.wide()
    assert table.loc["d1", LEVEL] == "success"
    assert table.loc["d1", SWITCH] == "pending"


# Drift


def state_of(*resources, raw=False, taken_at=NOW):
    """A state table of (path, desired, status, desired at, reported, reported at)."""
    listed = []
    for path, desired, status, desired_at, reported, reported_at in resources:
        entry = {"resource_path": path, "subscribed": False, "reported": {}, "desired": {}}
        if desired is not None:
            value = base64.b64encode(desired).decode()
            entry["desired"] = {"value": value, "status": status, "desired_at": desired_at, "requested_at": at(-60)}
        if reported is not None:
            value = base64.b64encode(reported).decode()
            entry["reported"] = {"value": value, "content_type": "text/plain", "reported_at": reported_at}
        listed.append(entry)
    body = {"device_id": "d1", "created_at": NOW, "resources": listed}
    device = DeviceObject.from_wire(wire.DeviceObject.model_validate(body))
    return state_frame([device], raw=raw, taken_at=taken_at)


@pytest.mark.parametrize(
    ("resource", "kind", "since"),
    [
        ((LEVEL, b"40", 0, at(-60), None, None), "pending", at(-60)),
        ((LEVEL, b"40", 0, at(-60), b"40", at(-5)), "pending", at(-60)),
        ((LEVEL, b"40", 2, at(-30), b"10", at(-90)), "failed", at(-30)),
        ((LEVEL, b"40", 1, at(-30), b"10", at(-5)), "reverted", at(-5)),
        ((LEVEL, b"40", 1, at(-30), None, None), "never_reported", at(-30)),
        ((LEVEL, b"40", 1, at(-30), b"10", at(-90)), "unconfirmed", at(-30)),
        (("/9/0/1", b"x", 1, at(-30), b"y", at(-5)), "reverted", at(-5)),
        ((SWITCH, b"1", 1, at(-30), b"0", at(-5)), "reverted", at(-5)),
    ],
)
def test_each_kind_of_drift_is_told_with_its_begin(resource, kind, since):
    drift = drift_frame(state_of(resource), unconfirmed=True)
    assert drift["kind"].tolist() == [kind]
    assert drift["since"].iloc[0] == pd.Timestamp(since)
    assert drift["age"].iloc[0] == pd.Timestamp(NOW) - pd.Timestamp(since)


@pytest.mark.parametrize(
    "resource",
    [
        (LEVEL, None, None, None, b"10", at(-5)),
        (LEVEL, b"40", 1, at(-30), b"40", at(-5)),
        (LEVEL, b"40", 1, at(-30), b"40", at(-90)),
        (SWITCH, b"1", 1, at(-30), b"1", at(-5)),
        (LEVEL, b"40", 2, at(-30), b"40", at(-90)),
    ],
)
def test_what_agrees_or_was_never_written_does_not_drift(resource):
    assert drift_frame(state_of(resource)).empty


def test_numbers_may_differ_by_a_tolerance():
    state = state_of((SET_POINT, b"40", 1, at(-30), b"40.4", at(-5)), (TEMPERATURE, b"100", 1, at(-30), b"104", at(-5)))
    assert drift_frame(state)["path"].tolist() == [SET_POINT, TEMPERATURE]
    assert drift_frame(state, tolerance=0.5)["path"].tolist() == [TEMPERATURE]
    assert drift_frame(state, tolerance={TEMPERATURE: 4})["path"].tolist() == [SET_POINT]
    assert drift_frame(state, relative=0.05).empty
    with pytest.raises(ValueRefused, match="0 or more"):
        drift_frame(state, tolerance=-1)


def test_what_cannot_be_read_as_its_type_is_a_mismatch_with_the_number_that_was_asked_for():
    drift = drift_frame(state_of((SET_POINT, b"19", 1, at(-30), b"19,0", at(-5))), tolerance=1)
    assert drift["kind"].tolist() == [DriftKind.TYPE_MISMATCH]
    assert drift["since"].iloc[0] == pd.Timestamp(at(-5))


def test_another_type_is_a_mismatch():
    state = state_of((TEMPERATURE, b"100", 1, at(-30), b"104", at(-5)))
    state.loc[0, ["reported_num", "reported_text"]] = [pd.NA, "warm"]
    assert drift_frame(state)["kind"].tolist() == [DriftKind.TYPE_MISMATCH]


def test_a_moment_must_be_known_and_may_be_given():
    state = state_of((LEVEL, b"40", 1, at(-30), b"10", at(-5)))
    later = drift_frame(state, now=at(5))
    assert later["age"].iloc[0] == pd.Timedelta(minutes=10)
    state.attrs.clear()
    with pytest.raises(ValueRefused, match="now="):
        drift_frame(state)
    with pytest.raises(ValueRefused, match="time zone"):
        drift_frame(state, now=datetime(2026, 1, 5))
    with pytest.raises(ValueRefused, match="lacks"):
        drift_frame(pd.DataFrame({"a": [1]}))


def test_a_drift_table_is_based_on_its_state_table():
    state = state_of((LEVEL, b"40", 1, at(-30), b"10", at(-5)))
    state.attrs["mirror"]["complete"] = False
    about = drift_frame(state, now=at(5)).attrs["mirror"]
    assert about == state.attrs["mirror"] | {"taken_at": "2026-01-05T12:05:00.000Z"}
    assert about["devices"] == 1


# All tables


EMPTY = {
    "events": (events_frame([]), EVENTS_SCHEMA),
    "events with raw": (events_frame([], raw=True), EVENTS_RAW_SCHEMA),
    "requests": (requests_frame([]), REQUESTS_SCHEMA),
    "drift": (drift_frame(state_of()), DRIFT_SCHEMA),
}


@pytest.mark.parametrize(("frame", "schema"), EMPTY.values(), ids=EMPTY)
def test_an_empty_table_has_all_columns_and_types(frame, schema):
    assert frame.empty
    assert list(frame.columns) == schema.names
    full = {
        EVENTS_SCHEMA: events_frame([observation("1")]),
        EVENTS_RAW_SCHEMA: events_frame([observation("1")], raw=True),
        REQUESTS_SCHEMA: requests_frame([request()]),
        DRIFT_SCHEMA: drift_frame(state_of((LEVEL, b"40", 0, at(-60), None, None))),
    }[schema]
    for name in schema.names:
        ours, theirs = frame[name].dtype, full[name].dtype
        assert ours == theirs or isinstance(ours, pd.CategoricalDtype), name


@pytest.mark.parametrize(
    ("make", "schema"),
    [(events_frame, EVENTS_RAW_SCHEMA), (requests_frame, REQUESTS_SCHEMA), (drift_frame, DRIFT_SCHEMA)],
    ids=["events", "requests", "drift"],
)
def test_the_docstring_lists_the_columns_in_their_order_with_their_types(make, schema):
    rows = re.findall(r"^ {8}(\w+) +(\S+(?: UTC\])?)  ", make.__doc__, re.MULTILINE)
    listed = [row for row in rows if row[0] != "column"]
    assert [name for name, _ in listed] == schema.names
    words = {pa.float64(): "Float64", pa.string(): "string", pa.bool_(): "boolean", pa.int64(): "Int64"}
    for (name, dtype), field in zip(listed, schema, strict=True):
        if field.type in words:
            assert dtype == words[field.type], name
        assert (dtype == "category") == pa.types.is_dictionary(field.type), name


@pytest.mark.parametrize(
    "frame",
    [
        events_frame([observation("21.5"), observation("x", path=NAME)], raw=True),
        requests_frame([request(), request(AsyncResponse(id="a1", status=200, timestamp=1_767_600_000_000))]),
        drift_frame(state_of((LEVEL, b"40", 0, at(-60), None, None))),
        state_of((LEVEL, b"40", 0, at(-60), b"1", at(-60)), raw=True),
    ],
    ids=["events", "requests", "drift", "state"],
)
def test_a_table_survives_parquet_with_what_it_is_based_on(frame, tmp_path):
    frame.to_parquet(tmp_path / "table.parquet")
    again = read_parquet(tmp_path / "table.parquet")
    assert again.attrs == frame.attrs
    assert_frame_equal(again, frame)
    assert_frame_equal(from_arrow(to_arrow(frame)), frame)
    assert from_arrow(to_arrow(frame)).attrs == frame.attrs


@pytest.mark.parametrize("make", [events_frame, requests_frame])
def test_times_may_be_in_another_zone(make):
    rows = [observation("1")] if make is events_frame else [request()]
    column = "changed_at" if make is events_frame else "requested_at"
    frame = make(rows, tz="Europe/Berlin")
    assert str(frame[column].dt.tz) == "Europe/Berlin"
    assert frame[column].iloc[0] == pd.Timestamp(NOW)
    with pytest.raises(ValueRefused, match="Europe/Berlin"):
        make(rows, tz="Europe/Nowhere")


# The accessor


def test_labels_name_each_row():
    labels = state_of(
        (LEVEL, None, None, None, b"1", at(0)), ("/9999/0/1", None, None, None, b"1", at(0))
    ).mirror.labels
    assert labels.tolist()[1] == "/9999/0/1"
    assert labels.tolist()[0] != LEVEL


def test_the_state_table_has_its_wide_form_and_its_drift_by_the_accessor():
    state = state_of((LEVEL, b"40", 1, at(-30), b"10", at(-5)))
    assert state.mirror.wide().loc["d1", LEVEL] == 10.0
    assert state.mirror.drift()["kind"].tolist() == ["reverted"]
    assert state.mirror.value.tolist() == [10.0]
    assert state.mirror.desired.tolist() == [40.0]
    assert str(state.mirror.in_zone("Asia/Tokyo")["reported_at"].dt.tz) == "Asia/Tokyo"


@pytest.mark.parametrize("ask", ["value", "desired", "labels"])
def test_a_table_of_something_else_is_told_which_column_it_lacks(ask):
    with pytest.raises(ValueRefused, match="lacks the column"):
        getattr(pd.DataFrame({"a": [1]}).mirror, ask)


def test_a_timeline_has_a_line_for_each_resource_and_tells_its_zone(tmp_path):
    events = [observation(str(20 + minute), minute) for minute in range(5)]
    events += [observation(str(minute), minute, device_id="d2") for minute in range(5)] + [observation("x", path=NAME)]
    axes = events_frame(events, tz="Europe/Berlin").mirror.plot_timeline()
    try:
        assert [line.get_label() for line in axes.get_lines()] == [
            "d1 Temperature · Sensor Value",
            "d2 Temperature · Sensor Value",
        ]
        assert "Europe/Berlin" in axes.get_xlabel()
        assert axes.get_lines()[0].get_ydata().tolist() == [20.0, 21.0, 22.0, 23.0, 24.0]
        axes.figure.savefig(tmp_path / "timeline.png")
    finally:
        mpl.pyplot.close(axes.figure)


def test_a_file_that_is_not_there_is_no_damaged_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "none.parquet")
