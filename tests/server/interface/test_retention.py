"""Retention of device objects and expiry of registrations. Source: specification 2.1 and 8; wire.md 5."""

import pytest
from device_resources import sensor
from resource_paths import TEMPERATURE

from mirror_server.service import housekeeping
from mirror_server.store import devices
from mirror_server.store.session import OLDEST_CONTACT

HOUR = 3600
DAY = 24 * HOUR
# From 2026-01-05 to 2026-07-05.
SIX_MONTHS = (31 + 28 + 31 + 30 + 31 + 30) * DAY
LIFETIME = DAY


@pytest.fixture
def device(server, key):
    device_id = server.add_device(key, "sensor-1", sensor(TEMPERATURE))
    server.submit(key, device_id, "r", "GET", TEMPERATURE)
    return device_id


@pytest.fixture
def pass_months(server, key, monkeypatch):
    """Advance by months, with daily cleanups instead of hourly ones except in the last two days."""

    def advance(seconds):
        with monkeypatch.context() as patched:
            patched.setattr(housekeeping, "_CLEANUP_SECONDS", DAY)
            server.advance(key, seconds - 2 * DAY)
        server.advance(key, 2 * DAY)

    return advance


@pytest.fixture
def exists(server, key):
    """Return whether the mirror has a device; all routes must agree."""

    def read(device_id):
        paths = [f"/v3/devices/{device_id}/echo", f"/v3/devices/{device_id}", f"/v2/endpoints/{device_id}"]
        codes = {server.call(key, "GET", path).status_code for path in paths}
        is_listed = device_id in [entry["id"] for entry in server.call(key, "GET", "/v3/devices").json["data"]]
        assert codes == {200 if is_listed else 404}
        return is_listed

    return read


def test_device_object_is_deleted_after_six_calendar_months(server, key, device, exists, pass_months):
    server.patch(key, device, online=False)
    pass_months(SIX_MONTHS - 1)
    assert exists(device)
    assert server.resource(key, device)["reported"]["value"] == "MjEuNQ=="
    # A command that is never delivered does not count as contact.
    server.submit(key, device, "late", "PUT", TEMPERATURE, value="1")
    server.advance(key, 1)
    assert exists(device)
    server.advance(key, HOUR)
    assert not exists(device)
    assert server.responses(key)["late"] == (429, "DEVICE_REMOVED_REGISTRATION")
    server.patch(key, device, online=True)
    resource = server.resource(key, device)
    assert (resource["reported"], resource["desired"], resource["subscribed"]) == ({}, {}, False)
    assert server.call(key, "GET", f"/v3/devices/{device}").json["created_at"] == "2026-07-05T09:00:00.000Z"


def test_only_silent_devices_are_deleted(server, key, exists, pass_months):
    added = [server.add_device(key, f"sensor-{number}") for number in range(6)]
    server.patch(key, added[0], online=False)
    server.advance(key, DAY)
    for device in added[1:]:
        server.registration(key, device, "PUT")
        server.patch(key, device, online=False)
    steady = server.add_device(key, "steady")
    pass_months(SIX_MONTHS - DAY + HOUR)
    assert [exists(device) for device in added] == [False] + [True] * 5
    server.advance(key, DAY)
    assert not any(exists(device) for device in added)
    assert exists(steady)
    assert server.call(key, "GET", f"/v3/devices/{steady}").json["state"] == "registered"


def test_devices_are_only_searched_when_one_may_be_silent(server, key, device, exists, pass_months, monkeypatch):
    searches = []
    find_silent = devices.silent_since

    def silent_since(*arguments):
        searches.append(arguments)
        return find_silent(*arguments)

    monkeypatch.setattr(devices, "silent_since", silent_since)
    server.patch(key, device, online=False)
    server.advance(key, HOUR)
    assert len(searches) == 1
    pass_months(SIX_MONTHS - DAY)
    server.restart()
    assert len(searches) == 1
    server.advance(key, DAY)
    assert len(searches) == 2
    assert not exists(device)


def test_contact_of_a_clock_that_was_ahead_does_not_keep_silent_devices(server, key, device, exists, pass_months):
    server.patch(key, device, online=False)
    ahead = str(server.now + 2 * SIX_MONTHS * 1000)
    server.services.database.write(lambda session: session.put_setting(OLDEST_CONTACT, ahead))
    pass_months(SIX_MONTHS + HOUR)
    assert not exists(device)


CONTACTS = {
    "command": lambda server, *one: server.submit(*one, "again", "GET", TEMPERATURE),
    "observation": lambda server, *one: server.set_value(*one, "22"),
    "update": lambda server, *one: server.registration(*one, "PUT"),
    "registration": lambda server, *one: server.registration(*one, "POST"),
    "deregistration": lambda server, *one: server.registration(*one, "DELETE"),
}


@pytest.mark.parametrize("contact", CONTACTS.values(), ids=CONTACTS)
def test_any_contact_restarts_the_retention_period(server, key, device, exists, contact, pass_months):
    server.subscribe(key, device)
    # Longer than the interval of the cleanup.
    server.advance(key, 3 * HOUR)
    contact(server, key, device)
    server.patch(key, device, online=False)
    pass_months(SIX_MONTHS - 1)
    assert exists(device)
    server.advance(key, HOUR + 1)
    assert not exists(device)


def test_registration_without_update_expires_and_notifies_every_application(server, key, device, other):
    server.subscribe(key, device)
    server.advance(key, HOUR)
    server.registration(key, device, "PUT")
    server.patch(key, device, online=False)
    server.advance(key, LIFETIME - 1)
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "registered"
    assert server.kinds(other) == ["reg-updates"]
    server.advance(key, 1)
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"
    assert [(kind, entry["ep"]) for kind, entry in server.log(other)][1:] == [("registrations-expired", device)]
    assert [entry["ep"] for kind, entry in server.log(key) if kind == "registrations-expired"] == [device]
    assert server.resource(key, device)["subscribed"] is False
    assert server.resource(key, device)["reported"]["value"] == "MjEuNQ=="
    server.advance(key, LIFETIME)
    assert server.kinds(other).count("registrations-expired") == 1


def test_deregistered_device_does_not_expire(server, key, device):
    server.registration(key, device, "DELETE")
    server.advance(key, LIFETIME)
    assert server.kinds(key) == ["registrations", "async-responses", "de-registrations"]


def test_device_that_returns_after_expiry_registers_again_and_gets_waiting_commands(server, key, device):
    server.patch(key, device, online=False)
    server.submit(key, device, "w", "GET", TEMPERATURE, expiry_seconds=2 * LIFETIME)
    server.advance(key, LIFETIME + HOUR)
    assert "w" not in server.responses(key)
    server.patch(key, device, online=True)
    assert server.responses(key)["w"] == (200, None)
    returned = server.call(key, "GET", f"/v3/devices/{device}").json
    assert (returned["state"], returned["created_at"]) == ("registered", "2026-01-05T08:00:00.000Z")
    assert server.kinds(key) == ["registrations-expired", "registrations", "async-responses"]
