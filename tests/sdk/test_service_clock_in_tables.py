"""All times in a table are those of the service, even if its clock differs from the local one."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pandas as pd
import pytest
from client_test_data import add_lights, all_to
from resource_paths import LEVEL, SWITCH

from mirror_sdk import InvalidValue
from mirror_sdk.frames import events_frame, requests_frame
from mirror_sdk.wire.routes import EXPIRES_AT_HEADER, REQUESTED_AT_HEADER

INSTANTS = ["requested_at", "accepted_at", "finished_at", "expires_at"]


@pytest.fixture
def begins_at(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Set the start of the clock of a mirror that is created afterwards."""
    instant = datetime.now(UTC).replace(microsecond=0) - timedelta(days=60)
    monkeypatch.setattr("mirror_server.server._MANUAL_CLOCK_BEGINS_AT", int(1000 * instant.timestamp()))
    return instant


@pytest.fixture
def now(begins_at: datetime, simulator: Any) -> Callable[[], datetime]:
    """The clock of the mirror. It stands still at a time that differs from the local one."""
    assert simulator.get_clock() == begins_at
    return simulator.get_clock


@pytest.fixture
def lights(now: object, simulator: Any) -> list[str]:
    return add_lights(simulator, 3)


def handles(*requests: Any) -> list[Any]:
    return [getattr(each, "_wrapped", each) for each in requests]


def test_a_plans_ledger_is_by_the_services_clock(now, client, simulator, lights):
    begin = pd.Timestamp(now())
    result = client.plan(all_to(lights)).apply()
    assert result["status"].tolist() == ["success"] * 3
    for name in INSTANTS[:3]:
        assert result[name].tolist() == [begin] * 3
    assert result["expires_at"].tolist() == [begin + pd.Timedelta(seconds=60)] * 3
    assert result["latency"].between(pd.Timedelta(0), pd.Timedelta(seconds=20)).all()
    assert pd.Timestamp(result.attrs["mirror"]["taken_at"]) == begin
    simulator.advance(3600)
    state = client.state_frame(lights[:1], paths=[LEVEL])
    assert state["requested_at"].tolist() == state["desired_at"].tolist() == [begin]


def test_delayed_request_has_times_of_the_service_clock(now, client, simulator, lights):
    simulator.set_online(lights[0], False)
    begin = now()
    waiting, expiring = (client.requests.begin_write(lights[0], LEVEL, level, expiry_seconds=7200) for level in (1, 2))
    unsaid = client.requests.begin_read(lights[0], LEVEL)
    simulator.advance(3600)
    simulator.set_online(lights[0], True)
    assert waiting.exception() is None
    frame = requests_frame(handles(waiting, expiring, unsaid))
    assert frame["requested_at"].tolist() == [pd.Timestamp(begin)] * 3
    assert frame["expires_at"].tolist() == [pd.Timestamp(begin + timedelta(hours=2))] * 3
    assert frame["finished_at"].iloc[0] == begin + timedelta(hours=1)
    # An hour of the service's clock, not of the local one.
    assert timedelta(0) <= waiting.latency < timedelta(seconds=20)
    assert frame["latency"].iloc[0] == pd.Timedelta(waiting.latency).floor("ms")


def test_a_repeated_async_id_was_accepted_the_first_time(now, client, simulator, lights):
    simulator.set_online(lights[0], False)
    begin = now()
    client.requests.begin_write(lights[0], LEVEL, 40, async_id="once", expiry_seconds=600)
    simulator.advance(60)
    again = client.requests.begin_write(lights[0], LEVEL, 40, async_id="once", expiry_seconds=7200)
    assert (again.accepted_at, again.expires_at) == (begin, begin + timedelta(seconds=600))
    simulator.set_online(lights[0], True)
    assert again.exception() is None
    row = requests_frame(handles(again)).iloc[0]
    assert row["requested_at"] <= row["accepted_at"] <= row["finished_at"]


