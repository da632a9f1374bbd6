"""The events, requests and drift tables, and the methods of ``frame.mirror``."""

from __future__ import annotations

import inspect
import re
from datetime import datetime, timedelta

import device_objects
import pandas as pd
import pytest
from device_objects import NOW, at, observation
from pandas.testing import assert_frame_equal
from resource_paths import LEVEL, SWITCH

from mirror_sdk import Event, EventKind, InvalidValue
from mirror_sdk._protocol.accepted_request import AcceptedRequest
from mirror_sdk._protocol.response_matcher import AwaitedResponse
from mirror_sdk.device import DeviceList
from mirror_sdk.frames import (
    DEVICE_EVENTS_SCHEMA,
    DIRECTORY_SCHEMA,
    DRIFT_SCHEMA,
    EVENTS_RAW_SCHEMA,
    EVENTS_SCHEMA,
    HISTORY_RAW_SCHEMA,
    HISTORY_SCHEMA,
    REQUESTS_SCHEMA,
    STALE_SCHEMA,
    STATE_RAW_SCHEMA,
    STATE_SCHEMA,
    DriftKind,
    device_events_frame,
    directory_frame,
    drift_frame,
    events_frame,
    from_arrow,
    history_frame,
    read_parquet,
    requests_frame,
    stale_devices,
    state_frame,
    to_arrow,
)
from mirror_sdk.values import decode
from mirror_sdk.wire.device_events import DeviceEvent, DeviceEventData
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.notifications import AsyncResponse

TEMPERATURE, SET_POINT, NAME = "/3303/0/5700", "/3308/0/5900", "/3341/0/5527"
SNAPSHOT_NOW = {"taken_at": "2026-01-05T12:00:00.000Z"}


# Events


def test_events_are_rows_with_typed_values():
    frame = events_frame(
        [
            observation("21.5", uid="u1", seq=4),
            observation("hot", path=NAME),
            observation("1", path=SWITCH),
            Event(kind=EventKind.ASYNC_RESPONSE, received_at=NOW, async_id="a", status=429, category="REQUEST_EXPIRED"),
            Event(kind=EventKind.GAP, received_at=NOW, first_seq=5, seq=9, status=2**15),
            Event(kind=EventKind.DEREGISTRATION, received_at=NOW, device_id="d2"),
        ],
        server="http://x",
    )
    assert list(frame["event"]) == [*["observation"] * 3, "async_response", "gap", "deregistration"]
    assert list(frame.mirror.value.dropna()) == [21.5, "hot", True]
    assert frame["value_kind"].tolist()[:3] == ["number", "text", "boolean"]
    gap = frame[frame["event"] == "gap"].iloc[0]
    assert (gap["first_seq"], gap["seq"], gap["status"]) == (5, 9, pd.NA)
    response = frame[frame["event"] == "async_response"].iloc[0]
    assert (response["async_id"], response["status"], response["category"]) == ("a", 429, "REQUEST_EXPIRED")
    assert frame.attrs["mirror"] == SNAPSHOT_NOW | {"devices": 2, "complete": False, "server": "http://x"}
    assert events_frame([]).attrs["mirror"] == {"taken_at": None, "devices": 0, "complete": True, "server": ""}


def test_events_pivot_to_a_column_for_each_device_and_resource():
    frame = events_frame([observation("1", 0), observation("2", 1), observation("3", 1, device_id="d2")])
    table = frame.mirror.wide()
    assert list(table.columns) == [("d1", TEMPERATURE), ("d2", TEMPERATURE)]
    assert table[("d1", TEMPERATURE)].tolist() == [1.0, 2.0]
    assert table.index.tolist() == [pd.Timestamp(at(0)), pd.Timestamp(at(1))]


# Requests


def request(response=None, method="PUT", requested_value=None, **more):
    awaited_response = AwaitedResponse("a1", response)
    fields = {"device_id": "d1", "path": LEVEL, "expiry_seconds": 60, "accepted_at": NOW, "expires_at": at(1), **more}
    awaited_response.received_seconds = None if response is None else 103.0
    fields.setdefault("_started_seconds", 100.0)
    return AcceptedRequest(
        async_id="a1",
        method=method,
        issued_at=NOW,
        requested_value=requested_value,
        _awaited_response=awaited_response,
        **fields,
    )


def response(status=200, **more):
    return AsyncResponse(id="a1", status=status, **more)


