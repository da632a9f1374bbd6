"""Presubscription rules and single subscriptions, to the letter. Source: wire.md 3; specification 3.2 and 3.3."""

from concurrent.futures import ThreadPoolExecutor

import pytest

RULES = "/v2/subscriptions"
TEMPERATURE, HUMIDITY, MAKER = "/3303/0/5700", "/3304/0/5700", "/3/0/0"
RESOURCES = (
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": HUMIDITY, "value": "40", "observable": True},
    {"path": MAKER, "value": "maker"},
)
BOTH = [TEMPERATURE, HUMIDITY]


@pytest.fixture
def device(server, key):
    return server.add_device(key, "sensor-1", *RESOURCES, endpoint_type="Sensor")


@pytest.fixture
def other(server):
    return server.key()


@pytest.fixture
def put_rules(server, key):
    def put(*rules, query="", by=key):
        answer = server.call(by, "PUT", RULES + query, json=list(rules))
        assert (answer.status_code, answer.get_data()) == (202, b"")
        assert server.services.database.settle(10)

    return put


@pytest.fixture
def subscribe(server, key, device):
    def put(path=TEMPERATURE, by=key, method="PUT"):
        answer = server.call(by, method, f"{RULES}/{device}{path}")
        assert answer.status_code == (200 if method == "PUT" else 204)
        assert server.services.database.settle(10)

    return put


@pytest.fixture
def subscribed(server, key):
    def paths(device_id):
        body = server.call(key, "GET", f"/v3/devices/{device_id}/echo").json
        return [entry["resource_path"] for entry in body["resources"] if entry["subscribed"]]

    return paths


def listed(server, key, device_id):
    answer = server.call(key, "GET", f"{RULES}/{device_id}")
    return answer.get_data(as_text=True).split("\n") if answer.status_code == 200 else answer.status_code


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [{}],
        [{"endpoint-type": "Light", "resource-path": ["*"]}, {"endpoint-name": "a*"}],
        [{"resource-path": ["/3303/*", "/3303/*"]}, {"resource-path": ["/3303/*"]}],
        [{"endpoint-name": "x" * 64, "endpoint-type": "y" * 64, "resource-path": ["/" + "1" * 127]}],
        [{"resource-path": [f"/{number}/*" for number in range(256)]}],
        [{"endpoint-name": f"n{number}"} for number in range(1024)],
    ],
    ids=["none", "all", "two", "twice", "longest", "most paths", "most rules"],
)
def test_rules_come_back_as_they_were_put(server, key, put_rules, rules):
    put_rules(*rules)
    assert server.call(key, "GET", RULES).json == rules


def test_rules_belong_to_one_key(server, key, other, put_rules):
    put_rules({"endpoint-type": "Light"})
    assert server.call(other, "GET", RULES).json == []
    assert server.call(other, "DELETE", RULES).status_code == 204
    assert server.call(key, "GET", RULES).json == [{"endpoint-type": "Light"}]


@pytest.mark.parametrize("clear", [("DELETE", None, 204), ("PUT", [], 202)])
def test_cleared_rules_apply_no_more(server, key, put_rules, subscribed, clear):
    put_rules({})
    method, body, status = clear
    assert server.call(key, method, RULES, json=body).status_code == status
    assert server.call(key, "GET", RULES).json == []
    assert subscribed(server.add_device(key, "sensor-1", *RESOURCES)) == []
    assert server.call(key, "DELETE", RULES).status_code == 204


@pytest.mark.parametrize(
    ("rules", "field", "told"),
    [
        ([{}] * 1025, "body", "1024"),
        ([{"resource-path": ["/3303/*"] * 257}], "0.resource-path", "256"),
        ([{"resource-path": ["/" + "1" * 128]}], "0.resource-path.0", "128"),
        ([{}, {"endpoint-name": "x" * 65}], "1.endpoint-name", "64"),
        ([{"endpoint-type": "x" * 65}], "0.endpoint-type", "64"),
        ([{"resource-path": ["/*/0"]}], "0.resource-path.0", "'*' may stand only at the end"),
        ([{"endpoint-name": "a*b"}], "0.endpoint-name", "'*' may stand only at the end"),
        ([{"endpoint-type": "**"}], "0.endpoint-type", "'*' may stand only at the end"),
        ([{"endpoint-name": 5}], "0.endpoint-name", "string"),
        ([{"resource-path": TEMPERATURE}], "0.resource-path", "list"),
        ([{"resource-path": [5]}], "0.resource-path.0", "string"),
        ([5], "0", "object"),
        ({"endpoint-name": "a"}, "body", "list"),
    ],
)
def test_a_limit_that_is_passed_is_named_and_nothing_changes(server, key, put_rules, refused, rules, field, told):
    put_rules({"endpoint-type": "Before"})
    body = refused(server.call(key, "PUT", RULES, json=rules), 400)
    assert body.fields[0].name == field
    assert told in body.message or told == "object"
    assert server.call(key, "GET", RULES).json == [{"endpoint-type": "Before"}]


