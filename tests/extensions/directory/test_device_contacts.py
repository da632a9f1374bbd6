"""Contacts of a device: the last one in the directory, recent ones in the log of the application. Source: wire.md 6.

Both features are extensions.
"""

from datetime import datetime

import pytest
from device_resources import sensor, setting
from resource_paths import LEVEL, TEMPERATURE

from mirror_server.extensions.directory import service as directory
from mirror_server.service.keys import Scope

RESOURCES = (sensor(TEMPERATURE, auto_observable=True), setting(LEVEL, "1"))
MINUTE, HOUR = 60, 3600
BEGIN = datetime.fromisoformat("2026-01-05T08:00:00Z")


@pytest.fixture
def device(server, key):
    """A device that stays silent for an hour unless a test makes it act."""
    device_id = server.add_device(key, "lamp", *RESOURCES, queue_mode=True)
    server.patch(key, device_id, online=False)
    server.advance(key, HOUR)
    assert hours(server, key, device_id) == 0
    return device_id


def hours(server, key, device_id):
    """Return the last contact of the device, in hours since the beginning."""
    returned = server.call(key, "GET", f"/v3/devices/{device_id}").json["last_contact_at"]
    listed = server.call(key, "GET", f"/v3/devices?id={device_id}").json["data"][0]["last_contact_at"]
    assert returned == listed
    return (datetime.fromisoformat(returned) - BEGIN).total_seconds() / HOUR


def test_registrations_responses_and_values_are_contacts(server, key):
    device = server.add_device(key, "lamp", *RESOURCES)
    contacts = [
        lambda: server.registration(key, device, "PUT"),
        lambda: server.registration(key, device, "POST"),
        lambda: server.submit(key, device, "write", "PUT", LEVEL, value="2"),
        lambda: server.submit(key, device, "failed", "PUT", TEMPERATURE, value="2"),
        lambda: server.submit(key, device, "not-executed", "POST", TEMPERATURE),
        lambda: server.set_value(key, device, "22", TEMPERATURE),
        lambda: server.registration(key, device, "DELETE"),
    ]
    for number, make_contact in enumerate(contacts, 1):
        server.advance(key, HOUR / 2)
        assert hours(server, key, device) == (number - 1) / 2
        make_contact()
        assert hours(server, key, device) == number / 2


def test_only_actions_of_the_device_are_contacts(server, key, device):
    """A request that expires is not a contact, nor a subscription that waits or a registration that expires."""
    server.submit(key, device, "write", "PUT", LEVEL, value="2", expiry_seconds=60)
    server.subscribe(key, device)
    server.advance(key, HOUR)
    assert hours(server, key, device) == 0
    server.patch(key, device, online=True)
    assert hours(server, key, device) == 2
    server.restart()
    assert hours(server, key, device) == 2
    server.patch(key, device, online=False)
    server.advance(key, 30 * 24 * HOUR)
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"
    assert hours(server, key, device) == 2


@pytest.fixture
def observed(server, key):
    """A device whose temperature is observed."""
    device_id = server.add_device(key, "lamp", *RESOURCES)
    server.subscribe(key, device_id)
    return device_id


def report(server, key, device, *, times=3):
    for number in range(times):
        server.advance(key, MINUTE)
        server.set_value(key, device, f"{number}.{server.now}")


def minutes(server, key, device):
    """Return the contacts of the device, in minutes since the beginning."""
    answer = server.call(key, "GET", f"/v3/devices/{device}/contacts")
    assert (answer.json["object"], answer.json["device_id"]) == ("device-contacts", device)
    return [(datetime.fromisoformat(at) - BEGIN).total_seconds() / MINUTE for at in answer.json["heard_at"]]


def test_contacts_of_the_device_and_the_application_are_listed_oldest_first(server, key, observed):
    report(server, key, observed)
    assert minutes(server, key, observed) == [0, 1, 2, 3]
    later = server.key(Scope.READ)
    server.call(later, "GET", "/v2/notification/pull?hold=0")
    report(server, key, observed)
    assert minutes(server, later, observed) == []
    assert minutes(server, key, observed) == [0, 1, 2, 3, 4, 5, 6]
    # Other devices and other entries do not count.
    other = server.add_device(key, "other", *RESOURCES)
    server.subscribe(key, other)
    report(server, key, other, times=2)
    server.submit(key, observed, "read", "GET", TEMPERATURE)
    server.registration(key, observed, "PUT")
    assert minutes(server, key, observed) == [0, 1, 2, 3, 4, 5, 6]
    assert minutes(server, key, other) == [6, 7, 8]
    server.restart()
    assert minutes(server, key, other) == [6, 7, 8]
    server.advance(key, 25 * 60 * MINUTE)
    assert minutes(server, key, other) == [], "not kept any more"


def test_contacts_of_a_silent_device_are_found_among_those_of_others(server, key, observed, monkeypatch):
    monkeypatch.setattr(directory, "_ROWS_FOR_CONTACTS", 4)
    report(server, key, observed, times=6)
    other = server.add_device(key, "other", *RESOURCES)
    server.subscribe(key, other)
    report(server, key, other, times=20)
    assert minutes(server, key, observed) == [5, 6], "the other's registration and first value came in minute 6 too"
    assert minutes(server, key, other) == [23, 24, 25, 26]


def test_at_most_fifty_contacts_are_listed(server, key, observed):
    report(server, key, observed, times=55)
    assert minutes(server, key, observed) == list(range(6, 56))
