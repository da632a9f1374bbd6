"""Rules that several users of one key add and remove concurrently: no change is lost."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from blocking_client import record_pauses
from client_test_data import URL

from mirror_sdk import CallTimeout, InvalidValue, MirrorClient, PreconditionFailed, PresubscriptionRule
from mirror_sdk.wire.subscriptions import PRESUBSCRIPTION_RULES

TEMPERATURES = {"resource_path": ["/3303/*"]}
LIGHTS = {"endpoint_type": "Light", "resource_path": ["/3311/0/5850", "/3311/0/5851"]}
DOORS = {"endpoint_name": "door-*"}


def put(*rules):
    return [PresubscriptionRule.model_validate(rule) for rule in rules]


def test_an_existing_rule_is_not_added_again_and_removal_keeps_the_order_of_the_others(client):
    client.subscriptions.rules.replace([TEMPERATURES, LIGHTS])
    assert client.subscriptions.rules.add([LIGHTS, DOORS, DOORS]) == put(DOORS)
    assert client.subscriptions.rules.add([LIGHTS, DOORS]) == []
    assert client.subscriptions.rules.list() == put(TEMPERATURES, LIGHTS, DOORS)
    client.subscriptions.rules.replace([DOORS, LIGHTS, TEMPERATURES, LIGHTS])
    for removed in (put(LIGHTS), []):
        assert client.subscriptions.rules.remove([LIGHTS, {"endpoint_type": "Fan"}]) == removed
        assert client.subscriptions.rules.list() == put(DOORS, TEMPERATURES)


def test_rules_that_say_the_same_are_the_same(client):
    for there, same in (
        ({"resource_path": ["/3303/*", "/3311/*"]}, {"resource_path": ["/3311/*", "/3303/*", "/3303/*"]}),
        ({"endpoint_name": "*", "resource_path": ["/3303/*"]}, {"resource_path": ["/3303/*"]}),
        ({"endpoint_type": "*"}, {}),
        ({}, {"resource_path": ["*"]}),
        ({"resource_path": ["/*"]}, {"resource_path": ["/3303/*", "*"]}),
    ):
        client.subscriptions.rules.replace([there])
        assert client.subscriptions.rules.add([same]) == []
        assert client.subscriptions.rules.list() == put(there)
        assert client.subscriptions.rules.remove([same]) == put(same)
        assert client.subscriptions.rules.list() == []


def test_error_of_a_rule_counts_the_rules_that_were_passed(client):
    client.subscriptions.rules.replace([TEMPERATURES, LIGHTS])
    with pytest.raises(InvalidValue, match=r"^rule 1 has no member 'endpoint_typ'; similar: endpoint_type,"):
        client.subscriptions.rules.add([DOORS, {"endpoint_typ": "Light"}])


def test_rule_included_in_another_rule_remains_a_separate_rule(client):
    for another in ({"resource_path": ["/3303/0/5700"]}, {"endpoint_type": "Light"}, {"endpoint_name": "/3303/*"}, {}):
        client.subscriptions.rules.replace([TEMPERATURES])
        assert client.subscriptions.rules.add([another]) == put(another)
        assert client.subscriptions.rules.remove([TEMPERATURES]) == put(TEMPERATURES)
        assert client.subscriptions.rules.list() == put(another)


def test_they_are_applied_now_on_request_also_those_that_were_there(client, device_id):
    client.subscriptions.rules.add([TEMPERATURES])
    assert client.subscriptions.list(device_id) == []
    client.subscriptions.rules.add([TEMPERATURES], apply_now=True)
    assert client.subscriptions.list(device_id) == ["/3303/0/5700"]
    client.subscriptions.rules.remove([TEMPERATURES])
    assert client.subscriptions.list(device_id) == ["/3303/0/5700"]


@pytest.mark.parametrize(
    ("rules", "kind", "message"),
    [
        (LIGHTS, TypeError, "rules must be a list of rules, not dict"),
        (PresubscriptionRule(), TypeError, "rules must be a list of rules, not PresubscriptionRule"),
        ([{"resource_path": ["/1"] * 257}], ValueError, "256"),
        ([{"endpoint_name": f"n{number}"} for number in range(1024)], InvalidValue, "would have 1025 rules"),
    ],
    ids=["one", "a rule", "too many paths", "too many rules"],
)
def test_an_impossible_rule_is_named_and_changes_nothing(client, rules, kind, message):
    client.subscriptions.rules.replace([TEMPERATURES])
    with pytest.raises(kind, match=message):
        client.subscriptions.rules.add(rules)
    if kind is not InvalidValue:
        with pytest.raises(kind, match=message):
            client.subscriptions.rules.remove(rules)
    assert client.subscriptions.rules.list() == put(TEMPERATURES)


def test_many_threads_change_rules_at_once(mirror):
    """Each thread has its own client, like many programs with one key."""
    key = mirror.new_key()
    with MirrorClient(URL, key, transport=mirror.transport) as first:
        first.subscriptions.rules.replace([TEMPERATURES, *({"endpoint_name": f"old-{number}"} for number in range(4))])
        started = threading.Barrier(8)

        def change(number):
            with MirrorClient(URL, key, transport=mirror.transport) as client:
                started.wait(60)
                if number % 2:
                    return client.subscriptions.rules.remove([{"endpoint_name": f"old-{number // 2}"}])
                return client.subscriptions.rules.add([{"endpoint_name": f"new-{number // 2}"}])

        with ThreadPoolExecutor(8) as pool:
            changed = list(pool.map(change, range(8)))
        assert all(len(rules) == 1 for rules in changed)
        left = first.subscriptions.rules.list()
    assert left[0] == PresubscriptionRule(**TEMPERATURES)
    assert sorted(str(rule.endpoint_name) for rule in left[1:]) == [f"new-{number}" for number in range(4)]


def test_rules_that_others_change_without_end_end_with_the_call(client_of):
    requests = []

    def respond(request):
        requests.append(request)
        if request.method == "GET":
            return httpx.Response(200, json=[], headers={"ETag": '"t"'})
        return httpx.Response(412, json={"code": 412, "type": "precondition_failed", "message": "others by now"})

    client = client_of(transport=httpx.MockTransport(respond))
    slept = record_pauses(client)
    # This clock advances only during pauses.
    client._session.sender._clock = lambda: sum(slept)
    with pytest.raises(CallTimeout, match="other programs kept changing the rules of this key") as caught:
        client.subscriptions.rules.add([LIGHTS], timeout=0.3)
    assert isinstance(caught.value.__cause__, PreconditionFailed)
    assert 2 < len(requests) < 40
    assert all(request.headers["If-Match"] == '"t"' for request in requests if request.method == "PUT")


def test_a_request_with_a_lost_response_counts_as_done(client_over):
    """The rules are stored, the response is lost, and the retry fails with a conflict."""
    lost = []

    def lose_the_first(request, respond):
        if request.method == "PUT" and not lost:
            lost.append(respond)
            raise httpx.ReadError("cut")
        return respond

    client = client_over(lose_the_first)
    record_pauses(client)
    assert client.subscriptions.rules.add([LIGHTS]) == put(LIGHTS)
    assert len(lost) == 1
    assert client.subscriptions.rules.list() == put(LIGHTS)
    lost.clear()
    assert client.subscriptions.rules.remove([LIGHTS]) == put(LIGHTS)
    assert client.subscriptions.rules.list() == []


def test_rules_of_a_later_version_go_back_as_they_were():
    later = {"endpoint-type": "Light", "color": {"of": ["red"]}}
    sent = []

    def respond(request):
        sent.append(request)
        return httpx.Response(200, json=[later]) if request.method == "GET" else httpx.Response(202)

    with MirrorClient(URL, "k", transport=httpx.MockTransport(respond)) as client:
        assert client.subscriptions.rules.add([{"endpoint_type": "Light"}]) == put({"endpoint_type": "Light"})
    assert PRESUBSCRIPTION_RULES.validate_json(sent[-1].content) == put(later, {"endpoint_type": "Light"})
