"""When a device was heard lately, out of the log of who asks [an extension]. Source: wire.md 6."""

from datetime import datetime

import pytest

from mirror_server.keys import Scope
from mirror_server.service import devices

TEMPERATURE = "/3303/0/5700"
RESOURCE = {"path": TEMPERATURE, "value": "20", "observable": True}
BEGIN = datetime.fromisoformat("2026-01-05T08:00:00Z")
MINUTE = 60


@pytest.fixture
def device(server, key):
    device_id = server.add_device(key, "lamp", RESOURCE)
    server.call(key, "PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
    return device_id


def report(server, key, device, *, times=3):
    for number in range(times):
        server.advance(key, MINUTE)
        server.set_value(key, device, f"{number}.{server.now}")


def minutes(server, key, device):
    """When the device was heard, in minutes since the beginning."""
    answer = server.call(key, "GET", f"/v3/devices/{device}/contacts")
    assert (answer.json["object"], answer.json["device_id"]) == ("device-contacts", device)
    return [(datetime.fromisoformat(at) - BEGIN).total_seconds() / MINUTE for at in answer.json["heard_at"]]


def test_what_was_told_to_the_application_is_there_the_newest_last(server, key, device):
    report(server, key, device)
    assert minutes(server, key, device) == [0, 1, 2, 3]
    assert minutes(server, key, device) == [0, 1, 2, 3], "to look takes nothing away"


def test_another_application_is_told_of_what_it_was_told_alone(server, key, device):
    report(server, key, device)
    other = server.key(Scope.READ)
    server.call(other, "GET", "/v2/notification/pull?hold=0")
    report(server, key, device)
    assert minutes(server, other, device) == []
    assert minutes(server, key, device) == [0, 1, 2, 3, 4, 5, 6]


def test_other_devices_and_other_entries_do_not_count(server, key, device):
    report(server, key, device, times=2)
    other = server.add_device(key, "other", RESOURCE)
    server.call(key, "PUT", f"/v2/subscriptions/{other}{TEMPERATURE}")
    report(server, key, other, times=5)
    server.place(key, device, "read", "GET", TEMPERATURE)
    server.registration(key, device, "PUT")
    assert minutes(server, key, device) == [0, 1, 2]
    assert minutes(server, key, other) == [2, 3, 4, 5, 6, 7]


def test_a_silent_device_is_found_behind_all_that_others_sent_since(server, key, device, monkeypatch):
    monkeypatch.setattr(devices, "_ROWS_FOR_CONTACTS", 4)
    report(server, key, device, times=6)
    other = server.add_device(key, "other", RESOURCE)
    server.call(key, "PUT", f"/v2/subscriptions/{other}{TEMPERATURE}")
    report(server, key, other, times=20)
    assert minutes(server, key, device) == [5, 6], "the other's registration and first value came in minute 6 too"
    assert minutes(server, key, other) == [23, 24, 25, 26]


def test_no_more_than_fifty_are_told(server, key, device):
    report(server, key, device, times=55)
    assert minutes(server, key, device) == list(range(6, 56))


def test_what_is_not_kept_any_more_is_not_told_and_a_restart_forgets_nothing(server, key, device):
    report(server, key, device)
    server.restart()
    assert minutes(server, key, device) == [0, 1, 2, 3]
    server.advance(key, 25 * 60 * MINUTE)
    assert minutes(server, key, device) == []


def test_who_may_not_read_and_what_is_not_there_is_refused(server, key, device):
    assert server.call(server.key(Scope.SUBSCRIBE), "GET", f"/v3/devices/{device}/contacts").status_code == 403
    assert server.call(key, "GET", f"/v3/devices/{'0' * 32}/contacts").status_code == 404
    assert server.call(key, "GET", f"/v3/devices/{device}/contacts?after=1").status_code == 400
