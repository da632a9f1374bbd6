"""Units of events, which events do not contain: their device reports them in resource 5701. Source: wire.md 1, 5."""

import pandas as pd
import pytest
from client_test_data import SENSOR, URL
from resource_paths import LEVEL, TEMPERATURE
from thread_waits import until

from mirror_sdk import MirrorClient, UnitWarning
from mirror_sdk.recording import Recording
from mirror_server.service.keys import Scope

pytestmark = pytest.mark.keeps_history

UNITS = "/3303/0/5701"


@pytest.fixture
def rooms(client, simulator):
    """Two rooms with different units, a light, and a sensor without a unit."""
    for name, unit in (("warm", "Cel"), ("cold", "Far"), ("plain", None)):
        named = [] if unit is None else [{"path": UNITS, "value": unit}]
        simulator.add_device(name, [{"path": TEMPERATURE, "value": "1", "observable": True}, *named])
    simulator.add_device("lamp", [{"path": LEVEL, "value": "40", "observable": True}])
    for name in ("warm", "cold"):
        client.read_value(name, UNITS)
    events = client.events(limit=4, paths=[TEMPERATURE, LEVEL])
    client.subscriptions.rules.replace([{"resource_path": [TEMPERATURE, LEVEL]}], apply_now=True)
    assert len(list(events)) == 4


def units(frame):
    observations = frame[frame["event"] == "observation"]
    return {
        name: None if pd.isna(unit) else unit
        for name, unit in zip(observations["endpoint_name"], observations["unit"], strict=True)
    }


EXPECTED = {"warm": "Cel", "cold": "Far", "plain": None, "lamp": "%"}


def test_a_table_of_events_has_the_units_that_devices_name(client, rooms):
    frame = client.notifications.events_frame(after=0, timeout=0)
    assert units(frame) == EXPECTED
    assert isinstance(frame["unit"].dtype, pd.CategoricalDtype)
    assert frame.dtypes["unit"].categories.dtype == frame.dtypes["path"].categories.dtype
    assert frame.attrs["mirror"]["position"] == frame["seq"].max()


def test_many_devices_are_requested_concurrently(client, rooms, monkeypatch):
    monkeypatch.setattr("mirror_sdk.arrow_tables.units._FEW", 1)
    monkeypatch.setattr("mirror_sdk.arrow_tables.events.EVENTS_AT_A_TIME", 1)
    monkeypatch.setattr("mirror_sdk.arrow_tables.events._ROWS_AT_A_TIME", 1)
    assert units(client.notifications.events_frame(after=0, timeout=0)) == EXPECTED


def test_a_table_without_such_resources_sends_no_request(client, rooms, monkeypatch):
    tables = client.notifications._tables
    monkeypatch.setattr(tables, "state_at", lambda *_, **__: pytest.fail("no request was expected"))
    assert units(client.notifications.events_frame(after=0, timeout=0, paths=[LEVEL])) == {"lamp": "%"}
    assert len(client.notifications.events_frame(after=0, timeout=0, paths=["/9/9/9"])) == 0


def test_a_key_that_may_not_read_has_its_events(mirror, client, rooms):
    with MirrorClient(URL, mirror.new_key(Scope.SUBSCRIBE), transport=mirror.transport) as listener:
        events = listener.events()
        listener.subscriptions.rules.replace([{"resource_path": [TEMPERATURE]}], apply_now=True)
        frame = listener.notifications.events_frame(after=events.position, limit=3)
    assert units(frame) == {"warm": None, "cold": None, "plain": None}


def test_the_units_stand_in_the_files_of_a_recording(client, simulator, rooms, tmp_path):
    with client.record(tmp_path / "run.parquet"):
        for name in ("warm", "cold", "lamp", "plain"):
            simulator.set_value(client.get_device(name).device_id, LEVEL if name == "lamp" else TEMPERATURE, 7)
    assert units(Recording(tmp_path / "run.parquet").events()) == EXPECTED
    assert units(pd.read_parquet(tmp_path / "run.parquet")) == EXPECTED


