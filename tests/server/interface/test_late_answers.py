"""What a device says too late still tells what it has; its own time of a value. Source: specification 2.2 and 3.2."""

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
    """A device that answers when the service waits no more."""
    server.patch(key, device, latency_seconds=LATE_SECONDS)
    return device


def origin(server, key, device_id, path=TEMPERATURE):
    return server.resource(key, device_id, path)["reported"].get("origin")


@pytest.mark.parametrize("answer", ["normal", "reject"])
def test_the_late_answer_to_a_read_is_the_reported_value_unless_it_is_a_refusal(server, key, slow, answer):
    server.place(key, slow, "r", "GET", TEMPERATURE)
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


def test_the_late_answer_to_an_attempt_answers_a_read_that_is_not_over(server, key, slow):
    url = f"/v2/device-requests/{slow}?async-id=r&retry=2"
    server.call(key, "POST", url, json={"method": "GET", "uri": TEMPERATURE})
    server.advance(key, LATE_SECONDS)
    assert server.responses(key) == {"r": (200, None)}
    server.advance(key, 1000)
    assert server.responses(key) == {"r": (200, None)}


def test_a_write_that_was_taken_too_late_shows_at_the_next_read(server, key, slow):
    server.place(key, slow, "w", "PUT", LEVEL, value="40")
    server.advance(key, LATE_SECONDS)
    resource = server.resource(key, slow, LEVEL)
    assert (resource["desired"]["status"], resource["reported"]) == (2, {})
    server.patch(key, slow, latency_seconds=0)
    server.place(key, slow, "r", "GET", LEVEL)
    resource = server.resource(key, slow, LEVEL)
    assert (resource["desired"]["status"], resource["reported"]["value"]) == (2, "NDA=")
    assert server.responses(key) == {"w": (504, "TIMEOUT"), "r": (200, None)}


def test_a_subscription_that_is_accepted_late_is_accepted(server, key, slow):
    server.subscribe(key, slow)
    server.advance(key, LATE_SECONDS)
    assert server.resource(key, slow)["subscribed"] is True
    assert server.observed(key) == [(slow, "21.5")]


def test_a_subscription_that_is_accepted_after_its_end_is_ended_at_the_device_too(server, key, slow):
    server.subscribe(key, slow)
    server.advance(key, 150)
    server.subscribe(key, slow, method="DELETE")
    server.advance(key, 1000)
    reported = server.resource(key, slow)["reported"]
    server.set_value(key, slow, "30")
    assert server.resource(key, slow)["reported"] == reported
    assert server.resource(key, slow)["subscribed"] is False
    assert server.observed(key) == []


@pytest.mark.parametrize("ask", ["read", "subscription"])
def test_a_device_that_is_gone_for_good_is_not_made_again_by_its_late_answer(server, key, slow, ask):
    if ask == "read":
        server.place(key, slow, "r", "GET", TEMPERATURE)
    else:
        server.subscribe(key, slow)
    server.services.database.write(lambda session: session.run("DELETE FROM devices"))
    server.advance(key, LATE_SECONDS)
    assert server.call(key, "GET", f"/v3/devices/{slow}/echo").status_code == 404
    assert server.services.database.violations() == []


def test_an_initial_event_carries_the_devices_time_of_the_value(server, key, device):
    begin_at = server.now
    server.advance(key, 60)
    server.subscribe(key, device)
    ((_, event),) = [entry for entry in server.log(key) if entry[0] == "notifications"]
    assert event["timestamp"] == begin_at
    assert server.resource(key, device)["reported"]["reported_at"] == "2026-01-05T08:01:00.000Z"


def test_what_came_because_of_a_subscription_that_has_ended_is_no_auto_observation(server, key, device):
    server.subscribe(key, device)
    server.patch(key, device, latency_seconds=30)
    server.subscribe(key, device, method="DELETE")
    server.set_value(key, device, "30")
    assert server.resource(key, device)["reported"]["value"] == "MzA="
    assert origin(server, key, device) == "subscription"


def test_the_origin_of_what_is_auto_observed_follows_the_subscription(server, key, device):
    server.set_value(key, device, "1", DOOR)
    assert origin(server, key, device, DOOR) == "auto_observation"
    server.subscribe(key, device, DOOR)
    server.set_value(key, device, "0", DOOR)
    assert origin(server, key, device, DOOR) == "subscription"


def test_what_becomes_auto_observed_or_ceases_to_be_so_is_known_at_the_registration_update(server, key, device):
    for auto, expected in [(True, "auto_observation"), (False, "subscription")]:
        server.set_value(key, device, "20" if auto else "19", auto_observable=auto)
        server.registration(key, device, "PUT")
        if not auto:
            server.subscribe(key, device)
        server.set_value(key, device, "22" if auto else "23")
        assert origin(server, key, device) == expected
