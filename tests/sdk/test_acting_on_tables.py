"""Tables with devices and resources can be used as the input of the next call."""

import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from changed_responses import DIMMED, LEVEL, TEMPERATURE

from mirror_sdk import EmptyTableWarning, InvalidValue, NotFound, UnknownDevice, UnknownResource
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable, WritePanel


@pytest.fixture
def rooms(simulator):
    return [simulator.add_device(f"room-{number}", DIMMED, endpoint_type="Room") for number in range(4)]


@pytest.fixture
def warm(client, simulator, rooms):
    """Select the rooms above 30 degrees; there are two."""
    for number, room in enumerate(rooms):
        simulator.set_value(room, TEMPERATURE, str(28 + number))
        client.read_value(room, TEMPERATURE)
        client.read_value(room, LEVEL)
    found = client.fleet.snapshot().query("path == '/3303/0/5700' and reported_num > 29")
    assert len(found["device_id"].cat.categories) > found["device_id"].nunique() == 2
    return found


FORMS = {
    "pandas": lambda frame: frame,
    "index": lambda frame: frame.set_index("device_id"),
    "many rows": lambda frame: frame.loc[frame.index.repeat(500)],
    "objects": lambda frame: frame.astype({"device_id": object, "path": object}),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "polars": lambda frame: pl.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)),
    "names": lambda frame: frame.assign(device_id=frame["endpoint_name"]),
}


def test_each_form_of_a_table_names_devices_and_resources(client, rooms, warm):
    for name, form in FORMS.items():
        found = form(warm)
        assert set(client.fleet.snapshot(found, paths=[LEVEL])["device_id"]) == set(rooms[2:]), name
        assert client.state_frame(devices=found)["device_id"].nunique() == 2, name
        client.subscribe(found)
        subscriptions = [client.subscriptions.list(room) for room in rooms]
        assert subscriptions == [[], [], [TEMPERATURE], [TEMPERATURE]], name
        client.subscribe(found, LEVEL)
        client.unsubscribe(found)
        assert client.subscriptions.list(rooms[3]) == [LEVEL], name
        client.unsubscribe(found, LEVEL)
        planned = client.plan(found, path=LEVEL, value=0).frame[["device_id", "path", "wanted_num"]]
        assert planned.values.tolist() == [[room, LEVEL, 0] for room in rooms[2:]], name
    assert client.plan(warm, path=LEVEL, value=0).apply()["status"].tolist() == ["success"] * 2
    assert client.fleet.snapshot(devices=warm["device_id"]).attrs["mirror"]["devices"] == 2


def test_each_row_may_have_a_value_of_its_own(client, rooms, warm):
    found = client.fleet.snapshot(devices=warm).query("path == @LEVEL")
    plan = client.plan(found, value=found["reported_num"] + 1)
    assert plan.frame["wanted_num"].tolist() == [11, 11]
    assert client.plan(found, value=[1, 2]).frame["wanted_num"].tolist() == [1, 2]
    assert client.plan(found, value=[pd.NA, 2]).frame["wanted_num"].tolist() == [2]


def test_events_are_those_of_the_devices_of_a_table(client, simulator, rooms, warm):
    client.subscribe(client.fleet.snapshot(paths=[TEMPERATURE]))
    events = client.events(timeout=0, devices=warm, after=0)
    simulator.set_value(rooms[0], TEMPERATURE, "35")
    simulator.set_value(rooms[3], TEMPERATURE, "36")
    assert {event.device_id for event in events if event.path == TEMPERATURE} == set(rooms[2:])


def test_a_table_that_names_no_devices_is_rejected_before_any_request(client, rooms, warm):
    for wrong, said in (
        (warm.drop(columns=["device_id", "endpoint_name"]), "no column device_id"),
        (warm.assign(device_id=[warm["device_id"].iloc[0], None]), "has no device_id; table.dropna"),
        (warm.assign(device_id=[1, 2]), "device_id of a row is 1"),
        (pd.concat([warm, warm[["device_id"]]], axis=1), "2 columns device_id|more than once"),
    ):
        for act in (
            client.fleet.snapshot,
            client.state_frame,
            client.subscribe,
            lambda frame: client.plan(frame, value=0),
        ):
            with pytest.raises(InvalidValue, match=said):
                act(wrong)
    assert [client.subscriptions.list(room) for room in rooms] == [[]] * 4


def test_a_table_without_paths_needs_one(client, warm):
    directory = client.devices.list().to_frame()
    for act in (client.subscribe, lambda frame: client.plan(frame, value=0)):
        with pytest.raises(InvalidValue, match="no column path"):
            act(directory)
    assert len(client.plan(directory, path=LEVEL, value=0)) == 4
    with pytest.raises(InvalidValue, match=r"no path; table\.dropna"):
        client.subscribe(warm.assign(path=[TEMPERATURE, pd.NA]))