def tag_of(server, key):
    return server.call(key, "GET", RULES).headers["ETag"]


def test_the_list_of_rules_has_a_tag_that_changes_with_it(server, key, put_rules):
    none = tag_of(server, key)
    assert none == tag_of(server, server.key())
    put_rules({"endpoint-type": "Light"})
    light = tag_of(server, key)
    assert light == tag_of(server, key) != none
    put_rules({"endpoint-type": "Light"}, {})
    assert tag_of(server, key) not in {none, light}
    server.restart()
    put_rules({"endpoint-type": "Light"})
    assert tag_of(server, key) == light
    server.call(key, "DELETE", RULES)
    assert tag_of(server, key) == none


@pytest.mark.parametrize("weakened", [False, True])
def test_rules_that_are_known_already_are_not_sent_again(server, key, put_rules, weakened):
    put_rules({"endpoint-type": "Light"})
    tag = tag_of(server, key)
    asked = {"If-None-Match": f"W/{tag}" if weakened else tag}
    same = server.call(key, "GET", RULES, headers=asked)
    assert (same.status_code, same.get_data(), same.headers["ETag"]) == (304, b"", tag)
    put_rules({})
    assert server.call(key, "GET", RULES, headers=asked).json == [{}]


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
@pytest.mark.parametrize(("method", "body", "left"), [("PUT", [{}], [{}]), ("DELETE", None, [])])
def test_rules_are_changed_by_who_saw_them_last(server, key, put_rules, form, method, body, left):
    put_rules({"endpoint-type": "Light"})
    headers = {"If-Match": form.format(tag_of(server, key))}
    assert server.call(key, method, RULES, headers=headers, json=body).status_code in {202, 204}
    assert server.call(key, "GET", RULES).json == left


@pytest.mark.parametrize("seen", ["before", "none", '"other"', "", "no tag", '"'])
@pytest.mark.parametrize(
    ("method", "body", "query"), [("PUT", [{}], ""), ("PUT", [{}], "?apply=now"), ("DELETE", None, "")]
)
def test_rules_that_changed_meanwhile_are_left_as_they_are(
    server, key, device, put_rules, subscribed, refused, seen, method, body, query
):
    put_rules({"endpoint-type": "Before"})
    tags = {"before": tag_of(server, key), "none": tag_of(server, server.key())}
    put_rules({"endpoint-type": "Light"})
    headers = {"If-Match": tags.get(seen, seen)}
    told = refused(server.call(key, method, RULES + query, headers=headers, json=body), 412, "If-Match")
    assert told.reason == "RULES_CHANGED"
    assert "GET /v2/subscriptions" in told.message
    assert server.call(key, "GET", RULES).json == [{"endpoint-type": "Light"}]
    assert subscribed(device) == []


def test_of_two_who_saw_the_same_rules_one_changes_them(server, key, put_rules):
    put_rules({"endpoint-type": "Light"})
    headers = {"If-Match": tag_of(server, key), "Authorization": f"Bearer {key}"}
    # Both are sent before either is stored, so that one transaction may have both.
    bodies = [[{"endpoint-name": "a"}], [{"endpoint-name": "b"}]]
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(lambda body: server.app.test_client().put(RULES, headers=headers, json=body).status_code, bodies)
        )
    assert sorted(answers) == [202, 412]
    assert server.call(key, "GET", RULES).json == bodies[answers.index(202)]


@pytest.mark.parametrize("value", ["", "later", "NOW", "true", "1"])
def test_apply_takes_now_alone(server, key, refused, value):
    body = refused(server.call(key, "PUT", RULES, query_string={"apply": value}, json=[{}]), 400, "apply")
    assert "now" in body.message
    assert server.call(key, "GET", RULES).json == []


