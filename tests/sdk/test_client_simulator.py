"""The simulator against a real server, in process: commands to devices, and the manual clock."""

from datetime import timedelta

import pytest
from changed_responses import TEMPERATURE

from mirror_sdk import InvalidValue, NotFound


def test_simulated_device_accepts_an_invalid_value_only_as_text(client, simulator, device_id):
    simulator.set_value(device_id, TEMPERATURE, "warm")
    assert client.requests.begin_read(device_id, TEMPERATURE).result().raw == b"warm"
    with pytest.raises(InvalidValue):
        simulator.set_value(device_id, TEMPERATURE, b"\x00\x01")


def test_new_resource_appears_after_an_update_and_removed_one_stays(client, simulator, device_id):
    simulator.set_value(device_id, "/3303/1/5700", 5, observable=True)
    assert "/3303/1/5700" not in client.get_device(device_id)
    simulator.update_registration(device_id)
    assert "/3303/1/5700" in client.get_device(device_id)
    simulator.remove_resource(device_id, "/3303/1/5700")
    simulator.update_registration(device_id)
    assert "/3303/1/5700" in client.get_device(device_id)
    assert "/3303/1/5700" not in [resource.uri for resource in client.devices.resources(device_id)]


def test_invalid_simulated_devices_are_rejected_by_name(simulator):
    with pytest.raises(ValueError, match="path"):
        simulator.add_device("s", [{"path": "3303"}])
    # The clock only moves forward, and not too far.
    for amount in (0, -1, timedelta(days=400)):
        with pytest.raises(ValueError, match="advance_seconds"):
            simulator.advance(amount)
    with pytest.raises(NotFound):
        simulator.set_online("nobody", True)
    device = simulator.add_device("several", [{"path": "/3/0/7", "value": "3800"}])
    with pytest.raises(InvalidValue, match="a real device can have several instances"):
        simulator.set_value(device, "/3/0/7", {0: 3800, 1: 5000})
