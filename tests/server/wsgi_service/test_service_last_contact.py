"""When a device was last heard of, in the directory [an extension]. Source: wire.md 6."""

from datetime import datetime

import pytest

TEMPERATURE, LEVEL = "/3303/0/5700", "/3311/0/5851"
RESOURCES = (
    {"path": TEMPERATURE, "value": "21.5", "auto_observable": True, "observable": True},
    {"path": LEVEL, "value": "1", "writable": True},
)
HOUR = 3600
BEGIN = datetime.fromisoformat("2026-01-05T08:00:00Z")


@pytest.fixture
def key(server):
    return server.key()


@pytest.fixture
def device(server, key):
    """A device that stays silent for an hour, unless it is made to do something."""
    device_id = server.add_device(key, "lamp", *RESOURCES, queue_mode=True)
    server.patch(key, device_id, online=False)
    server.advance(key, HOUR)
    assert hours(server, key, device_id) == 0
    return device_id


def hours(server, key, device_id):
    """When the device was last heard of, in hours since the beginning."""
    told = server.call(key, "GET", f"/v3/devices/{device_id}").json["last_contact_at"]
    listed = server.call(key, "GET", f"/v3/devices?id={device_id}").json["data"][0]["last_contact_at"]
    assert told == listed
    return (datetime.fromisoformat(told) - BEGIN).total_seconds() / HOUR


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_registration_its_update_and_its_end_are_contacts(server, key, method):
    device = server.add_device(key, "lamp", *RESOURCES)
    server.advance(key, HOUR / 2)
    assert hours(server, key, device) == 0
    server.registration(key, device, method)
    assert hours(server, key, device) == 0.5


@pytest.mark.parametrize("answer", ["normal", "reject"])
def test_an_answer_is_a_contact_whatever_it_says(server, key, answer):
    device = server.add_device(key, "lamp", *RESOURCES)
    server.patch(key, device, answer=answer)
    server.advance(key, HOUR / 2)
    server.place(key, device, "write", "PUT", LEVEL, value="2")
    assert hours(server, key, device) == 0.5


def test_a_value_that_it_sends_is_a_contact(server, key):
    device = server.add_device(key, "lamp", *RESOURCES)
    server.advance(key, HOUR / 2)
    server.set_value(key, device, "22", TEMPERATURE)
    assert hours(server, key, device) == 0.5


def test_a_sleeping_device_makes_contact_when_it_comes_back(server, key, device):
    server.patch(key, device, online=True)
    assert hours(server, key, device) == 1


def test_what_the_device_did_not_do_is_no_contact(server, key, device):
    """A request that expires, a subscription that waits, a registration that ends by itself."""
    server.place(key, device, "write", "PUT", LEVEL, value="2", expiry_seconds=60)
    server.call(key, "PUT", f"/v2/subscriptions/{device}{TEMPERATURE}")
    server.advance(key, 30 * 24 * HOUR)
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"
    assert hours(server, key, device) == 0


def test_it_is_kept_over_a_restart(server, key, device):
    server.patch(key, device, online=True)
    server.restart()
    assert hours(server, key, device) == 1


def test_it_is_no_filter_of_the_directory(server, key, device):
    answer = server.call(key, "GET", "/v3/devices?last_contact_at__gte=2026-01-05T08:00:00Z")
    assert answer.status_code == 400
    assert "last_contact_at" in answer.json["message"]