@pytest.mark.parametrize("when", ["registration", "update", "apply"])
@pytest.mark.parametrize(
    ("rule", "paths"),
    [
        ({}, BOTH),
        ({"resource-path": ["*"]}, BOTH),
        ({"resource-path": ["/330*"]}, BOTH),
        ({"resource-path": ["/3303/0/5700*"]}, [TEMPERATURE]),
        ({"resource-path": [HUMIDITY, "/9/*"]}, [HUMIDITY]),
        ({"resource-path": [MAKER]}, []),
        ({"resource-path": ["/3303/0"]}, []),
        ({"endpoint-name": "sensor-1"}, BOTH),
        ({"endpoint-name": "sensor"}, []),
        ({"endpoint-name": "*"}, BOTH),
        ({"endpoint-type": "Sensor"}, BOTH),
        ({"endpoint-type": "sensor"}, []),
        ({"endpoint-name": "sensor-1", "endpoint-type": "Light"}, []),
        ({"endpoint-name": "sens*", "endpoint-type": "S*", "resource-path": ["/3304/*"]}, [HUMIDITY]),
    ],
)
def test_a_rule_subscribes_what_matches_all_its_members(server, key, put_rules, subscribed, when, rule, paths):
    if when == "registration":
        put_rules(rule)
    device = server.add_device(key, "sensor-1", *RESOURCES, endpoint_type="Sensor")
    if when != "registration":
        put_rules(rule, query="?apply=now" if when == "apply" else "")
    if when == "update":
        assert subscribed(device) == []
        server.registration(key, device, "PUT")
    assert subscribed(device) == paths
    assert listed(server, key, device) == (paths or 404)
    assert [entry["path"] for kind, entry in server.log(key) if kind == "notifications"] == paths


@pytest.mark.parametrize("cut", [32, 20, 0])
def test_a_name_is_matched_with_the_device_id_too(server, key, device, put_rules, subscribed, cut):
    pattern = device if cut == 32 else f"{device[:cut]}*"
    put_rules({"endpoint-name": pattern, "resource-path": [TEMPERATURE]}, query="?apply=now")
    assert subscribed(device) == [TEMPERATURE]


def test_one_of_several_rules_is_enough_and_a_resource_is_subscribed_once(server, key, put_rules):
    put_rules({"endpoint-type": "Light"}, {"resource-path": [TEMPERATURE]}, {"endpoint-name": "sensor*"})
    device = server.add_device(key, "sensor-1", *RESOURCES)
    assert listed(server, key, device) == BOTH
    assert sorted(server.observed(key)) == [(device, "21.5"), (device, "40")]


def test_a_new_resource_is_subscribed_at_the_registration_update_that_brings_it(server, key, put_rules, subscribed):
    put_rules({"resource-path": ["/3303/*"]})
    device = server.add_device(key, "sensor-1", *RESOURCES)
    server.set_value(key, device, "19", "/3303/1/5700", observable=True)
    server.set_value(key, device, "18", "/3303/2/5700", observable=False)
    assert subscribed(device) == [TEMPERATURE]
    server.registration(key, device, "PUT")
    assert subscribed(device) == [TEMPERATURE, "/3303/1/5700"]
    assert server.observed(key) == [(device, "21.5"), (device, "19")]


def test_an_update_without_news_asks_for_nothing_again(server, key, put_rules):
    put_rules({})
    device = server.add_device(key, "sensor-1", *RESOURCES)
    before = server.observed(key)
    server.registration(key, device, "PUT")
    assert server.observed(key) == before


def test_apply_now_reaches_registered_devices_alone(server, key, device, put_rules, subscribed):
    left = server.add_device(key, "left", *RESOURCES)
    server.registration(key, left, "DELETE")
    put_rules({}, query="?apply=now")
    assert subscribed(device) == BOTH
    assert subscribed(left) == []
    assert listed(server, key, left) == 404


