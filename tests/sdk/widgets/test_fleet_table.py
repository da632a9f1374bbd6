"""The fleet table without a page: its intents are sent as a page sends them, against the real app."""

import gc
import json
import threading

import pytest
from client_test_data import NASTY
from resource_paths import TEMPERATURE
from thread_waits import until
from widget_elements import do, threads_since, wait_for_events

from mirror_sdk.errors import InvalidValue, UnknownDevice
from mirror_sdk.widgets import FleetTable
from mirror_sdk.widgets.models import fleet_model


def devices(fleet):
    return {row["name"]: row for row in fleet._rows("devices").rows}


def test_device_opens_in_an_explorer_that_follows_the_selection(widget, simulator, device_id):
    other = simulator.add_device("other")
    fleet = widget(FleetTable)
    fleet.select(["sensor-1"])
    assert (fleet.explorer, "explorer" in fleet._state) == (None, False)
    do(fleet, "open", device_id)
    first = fleet.explorer
    assert first.model.device_id == device_id
    assert (fleet._state["explorer"]["title"], fleet._state["explorer"]["hasList"]) == ("sensor-1", False)
    assert "explorer.resources" in fleet._sources
    do(fleet, "select", [other])
    assert (fleet.explorer, first.model.device_id) == (first, other)
    do(fleet, "select", [other, device_id])
    assert first.model.device_id == other
    do(fleet, "explorer.open_resource", TEMPERATURE)
    assert first.model.editor.path == TEMPERATURE
    do(fleet, "close_explorer")
    assert (fleet.explorer, "explorer" in fleet._state, first.is_running) == (None, False, False)


def test_panel_writes_to_all_selected_devices(widget, simulator, device_id):
    other = simulator.add_device("other")
    fleet = widget(FleetTable)
    do(fleet, "write")
    assert fleet.writer is None
    do(fleet, "select", [other, device_id])
    do(fleet, "write")
    assert set(fleet.writer.model.devices.picked) == {device_id, other}
    assert set(fleet._state["writer"]["devicesPicked"]) == {device_id, other}
    do(fleet, "close_writer")
    assert (fleet.writer, "writer" in fleet._state) == (None, False)


def test_state_is_json_and_counts_the_devices_by_status(widget, client, device_id, simulator):
    simulator.add_device("other")
    client.read_value(device_id, TEMPERATURE)
    state = json.loads(json.dumps(widget(FleetTable)._state))
    assert {name: count for name, count in state["counts"].items() if count} == {"never_reported": 1, "in_sync": 1}
    assert (state["devices"], state["takenAt"]) == (2, 1767600000000)
    assert state["resources"] == [{"path": TEMPERATURE, "label": "Temperature · Sensor Value", "devices": 1}]
    assert (state["resource"], state["isLoading"]) == (None, False)


def test_selected_devices_are_read_and_subscribed(widget, client, device_id):
    client.read_value(device_id, TEMPERATURE)
    fleet = widget(FleetTable)
    do(fleet, "read_selected")
    assert "select devices with a value" in fleet._state["notices"][0]
    do(fleet, "select", [device_id])
    assert fleet._state["selectedWithValue"] == 1
    do(fleet, "read_selected")
    assert fleet._state["activity"] == "Read Temperature of 1 device"
    do(fleet, "subscribe_selected")
    assert client.subscriptions.is_active(device_id, TEMPERATURE)


def test_view_is_an_argument_and_is_saved_under_a_name(widget, tmp_path, device_id):
    file = tmp_path / "views.json"
    fleet = widget(FleetTable, view={"group_by": "type"}, views_file=file)
    do(fleet, "change_view", {"status": "failed", "columns": ["name", "failed"]})
    do(fleet, "save_view", "night")
    assert (fleet._state["viewName"], fleet._state["viewNames"]) == ("night", ["night"])
    assert fleet.current_view["columns"] == ["name", "failed"]
    do(fleet, "open_view", "")
    assert (fleet.current_view["status"], fleet._state["viewName"]) == ("", "")
    do(fleet, "change_view", {"shade": "red"})
    assert "a view has no member 'shade'" in fleet._state["notices"][0]
    again = widget(FleetTable, view="night", views_file=file, keep_previous=True)
    assert (again.current_view["group_by"], again._state["view"]["status"]) == ("type", "failed")
    do(again, "delete_view", "night")
    assert again._state["viewNames"] == []
    with pytest.raises(InvalidValue, match="has no view 'night'"):
        widget(FleetTable, view="night", views_file=file)
    with pytest.raises(InvalidValue, match="a view has no member 'shade'"):
        widget(FleetTable, view={"shade": "red"})


def test_damaged_file_of_views_is_a_notice(widget, tmp_path):
    file = tmp_path / "views.json"
    file.write_text("{")
    assert "is not a JSON file" in widget(FleetTable, views_file=file)._state["notices"][0]


def test_selecting_and_filtering_send_nothing(widget, device_id, transport, monkeypatch):
    # A reload of the mirror is due, as after some seconds on a slow machine.
    monkeypatch.setattr(fleet_model, "RELOAD_SECONDS", 0)
    fleet = widget(FleetTable)
    transport.requests.clear()
    do(fleet, "select", [device_id])
    do(fleet, "change_view", {"status": "never_reported", "search": "sens", "group_by": "type"})
    assert transport.requests == []


def test_only_changed_devices_are_sent(widget, client, simulator, device_id, monkeypatch):
    simulator.add_device("other")
    fleet = widget(FleetTable)
    sent = []
    monkeypatch.setattr(fleet, "send", lambda content, buffers=None: sent.append(content))
    fleet._handle_custom_msg({"request": "all"}, [])
    client.read_value(device_id, TEMPERATURE)
    do(fleet, "load")
    assert [(one["name"], [row["name"] for row in one["rows"]]) for one in sent[1:]] == [("devices", ["sensor-1"])]


def test_copy_has_the_displayed_devices_and_escapes_their_texts(widget, client, simulator, tmp_path):
    device = simulator.add_device(NASTY, endpoint_type=NASTY)
    simulator.deregister(simulator.add_device("gone"))
    fleet = widget(FleetTable, view={"status": "never_reported"})
    report = fleet.to_html(tmp_path / "fleet.html").read_text()
    assert "<img" not in report
    assert report.count("&lt;img src=x onerror=alert(1)&gt;") == 2
    assert "2 devices · 0 failed writes" in report
    fleet.show_device(device)
    assert fleet.explorer.model.title == NASTY


def test_explorer_that_could_not_open_does_not_close_a_later_one(widget, device_id):
    fleet = widget(FleetTable)
    with pytest.raises(UnknownDevice) as failed:
        fleet.show_device("unknown")
    fleet.show_device(device_id)
    explorer = fleet.explorer
    # Python collects the failed one.
    del failed
    gc.collect()
    assert fleet.explorer is explorer


def test_live_table_displays_events_and_leaves_no_thread(widget, client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    before = set(threading.enumerate())
    fleet = widget(FleetTable, live=True)
    fleet.show_device(device_id)
    wait_for_events(client)
    simulator.set_value(device_id, TEMPERATURE, 23.25)
    until(lambda: devices(fleet).get("sensor-1", {}).get("value") == "23.25")
    until(lambda: {row["value"] for row in fleet._rows("explorer.resources").rows} >= {"23.25"})
    fleet.close()
    assert client.notifications.status().watches == 0
    until(lambda: "mirror-widget" not in threads_since(before))