def test_times_that_the_service_does_not_send_are_missing(now, client_over, lights):
    def silent(question: httpx.Request, answer: httpx.Response) -> httpx.Response:
        for name in (REQUESTED_AT_HEADER, EXPIRES_AT_HEADER):
            answer.headers.pop(name, None)
        return answer

    client = client_over(silent)
    plan = client.plan(all_to(lights[:2]))
    result = plan.apply(canary=0)
    assert result["status"].tolist() == ["success"] * 2
    assert result[["requested_at", "accepted_at", "expires_at"]].isna().all(axis=None)
    assert result["finished_at"].tolist() == [pd.Timestamp(now())] * 2
    assert result["latency"].between(pd.Timedelta(0), pd.Timedelta(seconds=20)).all()


def test_an_invalid_instant_does_not_lose_the_request(now, client_over, lights):
    def garbled(question: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if REQUESTED_AT_HEADER in answer.headers:
            answer.headers[REQUESTED_AT_HEADER] = invalid_instant
        return answer

    client = client_over(garbled)
    for invalid_instant in ("yesterday", "2026-01-05T08:00:00", "", "9" * 400, "9999-12-31T23:59:59-14:00"):
        request = client.requests.begin_write(lights[0], LEVEL, 40)
        assert request.accepted_at is None, invalid_instant
        assert request.exception() is None, invalid_instant
        assert requests_frame(handles(request))["accepted_at"].isna().all(), invalid_instant


def test_rejected_and_resumed_requests_have_no_instant_of_another_clock(now, client, simulator, lights):
    simulator.set_online(lights[0], False)
    plan = client.plan([(lights[0], LEVEL, 40)])
    for number in range(20):
        client.requests.begin_write(lights[0], SWITCH, bool(number % 2))
    rejected = plan.apply(timeout=0)
    assert rejected["status"].tolist() == ["unknown"]
    assert rejected[INSTANTS].isna().all(axis=None)
    assert rejected.attrs["mirror"]["taken_at"] is None
    done = client.requests.begin_write(lights[1], LEVEL, 40)
    assert done.exception() is None
    resumed = client.requests.resume(done.async_id, lights[1], LEVEL, method="PUT")
    assert resumed.exception() is None
    frame = requests_frame(handles(resumed))
    assert frame[["requested_at", "accepted_at", "expires_at", "latency"]].isna().all(axis=None)
    assert frame["finished_at"].tolist() == [pd.Timestamp(now())]


def test_only_received_at_is_of_the_clock_here(now, client, simulator, lights):
    client.subscribe(lights[0], LEVEL)
    simulator.set_value(lights[0], LEVEL, "30")
    before = datetime.now(UTC) - timedelta(minutes=1)
    frame = client.notifications.events_frame(after=0, timeout=0)
    assert (frame["changed_at"] == now()).all()
    assert (frame["received_at"] >= before).all()
    assert pd.Timestamp(frame.attrs["mirror"]["taken_at"]) == now()
    assert events_frame([]).attrs["mirror"]["taken_at"] is None


def test_a_table_that_lost_its_attrs_says_how_to_get_them_back(now, client, lights):
    client.read_value(lights[0], LEVEL)
    client.write_value(lights[0], LEVEL, 40)
    frame = client.state_frame(lights)
    merged = frame.merge(pd.DataFrame({"device_id": lights, "room": ["a", "b", "c"]}), on="device_id")
    instants = pd.Timestamp(frame.attrs["mirror"]["taken_at"]), client.get_device(lights[0]).created_at
    for query in (pd.DataFrame.mirror.drift, lambda table, **options: table.stale("1h", **options)):
        with pytest.raises(InvalidValue) as caught:
            query(merged.mirror)
        message = str(caught.value)
        assert "frame.mirror.with_metadata_from(original)" in message
        assert "original.mirror.join(other, on=...)" in message
        assert 'now=pd.Timestamp(original.attrs["mirror"]["taken_at"])' in message
        assert "now=client.get_device(device_id).created_at" in message
        assert "datetime.now" not in message
        for instant in instants:
            assert query(merged.mirror, now=instant)["device_id"].tolist() == query(frame.mirror)["device_id"].tolist()
