"""The unit of an event that its device names in resource 5701, which no event tells. Source: wire.md 1, 5."""

import pandas as pd
import pyarrow as pa
import pytest

from mirror_sdk import MirrorClient
from mirror_sdk.frames import events_frame
from mirror_sdk.recording import Recording
from mirror_sdk.tables.units import with_units
from mirror_server.service.keys import Scope

URL = "http://mirror.localhost"

TEMPERATURE, UNITS, LEVEL = "/3303/0/5700", "/3303/0/5701", "/3311/0/5851"


@pytest.fixture
def rooms(client, bench):
    """Two rooms that name different units, a light, and a sensor that names none."""
    for name, unit in (("warm", "Cel"), ("cold", "Far"), ("plain", None)):
        named = [] if unit is None else [{"path": UNITS, "value": unit}]
        bench.add_device(name, [{"path": TEMPERATURE, "value": "1", "observable": True}, *named])
    bench.add_device("lamp", [{"path": LEVEL, "value": "40", "observable": True}])
    for name in ("warm", "cold"):
        client.read_value(name, UNITS)
    events = client.events(limit=4, paths=[TEMPERATURE, LEVEL])
    client.put_presubscriptions([{"resource_path": [TEMPERATURE, LEVEL]}], apply_now=True)
    assert len(list(events)) == 4


def units(frame):
    told = frame[frame["event"] == "observation"]
    return {
        name: None if pd.isna(unit) else unit for name, unit in zip(told["endpoint_name"], told["unit"], strict=True)
    }


EXPECTED = {"warm": "Cel", "cold": "Far", "plain": None, "lamp": "%"}


def test_a_table_of_events_has_the_units_that_devices_name(client, rooms):
    frame = client.events_frame(after=0, timeout=0)
    assert units(frame) == EXPECTED
    assert isinstance(frame["unit"].dtype, pd.CategoricalDtype)
    assert frame.dtypes["unit"].categories.dtype == frame.dtypes["path"].categories.dtype
    assert frame.attrs["mirror"]["position"] == frame["seq"].max()


def test_a_table_in_parts_of_other_devices_has_them_too(client, rooms, monkeypatch):
    monkeypatch.setattr("mirror_sdk.tables.events.EVENTS_AT_A_TIME", 1)
    monkeypatch.setattr("mirror_sdk.tables.events._ROWS_AT_A_TIME", 1)
    assert units(client.events_frame(after=0, timeout=0)) == EXPECTED


def test_many_devices_are_asked_for_at_once(client, rooms, monkeypatch):
    monkeypatch.setattr("mirror_sdk.tables.units._FEW", 1)
    assert units(client.events_frame(after=0, timeout=0)) == EXPECTED


def test_a_table_without_such_resources_asks_for_nothing(client, rooms, monkeypatch):
    monkeypatch.setattr(client, "snapshot", lambda *_, **__: pytest.fail("nothing was to be asked for"))
    assert units(client.events_frame(after=0, timeout=0, paths=[LEVEL])) == {"lamp": "%"}
    assert len(client.events_frame(after=0, timeout=0, paths=["/9/9/9"])) == 0


def test_a_key_that_may_not_read_has_its_events(mirror, client, rooms):
    with MirrorClient(URL, mirror.new_key(Scope.SUBSCRIBE), transport=mirror.transport) as listener:
        events = listener.events()
        listener.put_presubscriptions([{"resource_path": [TEMPERATURE]}], apply_now=True)
        frame = listener.events_frame(after=events.position, limit=3)
    assert units(frame) == {"warm": None, "cold": None, "plain": None}


def test_the_units_stand_in_the_files_of_a_recording(client, bench, rooms, tmp_path):
    with client.record(tmp_path / "run.parquet"):
        for name in ("warm", "cold", "lamp", "plain"):
            bench.set_value(client.get_device(name).device_id, LEVEL if name == "lamp" else TEMPERATURE, 7)
    assert units(Recording(tmp_path / "run.parquet").events()) == EXPECTED
    assert units(pd.read_parquet(tmp_path / "run.parquet")) == EXPECTED


def test_what_an_event_tells_itself_stays(client, rooms):
    frame = events_frame(client.events(after=0, timeout=0, paths=[LEVEL]))
    (device_id,) = frame["device_id"].unique()
    told = with_units(pa.Table.from_pandas(frame), {(device_id, LEVEL): "cd"})
    assert set(told["unit"].to_pylist()) == {"%"}
