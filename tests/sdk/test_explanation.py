"""Explanations in words, by either client over a real server."""

from datetime import timedelta

import httpx
import pytest

from mirror_sdk import NotFound, SubscriptionState
from mirror_server.service.keys import Scope

TEMPERATURE = "/3303/0/5700"
LEVEL = "/3311/0/5851"
ALARM = "/3338/0/5850"
RESOURCES = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": LEVEL, "value": "10", "writable": True},
    {"path": ALARM, "value": "0", "observable": True, "auto_observable": True},
]


@pytest.fixture
def device_id(bench):
    return bench.add_device("sensor-1", RESOURCES, endpoint_type="Light")


def subscribe(client, device_id):
    """Subscribe, and wait until the device has accepted it and told its value."""
    events = client.events(timeout=60, limit=1)
    client.subscribe(device_id, TEMPERATURE)
    assert [event.path for event in events] == [TEMPERATURE]


def test_a_value_that_was_never_read(client, device_id):
    told = client.explain(device_id, TEMPERATURE)
    assert str(told).startswith("Temperature · Sensor Value of sensor-1 (/3303/0/5700)")
    assert "Nothing was ever reported" in str(told)
    assert "Nobody is subscribed to it." in str(told)
    assert "Nothing was ever written to it" in str(told)
    assert f"client.read_value('{device_id}', '/3303/0/5700')" in told.refresh
    assert any(way.startswith("client.subscribe(") for way in told.refresh)
    assert "<li>Nobody is subscribed to it.</li>" in told._repr_html_()


def test_a_value_that_was_read_a_while_ago(client, bench, device_id):
    client.read_value(device_id, TEMPERATURE)
    bench.advance(timedelta(hours=3))
    told = str(client.explain(device_id, TEMPERATURE))
    assert "The last reported value is 21.5, received at 2026-01-05T08:00:00" in told
    assert "3 hours ago" in told
    assert "a read brought it" in told


def test_a_value_the_device_holds_for_a_time(client, bench, device_id):
    subscribe(client, device_id)
    told = str(client.explain(device_id, TEMPERATURE))
    since = "It is subscribed since 2026-01-05T08:00:00.000Z, by this application"
    assert f"{since}: the device is to send each change." in told
    assert "because the resource was subscribed" in told
    assert "nothing needs to be done for later changes" in told


def test_a_subscription_of_another_application_is_none_of_this_one(client, new_client, device_id):
    subscribe(new_client(), device_id)
    told = client.explain(device_id, TEMPERATURE)
    assert "by another application: the mirror has each change" in str(told)
    assert "this application is told of none" in str(told)
    assert "nothing needs to be done" not in str(told)
    assert told.refresh[1].startswith(f"client.subscribe('{device_id}', '{TEMPERATURE}'), to have each later change")
    client.subscribe(device_id, TEMPERATURE)
    assert "by this application" in str(client.explain(device_id, TEMPERATURE))


def test_a_rule_that_waits_for_the_next_registration_and_one_that_took_effect(client, bench, mirror, device_id):
    client.put_presubscriptions([{"endpoint_type": "Light", "resource_path": ["/3303/*"]}])
    before = str(client.explain(device_id, TEMPERATURE))
    assert "takes effect when the device next registers or updates its registration" in before
    advice, _, what_for = client.explain(device_id, TEMPERATURE).refresh[1].partition(", to have ")
    assert what_for == "the rule take effect now"
    bench.register(device_id)
    after = str(client.explain(device_id, TEMPERATURE))
    assert "by this application, through the rule {'endpoint-type': 'Light'" in after
    client.delete_subscriptions(device_id)
    eval(advice, {"client": client})
    mirror.services.database.settle(10)
    assert client.subscription_state(device_id, TEMPERATURE) is SubscriptionState.ACTIVE
    assert len(client.get_presubscriptions()) == 1
    # What cannot be observed gets no rule.
    client.put_presubscriptions([{"endpoint_type": "Light"}])
    told = client.explain(device_id, LEVEL)
    assert "takes effect" not in str(told)
    assert "a subscription is not possible" in told.refresh[1]


def test_a_value_the_device_sent_by_itself(client, bench, device_id):
    bench.set_value(device_id, ALARM, "1")
    told = client.explain(device_id, ALARM)
    assert "auto-observed" in str(told)
    assert told.refresh[1].startswith("client.subscribe(")
    assert "the mirror has what the device sends meanwhile" in told.refresh[1]