def test_requests_are_a_ledger():
    fields = {"timestamp": int(at(1).timestamp() * 1000)}
    requested_value = decode(b"40", "text/plain", LEVEL)
    rows = [
        (request(response(**fields), requested_value=requested_value), "success", None, 40.0, None),
        (
            request(response(429, error="REQUEST_EXPIRED", **fields), requested_value=requested_value),
            "failure",
            "REQUEST_EXPIRED",
            40.0,
            None,
        ),
        (request(requested_value=requested_value), "pending", None, 40.0, None),
        (request(response(payload=b"7", ct="text/plain"), method="GET"), "success", None, None, 7.0),
    ]
    frame = requests_frame([accepted for accepted, *_ in rows])
    cells = frame[["status", "category", "requested_num", "value_num"]].astype(object)
    assert cells.where(cells.notna(), None).values.tolist() == [expected for _, *expected in rows]
    assert frame["latency"].isna().tolist() == [False, False, True, False]
    assert frame["latency"].iloc[0] == pd.Timedelta(seconds=3)
    assert frame["expires_at"].iloc[0] == pd.Timestamp(at(1))
    assert frame["status"].cat.ordered
    assert frame.mirror.desired.tolist()[:2] == [40.0, 40.0]
    metadata = requests_frame([request(), request(device_id="d2")], server="http://x").attrs["mirror"]
    assert metadata == SNAPSHOT_NOW | {"devices": 2, "complete": False, "server": "http://x"}


@pytest.mark.parametrize("wrong", [request(), "a1", [request(), "a1"], [None]])
def test_ledger_requires_a_list_of_started_requests(wrong):
    with pytest.raises(TypeError, match=r"pass a list of requests that client\.requests\.begin_read\(\)"):
        requests_frame(wrong)


@pytest.mark.parametrize("service_is_off_by", [timedelta(days=-300), timedelta(days=300), timedelta(seconds=-1)])
def test_a_latency_is_never_the_difference_of_two_clocks(service_is_off_by):
    accepted_at = NOW + service_is_off_by
    received = response(timestamp=int((at(1) + service_is_off_by).timestamp() * 1000))
    completed = request(received, accepted_at=accepted_at)
    completed._awaited_response.received_at = NOW + timedelta(seconds=9)
    resumed = request(received, accepted_at=None, _started_seconds=None)
    latency = requests_frame([completed, resumed])["latency"]
    assert latency.iloc[0] == pd.Timedelta(seconds=3)
    assert latency.isna().tolist() == [False, True]


def test_a_ledger_shows_how_the_last_request_of_each_resource_stands():
    table = requests_frame([request(), request(response()), request(path=SWITCH)]).mirror.wide()
    assert (table.loc["d1", LEVEL], table.loc["d1", SWITCH]) == ("success", "pending")


# Drift


def state_of(*resources, raw=False, taken_at=NOW):
    """A state table of (path, desired, status, desired at, reported, reported at)."""
    requested = {"requested_at": at(-60)}
    listed = [
        device_objects.resource(
            path, reported, desired, status=status, reported_at=reported_at, desired_at=done_at, **requested
        )
        for path, desired, status, done_at, reported, reported_at in resources
    ]
    return state_frame([device_objects.device(*listed, device_id="d1")], raw=raw, taken_at=taken_at)


REVERTED = (LEVEL, b"40", 1, at(-30), b"10", at(-5))


DRIFTS = [
    ((LEVEL, b"40", 0, at(-60), None, None), "pending", at(-60)),
    ((LEVEL, b"40", 0, at(-60), b"40", at(-5)), "pending", at(-60)),
    ((LEVEL, b"40", 2, at(-30), b"10", at(-90)), "failed", at(-30)),
    (REVERTED, "reverted", at(-5)),
    ((LEVEL, b"40", 1, at(-30), None, None), "never_reported", at(-30)),
    ((LEVEL, b"40", 1, at(-30), b"10", at(-90)), "unconfirmed", at(-30)),
    ((SWITCH, b"1", 1, at(-30), b"on", at(-90)), "unconfirmed", at(-30)),
    ((LEVEL, b"40", 1, at(-30), b"10", at(-30)), "unconfirmed", at(-30)),
    *(((SWITCH, b"1", 1, at(-30), value, None), "unconfirmed", at(-30)) for value in (b"0", b"on")),
    (("/9/0/1", b"x", 1, at(-30), b"y", at(-5)), "reverted", at(-5)),
    ((SWITCH, b"1", 1, at(-30), b"0", at(-5)), "reverted", at(-5)),
    # Values that agree, or were never written, do not drift.
    ((LEVEL, None, None, None, b"10", at(-5)), None, None),
    ((LEVEL, b"40", 1, at(-30), b"40", at(-5)), None, None),
    ((LEVEL, b"40", 1, at(-30), b"40", at(-90)), None, None),
    ((SWITCH, b"1", 1, at(-30), b"1", at(-5)), None, None),
    ((LEVEL, b"40", 2, at(-30), b"40", at(-90)), None, None),
    (("/9/0/1", b"x", 1, at(-30), b"x", at(-5)), None, None),
]


