"""mirror device-events and mirror devices --query, of a real server. Source: wire.md 9."""

import csv
import io
import json

import pytest


@pytest.fixture
def run(shell):
    return shell


def test_device_events_are_listed(run, bench, device_id):
    other = bench.add_device("other")
    bench.deregister(device_id)
    rows = json.loads(run("device-events", "--json").stdout)
    assert [(row["device_id"], row["event"], row["state_change"]) for row in rows] == [
        (device_id, "registration", True),
        (other, "registration", True),
        (device_id, "deregistration", True),
    ]
    assert rows[1]["endpoint_name"] == "other"
    (row,) = csv.DictReader(io.StringIO(run("device-events", "--device", "other", "--csv").stdout))
    assert row["device_id"] == other
    (row,) = json.loads(run("device-events", "--limit", 1, "--json").stdout)
    assert row == rows[-1]
    assert json.loads(run("device-events", "--type", "expired", "--type", "deregistration", "--json").stdout) == [row]
    assert "deregistration" in run("device-events").stdout
    assert run("device-events", "--type", "nothing").exit_code == 2
    assert "nobody" in run("device-events", "--device", "nobody").stderr


def test_a_saved_filter_selects_devices(run, plain, bench, device_id):
    bench.add_device("lamp", endpoint_type="Lamp")
    plain.create_device_query("lamps", {"endpoint_type": "Lamp"})
    (row,) = json.loads(run("devices", "--query", "lamps", "--json").stdout)
    assert row["endpoint_name"] == "lamp"
    refused = run("devices", "--query", "lights")
    assert refused.exit_code == 1
    assert "no filter is saved as 'lights'" in refused.stderr


def test_devices_are_filtered_by_their_attributes(run, bench, plain, device_id):
    other = bench.add_device("other")
    for device, room in ((device_id, "B12"), (other, "B13")):
        plain.set_device(device, attributes={"room": room, "floor": "1"})
    (row,) = json.loads(run("devices", "--where", "room=B12", "--where", "floor=1", "--json").stdout)
    assert row["id"] == device_id
    assert "no device is like that" in run("devices", "--where", "room=B14").output
    refused = run("devices", "--where", "room")
    assert refused.exit_code == 2
    assert "'room' is no attribute with its value; write one like room=B12" in refused.output
