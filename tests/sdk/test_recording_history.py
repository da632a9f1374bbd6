"""Recording.history, and as_of and changes of some devices and paths."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from changed_responses import LIGHT, RESOURCES, TEMPERATURE

from mirror_sdk import GapWarning, InvalidValue
from mirror_sdk.frames import HISTORY_RAW_SCHEMA, HISTORY_SCHEMA
from mirror_sdk.recording import Recording
from mirror_sdk.recording.log_spans import LogSpan
from mirror_sdk.recording.state_at_instant import RecordedValues

SECOND = timedelta(seconds=1)
pytestmark = pytest.mark.filterwarnings("ignore::mirror_sdk.NotSubscribedWarning")


@pytest.fixture
def recorded(client, simulator, folder):
    """A recording of two devices with observed temperatures, and the time at which their events started."""
    ids = [simulator.add_device(name, RESOURCES) for name in ("a", "b")]
    client.subscriptions.rules.replace([{"resource_path": [TEMPERATURE]}], apply_now=True)
    simulator.advance(1)
    begin = simulator.get_clock()
    with client.record(folder):
        for device_id, value in ((ids[0], 22.5), (ids[1], 30.5), (ids[0], 23.5)):
            simulator.advance(1)
            simulator.set_value(device_id, TEMPERATURE, value)
        client.read_value(ids[0], "/3/0/0")
        client.write_value(ids[0], LIGHT, True)
        simulator.update_registration(ids[1])
        simulator.advance(1)
    return Recording(folder), begin, ids


def reported(frame):
    names = ["endpoint_name", "path", "event", "origin", "value_num", "value_text"]
    return frame[names].astype(object).where(frame[names].notna(), None).to_numpy().tolist()


ALL = [
    ["a", "/3/0/0", "reported", "read", None, "Example"],
    ["a", TEMPERATURE, "reported", "observation", 22.5, None],
    ["a", TEMPERATURE, "reported", "observation", 23.5, None],
    ["b", None, "reg_update", None, None, None],
    ["b", TEMPERATURE, "reported", "observation", 30.5, None],
]


def test_rows_are_sorted_by_device_path_and_time(recorded):
    recording, begin, _ = recorded
    frame = recording.history()
    assert sorted(reported(frame), key=str) == sorted(ALL, key=str)
    assert frame["device_id"].tolist() == sorted(frame["device_id"])
    assert frame.columns.tolist() == HISTORY_SCHEMA.names
    metadata = frame.attrs["mirror"]
    assert (metadata["devices"], metadata["complete"]) == (2, True)
    assert metadata["oldest_at"] == begin.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert recording.history(raw=True).columns.tolist() == HISTORY_RAW_SCHEMA.names
    # It is complete up to the end of the recording.
    assert recording.history(end=metadata["taken_at"]).attrs["mirror"]["complete"]
    assert not recording.history(end=begin + 60 * SECOND).attrs["mirror"]["complete"]


def test_devices_paths_and_an_interval_choose_rows(recorded, client):
    recording, begin, ids = recorded
    of_b = [row for row in ALL if row[0] == "b"]
    for devices in (["b"], [ids[1]], [client.get_device("b")], pd.DataFrame({"device_id": [ids[1]] * 2})):
        assert reported(recording.history(devices)) == of_b
    assert reported(recording.history(["a"], [TEMPERATURE])) == ALL[1:3]
    assert reported(recording.history(["b"], [LIGHT])) == of_b[:1]
    assert reported(recording.history(["a"], [TEMPERATURE], begin=begin + 2 * SECOND)) == ALL[2:3]
    assert reported(recording.history(["a"], [TEMPERATURE], begin=begin + SECOND, end=begin + 3 * SECOND)) == ALL[1:2]
    assert reported(recording.history(["a"], limit=2)) == ALL[:2]
    assert recording.history([]).empty


def test_invalid_arguments_are_rejected(recorded):
    for arguments, words in (
        ({"begin": datetime(2026, 1, 1, tzinfo=UTC)}, "is before the recording, which starts at"),
        ({"begin": datetime(2026, 1, 1)}, "no time zone"),
        ({"devices": ["no-device"]}, "the recording has no device 'no-device'; there are 4"),
        ({"limit": -1}, "limit=-1"),
        ({"tz": "Nowhere"}, "time zone"),
    ):
        with pytest.raises(InvalidValue, match=words):
            recorded[0].history(**arguments)


@pytest.mark.both_clients
def test_a_loss_is_a_gap_with_its_ends(client, simulator, device_id, folder):
    client.subscribe(device_id, TEMPERATURE)
    with client.record(folder):
        simulator.set_value(device_id, TEMPERATURE, 22.5)
    lost_from = simulator.get_clock()
    simulator.set_value(device_id, TEMPERATURE, 23.5)
    # The log retains a day.
    simulator.advance(timedelta(days=3))
    simulator.set_value(device_id, TEMPERATURE, 24.5)
    with pytest.warns(GapWarning), client.record(folder) as recorder:
        simulator.advance(1)
    recording = recorder.recording
    frame = recording.history([device_id], end=lost_from + timedelta(days=30))
    gaps = frame[frame["event"] == "gap"]
    assert gaps["changed_at"].min() <= pd.Timestamp(lost_from) + SECOND
    assert gaps["until"].max() >= pd.Timestamp(lost_from) + timedelta(days=1)
    assert not frame.attrs["mirror"]["complete"]
    assert gaps["device_id"].isna().all()
    assert recording.history(end=lost_from + SECOND).attrs["mirror"]["devices"] == 1
    events, audit = recording.events(), recorder.audit()
    assert "gap" in set(events["event"])
    assert events.attrs["mirror"]["complete"] is False
    assert [gap.reason for gap in audit.gaps] == ["the log had dropped them"]
    assert "missing" in str(audit)


def test_the_state_and_the_changes_of_some_devices_and_paths(recorded):
    recording, begin, ids = recorded
    end = begin + 10 * SECOND
    assert recording.as_of(end, ["b"])["device_id"].unique().tolist() == [ids[1]]
    assert recording.as_of(end, ["a"], paths=[TEMPERATURE])["reported_num"].tolist() == [23.5]
    assert recording.as_of(end, paths=["/3/*"])["reported_text"].dropna().tolist() == ["Example"]
    assert recording.changes(begin, end, ["b"])["after_num"].tolist() == [30.5]
    assert recording.changes(begin, end, paths=[LIGHT]).empty
    assert recording.changes(begin, end, ["a"], paths=["/3303/*"])["observations"].tolist() == [2]
    with pytest.raises(InvalidValue, match="no-device"):
        recording.as_of(end, ["no-device"])


def test_start_of_a_recording_means_its_first_state():
    """The first state is read a moment after the start, which is ``oldest_at`` of the history."""
    first, start = pd.Timestamp("2026-01-01T00:00:01Z"), datetime(2026, 1, 1, tzinfo=UTC)
    values = RecordedValues(pd.DataFrame(), pd.DataFrame(), first, [first])
    spans = [LogSpan(0, 1, start, start + timedelta(minutes=1))]
    before, after = start - timedelta(seconds=1), start + timedelta(seconds=2)
    assert [values.known_from(spans, at) for at in (before, start, after)] == [before, first, after]