def test_a_value_that_fits_no_row_is_rejected(client, warm):
    for options, said in (
        ({"path": LEVEL}, "path= requires value="),
        ({"value": [1, 2, 3]}, "a column of values for the rows"),
        ({"value": pd.Series([1, 2])}, "different rows than the table"),
        ({"value": 1, "path": LEVEL, "if_match": True}, "cannot be combined with path="),
    ):
        with pytest.raises(InvalidValue, match=said):
            client.plan(warm, **options)
        with pytest.raises(InvalidValue, match="require a table"):
            client.plan([("room-1", LEVEL, 3)], **options)
    with pytest.raises(InvalidValue, match="a column value, and value= was passed"):
        client.plan(warm.assign(value=3), value=4)


def test_a_table_without_rows_does_nothing_and_warns(client, rooms):
    nothing = client.fleet.snapshot().query("reported_num > 1000")
    with pytest.warns(EmptyTableWarning, match="no rows") as caught:
        assert client.fleet.snapshot(devices=nothing).empty
    assert "mirror_sdk" not in caught[0].filename
    with pytest.warns(EmptyTableWarning):
        client.subscribe(nothing)
    assert "no writes" in repr(client.plan(nothing, value=3))
    assert all(client.subscriptions.list(room) == [] for room in rooms)


def test_of_unknown_devices_a_table_says_which(client, rooms, warm):
    unknown = warm.astype({"device_id": object}).assign(device_id=["0" * 32, rooms[3]])
    with pytest.raises(NotFound):
        client.fleet.snapshot(devices=unknown)
    with pytest.raises(NotFound) as caught:
        client.subscribe(unknown)
    assert re.match(
        f"1 of 2 resources were rejected, and the call succeeded for the others.*{'0' * 32}", caught.value.__notes__[0]
    )
    assert client.subscriptions.list(rooms[3]) == [TEMPERATURE]
    assert client.plan(unknown, path=LEVEL, value=3).frame["check"].tolist() == ["unknown_device", "ok"]
    with pytest.raises(UnknownDevice, match="room-9"):
        client.subscribe(warm.assign(device_id=["room-9", "room-1"]))
    assert client.subscriptions.list(rooms[1]) == []
    with pytest.raises(UnknownResource):
        client.subscribe(warm, "/3303/7/5700")


def test_widgets_take_the_devices_of_a_table(plain, rooms):
    state = plain.fleet.snapshot().query("path == @LEVEL and endpoint_name != 'room-0'")
    with WritePanel(plain, state, path=LEVEL, live=False) as panel:
        assert panel.model.devices.picked == sorted(rooms[1:])
    with EventWatcher(plain, state, live=False) as watcher:
        assert set(watcher.model.devices) == set(rooms[1:])
    with FleetTable(plain, live=False) as fleet:
        fleet.select(state)
        assert set(fleet.selected["device_id"]) == set(rooms[1:])
    with Explorer(plain, state[state["endpoint_name"] == "room-2"], live=False) as explorer:
        assert explorer.model.title == "room-2"
        explorer.choose(state)
        assert "names 3 devices" in " ".join(explorer.model.notices.texts)
    with pytest.raises(InvalidValue, match="names 3 devices"):
        Explorer(plain, state, live=False)
    with pytest.raises(InvalidValue, match="has no device_id"):
        WritePanel(plain, state.assign(device_id=pd.NA), live=False)


@pytest.mark.parametrize("form", [pa.table, pl.DataFrame], ids=["arrow", "polars"])
def test_integers_remain_integers_if_other_values_are_missing(client, simulator, form):
    lifetime, server = "/1/0/1", simulator.add_device("server", [{"path": "/1/0/1", "value": "1", "writable": True}])
    rows = {"device_id": [server, server], "path": [lifetime, LEVEL], "value": [2**53 + 1, None]}
    assert set(client.plan(form(rows)).apply()["status"]) == {"success"}
    assert client.read_value(server, lifetime) == 2**53 + 1


@pytest.mark.parametrize("name", ["device_id", "path"])
def test_a_number_instead_of_a_name_writes_to_no_device(client, simulator, name):
    simulator.add_device("12", DIMMED)
    rows = pd.DataFrame({"device_id": ["12", None], "path": [LEVEL, None], "value": [3, None]})
    assert client.plan(rows).frame["check"].tolist() == ["ok"]
    for cell in (12, 12.0, None, float("nan"), pd.NA):
        expected_message = f"{name} of a row is {cell}, not a string; to keep strings of digits"
        if pd.isna(cell):
            expected_message = f"a row with a value has no {name}; add it, or leave out such rows"
        with pytest.raises(InvalidValue, match=expected_message):
            client.plan(rows.assign(**{name: pd.Series([cell, None], dtype=object)}))
    with pytest.raises(InvalidValue, match="device_id of a row is 12"):
        client.plan(pd.DataFrame({LEVEL: [3]}, index=pd.Index([12], name="device_id")))