@pytest.mark.parametrize(("resource", "kind", "since"), DRIFTS)
def test_each_kind_of_drift_has_its_begin(resource, kind, since):
    drift = drift_frame(state_of(resource), unconfirmed=True)
    expected = [] if kind is None else [(kind, since, NOW - since)]
    assert list(zip(drift["kind"], drift["since"], drift["age"], strict=True)) == expected


DISTANCES = [
    (b"40", b"40.5", 0.5, 0.0, False),
    (b"40", b"39.5", 0.5, 0.0, False),
    (b"40", b"40.75", 0.5, 0.0, True),
    (b"-40", b"-44", 0.0, 0.1, False),
    (b"-40", b"-44.5", 0.0, 0.1, True),
    (b"40", b"43", 3, 0.01, False),
    (b"40", b"43", 0.5, 0.1, False),
    (b"40", b"43", {SET_POINT: 2}, 0.0625, True),
    (b"0", b"0.1", {}, 1.0, True),
]


@pytest.mark.parametrize(("desired", "reported", "tolerance", "relative", "drifts"), DISTANCES)
def test_larger_of_absolute_and_relative_tolerance_applies(desired, reported, tolerance, relative, drifts):
    state = state_of((SET_POINT, desired, 1, at(-30), reported, at(-5)))
    assert drift_frame(state, tolerance=tolerance, relative=relative).empty is not drifts


@pytest.mark.parametrize("distance", [-1, -0.1, float("nan"), "1", None], ids=repr)
def test_invalid_tolerance_is_rejected(distance):
    state = state_of((SET_POINT, b"40", 1, at(-30), b"41", at(-5)))
    by_path = {TEMPERATURE: 1, SET_POINT: distance}
    for arguments in ({"tolerance": distance}, {"tolerance": by_path}, {"relative": distance}):
        with pytest.raises(InvalidValue, match="a tolerance must be a number"):
            drift_frame(state, **arguments)


def test_opaque_values_are_compared_where_the_table_has_its_raw_columns():
    package = ("/5/0/0", b"AAE=", 1, at(-30), b"AAI=", at(-5))
    assert drift_frame(state_of(package, raw=True))["kind"].tolist() == ["reverted"]
    assert drift_frame(state_of(package)).empty
    assert drift_frame(state_of((*package[:4], b"AAE=", at(-5)), raw=True)).empty


def test_pending_write_without_request_time_starts_at_its_desired_value():
    state = state_of((LEVEL, b"40", 0, at(-60), None, None))
    state["desired_at"] = state["desired_at"] + pd.Timedelta(minutes=1)
    assert drift_frame(state)["since"].tolist() == [pd.Timestamp(at(-60))]
    state["requested_at"] = state["requested_at"].mask([True])
    assert drift_frame(state)["since"].tolist() == [pd.Timestamp(at(-59))]


def test_a_part_of_a_table_has_the_drift_of_its_rows():
    state = state_of(
        (LEVEL, b"40", 1, at(-30), b"40", at(-5)),
        (SET_POINT, b"40", 1, at(-30), b"41", at(-5)),
        (TEMPERATURE, b"40", 1, at(-30), b"42", at(-5)),
    )
    part = state[state["path"].astype(object) != LEVEL]
    assert drift_frame(part, tolerance={SET_POINT: 1})["reported_num"].tolist() == [42]
    assert drift_frame(part.drop(columns="value_kind"), relative=0.0)["path"].tolist() == [SET_POINT, TEMPERATURE]


def test_unreadable_report_is_a_type_mismatch_with_the_desired_number():
    state = state_of((SET_POINT, b"19", 1, at(-30), b"19,0", at(-5)))
    drift = drift_frame(state, tolerance=1)
    assert drift["kind"].tolist() == [DriftKind.TYPE_MISMATCH]
    assert drift["since"].iloc[0] == pd.Timestamp(at(-5))
    # The same holds for readable text.
    text = state.assign(value_kind="text", reported_text="warm")
    assert drift_frame(text)["kind"].tolist() == [DriftKind.TYPE_MISMATCH]


def test_drift_needs_an_instant_which_can_be_passed():
    state = state_of(REVERTED)
    state.attrs["mirror"]["complete"] = False
    later = drift_frame(state, now=at(5))
    assert later["age"].iloc[0] == pd.Timedelta(minutes=10)
    metadata = later.attrs["mirror"]
    assert metadata == state.attrs["mirror"] | {"taken_at": "2026-01-05T12:05:00.000Z"}
    assert metadata["devices"] == 1
    state.attrs.clear()
    with pytest.raises(InvalidValue, match="now="):
        drift_frame(state)
    with pytest.raises(InvalidValue, match="time zone"):
        drift_frame(state, now=datetime(2026, 1, 5))


