"""Rejected subscriptions, and those without a response, are retried. Source: specification 3.3; wire.md 3."""

import pytest
from device_resources import sensor
from resource_paths import HUMIDITY, TEMPERATURE

RULES = "/v2/subscriptions"
RESOURCES = (sensor(TEMPERATURE), sensor(HUMIDITY, "40"))
RULE = {"resource-path": [TEMPERATURE]}
TIMEOUT_SECONDS = 120


@pytest.fixture
def device(server, key):
    return server.add_device(key, "sensor-1", *RESOURCES, endpoint_type="Sensor")


def subscription_state(server, key, device_id, path=TEMPERATURE):
    """Return the state of the application's subscription, and ``subscribed`` of the resource in E1."""
    response = server.call(key, "GET", f"{RULES}/{device_id}{path}")
    state = response.headers["Mirror-Subscription"] if response.status_code == 200 else response.json["reason"]
    return state, server.resource(key, device_id, path)["subscribed"]


def subscribe_by_rule(server, key, device):
    server.put_rules(key, RULE)
    update(server, key, device)


def subscribe_single(server, key, device):
    server.subscribe(key, device)


def update(server, key, device):
    server.registration(key, device, "PUT")


@pytest.mark.parametrize(("answer", "state"), [("reject", "refused"), ("silent", "asked")])
@pytest.mark.parametrize(
    ("subscribe", "again"),
    [(subscribe_by_rule, update), (subscribe_single, update), (subscribe_single, subscribe_single)],
)
def test_rejected_or_unanswered_subscription_is_retried(server, key, device, subscribe, again, answer, state):
    server.patch(key, device, answer=answer)
    subscribe(server, key, device)
    for _ in range(2):
        server.advance(key, TIMEOUT_SECONDS)
        assert subscription_state(server, key, device) == (state, False)
        again(server, key, device)
    server.advance(key, TIMEOUT_SECONDS)
    server.patch(key, device, answer="normal")
    server.advance(key, 3600)
    assert subscription_state(server, key, device) == (state, False)
    again(server, key, device)
    assert subscription_state(server, key, device) == ("active", True)
    server.set_value(key, device, "22")
    again(server, key, device)
    assert server.observed(key) == [(device, "21.5"), (device, "22")]


@pytest.mark.parametrize("again", [update, subscribe_single])
def test_retry_during_an_attempt_starts_after_it(server, key, device, again):
    server.patch(key, device, answer="silent")
    subscribe_single(server, key, device)
    server.patch(key, device, answer="normal")
    again(server, key, device)
    server.advance(key, TIMEOUT_SECONDS)
    assert subscription_state(server, key, device) == ("active", True)


def test_rejected_subscription_is_retried_after_a_restart_and_succeeds(server, key, device):
    server.patch(key, device, answer="reject")
    server.subscribe(key, device)
    server.patch(key, device, answer="normal")
    server.restart()
    server.remove_resource(device, TEMPERATURE)
    update(server, key, device)
    assert subscription_state(server, key, device) == ("refused", False)
    server.set_value(key, device, "19", TEMPERATURE, observable=True)
    update(server, key, device)
    assert subscription_state(server, key, device) == ("active", True)
    assert server.observed(key) == [(device, "19")]


def test_rejected_subscriber_gets_events_when_another_is_accepted(server, key, other, device):
    server.patch(key, device, answer="reject")
    subscribe_by_rule(server, key, device)
    server.patch(key, device, answer="normal")
    server.subscribe(other, device)
    assert subscription_state(server, key, device) == subscription_state(server, other, device) == ("active", True)
    server.set_value(key, device, "22")
    assert server.observed(key) == server.observed(other) == [(device, "21.5"), (device, "22")]
    server.subscribe(other, device, method="DELETE")
    server.set_value(key, device, "23")
    assert server.observed(key)[2:] == [(device, "23")]


