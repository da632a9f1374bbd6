"""Pending and rejected subscriptions and late writes in both clients, explanations and the explorer."""

import pytest
from client_test_data import DIMMER, SENSOR
from resource_paths import LEVEL, TEMPERATURE

from mirror_sdk import EventKind, SubscriptionState
from mirror_sdk.frames import DriftKind

LATE_SECONDS = 200


@pytest.fixture
def device_id(simulator):
    return simulator.add_device("light-1", [SENSOR, DIMMER])


@pytest.fixture
def check(client, device_id, settle):
    """Return the state of the subscription from all sources."""

    def check(state, words, is_subscribed=False):
        settle()
        assert client.subscriptions.state(device_id, TEMPERATURE) is state
        assert client.subscriptions.is_active(device_id, TEMPERATURE) is is_subscribed
        assert words in str(client.devices.explain(device_id, TEMPERATURE))

    return check


def test_an_accepted_and_a_pending_subscription(client, simulator, device_id, check):
    assert client.subscriptions.state(device_id, TEMPERATURE) is SubscriptionState.NONE
    client.subscribe(device_id, TEMPERATURE)
    check(SubscriptionState.ACTIVE, "The device should send each change", is_subscribed=True)
    client.unsubscribe(device_id, TEMPERATURE)
    simulator.set_online(device_id, False)
    client.subscribe(device_id, TEMPERATURE)
    check(SubscriptionState.ASKED, "but the device has not accepted it yet", is_subscribed=True)


def test_a_rejected_subscription_is_accepted_later(client, simulator, device_id, check):
    simulator.set_response_mode(device_id, "reject")
    client.subscribe(device_id, TEMPERATURE)
    check(SubscriptionState.REFUSED, "rejected it. The service requests it again when the device next registers")
    simulator.set_response_mode(device_id, "normal")
    simulator.update_registration(device_id)
    check(SubscriptionState.ACTIVE, "This application is subscribed", is_subscribed=True)


def test_a_subscription_that_a_registration_ended(client, simulator, device_id, settle, check):
    simulator.set_online(device_id, False)
    client.subscribe(device_id, TEMPERATURE)
    settle()
    simulator.set_online(device_id, True)
    simulator.register(device_id)
    check(SubscriptionState.ENDED, "ended when the device registered again or deregistered")
    registrations = [event.content for event in client.events(after=0, limit=2) if event.kind is EventKind.REGISTRATION]
    assert [event.ended_subscriptions for event in registrations][-1] == [TEMPERATURE]


def test_a_write_accepted_too_late(client, simulator, device_id, settle):
    simulator.set_latency_seconds(device_id, LATE_SECONDS)
    client.requests.begin_write(device_id, LEVEL, 40)
    settle()
    simulator.advance(LATE_SECONDS)
    assert client.state_frame([device_id]).mirror.drift()["kind"].tolist() == [DriftKind.FAILED]
    assert "has reported that value since" not in str(client.devices.explain(device_id, LEVEL))
    simulator.set_latency_seconds(device_id, 0)
    client.read_value(device_id, LEVEL)
    assert client.state_frame([device_id]).mirror.drift().empty
    assert "The device has reported that value since" in str(client.devices.explain(device_id, LEVEL))
