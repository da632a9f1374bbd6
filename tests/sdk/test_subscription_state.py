"""What either client, an explanation and the explorer tell of a subscription that is not met, and of late writes."""

import pytest
from usual import LEVEL, TEMPERATURE

from mirror_sdk import EventKind, SubscriptionState
from mirror_sdk.frames import DriftKind

RESOURCES = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": LEVEL, "value": "10", "observable": True, "writable": True},
]
LATE_SECONDS = 200


@pytest.fixture
def device_id(bench):
    return bench.add_device("light-1", RESOURCES)


@pytest.fixture
def settle(mirror):
    return lambda: mirror.services.database.settle(10)


def all_that_is_told(client, device_id):
    state = client.subscription_state(device_id, TEMPERATURE)
    return state, client.is_subscribed(device_id, TEMPERATURE), str(client.explain(device_id, TEMPERATURE))


def test_a_subscription_that_is_accepted_or_not_answered_yet(client, bench, device_id, settle):
    assert client.subscription_state(device_id, TEMPERATURE) is SubscriptionState.NONE
    client.subscribe(device_id, TEMPERATURE)
    settle()
    state, is_subscribed, words = all_that_is_told(client, device_id)
    assert (state, is_subscribed) == (SubscriptionState.ACTIVE, True)
    assert "by this application: the device is to send each change" in words
    client.unsubscribe(device_id, TEMPERATURE)
    bench.set_online(device_id, False)
    client.subscribe(device_id, TEMPERATURE)
    settle()
    state, is_subscribed, words = all_that_is_told(client, device_id)
    assert (state, is_subscribed) == (SubscriptionState.ASKED, True)
    assert "which the device has not accepted yet" in words


def test_a_subscription_that_was_refused_and_then_accepted(client, bench, device_id, settle):
    bench.set_answer(device_id, "reject")
    client.subscribe(device_id, TEMPERATURE)
    settle()
    state, is_subscribed, words = all_that_is_told(client, device_id)
    assert (state, is_subscribed) == (SubscriptionState.REFUSED, False)
    assert "which the device refused; it is asked again when it next registers" in words
    bench.set_answer(device_id, "normal")
    bench.update_registration(device_id)
    assert all_that_is_told(client, device_id)[:2] == (SubscriptionState.ACTIVE, True)


def test_a_subscription_that_a_registration_ended(client, bench, device_id, settle):
    bench.set_online(device_id, False)
    client.subscribe(device_id, TEMPERATURE)
    settle()
    bench.set_online(device_id, True)
    bench.register(device_id)
    state, is_subscribed, words = all_that_is_told(client, device_id)
    assert (state, is_subscribed) == (SubscriptionState.ENDED, False)
    assert "ended with the device's registration" in words
    told = [event.content for event in client.events(after=0, limit=2) if event.kind is EventKind.REGISTRATION]
    assert [event.ended_subscriptions for event in told][-1] == [TEMPERATURE]


def test_a_write_that_was_taken_too_late(client, bench, device_id, settle):
    bench.set_latency_seconds(device_id, LATE_SECONDS)
    client.begin_write(device_id, LEVEL, 40)
    settle()
    bench.advance(LATE_SECONDS)
    assert client.state_frame([device_id]).mirror.drift()["kind"].tolist() == [DriftKind.FAILED]
    assert "has reported that value since" not in str(client.explain(device_id, LEVEL))
    bench.set_latency_seconds(device_id, 0)
    client.read_value(device_id, LEVEL)
    assert client.state_frame([device_id]).mirror.drift().empty
    assert "The device has reported that value since" in str(client.explain(device_id, LEVEL))
