"""mirror device-events and mirror devices --query, with a real server. Source: wire.md 9."""

import csv
import io
import json


def test_device_events_are_listed(shell, simulator, device_id):
    other = simulator.add_device("other")
    simulator.deregister(device_id)
    rows = json.loads(shell("device-events", "--json").stdout)
    assert [(row["device_id"], row["event"], row["state_change"]) for row in rows] == [
        (device_id, "registration", True),
        (other, "registration", True),
        (device_id, "deregistration", True),
    ]
    assert rows[1]["endpoint_name"] == "other"
    (row,) = csv.DictReader(io.StringIO(shell("device-events", "--device", "other", "--csv").stdout))
    assert row["device_id"] == other
    (row,) = json.loads(shell("device-events", "--limit", 1, "--json").stdout)
    assert row == rows[-1]
    assert json.loads(shell("device-events", "--type", "expired", "--type", "deregistration", "--json").stdout) == [row]
    assert "deregistration" in shell("device-events").stdout
    assert shell("device-events", "--type", "nothing").exit_code == 2
    assert "nobody" in shell("device-events", "--device", "nobody").stderr


def test_a_saved_filter_selects_devices(shell, plain, simulator, device_id):
    simulator.add_device("lamp", endpoint_type="Lamp")
    plain.devices.queries.create("lamps", {"endpoint_type": "Lamp"})
    (row,) = json.loads(shell("devices", "--query", "lamps", "--json").stdout)
    assert row["endpoint_name"] == "lamp"
    result = shell("devices", "--query", "lights")
    assert result.exit_code == 1
    assert "no saved query is named 'lights'; saved queries: 'lamps'" in result.stderr


def test_devices_are_filtered_by_their_attributes(shell, simulator, plain, device_id):
    other = simulator.add_device("other")
    for device, room in ((device_id, "B12"), (other, "B13")):
        plain.devices.update(device, attributes={"room": room, "floor": "1"})
    (row,) = json.loads(shell("devices", "--where", "room=B12", "--where", "floor=1", "--json").stdout)
    assert row["id"] == device_id
    assert "no device matches" in shell("devices", "--where", "room=B14").output
    result = shell("devices", "--where", "room")
    assert result.exit_code == 2
    assert "'room' is not an attribute with its value; write one like room=B12" in result.output