def test_rejected_second_subscriber_gets_events_only_while_the_first_does(server, key, other, device):
    server.subscribe(key, device)
    server.patch(key, device, answer="reject")
    server.subscribe(other, device)
    assert subscription_state(server, other, device) == ("active", True)
    server.set_value(key, device, "22")
    server.patch(key, device, answer="normal")
    server.subscribe(key, device, method="DELETE")
    assert subscription_state(server, other, device) == ("refused", False)
    server.set_value(key, device, "23")
    assert server.observed(key)[1:] == server.observed(other) == [(device, "22")]
    assert server.resource(key, device)["reported"]["value"] == "MjI="
    update(server, key, device)
    assert server.observed(other) == [(device, "22"), (device, "23")]


def test_another_process_triggers_a_retry(server, key, device):
    server.patch(key, device, answer="silent")
    server.subscribe(key, device)
    server.advance(key, TIMEOUT_SECONDS)
    server.patch(key, device, answer="normal")
    server.services.dispatcher.contact(device)
    assert server.services.database.settle(60)
    assert subscription_state(server, key, device) == ("active", True)


def registrations(server, key):
    return [entry for kind, entry in server.log(key) if kind == "registrations"]


@pytest.mark.parametrize("ends", ["registration", "deregistration", "expiry"])
def test_single_subscription_ended_by_a_full_registration_is_reported(server, key, other, device, ends):
    server.patch(key, device, online=False)
    server.subscribe(key, device, HUMIDITY)
    server.subscribe(key, device)
    if ends == "expiry":
        server.advance(key, 24 * 3600)
        assert subscription_state(server, key, device) == ("SUBSCRIPTION_ENDED", False)
    server.patch(key, device, online=True)
    if ends == "deregistration":
        server.registration(key, device, "DELETE")
        assert subscription_state(server, key, device) == ("SUBSCRIPTION_ENDED", False)
    if ends != "expiry":
        server.registration(key, device, "POST")
    assert registrations(server, key)[-1]["ended-subscriptions"] == [TEMPERATURE, HUMIDITY]
    assert all("ended-subscriptions" not in entry for entry in registrations(server, other))
    assert subscription_state(server, key, device) == ("SUBSCRIPTION_ENDED", False)
    assert server.call(key, "GET", f"{RULES}/{device}").status_code == 404
    server.registration(key, device, "POST")
    assert "ended-subscriptions" not in registrations(server, key)[-1]


@pytest.mark.parametrize("subscribe", [subscribe_by_rule, subscribe_single])
def test_ended_subscription_can_be_created_again(server, key, device, subscribe):
    server.subscribe(key, device)
    server.registration(key, device, "POST")
    subscribe(server, key, device)
    assert subscription_state(server, key, device) == ("active", True)
    server.registration(key, device, "POST")
    assert subscription_state(server, key, device) == (
        ("SUBSCRIPTION_ENDED", False) if subscribe is subscribe_single else ("active", True)
    )
    assert ("ended-subscriptions" in registrations(server, key)[-1]) is (subscribe is subscribe_single)


def test_single_subscription_continued_by_a_rule_has_not_ended(server, key, device):
    server.subscribe(key, device)
    server.put_rules(key, RULE)
    server.registration(key, device, "POST")
    assert subscription_state(server, key, device) == ("active", True)
    assert "ended-subscriptions" not in registrations(server, key)[-1]


def test_delete_clears_an_ended_subscription(server, key, other, device):
    for path in (TEMPERATURE, ""):
        server.subscribe(key, device)
        server.registration(key, device, "POST")
        server.subscribe(key, device, path, method="DELETE")
        assert subscription_state(server, key, device) == ("NOT_SUBSCRIBED", False)
    server.subscribe(key, device)
    server.registration(key, device, "POST")
    before = server.observed(key)
    server.set_value(key, device, "20")
    server.subscribe(other, device)
    server.set_value(key, device, "22")
    assert server.observed(key) == before
    server.subscribe(other, device, method="DELETE")
    assert server.resource(key, device)["subscribed"] is False
    assert server.services.database.violations() == []
