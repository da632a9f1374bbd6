"""Presubscription rules and single subscriptions. Source: wire.md 3; specification 3.2 and 3.3."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from device_resources import sensor

RULES = "/v2/subscriptions"
TEMPERATURE, HUMIDITY, MAKER = "/3303/0/5700", "/3304/0/5700", "/3/0/0"
RESOURCES = (sensor(TEMPERATURE), sensor(HUMIDITY, "40"), {"path": MAKER, "value": "maker"})
BOTH = [TEMPERATURE, HUMIDITY]
LIGHTS = {"endpoint-type": "Light"}


@pytest.fixture
def device(server, key):
    return server.add_device(key, "sensor-1", *RESOURCES, endpoint_type="Sensor")


def begin(server, key, device_id, started_by):
    """Subscribe to the temperature, by a single subscription or by a rule."""
    if started_by == "single":
        server.subscribe(key, device_id)
    else:
        server.put_rules(key, {"resource-path": [TEMPERATURE]})
        server.registration(key, device_id, "PUT")


def listed(server, key, device_id):
    response = server.call(key, "GET", f"{RULES}/{device_id}")
    return response.get_data(as_text=True).split("\n") if response.status_code == 200 else response.status_code


def test_cleared_rules_no_longer_apply(server, key, device):
    for method, body, status in (("DELETE", None, 204), ("PUT", [], 202)):
        server.put_rules(key, {})
        assert server.call(key, method, RULES, json=body).status_code == status
        assert server.call(key, "GET", RULES).json == []
        server.registration(key, device, "POST")
        assert server.subscribed(key, device) == []


def test_exceeded_limit_is_named_and_changes_nothing(server, key, check_error):
    server.put_rules(key, {"endpoint-type": "Before"})
    cases = [
        ([{}] * 1025, "body", "1024"),
        ([{}, {"endpoint-name": "x" * 65}], "1.endpoint-name", "64"),
        ([{"resource-path": ["/*/0"]}], "0.resource-path.0", "'*' is allowed only at the end"),
        ([5], "0", ""),
    ]
    for rules, field, message in cases:
        body = check_error(server.call(key, "PUT", RULES, json=rules), 400)
        assert body.fields[0].name == field
        assert message in body.message
    for value in ("", "NOW", "true"):
        body = check_error(server.call(key, "PUT", RULES, query_string={"apply": value}, json=[{}]), 400, "apply")
        assert "now" in body.message
    assert server.call(key, "GET", RULES).json == [{"endpoint-type": "Before"}]


def tag_of(server, key):
    return server.call(key, "GET", RULES).headers["ETag"]


def test_rules_have_an_etag_that_changes_with_them(server, key):
    none = tag_of(server, key)
    assert none == tag_of(server, server.key())
    server.put_rules(key, LIGHTS)
    light = tag_of(server, key)
    assert light != none
    for known in (light, f"W/{light}"):
        same = server.call(key, "GET", RULES, headers={"If-None-Match": known})
        assert (same.status_code, same.get_data(), same.headers["ETag"]) == (304, b"", light)
    server.put_rules(key, LIGHTS, {})
    assert tag_of(server, key) not in {none, light}
    assert server.call(key, "GET", RULES, headers={"If-None-Match": light}).json == [LIGHTS, {}]
    server.restart()
    server.put_rules(key, LIGHTS)
    assert tag_of(server, key) == light


def test_rules_are_replaced_if_if_match_has_the_current_etag(server, key):
    for form in ("{}", "W/{}", '"other", {}', "*"):
        for method, body, left in (("PUT", [{}], [{}]), ("DELETE", None, [])):
            server.put_rules(key, LIGHTS)
            headers = {"If-Match": form.format(tag_of(server, key))}
            assert server.call(key, method, RULES, headers=headers, json=body).status_code in {202, 204}
            assert server.call(key, "GET", RULES).json == left, (form, method)


def test_rules_with_an_outdated_etag_are_not_changed(server, key, device, check_error):
    server.put_rules(key, {"endpoint-type": "Before"})
    tags = [tag_of(server, key), tag_of(server, server.key()), '"other"', "", "no tag", '"']
    server.put_rules(key, LIGHTS)
    for method, body in (("PUT", [{}]), ("DELETE", None)):
        for tag in tags:
            response = server.call(key, method, RULES, headers={"If-Match": tag}, json=body)
            error = check_error(response, 412, "If-Match")
            assert error.reason == "RULES_CHANGED"
            assert "GET /v2/subscriptions" in error.message
    assert server.call(key, "GET", RULES).json == [LIGHTS]
    assert server.subscribed(key, device) == []


def test_only_one_of_two_changes_to_the_same_rules_succeeds(server, key):
    server.put_rules(key, LIGHTS)
    headers = {"If-Match": tag_of(server, key), "Authorization": f"Bearer {key}"}
    bodies = [[{"endpoint-name": "a"}], [{"endpoint-name": "b"}]]

    def put(body):
        return server.app.test_client().put(RULES, headers=headers, json=body).status_code

    # Both are sent before either is stored, so that they may share a transaction.
    with ThreadPoolExecutor(2) as pool:
        responses = list(pool.map(put, bodies))
    assert sorted(responses) == [202, 412]
    assert server.call(key, "GET", RULES).json == bodies[responses.index(202)]


def test_rule_subscribes_resources_that_match_all_its_members(server, key, device):
    cases = [
        ({}, BOTH),
        ({"resource-path": ["/330*"]}, BOTH),
        ({"resource-path": ["/3303/*"]}, [TEMPERATURE]),
        ({"resource-path": [HUMIDITY, "/9/*"]}, [HUMIDITY]),
        ({"resource-path": [MAKER]}, []),
        ({"resource-path": ["/3303/0", "/3303/0/57000"]}, []),
        ({"endpoint-name": "sensor-1"}, BOTH),
        ({"endpoint-name": "sensor"}, []),
        ({"endpoint-name": device}, BOTH),
        ({"endpoint-name": f"{device[:20]}*"}, BOTH),
        ({"endpoint-type": "Sensor"}, BOTH),
        ({"endpoint-type": "sensor"}, []),
        ({"endpoint-name": "sensor-1", "endpoint-type": "Light"}, []),
        ({"endpoint-name": "other", "endpoint-type": "Sensor"}, []),
        ({"endpoint-name": "sens*", "endpoint-type": "S*", "resource-path": ["/3304/*"]}, [HUMIDITY]),
    ]
    for rule, paths in cases:
        server.put_rules(key, rule)
        server.registration(key, device, "POST")
        assert server.subscribed(key, device) == paths, rule
        assert listed(server, key, device) == (paths or 404), rule


def test_new_resource_is_subscribed_once_at_its_registration_update(server, key):
    server.put_rules(key, {"endpoint-type": "Light"}, {"resource-path": ["/3303/*"]}, {"endpoint-name": "sensor*"})
    device = server.add_device(key, "sensor-1", RESOURCES[0])
    server.set_value(key, device, "19", "/3303/1/5700", observable=True)
    server.set_value(key, device, "18", "/3303/2/5700", observable=False)
    assert server.subscribed(key, device) == [TEMPERATURE]
    for _ in range(2):
        server.registration(key, device, "PUT")
        assert server.subscribed(key, device) == [TEMPERATURE, "/3303/1/5700"]
        assert server.observed(key) == [(device, "21.5"), (device, "19")]


def test_rules_apply_to_registered_devices_at_their_update(server, key, device):
    left = server.add_device(key, "left", *RESOURCES)
    server.registration(key, left, "DELETE")
    server.put_rules(key, {"resource-path": ["/3303/*"]})
    assert server.subscribed(key, device) == []
    server.registration(key, device, "PUT")
    assert server.subscribed(key, device) == [TEMPERATURE]
    server.put_rules(key, {})
    assert server.subscribed(key, device) == [TEMPERATURE]
    server.registration(key, device, "PUT")
    assert server.subscribed(key, device) == BOTH
    assert server.observed(key) == [(device, "21.5"), (device, "40")]
    assert server.subscribed(key, left) == []
    assert listed(server, key, left) == 404


def test_single_subscription_belongs_to_its_application_until_deleted(server, key, other, device, check_error):
    url = f"{RULES}/{device}"
    for path in ["", TEMPERATURE]:
        assert check_error(server.call(key, "GET", url + path), 404).reason == "NOT_SUBSCRIBED"
    for path in [HUMIDITY, TEMPERATURE, TEMPERATURE]:
        server.subscribe(key, device, path)
    assert listed(server, key, device) == BOTH
    assert listed(server, other, device) == 404
    for path in ["", TEMPERATURE]:
        assert server.call(other, "DELETE", url + path).status_code == 204
    for _ in range(2):
        server.subscribe(key, device, method="DELETE")
        assert listed(server, key, device) == [HUMIDITY]


def test_subscription_of_an_unobservable_resource_is_400(server, key, device, check_error):
    cases = [("/9/9/9", "RESOURCE_NOT_FOUND"), (MAKER, "NOT_OBSERVABLE"), ("/a", None), ("/65536/0/0", None)]
    for path, reason in cases:
        body = check_error(server.call(key, "PUT", f"{RULES}/{device}{path}"), 400, "path")
        assert body.reason == reason
    server.registration(key, device, "DELETE")
    body = check_error(server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}"), 400)
    assert body.reason == "DEVICE_NOT_REGISTERED"
    assert listed(server, key, device) == 404


@pytest.mark.parametrize("leaves", ["registration", "deregistration", "expiry"])
def test_full_registration_ends_subscriptions_and_applies_rules(server, key, device, leaves):
    server.subscribe(key, device)
    server.put_rules(key, {"resource-path": [HUMIDITY]})
    assert server.subscribed(key, device) == [TEMPERATURE]
    if leaves == "deregistration":
        server.registration(key, device, "DELETE")
    elif leaves == "expiry":
        server.patch(key, device, online=False)
        server.advance(key, 24 * 3600)
    if leaves != "registration":
        assert server.subscribed(key, device) == []
        assert listed(server, key, device) == 404
        server.patch(key, device, online=True)
    server.registration(key, device, "POST")
    assert server.subscribed(key, device) == listed(server, key, device) == [HUMIDITY]
    before = server.observed(key)
    server.set_value(key, device, "30")
    assert server.observed(key) == before


def test_deleting_a_subscription_of_a_rule_cancels_the_observation(server, key, device):
    begin(server, key, device, "rule")
    server.subscribe(key, device, method="DELETE")
    assert server.subscribed(key, device) == []
    server.set_value(key, device, "30")
    assert server.observed(key) == [(device, "21.5")]
    assert server.resource(key, device)["reported"]["value"] == "MjEuNQ=="


def test_initial_value_goes_only_to_the_second_subscriber(server, key, other, device):
    for _ in range(2):
        server.subscribe(key, device)
    server.set_value(key, device, "22")
    server.subscribe(other, device)
    assert server.observed(other) == [(device, "22")]
    server.set_value(key, device, "23")
    assert server.observed(key) == [(device, "21.5"), (device, "22"), (device, "23")]
    assert server.observed(other) == [(device, "22"), (device, "23")]
    server.subscribe(key, device, method="DELETE")
    server.set_value(key, device, "24")
    assert server.observed(key)[3:] == []
    assert server.observed(other)[2:] == [(device, "24")]


@pytest.mark.parametrize("is_read", [False, True])
def test_change_delayed_by_pmin_reaches_the_first_subscriber_too(server, key, other, device, is_read):
    server.subscribe(key, device)
    server.submit(key, device, "rules", "PUT", f"{TEMPERATURE}?pmin=60")
    server.advance(key, 10)
    server.set_value(key, device, "25")
    assert server.observed(key) == [(device, "21.5")]
    if is_read:
        server.submit(key, device, "r", "GET", TEMPERATURE)
    server.subscribe(other, device)
    server.advance(key, 120)
    assert server.observed(other) == [(device, "25")]
    assert server.observed(key) == [(device, "21.5"), (device, "25")]


def test_subscribed_is_true_from_acceptance_until_the_last_subscription_ends(server, key, other, device):
    server.patch(key, device, latency_seconds=30)
    server.subscribe(key, device)
    assert server.subscribed(key, device) == []
    assert listed(server, key, device) == [TEMPERATURE]
    assert server.resource(key, device)["reported"] == {}
    server.advance(key, 30)
    assert server.subscribed(key, device) == [TEMPERATURE]
    assert server.observed(key) == [(device, "21.5")]
    server.patch(key, device, latency_seconds=0)
    server.subscribe(other, device)
    server.subscribe(key, device, method="DELETE")
    assert server.subscribed(key, device) == [TEMPERATURE]
    server.subscribe(other, device, method="DELETE")
    assert server.subscribed(key, device) == []
    server.set_value(key, device, "30")
    assert server.resource(key, device)["reported"]["value"] == "MjEuNQ=="


def test_sleeping_device_is_subscribed_at_its_next_contact(server, key):
    sleeper = server.add_device(key, "sleeper", *RESOURCES, queue_mode=True)
    server.advance(key, 60)
    server.subscribe(key, sleeper)
    assert server.subscribed(key, sleeper) == []
    server.advance(key, 15 * 60)
    assert server.subscribed(key, sleeper) == [TEMPERATURE]
    assert server.observed(key) == [(sleeper, "21.5")]


def test_unresponsive_device_gets_the_subscription_again_at_its_next_contact(server, key, device):
    server.patch(key, device, answer="silent")
    server.subscribe(key, device)
    server.submit(key, device, "r", "GET", TEMPERATURE)
    server.advance(key, 240)
    assert server.responses(key) == {"r": (504, "TIMEOUT")}
    server.advance(key, 3600)
    assert server.subscribed(key, device) == []
    server.patch(key, device, answer="normal", online=False)
    server.patch(key, device, online=True)
    assert server.subscribed(key, device) == [TEMPERATURE]


@pytest.mark.parametrize("started_by", ["single", "rule"])
def test_auto_observable_resource_sends_an_initial_event_to_each_subscriber(server, key, other, started_by):
    device = server.add_device(key, "aobs-1", {"path": TEMPERATURE, "value": "2.5", "auto_observable": True})
    begin(server, key, device, started_by)
    assert server.observed(key) == [(device, "2.5")]
    begin(server, other, device, started_by)
    assert server.observed(other) == server.observed(key) == [(device, "2.5")]
    server.set_value(key, device, "3.5")
    server.subscribe(key, device, method="DELETE")
    server.set_value(key, device, "4.5")
    assert server.observed(key) == [(device, "2.5"), (device, "3.5")]
    assert server.observed(other) == [*server.observed(key), (device, "4.5")]


def test_auto_observable_resource_sends_an_initial_event_after_a_full_registration(server, key):
    server.put_rules(key, {"resource-path": [TEMPERATURE]})
    device = server.add_device(key, "aobs-1", {"path": TEMPERATURE, "value": "2.5", "auto_observable": True})
    server.registration(key, device, "POST")
    assert server.observed(key) == [(device, "2.5"), (device, "2.5")]
