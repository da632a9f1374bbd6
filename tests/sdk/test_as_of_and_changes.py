"""client.as_of and client.changes, over both clients, with a real server. Source: wire.md 10."""

from datetime import UTC, datetime, timedelta

import httpx
import pandas as pd
import pytest
from changed_responses import LIGHT, RESOURCES, TEMPERATURE, UNIT, response_with, without_arrow
from pandas.testing import assert_frame_equal

from mirror_sdk import BeforeHistory, NoHistory
from mirror_sdk.errors import ConnectionFailed, InvalidValue, NotFound, UnexpectedResponse
from mirror_sdk.frames import STATE_RAW_SCHEMA, STATE_SCHEMA
from mirror_sdk.recording import CHANGES_SCHEMA
from mirror_sdk.wire.model import write_timestamp
from mirror_server.extensions.history.store import history
from mirror_server.extensions.history.store.history import StoredHistoryRow

pytestmark = pytest.mark.keeps_history

SECOND = timedelta(seconds=1)


@pytest.fixture
def reported(simulator, plain):
    """Two devices with observed temperatures, and the times of their changes; the light of the first one is on."""
    ids = [simulator.add_device(name, RESOURCES, endpoint_type=kind) for name, kind in (("a", "Light"), ("b", "Fan"))]
    plain.subscriptions.rules.replace([{"resource_path": [TEMPERATURE]}], apply_now=True)
    times = []
    for value in (22.5, 23.5):
        times.append(simulator.advance(60))
        for device_id in ids:
            simulator.set_value(device_id, TEMPERATURE, value)
    plain.write_value(ids[0], LIGHT, True)
    simulator.advance(60)
    return ids, times


def test_the_state_is_that_of_the_instant(client, reported, simulator):
    _, times = reported
    just_before = times[1] - timedelta(microseconds=1)
    for instant, value in ((times[0] - SECOND, 21.5), (times[0], 22.5), (just_before, 22.5), (times[1], 23.5)):
        frame = client.as_of(instant, paths=[TEMPERATURE])
        assert frame["reported_num"].dropna().tolist() == [value, value]
        assert frame.columns.tolist() == STATE_SCHEMA.names
        metadata = frame.attrs["mirror"]
        assert (metadata["one_instant"], metadata["devices"], metadata["revision"]) == (True, 2, None)
        assert metadata["taken_at"] == instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    # It can be refreshed.
    assert client.fleet.refresh(client.as_of(times[0], paths=[TEMPERATURE]))["reported_num"].tolist() == [23.5, 23.5]
    assert client.as_of(times[0], raw=True).columns.tolist() == STATE_RAW_SCHEMA.names
    before, after = client.as_of(times[1] - SECOND), client.as_of(simulator.get_clock())
    assert before["desired_status"].isna().all()
    assert after.loc[after["path"] == LIGHT, "desired_bool"].dropna().tolist() == [True]
    assert after["desired_status"].dropna().tolist() == ["success"]


def test_devices_are_selected_as_those_of_a_snapshot(client, reported):
    ids, times = reported
    expected = client.as_of(times[0], [ids[0]])
    assert expected["endpoint_name"].unique().tolist() == ["a"]
    for chosen in ({"devices": ["a"]}, {"endpoint_type": "Light"}, {"filters": {"endpoint_name__in": ["a"]}}):
        assert_frame_equal(client.as_of(times[0], **chosen), expected)
    with pytest.raises(NotFound, match="nobody"):
        client.as_of(times[0], ["nobody"])


def test_an_invalid_instant_is_rejected_and_a_text_is_accepted(client, reported):
    begin, end = reported[1]
    for instant, reason in (
        (datetime(2026, 1, 5), r"instant=.* has no time zone"),
        (pd.NaT, r"instant=.* is not a time"),
        ("yesterday", "instant='yesterday' is not a time; pass one like"),
        ("2026-01-05T08:00:00", "no time zone; write 2026-01-05T08:00:00Z"),
        ("2026-01-05", "no time zone; write 2026-01-05T00:00:00Z"),
        ("2026-01-05T25:00:00Z", "is not a time; pass one like"),
        ("0001-01-01T00:00:00+14:00", "beyond the years 1 to 9999"),
    ):
        with pytest.raises(InvalidValue, match=reason):
            client.as_of(instant)
    with pytest.raises(InvalidValue, match=r"begin=.* has no time zone"):
        client.changes(datetime(2026, 1, 5), end)
    with pytest.raises(InvalidValue, match="is before begin"):
        client.changes(end, begin)
    text = client.as_of(begin).attrs["mirror"]["taken_at"]
    assert_frame_equal(client.as_of(text, tz="Europe/Berlin"), client.as_of(begin, tz="Europe/Berlin"))