def test_a_single_subscription_from_put_to_delete(server, key, other, device, subscribe, refused):
    url = f"{RULES}/{device}"
    for path in ["", TEMPERATURE]:
        assert refused(server.call(key, "GET", url + path), 404).reason == "NOT_SUBSCRIBED"
    for path in [HUMIDITY, TEMPERATURE, TEMPERATURE]:
        subscribe(path)
    answer = server.call(key, "GET", url)
    assert (answer.mimetype, answer.get_data()) == ("text/uri-list", b"/3303/0/5700\n/3304/0/5700")
    assert server.call(key, "GET", url + TEMPERATURE).status_code == 200
    assert listed(server, other, device) == 404
    assert server.call(other, "DELETE", url).status_code == 204
    subscribe(TEMPERATURE, method="DELETE")
    refused(server.call(key, "GET", url + TEMPERATURE), 404)
    assert listed(server, key, device) == [HUMIDITY]
    assert server.call(key, "DELETE", url).status_code == 204
    refused(server.call(key, "GET", url), 404)
    assert server.call(key, "DELETE", url).status_code == 204


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/9/9/9", "RESOURCE_NOT_FOUND"), (MAKER, "NOT_OBSERVABLE"), ("/a", None), ("/65536/0/0", None), ("/01", None)],
)
def test_what_cannot_be_observed_cannot_be_subscribed(server, key, device, refused, path, reason):
    body = refused(server.call(key, "PUT", f"{RULES}/{device}{path}"), 400, "path")
    assert body.reason == reason
    assert listed(server, key, device) == 404


def test_a_device_that_left_cannot_be_subscribed(server, key, device, refused):
    server.registration(key, device, "DELETE")
    body = refused(server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}"), 400)
    assert body.reason == "DEVICE_NOT_REGISTERED"


@pytest.mark.parametrize("leaves", ["registration", "deregistration", "expiry"])
def test_subscriptions_are_lost_at_a_full_registration_and_the_rules_apply_then(
    server, key, device, put_rules, subscribe, subscribed, leaves
):
    subscribe(TEMPERATURE)
    put_rules({"resource-path": [HUMIDITY]})
    assert subscribed(device) == [TEMPERATURE]
    if leaves == "deregistration":
        server.registration(key, device, "DELETE")
    elif leaves == "expiry":
        server.patch(key, device, online=False)
        server.advance(key, 24 * 3600)
    if leaves != "registration":
        assert subscribed(device) == []
        assert listed(server, key, device) == 404
        server.patch(key, device, online=True)
    server.registration(key, device, "POST")
    assert subscribed(device) == [HUMIDITY]
    assert listed(server, key, device) == [HUMIDITY]
    before = server.observed(key)
    server.set_value(key, device, "30")
    assert server.observed(key) == before


def test_a_presubscription_may_be_ended_like_a_single_one(server, key, device, put_rules, subscribe, subscribed):
    put_rules({"resource-path": [TEMPERATURE]}, query="?apply=now")
    subscribe(TEMPERATURE, method="DELETE")
    assert subscribed(device) == []
    server.set_value(key, device, "30")
    assert server.observed(key) == [(device, "21.5")]


def test_the_second_subscriber_gets_the_initial_value_and_the_first_nothing(server, key, other, device, subscribe):
    subscribe()
    server.set_value(key, device, "22")
    before = server.log(key)
    subscribe(by=other)
    assert server.observed(other) == [(device, "22")]
    assert server.log(key) == before
    server.set_value(key, device, "23")
    assert server.observed(key) == [(device, "21.5"), (device, "22"), (device, "23")]
    assert server.observed(other) == [(device, "22"), (device, "23")]


def test_a_repeated_put_brings_no_second_initial_value(server, key, device, subscribe):
    subscribe()
    subscribe()
    assert server.observed(key) == [(device, "21.5")]


def test_a_change_that_waits_for_its_pmin_reaches_the_first_subscriber_though_another_came(
    server, key, other, device, subscribe
):
    subscribe()
    server.place(key, device, "rules", "PUT", f"{TEMPERATURE}?pmin=60")
    server.advance(key, 10)
    server.set_value(key, device, "25")
    assert server.observed(key) == [(device, "21.5")]
    subscribe(by=other)
    server.advance(key, 120)
    assert server.observed(other) == [(device, "25")]
    assert server.observed(key) == [(device, "21.5"), (device, "25")]


def test_subscribed_is_true_from_acceptance_until_the_last_subscription_ends(
    server, key, other, device, subscribe, subscribed
):
    server.patch(key, device, latency_seconds=30)
    subscribe()
    assert subscribed(device) == []
    assert listed(server, key, device) == [TEMPERATURE]
    assert server.resource(key, device)["reported"] == {}
    server.advance(key, 30)
    assert subscribed(device) == [TEMPERATURE]
    assert server.observed(key) == [(device, "21.5")]
    server.patch(key, device, latency_seconds=0)
    subscribe(by=other)
    subscribe(method="DELETE")
    assert subscribed(device) == [TEMPERATURE]
    subscribe(method="DELETE", by=other)
    assert subscribed(device) == []


