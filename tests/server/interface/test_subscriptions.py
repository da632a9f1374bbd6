"""E3 and single subscriptions. Source: wire.md 3."""

import pytest

TEMPERATURE = "/3303/0/5700"
TWO_VALUES = (
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": "/3304/0/5700", "value": "40", "observable": True},
    {"path": "/3/0/0", "value": "maker"},
)
RULES = "/v2/subscriptions"


def subscribed(server, key, device_id):
    body = server.call(key, "GET", f"/v3/devices/{device_id}/echo").json
    return [entry["resource_path"] for entry in body["resources"] if entry["subscribed"]]


def test_rules_are_given_back_as_they_were_put_and_can_be_deleted(server, key):
    rules = [{"endpoint-name": "a*", "endpoint-type": "Light", "resource-path": ["/3303/*"]}, {}]
    assert server.call(key, "GET", RULES).json == []
    assert server.call(key, "PUT", RULES, json=rules).status_code == 202
    assert server.call(key, "GET", RULES).json == rules
    assert server.call(server.key(), "GET", RULES).json == []
    assert server.call(key, "DELETE", RULES).status_code == 204
    assert server.call(key, "GET", RULES).json == []


def test_a_put_replaces_all_rules_and_an_empty_one_clears_them(server, key):
    server.call(key, "PUT", RULES, json=[{"endpoint-type": "Light"}])
    server.call(key, "PUT", RULES, json=[{"endpoint-type": "Lock"}])
    assert server.call(key, "GET", RULES).json == [{"endpoint-type": "Lock"}]
    assert server.call(key, "PUT", RULES, json=[]).status_code == 202
    assert server.call(key, "GET", RULES).json == []


@pytest.mark.parametrize(
    ("rule", "paths"),
    [
        ({}, [TEMPERATURE, "/3304/0/5700"]),
        ({"resource-path": ["/3303/*"]}, [TEMPERATURE]),
        ({"resource-path": [TEMPERATURE, "/3304/0/57*"]}, [TEMPERATURE, "/3304/0/5700"]),
        ({"resource-path": ["/3/0/0"]}, []),
        ({"resource-path": ["/3303"]}, []),
        ({"endpoint-name": "sensor-1"}, [TEMPERATURE, "/3304/0/5700"]),
        ({"endpoint-name": "sensor-*", "resource-path": ["/3304/*"]}, ["/3304/0/5700"]),
        ({"endpoint-name": "015f*", "resource-path": ["/3304/*"]}, ["/3304/0/5700"]),
        ({"endpoint-name": "other"}, []),
        ({"endpoint-type": "Sens*", "resource-path": ["/3304/*"]}, ["/3304/0/5700"]),
        ({"endpoint-type": "Light"}, []),
    ],
)
@pytest.mark.parametrize("when", ["registration", "apply"])
def test_a_rule_subscribes_what_it_matches_and_can_be_observed(server, key, rule, paths, when):
    if when == "registration":
        server.call(key, "PUT", RULES, json=[rule])
    device = server.add_device(key, "sensor-1", *TWO_VALUES, endpoint_type="Sensor")
    if when == "apply":
        assert server.call(key, "PUT", f"{RULES}?apply=now", json=[rule]).status_code == 202
    assert server.services.database.settle(10)
    assert subscribed(server, key, device) == paths


def test_rules_are_checked_at_a_registration_update_too_and_not_by_themselves(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    server.call(key, "PUT", RULES, json=[{"resource-path": ["/3303/*"]}])
    assert subscribed(server, key, device) == []
    server.set_value(key, device, "19", "/3303/1/5700", observable=True)
    server.registration(key, device, "PUT")
    assert subscribed(server, key, device) == [TEMPERATURE, "/3303/1/5700"]


@pytest.mark.parametrize(
    ("rules", "field", "limit"),
    [
        ([{}] * 1025, "body", "1024"),
        ([{"resource-path": ["/1/*"] * 257}], "0.resource-path", "256"),
        ([{"resource-path": ["/" + "1" * 128]}], "0.resource-path.0", "128"),
        ([{"endpoint-name": "x" * 65}], "0.endpoint-name", "64"),
        ([{"endpoint-type": "x" * 65}], "0.endpoint-type", "64"),
        ([{"resource-path": ["/33*03"]}], "0.resource-path.0", "end"),
        ([{"resource-path": ["3303"]}], "0.resource-path.0", "slash"),
        ([{"endpoint_name": "x"}], "0.endpoint_name", "unknown"),
        ({}, "body", "list"),
    ],
)
def test_rules_past_a_limit_are_refused_with_the_limit_and_change_nothing(server, key, rules, field, limit):
    server.call(key, "PUT", RULES, json=[{"endpoint-type": "Light"}])
    answer = server.call(key, "PUT", RULES, json=rules)
    assert answer.status_code == 400
    assert answer.json["fields"][0]["name"] == field
    assert limit in answer.json["message"]
    assert server.call(key, "GET", RULES).json == [{"endpoint-type": "Light"}]


def test_apply_takes_now_alone(server, key):
    answer = server.call(key, "PUT", f"{RULES}?apply=later", json=[])
    assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, "apply")


