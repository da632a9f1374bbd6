"""Explanations in words, with either client and a real server."""

from datetime import timedelta

import httpx
import pytest
from resource_paths import LEVEL, TEMPERATURE

from mirror_sdk import NotFound, SubscriptionState
from mirror_server.service.keys import Scope

ALARM = "/3338/0/5850"
RESOURCES = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": LEVEL, "value": "10", "writable": True},
    {"path": ALARM, "value": "0", "observable": True, "auto_observable": True},
]


@pytest.fixture
def device_id(simulator):
    return simulator.add_device("sensor-1", RESOURCES, endpoint_type="Light")


@pytest.fixture
def explained(client, device_id):
    """Check the words of an explanation, and return what would refresh the resource."""

    def explain(path, *words, without=(), by=client):
        explanation = by.devices.explain(device_id, path)
        assert [word for word in words if word not in str(explanation)] == []
        assert [word for word in without if word in str(explanation)] == []
        return explanation.refresh

    return explain


def test_a_value_that_was_never_read(client, device_id):
    explanation = client.devices.explain(device_id, TEMPERATURE)
    assert str(explanation).startswith("Temperature · Sensor Value of sensor-1 (/3303/0/5700)")
    for words in ("has never reported it", "No application is subscribed to it.", "Nothing was ever written to it"):
        assert words in str(explanation)
    assert f"client.read_value('{device_id}', '/3303/0/5700')" in explanation.refresh
    assert any(way.startswith("client.subscribe(") for way in explanation.refresh)
    assert "<li>No application is subscribed to it.</li>" in explanation._repr_html_()


def test_a_value_that_was_read_a_while_ago(client, simulator, device_id, explained):
    client.read_value(device_id, TEMPERATURE)
    simulator.advance(timedelta(hours=3))
    received = "The last reported value is 21.5, received at 2026-01-05T08:00:00"
    explained(TEMPERATURE, received, "3 hours ago", "in response to a read")


def test_a_subscription_of_another_application_does_not_count(client, new_client, mirror, device_id, explained):
    new_client().subscribe(device_id, TEMPERATURE)
    mirror.services.database.settle(10)
    others = ("Another application is subscribed to it since", "this application does not receive it")
    refresh = explained(TEMPERATURE, *others, without=["nothing needs to be done"])
    assert refresh[1].startswith(f"client.subscribe('{device_id}', '{TEMPERATURE}'), to receive each later change")
    client.subscribe(device_id, TEMPERATURE)
    explained(
        TEMPERATURE,
        "This application is subscribed to it since 2026-01-05T08:00:00.000Z. The device should send each change.",
        "because the resource was subscribed",
        "nothing needs to be done for later changes",
    )


def test_rule_that_waits_for_a_registration_and_rule_in_effect(client, simulator, mirror, device_id, explained):
    client.subscriptions.rules.replace([{"endpoint_type": "Light", "resource_path": ["/3303/*"]}])
    refresh = explained(TEMPERATURE, "takes effect when the device next registers or updates its registration")
    advice, _, purpose = refresh[1].partition(", to apply ")
    assert purpose == "the rule now"
    simulator.register(device_id)
    explained(TEMPERATURE, "This application is subscribed to it since", ", through the rule {'endpoint-type': 'Light'")
    client.subscriptions.delete_all(device_id)
    eval(advice, {"client": client})
    mirror.services.database.settle(10)
    assert client.subscriptions.state(device_id, TEMPERATURE) is SubscriptionState.ACTIVE
    assert len(client.subscriptions.rules.list()) == 1
    # No rule is suggested for a resource that cannot be observed.
    client.subscriptions.rules.replace([{"endpoint_type": "Light"}])
    assert "a subscription is not possible" in explained(LEVEL, without=["takes effect"])[1]


def test_a_value_the_device_sent_by_itself(simulator, device_id, explained):
    simulator.set_value(device_id, ALARM, "1")
    refresh = explained(ALARM, "auto-observed")
    assert refresh[1].startswith("client.subscribe(")
    assert "meanwhile client.get_device shows the values that the device sends" in refresh[1]