def test_a_subscription_that_ends_before_the_device_answers_leaves_no_trace(server, key, device, subscribe, subscribed):
    server.patch(key, device, latency_seconds=30)
    subscribe()
    subscribe(method="DELETE")
    server.advance(key, 120)
    assert subscribed(device) == []
    assert server.observed(key) == []
    reported = server.resource(key, device)["reported"]
    server.set_value(key, device, "30")
    server.advance(key, 120)
    assert server.resource(key, device)["reported"] == reported


def test_a_subscription_of_an_offline_device_is_true_at_its_next_contact(server, key, device, subscribe, subscribed):
    server.patch(key, device, online=False)
    subscribe()
    server.advance(key, 3600)
    assert subscribed(device) == []
    server.patch(key, device, online=True)
    assert subscribed(device) == [TEMPERATURE]
    assert server.observed(key) == [(device, "21.5")]


def test_rules_reach_a_sleeping_device_at_its_next_contact(server, key, put_rules, subscribed):
    sleeper = server.add_device(key, "sleeper", *RESOURCES, queue_mode=True)
    server.advance(key, 60)
    put_rules({}, query="?apply=now")
    assert subscribed(sleeper) == []
    server.advance(key, 15 * 60)
    assert subscribed(sleeper) == BOTH
    assert len(server.observed(key)) == 2


def test_a_refused_observe_makes_nothing_true_and_no_event(server, key, device, put_rules, subscribe, subscribed):
    server.patch(key, device, answer="reject")
    put_rules({"resource-path": [HUMIDITY]}, query="?apply=now")
    subscribe()
    server.patch(key, device, answer="normal")
    server.set_value(key, device, "30")
    assert subscribed(device) == []
    assert server.observed(key) == []
    assert server.resource(key, device)["reported"] == {}
    subscribe()
    assert subscribed(device) == [TEMPERATURE]
    server.registration(key, device, "POST")
    assert subscribed(device) == [HUMIDITY]


def test_a_device_that_does_not_answer_is_asked_again_at_its_next_contact(server, key, device, subscribe, subscribed):
    server.patch(key, device, answer="silent")
    subscribe()
    server.advance(key, 3600)
    assert subscribed(device) == []
    server.patch(key, device, answer="normal", online=False)
    server.patch(key, device, online=True)
    assert subscribed(device) == [TEMPERATURE]


def test_an_auto_observation_updates_the_mirror_without_an_event(server, key, subscribed):
    door = server.add_device(key, "door-1", {"path": "/3200/0/5500", "value": "0", "auto_observable": True})
    before = server.log(key)
    server.advance(key, 60)
    server.set_value(key, door, "1", "/3200/0/5500")
    reported = server.resource(key, door, "/3200/0/5500")["reported"]
    assert (reported["value"], reported["reported_at"]) == ("MQ==", "2026-01-05T08:01:00.000Z")
    assert subscribed(door) == []
    assert server.log(key) == before


def test_an_auto_observation_goes_to_a_subscriber_alone_and_goes_on_after_its_end(server, key, other):
    path = "/3200/0/5500"
    resource = {"path": path, "value": "0", "auto_observable": True, "observable": True}
    door = server.add_device(key, "door-1", resource)
    server.call(key, "PUT", f"{RULES}/{door}{path}")
    server.set_value(key, door, "1", path)
    assert server.observed(key) == [(door, "0"), (door, "1")]
    assert server.observed(other) == []
    server.call(key, "DELETE", f"{RULES}/{door}{path}")
    server.services.database.settle(10)
    server.set_value(key, door, "0", path)
    assert server.observed(key) == [(door, "0"), (door, "1")]
    assert server.resource(key, door, path)["reported"]["value"] == "MA=="


def test_an_observation_event_tells_what_changed_and_when(server, key, device, subscribe):
    subscribe()
    server.advance(key, 90)
    server.set_value(key, device, "22")
    ((_, event),) = server.log(key, after=2)
    assert event.pop("uid")
    assert event == {
        "ep": device,
        "path": TEMPERATURE,
        "ct": "text/plain",
        "payload": "MjI=",
        "max-age": 0,
        "timestamp": server.now,
        "original-ep": "sensor-1",
        "seq": 3,
    }