@pytest.mark.parametrize("name", ["desired_status", "reported_at", "desired_at", "requested_at"])
def test_missing_column_is_rejected_by_name(name):
    with pytest.raises(InvalidValue, match=f"lacks {name};"):
        drift_frame(state_of(REVERTED).drop(columns=name))


# All tables


def documented_columns(make):
    rows = re.findall(r"^ *(\w+)  +(\S.*?)  +\S", inspect.getdoc(make), flags=re.MULTILINE)
    return [(name, dtype) for name, dtype in rows if name != "column"]


LISTED = Device(id="d1", endpoint_name="Hall", state="registered", created_at=NOW, updated_at=NOW)
HALL = DeviceEventData(endpoint_name="Hall")
REGISTERED = DeviceEvent(
    id="2", device_id="d1", date_time=NOW, event_type="registration", description="told", state_change=True, data=HALL
)
RECEIVED_EVENTS = [REGISTERED, DeviceEvent(id="1", date_time=NOW)]
OPEN_WRITE = (LEVEL, b"40", 0, at(-60), None, None)


def stale(state):
    return state.mirror.stale("1h", by="device", never_read=True)


VALUES = [observation("1"), observation("x", path=NAME)]
LIVED = events_frame(VALUES, raw=True, server="http://x")
TABLES = {
    "state": (state_frame, STATE_SCHEMA, [state_frame([], taken_at=NOW), state_of(), state_of(OPEN_WRITE)]),
    "state with raw": (state_frame, STATE_RAW_SCHEMA, [state_of(raw=True), state_of(OPEN_WRITE, raw=True)]),
    "events": (events_frame, EVENTS_SCHEMA, [events_frame([]), events_frame(VALUES)]),
    "events with raw": (events_frame, EVENTS_RAW_SCHEMA, [events_frame([], raw=True), LIVED]),
    "history": (history_frame, HISTORY_SCHEMA, [history_frame(LIVED[:0]), history_frame(LIVED)]),
    "history with raw": (history_frame, HISTORY_RAW_SCHEMA, [history_frame(LIVED, raw=True)]),
    "device events": (
        device_events_frame,
        DEVICE_EVENTS_SCHEMA,
        [device_events_frame([]), device_events_frame(RECEIVED_EVENTS)],
    ),
    "directory": (directory_frame, DIRECTORY_SCHEMA, [DeviceList([]).to_frame(), DeviceList([LISTED]).to_frame()]),
    "requests": (requests_frame, REQUESTS_SCHEMA, [requests_frame([]), requests_frame([request()])]),
    "drift": (drift_frame, DRIFT_SCHEMA, [drift_frame(state_of()), drift_frame(state_of(OPEN_WRITE))]),
    "stale devices": (stale_devices, STALE_SCHEMA, [stale(state_of()), stale(state_of(OPEN_WRITE))]),
}


@pytest.mark.parametrize(("make", "schema", "tables"), TABLES.values(), ids=TABLES)
def test_a_table_is_the_documented_one_also_when_it_is_empty_and_survives_parquet(make, schema, tables, tmp_path):
    documented = documented_columns(make)[: len(schema)]
    assert [name for name, _ in documented] == schema.names
    for table in tables:
        # pandas 2 adds the storage to the name of its string dtype.
        assert [(name, str(dtype).partition("[python")[0]) for name, dtype in table.dtypes.items()] == documented
        table.to_parquet(tmp_path / "table.parquet")
        for again in (read_parquet(tmp_path / "table.parquet"), from_arrow(to_arrow(table))):
            assert_frame_equal(again, table)
            assert again.attrs == table.attrs


def test_times_may_be_in_another_zone():
    for make, rows, column in (
        (events_frame, [observation("1")], "changed_at"),
        (requests_frame, [request()], "requested_at"),
        (drift_frame, state_of((LEVEL, b"40", 1, at(-30), b"10", NOW)), "since"),
    ):
        frame = make(rows, tz="Europe/Berlin")
        assert str(frame[column].dt.tz) == "Europe/Berlin"
        assert frame[column].iloc[0] == pd.Timestamp(NOW)
        with pytest.raises(InvalidValue, match="Europe/Berlin"):
            make(rows, tz="Europe/Nowhere")


# The accessor


@pytest.mark.parametrize("name", ["value", "desired", "labels"])
def test_other_table_is_rejected_with_its_missing_columns(name):
    with pytest.raises(InvalidValue, match="lacks the column"):
        getattr(pd.DataFrame({"a": [1]}).mirror, name)


def test_a_missing_file_is_not_reported_as_damaged(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "none.parquet")
