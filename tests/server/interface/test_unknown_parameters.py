"""An unknown parameter of the query is refused with its name, and changes nothing. Source: wire.md 4."""

import re

import pytest

PULL = "/v2/notification/pull"


def test_a_misspelt_poll_takes_nothing(server, key):
    server.add_device(key, "sensor-1")
    answer = server.call(key, "GET", f"{PULL}?aftr=1")
    assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, "aftr")
    assert "known are after, hold, noWait" in answer.json["message"]
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404
    assert len(server.call(key, "GET", f"{PULL}?hold=0").json["registrations"]) == 1


def test_every_operation_with_a_key_refuses_it(shared_server):
    key = shared_server.key()
    refused = 0
    for rule in shared_server.app.url_map.iter_rules():
        if not shared_server.app.view_functions[rule.endpoint].__dict__["required_scopes"]:
            continue
        url = re.sub(r"<path:\w+>", "3303/0/5700", rule.rule)
        url = re.sub(r"<\w+>", "nobody", url)
        for method in rule.methods - {"HEAD", "OPTIONS"}:
            if (method, url) == ("DELETE", PULL):
                continue
            answer = shared_server.call(key, method, f"{url}?misspelt=1", json={} if method != "GET" else None)
            assert (answer.status_code, answer.json["type"]) == (400, "validation_error"), (method, url)
            assert answer.json["fields"][0]["name"] == "misspelt"
            refused += 1
    assert refused > 30


def test_the_end_of_a_poll_channel_is_always_a_success(shared_server):
    assert shared_server.call(shared_server.key(), "DELETE", f"{PULL}?misspelt=1").status_code == 204


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/openapi.json"])
def test_what_needs_no_key_is_given_all_the_same(shared_server, path):
    assert shared_server.call(None, "GET", f"{path}?misspelt=1").status_code == 200


def test_a_key_without_the_scope_is_told_that_first(server, key):
    assert server.call(None, "GET", f"{PULL}?aftr=1").status_code == 401


@pytest.mark.parametrize("query", ["noWait=true", "noWait=true&hold=20", "noWait=true&after=0"])
def test_a_poll_that_does_not_wait_is_answered_at_once(server, key, query):
    assert server.call(key, "GET", f"{PULL}?{query}").status_code == 204
    server.add_device(key, "sensor-1")
    answer = server.call(key, "GET", f"{PULL}?{query}")
    assert (answer.status_code, len(answer.json["registrations"])) == (200, 1)


def test_a_poll_that_may_wait_is_held(server, key, held_poll):
    held = held_poll(key, "noWait=false")
    server.add_device(key, "sensor-1")
    assert len(held.result(10).json["registrations"]) == 1


@pytest.mark.parametrize("query", ["noWait=1", "noWait=", "noWait=true&noWait=true"])
def test_what_is_neither_true_nor_false_is_refused(server, key, query):
    answer = server.call(key, "GET", f"{PULL}?{query}")
    assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, "noWait")
