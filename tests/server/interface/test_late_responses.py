"""Late responses still have the state of the device, and its time of a value. Source: specification 2.2, 3.2."""

import pytest
from device_resources import control, sensor
from resource_paths import DOOR, LEVEL, TEMPERATURE

RESOURCES = (sensor(TEMPERATURE), control(LEVEL, "10"), sensor(DOOR, "0", auto_observable=True))
LATE_SECONDS = 200


@pytest.fixture
def device(server, key):
    return server.add_device(key, "light-1", *RESOURCES)


@pytest.fixture
def slow(server, key, device):
    """A device that responds after the timeout."""
    server.patch(key, device, latency_seconds=LATE_SECONDS)
    return device


def origin(server, key, device_id, path=TEMPERATURE):
    return server.resource(key, device_id, path)["reported"].get("origin")


@pytest.mark.parametrize("answer", ["normal", "reject"])
def test_late_response_to_a_read_is_reported_unless_it_is_an_error(server, key, slow, answer):
    server.submit(key, slow, "r", "GET", TEMPERATURE)
    server.advance(key, LATE_SECONDS - 1)
    assert server.resource(key, slow)["reported"] == {}
    server.patch(key, slow, answer=answer)
    server.advance(key, 1)
    assert server.responses(key) == {"r": (504, "TIMEOUT")}
    reported = server.resource(key, slow)["reported"]
    if answer == "reject":
        assert reported == {}
    else:
        assert (reported["value"], reported["origin"]) == ("MjEuNQ==", "read")
        assert reported["reported_at"] == "2026-01-05T08:03:20.000Z"


def test_late_response_to_an_attempt_completes_a_pending_read(server, key, slow):
    url = f"/v2/device-requests/{slow}?async-id=r&retry=2"
    server.call(key, "POST", url, json={"method": "GET", "uri": TEMPERATURE})
    server.advance(key, LATE_SECONDS)
    assert server.responses(key) == {"r": (200, None)}
    server.advance(key, 1000)
    assert server.responses(key) == {"r": (200, None)}


def test_late_accepted_write_appears_at_the_next_read(server, key, slow):
    server.submit(key, slow, "w", "PUT", LEVEL, value="40")
    server.advance(key, LATE_SECONDS)
    resource = server.resource(key, slow, LEVEL)
    assert (resource["desired"]["status"], resource["reported"]) == (2, {})
    server.patch(key, slow, latency_seconds=0)
    server.submit(key, slow, "r", "GET", LEVEL)
    resource = server.resource(key, slow, LEVEL)
    assert (resource["desired"]["status"], resource["reported"]["value"]) == (2, "NDA=")
    assert server.responses(key) == {"w": (504, "TIMEOUT"), "r": (200, None)}


def test_subscription_accepted_late_is_active(server, key, slow):
    server.subscribe(key, slow)
    server.advance(key, LATE_SECONDS)
    assert server.resource(key, slow)["subscribed"] is True
    assert server.observed(key) == [(slow, "21.5")]


def test_subscription_accepted_after_its_end_is_canceled_at_the_device(server, key, slow):
    server.subscribe(key, slow)
    server.advance(key, 150)
    server.subscribe(key, slow, method="DELETE")
    server.advance(key, 1000)
    reported = server.resource(key, slow)["reported"]
    server.set_value(key, slow, "30")
    assert server.resource(key, slow)["reported"] == reported
    assert server.resource(key, slow)["subscribed"] is False
    assert server.observed(key) == []


@pytest.mark.parametrize("request_kind", ["read", "subscription"])
def test_late_response_does_not_recreate_a_deleted_device(server, key, slow, request_kind):
    if request_kind == "read":
        server.submit(key, slow, "r", "GET", TEMPERATURE)
    else:
        server.subscribe(key, slow)
    server.services.database.write(lambda session: session.run("DELETE FROM devices"))
    server.advance(key, LATE_SECONDS)
    assert server.call(key, "GET", f"/v3/devices/{slow}/echo").status_code == 404
    assert server.services.database.violations() == []


def test_initial_event_has_the_device_time_of_the_value(server, key, device):
    begin_at = server.now
    server.advance(key, 60)
    server.subscribe(key, device)
    ((_, event),) = [entry for entry in server.log(key) if entry[0] == "notifications"]
    assert event["timestamp"] == begin_at
    assert server.resource(key, device)["reported"]["reported_at"] == "2026-01-05T08:01:00.000Z"


def test_event_of_an_ended_subscription_is_not_an_auto_observation(server, key, device):
    server.subscribe(key, device)
    server.patch(key, device, latency_seconds=30)
    server.subscribe(key, device, method="DELETE")
    server.set_value(key, device, "30")
    assert server.resource(key, device)["reported"]["value"] == "MzA="
    assert origin(server, key, device) == "subscription"


def test_origin_of_auto_observed_values_follows_the_subscription(server, key, device):
    server.set_value(key, device, "1", DOOR)
    assert origin(server, key, device, DOOR) == "auto_observation"
    server.subscribe(key, device, DOOR)
    server.set_value(key, device, "0", DOOR)
    assert origin(server, key, device, DOOR) == "subscription"


def test_auto_observation_changes_at_the_registration_update(server, key, device):
    for auto, expected in [(True, "auto_observation"), (False, "subscription")]:
        server.set_value(key, device, "20" if auto else "19", auto_observable=auto)
        server.registration(key, device, "PUT")
        if not auto:
            server.subscribe(key, device)
        server.set_value(key, device, "22" if auto else "23")
        assert origin(server, key, device) == expected