def test_an_instant_before_the_history_is_rejected_with_the_oldest(client, reported):
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    with pytest.raises(BeforeHistory) as caught:
        client.as_of(long_ago)
    with pytest.raises(BeforeHistory):
        client.changes(long_ago, reported[1][0])
    oldest = caught.value.oldest_at
    assert long_ago < oldest <= reported[1][0]
    assert client.as_of(oldest).attrs["mirror"]["complete"]


def test_as_of_works_without_arrow_and_rejects_a_truncated_response(client_over, plain, reported):
    instant = reported[1][0]
    assert_frame_equal(client_over(without_arrow).as_of(instant), plain.as_of(instant))
    cut = client_over(lambda _, answer: response_with(answer, answer.content[:-20]) if answer.is_success else answer)
    with pytest.raises((ConnectionFailed, UnexpectedResponse)):
        cut.as_of(instant)


def test_changes_have_both_values(client, reported, plain, simulator):
    ids, times = reported
    plain.read_value(ids[0], UNIT)
    frame = client.changes(times[0], times[1])
    assert frame.columns.tolist() == CHANGES_SCHEMA.names
    assert frame["device_id"].tolist() == sorted(ids)
    assert frame["path"].tolist() == [TEMPERATURE] * 2
    assert frame[["before_num", "after_num", "observations"]].to_numpy().tolist() == [[22.5, 23.5, 1]] * 2
    assert frame["first_at"].tolist() == frame["last_at"].tolist() == [pd.Timestamp(times[1])] * 2
    assert frame.attrs["mirror"]["complete"]
    assert client.changes(times[0] - SECOND, times[1])["observations"].tolist() == [2, 2]
    assert client.changes(times[1], times[1]).empty
    assert client.changes(*times, ["b"])["device_id"].tolist() == [ids[1]]
    assert client.changes(*times, endpoint_type="Fan")["device_id"].tolist() == [ids[1]]
    assert client.changes(*times, paths=[LIGHT]).empty
    # Without an end, changes reach to the present.
    found = client.changes(times[0], paths=[TEMPERATURE])
    assert found.attrs["mirror"]["end"] == write_timestamp(simulator.get_clock())
    assert_frame_equal(found, client.changes(times[0], simulator.get_clock(), paths=[TEMPERATURE]))


def test_changes_across_a_gap_are_marked_incomplete(client, reported, mirror, simulator):
    def put_gap(session):
        row = StoredHistoryRow(session.note_change(()), None, None, None, now - 1000, now, "gap", until=now)
        history.add(session, [row])

    now = mirror.services.clock.now()
    mirror.services.database.write(put_gap)
    assert not client.changes(reported[1][0], simulator.get_clock()).attrs["mirror"]["complete"]
    assert client.changes(*reported[1]).attrs["mirror"]["complete"]


# Services of earlier versions


def test_a_service_that_ignores_the_instant_is_reported(client_over, mirror, reported):
    def change(request, answer):
        if request.url.path != "/v3/device-echo":
            return answer
        # The response of a service that does not support it.
        without = httpx.Request("GET", request.url.copy_remove_param("as_of"), headers=request.headers)
        present = mirror.transport.handle_request(without)
        return response_with(present, present.read())

    with pytest.raises(UnexpectedResponse, match="has the current one"):
        client_over(change).as_of(reported[1][0])


@pytest.mark.keeps_history(False)
class TestWithoutHistory:
    def test_a_service_that_keeps_none_says_how_to_have_one(self, client, device_id):
        for call in (client.as_of, lambda at: client.changes(at, at)):
            with pytest.raises(NoHistory, match="--keep-history"):
                call(datetime(2026, 1, 5, tzinfo=UTC))

    def test_a_service_that_does_not_know_it_is_of_an_earlier_version(self, client_over, device_id):
        missing = {"object": "error", "code": 404, "type": "not_found", "message": "no such path"}
        fields = [{"name": "as_of", "message": "unknown filter"}]
        filtered = {"object": "error", "code": 400, "type": "x", "message": "as_of: unknown filter", "fields": fields}
        for body in (missing, filtered):
            client = client_over(lambda *_, body=body: httpx.Response(body["code"], json=body))
            with pytest.raises(NoHistory, match="version of the service has no history"):
                client.as_of(datetime(2026, 1, 5, tzinfo=UTC))
