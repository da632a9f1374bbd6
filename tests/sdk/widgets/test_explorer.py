"""The explorer without a page: its intents are sent as a page sends them, against the real app."""

import json
import threading

import pytest
from client_test_data import EXECUTABLE, NASTY
from resource_paths import SWITCH, TEMPERATURE
from thread_waits import until
from widget_elements import do, threads_since, wait_for_events

from mirror_sdk import AsyncMirrorClient
from mirror_sdk.widgets import Explorer
from mirror_sdk.widgets.models import explorer_model


def resources(explorer):
    return {row["path"]: row for row in explorer._rows("resources").rows}


def test_selected_resources_are_read_subscribed_and_unsubscribed(widget, client, device_id):
    explorer = widget(Explorer)
    do(explorer, "choose", device_id)
    do(explorer, "select", [TEMPERATURE, SWITCH])
    for path in explorer._state["selected"]:
        do(explorer, "read", path)
    values = {path: row["value"] for path, row in resources(explorer).items()}
    assert values == {TEMPERATURE: "21.5", SWITCH: "false", EXECUTABLE: "executable"}
    for path in explorer._state["selected"]:
        do(explorer, "subscribe", path)
    assert all(client.subscriptions.is_active(device_id, path) for path in (TEMPERATURE, SWITCH))
    do(explorer, "select", [SWITCH])
    do(explorer, "unsubscribe", SWITCH)
    assert client.subscriptions.is_active(device_id, TEMPERATURE)
    assert not client.subscriptions.is_active(device_id, SWITCH)
    assert explorer.selected[["device_id", "path"]].values.tolist() == [[device_id, SWITCH]]
    explorer.select([EXECUTABLE])
    do(explorer, "subscribe", EXECUTABLE)
    assert "NOT_OBSERVABLE" in explorer._state["notices"][0]
    do(explorer, "dismiss")
    assert explorer._state["notices"] == []


def test_state_is_json_and_has_the_card_and_the_resource_in_detail(widget, client, device_id):
    client.read_value(device_id, SWITCH)
    client.devices.update(device_id, attributes={"room": "hall"})
    explorer = widget(Explorer, "sensor-1")
    do(explorer, "open_resource", SWITCH)
    state = json.loads(json.dumps(explorer._state))
    assert (state["card"]["name"], state["card"]["id"], state["card"]["isReachable"]) == ("sensor-1", device_id, True)
    assert state["card"]["attributes"] == [["room", "hall"]]
    assert state["asOf"] == state["card"]["lastContact"] == 1767600000000
    detail = state["detail"]
    assert (detail["label"], detail["text"], detail["isWritable"]) == ("Light Control · On/Off", "false", True)
    assert (detail["form"]["type"], detail["states"]) == (
        "boolean",
        [{"begin": 1767600000000, "end": None, "text": "false"}],
    )
    do(explorer, "open_resource", EXECUTABLE)
    assert (explorer._state["detail"]["isExecutable"], explorer._state["detail"]["isWritable"]) == (True, False)
    do(explorer, "open_resource", None)
    assert explorer._state["detail"] is None


def test_value_is_entered_and_written_and_a_resource_is_executed(widget, client, device_id):
    explorer = widget(Explorer, device_id)
    do(explorer, "open_resource", SWITCH)
    do(explorer, "enter", "perhaps")
    assert "perhaps" in explorer._state["detail"]["problem"]
    do(explorer, "write_entered")
    assert client.get_device(device_id)[SWITCH].desired is None
    assert "perhaps" in explorer._state["notices"][0]
    do(explorer, "enter", "true")
    do(explorer, "write_entered")
    assert client.get_device(device_id)[SWITCH].desired_value is True
    do(explorer, "execute", EXECUTABLE, "")
    assert resources(explorer)[EXECUTABLE]["activity"] == ""


def test_past_of_the_resource_in_detail_is_a_line(widget, client, device_id):
    client.read_value(device_id, TEMPERATURE)
    explorer = widget(Explorer, device_id)
    do(explorer, "open_resource", TEMPERATURE)
    assert explorer._series("past").state["lines"] == [{"key": TEMPERATURE}]
    do(explorer, "show_hours", 1)
    assert explorer._state["hours"] == 1
    do(explorer, "open_resource", SWITCH)
    assert explorer._series("past").state["lines"] == []


def test_panel_writes_the_selected_resource(widget, client, device_id):
    with pytest.raises(TypeError, match="takes a MirrorClient, not AsyncMirrorClient"):
        Explorer(AsyncMirrorClient("http://nowhere.localhost", "key"))
    explorer = widget(Explorer, device_id)
    do(explorer, "write")
    assert explorer.writer is None
    explorer.select([SWITCH])
    do(explorer, "write")
    first = explorer.writer
    assert (first.model.value.path, first.model.devices.picked) == (SWITCH, [device_id])
    explorer.write(TEMPERATURE)
    assert explorer.writer.model.value.path == TEMPERATURE
    explorer.write(SWITCH)
    do(explorer, "writer.value.enter", True)
    do(explorer, "writer.preview")
    do(explorer, "writer.apply")
    assert client.get_device(device_id)[SWITCH].desired_value is True
    assert explorer._state["writer"]["stage"] == "ended"
    assert "writer.writes" in explorer._sources
    do(explorer, "close_writer")
    assert explorer.writer is None
    assert "writer" not in explorer._state
    explorer.close()
    explorer.close()


def test_choosing_and_entering_send_nothing_to_the_device(widget, device_id, transport, monkeypatch):
    # A reload of the mirror is due, as after some seconds on a slow machine.
    monkeypatch.setattr(explorer_model, "RELOAD_SECONDS", 0)
    explorer = widget(Explorer, device_id)
    transport.requests.clear()
    do(explorer, "select", [TEMPERATURE])
    do(explorer, "open_resource", SWITCH)
    do(explorer, "enter", "true")
    assert transport.requests == []


def test_texts_of_devices_are_escaped_in_the_copy(widget, simulator, client, tmp_path):
    device = simulator.add_device(NASTY, [{"path": "/10250/0/1", "value": NASTY, "observable": True}])
    client.read_value(device, "/10250/0/1")
    client.devices.update(device, attributes={"room": NASTY})
    report = widget(Explorer, device).to_html(tmp_path / "explorer.html").read_text()
    assert "<img" not in report
    assert report.count("&lt;img src=x onerror=alert(1)&gt;") >= 3


def test_live_explorer_displays_events_and_leaves_no_thread(widget, client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    before = set(threading.enumerate())
    explorer = widget(Explorer, device=device_id, live=True)
    wait_for_events(client)
    simulator.set_value(device_id, TEMPERATURE, 23.25)
    until(lambda: resources(explorer).get(TEMPERATURE, {}).get("value") == "23.25")
    explorer.close()
    assert client.notifications.status().watches == 0
    until(lambda: "mirror-widget" not in threads_since(before))