WAITING_WRITES = [
    ("2999-01-01T00:00:00.000Z", ["the value is fresh until 2999-01-01T00:00:00.000Z."], []),
    ("2020-01-01T00:00:00.000Z", ["the value was fresh until 2020-01-01T00:00:00.000Z."], []),
    (None, [], ["fresh until"]),
]


@pytest.mark.parametrize(("expires_at", "words", "without"), WAITING_WRITES)
def test_how_long_the_device_said_that_its_value_holds(
    client_over, plain, device_id, explained, expires_at, words, without
):
    def change(request, answer):
        if not request.url.path.endswith("/echo"):
            return answer
        body = answer.json()
        (temperature,) = (one for one in body["resources"] if one["resource_path"] == TEMPERATURE)
        temperature["reported"]["expires_at"] = expires_at
        return httpx.Response(200, json=body)

    plain.read_value(device_id, TEMPERATURE)
    explained(TEMPERATURE, *words, without=without, by=client_over(change))


def test_result_of_the_last_write(client, simulator, device_id, explained):
    client.write_value(device_id, LEVEL, 40)
    explained(LEVEL, "The last write, of 40 %, succeeded at", "The device has reported nothing since.")
    client.read_value(device_id, LEVEL)
    explained(LEVEL, "The device has reported it since.")
    simulator.set_value(device_id, LEVEL, 5)
    client.read_value(device_id, LEVEL)
    explained(LEVEL, "another value since")
    simulator.advance(timedelta(minutes=1))
    client.write_value(device_id, LEVEL, 5)
    explained(LEVEL, "The reported value is older than that write: the device has reported nothing since.")
    simulator.set_response_mode(device_id, "reject")
    client.requests.begin_write(device_id, LEVEL, 40).exception()
    explained(LEVEL, "The last write, of 40 %, failed at", "REJECTED, the device rejected")
    assert client.get_device(device_id)[LEVEL].desired.category == "REJECTED"
    simulator.set_response_mode(device_id, "normal")
    client.write_value(device_id, LEVEL, 40)
    assert client.get_device(device_id)[LEVEL].desired.category is None


def test_pending_write_and_offline_device(client, simulator, device_id, explained):
    simulator.set_online(device_id, False)
    client.requests.begin_write(device_id, LEVEL, 40)
    explained(LEVEL, "A write of 40 % is pending", "A write of this application has been waiting since")
    simulator.set_online(device_id, True)
    simulator.deregister(device_id)
    refresh = explained(LEVEL, "The device is not registered", "a subscription is not possible")
    assert "once the device has registered again" in refresh[0]


def test_facts_that_the_key_may_not_read_are_unknown(new_client, client, mirror, device_id, explained):
    client.subscribe(device_id, TEMPERATURE)
    mirror.services.database.settle(10)
    unknown = "This key has no permission to see which one."
    refresh = explained(TEMPERATURE, unknown, without=["client.subscribe("], by=new_client(Scope.READ))
    assert refresh[1].startswith("a key with the scope subscribe can subscribe to it")


def test_unreadable_and_missing_resources(client, simulator, device_id, explained):
    gate = simulator.add_device("gate-1", [{"path": "/3/0/4", "value": "", "executable": True}])
    assert client.devices.explain(gate, "/3/0/4").refresh == ("not possible: Device · Reboot cannot be read",)
    simulator.remove_resource(device_id, TEMPERATURE)
    simulator.update_registration(device_id)
    refresh = explained(TEMPERATURE, "no longer has this resource")
    assert refresh == ("not possible until the device has this resource again",)
    with pytest.raises(NotFound):
        client.devices.explain("0" * 32, TEMPERATURE)
    with pytest.raises(KeyError, match="similar: /3303/0/5700"):
        client.devices.explain(device_id, "/3303/0/5701")