def test_what_became_of_the_last_write(client, bench, device_id):
    client.write_value(device_id, LEVEL, 40)
    told = str(client.explain(device_id, LEVEL))
    assert "The last write, of 40, succeeded at" in told
    assert "the device has reported nothing since" in told.lower()
    client.read_value(device_id, LEVEL)
    assert "The device has reported it since." in str(client.explain(device_id, LEVEL))
    bench.set_value(device_id, LEVEL, 5)
    client.read_value(device_id, LEVEL)
    assert "another value since" in str(client.explain(device_id, LEVEL))


def test_how_long_the_device_said_that_its_value_holds(client_over, plain, device_id):
    plain.read_value(device_id, TEMPERATURE)

    def held_until(instant):
        def change(request, answer):
            if not request.url.path.endswith("/echo"):
                return answer
            body = answer.json()
            for resource in body["resources"]:
                if resource["resource_path"] == TEMPERATURE:
                    resource["reported"]["expires_at"] = instant
            return httpx.Response(200, json=body)

        return str(client_over(change).explain(device_id, TEMPERATURE))

    assert "holds until 2999-01-01T00:00:00.000Z." in held_until("2999-01-01T00:00:00.000Z")
    assert "holds until 2020-01-01T00:00:00.000Z, which is over." in held_until("2020-01-01T00:00:00.000Z")
    assert "holds until" not in held_until(None)


def test_a_write_of_what_the_device_had_reported_before_is_not_confirmed_by_that(client, bench, device_id):
    bench.set_value(device_id, LEVEL, 40)
    client.read_value(device_id, LEVEL)
    bench.advance(timedelta(minutes=1))
    client.write_value(device_id, LEVEL, 40)
    told = str(client.explain(device_id, LEVEL))
    assert "The reported value is older than that write: the device has reported nothing since." in told


def test_a_write_that_failed_says_why(client, bench, device_id):
    bench.set_answer(device_id, "reject")
    client.begin_write(device_id, LEVEL, 40).exception()
    told = str(client.explain(device_id, LEVEL))
    assert "The last write, of 40, failed at" in told
    assert "REJECTED, the device refused" in told
    assert client.get_device(device_id)[LEVEL].desired.category == "REJECTED"
    bench.set_answer(device_id, "normal")
    client.write_value(device_id, LEVEL, 40)
    assert client.get_device(device_id)[LEVEL].desired.category is None


def test_a_write_under_way_and_a_device_that_is_away(client, bench, device_id):
    bench.set_online(device_id, False)
    client.begin_write(device_id, LEVEL, 40)
    told = str(client.explain(device_id, LEVEL))
    assert "A write of 40 is under way" in told
    assert "A write of this application waits since" in told
    bench.set_online(device_id, True)
    bench.deregister(device_id)
    away = client.explain(device_id, LEVEL)
    assert "The device is not registered" in str(away)
    assert "once the device has registered again" in away.refresh[0]
    assert "a subscription is not possible" in str(away)


def test_what_the_key_may_not_ask_is_said_to_be_unknown(new_client, client, device_id):
    subscribe(client, device_id)
    told = new_client(Scope.READ).explain(device_id, TEMPERATURE)
    assert "by some application; this key may not ask by which" in str(told)
    assert "client.subscribe(" not in str(told)
    assert told.refresh[1].startswith("a key with the scope subscribe can subscribe it")


def test_what_cannot_be_read_or_is_not_there(client, bench, device_id):
    reboot = "/3/0/4"
    gate = bench.add_device("gate-1", [{"path": reboot, "value": "", "executable": True}])
    assert client.explain(gate, reboot).refresh == ("nothing: Device · Reboot cannot be read",)
    bench.remove_resource(device_id, TEMPERATURE)
    bench.update_registration(device_id)
    told = client.explain(device_id, TEMPERATURE)
    assert "does not have this resource any more" in str(told)
    assert told.refresh == ("nothing, before the device introduces the resource again",)
    with pytest.raises(NotFound):
        client.explain("0" * 32, TEMPERATURE)
    with pytest.raises(KeyError, match="close to it: /3303/0/5700"):
        client.explain(device_id, "/3303/0/5701")