def test_a_single_subscription_is_put_shown_listed_and_deleted(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    base = f"{RULES}/{device}"
    assert server.call(key, "GET", base).status_code == 404
    assert server.call(key, "GET", base + TEMPERATURE).status_code == 404
    for path in [TEMPERATURE, "/3304/0/5700"]:
        assert server.call(key, "PUT", base + path).status_code == 200
    assert server.call(key, "GET", base + TEMPERATURE).status_code == 200
    listed = server.call(key, "GET", base)
    assert (listed.mimetype, listed.get_data(as_text=True)) == ("text/uri-list", "/3303/0/5700\n/3304/0/5700")
    assert server.call(key, "DELETE", base + TEMPERATURE).status_code == 204
    assert server.call(key, "DELETE", base + TEMPERATURE).status_code == 204
    assert server.call(key, "GET", base).get_data(as_text=True) == "/3304/0/5700"
    assert server.call(key, "DELETE", base).status_code == 204
    assert server.call(key, "GET", base).status_code == 404
    assert subscribed(server, key, device) == []


def test_a_device_that_is_told_to_stop_sends_no_more(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.services.database.settle(10)
    server.call(key, "DELETE", f"{RULES}/{device}{TEMPERATURE}")
    server.services.database.settle(10)
    server.set_value(key, device, "30")
    assert server.resource(key, device)["reported"]["value"] == "MjEuNQ=="


def test_what_cannot_be_subscribed_is_refused(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    unknown = server.call(key, "PUT", f"{RULES}/nobody{TEMPERATURE}")
    assert (unknown.status_code, unknown.json["reason"]) == (404, "DEVICE_NOT_FOUND")
    missing = server.call(key, "PUT", f"{RULES}/{device}/9/9/9")
    assert (missing.status_code, missing.json["reason"]) == (400, "RESOURCE_NOT_FOUND")
    fixed = server.call(key, "PUT", f"{RULES}/{device}/3/0/0")
    assert (fixed.status_code, fixed.json["reason"]) == (400, "NOT_OBSERVABLE")
    no_path = server.call(key, "PUT", f"{RULES}/{device}/a/b")
    assert (no_path.status_code, no_path.json["fields"][0]["name"]) == (400, "path")


def test_a_full_registration_ends_single_subscriptions_and_applies_the_rules(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.call(key, "PUT", RULES, json=[{"resource-path": ["/3304/*"]}])
    server.registration(key, device, "POST")
    assert subscribed(server, key, device) == ["/3304/0/5700"]
    assert server.call(key, "GET", f"{RULES}/{device}").get_data(as_text=True) == "/3304/0/5700"


def test_a_second_subscriber_gets_the_initial_value_and_the_first_no_other(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    other = server.key()
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.services.database.settle(10)
    server.call(other, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    assert server.observed(other) == server.observed(key) == [(device, "21.5")]
    server.call(key, "DELETE", f"{RULES}/{device}{TEMPERATURE}")
    assert subscribed(server, key, device) == [TEMPERATURE]
    server.set_value(key, device, "22")
    assert server.observed(other) == [(device, "21.5"), (device, "22")]
    assert server.observed(key) == [(device, "21.5")]
    server.call(other, "DELETE", f"{RULES}/{device}{TEMPERATURE}")
    assert subscribed(server, key, device) == []


def test_a_change_that_another_subscription_brought_reaches_the_first_subscriber_too(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    other = server.key()
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.place(key, device, "rules", "PUT", f"{TEMPERATURE}?pmin=60")
    server.advance(key, 10)
    server.set_value(key, device, "25")
    assert server.observed(key) == [(device, "21.5")]
    server.call(other, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.advance(key, 120)
    assert server.observed(other) == [(device, "25")]
    assert server.observed(key) == [(device, "21.5"), (device, "25")]


def test_a_refused_subscription_is_not_true_and_is_asked_for_again_at_registration(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    server.patch(key, device, answer="reject")
    server.call(key, "PUT", RULES, json=[{"resource-path": ["/3303/*"]}])
    server.registration(key, device, "POST")
    assert subscribed(server, key, device) == []
    assert server.observed(key) == []
    server.patch(key, device, answer="normal")
    server.registration(key, device, "POST")
    assert subscribed(server, key, device) == [TEMPERATURE]


def test_a_refused_subscription_does_not_keep_an_ended_one_alive(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    other = server.key()
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.patch(key, device, answer="reject")
    server.call(other, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.patch(key, device, answer="normal")
    server.call(key, "DELETE", f"{RULES}/{device}{TEMPERATURE}")
    assert subscribed(server, key, device) == []
    server.set_value(key, device, "30")
    assert server.resource(key, device)["reported"]["value"] == "MjEuNQ=="


def test_a_device_that_left_a_subscribe_command_unanswered_is_asked_again_at_its_next_contact(server, key):
    device = server.add_device(key, "sensor-1", *TWO_VALUES)
    server.patch(key, device, answer="silent")
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.place(key, device, "r", "GET", TEMPERATURE)
    server.advance(key, 240)
    assert server.responses(key) == {"r": (504, "TIMEOUT")}
    server.patch(key, device, answer="normal")
    server.registration(key, device, "PUT")
    assert subscribed(server, key, device) == [TEMPERATURE]


def test_a_sleeping_device_is_subscribed_at_its_next_contact(server, key):
    device = server.add_device(key, "sleeper", *TWO_VALUES, queue_mode=True)
    server.advance(key, 60)
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    assert subscribed(server, key, device) == []
    server.advance(key, 15 * 60)
    assert subscribed(server, key, device) == [TEMPERATURE]
