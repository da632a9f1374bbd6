"""The tests of a program of one's own that lowers the set-points of rooms nobody is in."""

from mirror_sdk import DeviceRequestFailed

SET_POINT = "/3308/0/5900"


def lower(client, rooms):
    """The program: gives the rooms that did not take it."""
    requests = [client.begin_write(room, SET_POINT, 17.5) for room in rooms]
    return [request.device_id for request in requests if isinstance(request.exception(60), DeviceRequestFailed)]


def test_rooms_are_lowered(mirror, fleet):
    rooms = [device for device in fleet(12, seed=1) if device.endpoint_type == "Thermostat"]
    assert lower(mirror.client, rooms) == []
    assert [mirror.client.read_value(room, SET_POINT) for room in rooms] == [17.5, 17.5]


def test_a_room_that_is_silent_is_told(mirror, clock, fleet, faults):
    rooms = [device for device in fleet(12, seed=1) if device.endpoint_type == "Thermostat"]
    with faults.reject(rooms[0]):
        assert lower(mirror.client, rooms) == [rooms[0].id]