# A unit that changes


@pytest.fixture
def changed(plain, simulator, tmp_path, last_poll_soon):
    """A sensor with the unit Cel, then Far, and three values: their times and a recording."""
    named = {"path": UNITS, "value": "Cel", "observable": True}
    sensor = simulator.add_device("sensor", [SENSOR | {"value": "19"}, named])
    plain.subscriptions.rules.replace([{"resource_path": [TEMPERATURE, UNITS]}], apply_now=True)
    simulator.advance(60)
    with plain.record(tmp_path / "run.parquet") as recorder:
        times = [simulator.advance(60)]
        for value, unit in ((20, None), (68, "Far"), (70, None)):
            simulator.advance(30)
            if unit is not None:
                simulator.set_value(sensor, UNITS, unit)
            simulator.set_value(sensor, TEMPERATURE, value)
            times.append(simulator.advance(30))
        until(lambda: recorder.audit().until_at == times[-1])
    return times, recorder.recording


def test_a_value_has_the_unit_that_its_device_reported_at_that_time(client, plain, changed):
    times, recording = changed
    expected = [(19.0, "Cel"), (20.0, "Cel"), (68.0, "Far"), (70.0, "Far")]
    for paths in ([TEMPERATURE], ["/3303/*"]):
        for begin in (None, times[0]):
            history = client.history(paths=paths, begin=begin)
            assert units_of_numbers(history) == expected[begin is not None :]
        with pytest.warns(UnitWarning, match="Cel and Far"):
            found = history.mirror.resample("3min", paths=[TEMPERATURE], begin=times[0], end=times[-1])
        assert found["time_weighted_mean"].isna().any()
        assert units_of_numbers(recording.history(paths=paths)) == expected[-3:]
        assert units_of_numbers(plain.notifications.events_frame(after=0, timeout=0, paths=paths)) == expected
    for source in (client, recording):
        (row,) = source.changes(times[0], times[-1], paths=[TEMPERATURE]).to_dict("records")
        assert (row["before_num"], row["before_unit"], row["after_num"], row["unit"]) == (19.0, "Cel", 70.0, "Far")
        for at, unit in ((times[0], "Cel"), (times[-1], "Far")):
            assert source.as_of(at, paths=[TEMPERATURE])["unit"].tolist() == [unit]
    # Relative times are counted back from the end of a recording.
    pd.testing.assert_frame_equal(recording.as_of("90s"), recording.as_of(times[-1] - pd.Timedelta("90s")))


def units_of_numbers(frame):
    numbers = frame[frame["value_num"].notna()]
    return list(zip(numbers["value_num"], numbers["unit"], strict=True))


def test_a_recording_of_some_paths_has_the_unit_at_that_time(plain, simulator, changed, tmp_path):
    with plain.record(tmp_path / "some.parquet", paths=[TEMPERATURE]) as recorder:
        simulator.set_value("sensor", TEMPERATURE, 71)
        simulator.set_value("sensor", UNITS, "Cel")
        simulator.set_value("sensor", TEMPERATURE, 22)
    assert recorder.recording.history()["unit"].tolist() == ["Far", "Cel"]
    assert recorder.recording.as_of(simulator.get_clock())["unit"].tolist() == ["Cel"]


def test_a_value_has_no_unit_where_only_a_later_one_is_known(plain, simulator, changed):
    events = plain.notifications.events_frame(after=0, timeout=0)
    far_named = events.loc[events["value_text"] == "Far", "seq"].max()
    simulator.advance(30)
    simulator.set_value("sensor", UNITS, "Cel")
    simulator.set_value("sensor", TEMPERATURE, 22)
    later = plain.notifications.events_frame(after=far_named, timeout=0, paths=[TEMPERATURE])
    assert later["value_num"].tolist() == [68, 70, 22]
    assert later["unit"].isna().tolist() == [True, True, False]
    assert later["unit"].iloc[-1] == "Cel"
