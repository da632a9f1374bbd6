"""E2: what is accepted, in which order it is delivered, how it ends. Source: wire.md 2."""

from datetime import datetime, timedelta

import pytest

SWITCH = "/3311/0/5850"
READ = {"method": "GET", "uri": SWITCH}
WRITE = {"method": "PUT", "uri": SWITCH, "payload-b64": "MQ=="}
DAY_SECONDS = 24 * 3600


@pytest.fixture
def light(server, key):
    return server.add_device(
        key,
        "light-1",
        {"path": SWITCH, "value": "0", "observable": True, "writable": True},
        {"path": "/3/0/4", "executable": True},
    )


def post(server, key, device_id, body, query=""):
    return server.call(key, "POST", f"/v2/device-requests/{device_id}{query}", json=body)


def test_without_an_async_id_the_server_makes_one(server, key, light):
    answer = post(server, key, light, READ)
    assert answer.status_code == 202
    made = answer.json["async-response-id"]
    assert server.responses(key) == {made: (200, None)}


@pytest.mark.parametrize("async_id", ["a", "A-b_9", "x" * 64])
def test_an_async_id_of_the_right_form_is_taken(server, key, light, async_id):
    assert post(server, key, light, READ, f"?async-id={async_id}").json == {"async-response-id": async_id}


@pytest.mark.parametrize(("expiry", "seconds"), [({}, 2 * 3600), ({"expiry_seconds": 60}, 60)])
def test_what_is_accepted_tells_when_and_until_when_by_the_clock_of_the_mirror(server, key, light, expiry, seconds):
    def told(answer):
        assert (answer.status_code, answer.json) == (202, {"async-response-id": "w"})
        return answer.headers["Mirror-Requested-At"], answer.headers["Mirror-Expires-At"]

    server.patch(key, light, online=False)
    begin = server.call(key, "GET", "/sim/v1/clock").json["now"]
    first = told(post(server, key, light, WRITE | expiry, "?async-id=w"))
    assert first[0] == begin == server.resource(key, light, SWITCH)["desired"]["requested_at"]
    assert datetime.fromisoformat(first[1]) - datetime.fromisoformat(begin) == timedelta(seconds=seconds)
    server.advance(key, 30)
    again = post(server, key, light, WRITE | {"expiry_seconds": 999}, "?async-id=w")
    assert told(again) == first
    server.patch(key, light, online=True)
    assert server.responses(key) == {"w": (200, None)}
    assert told(post(server, key, light, WRITE, "?async-id=w")) == first


@pytest.mark.parametrize("async_id", ["", "a b", "x" * 65, "%C3%A4", "a%0A"])
def test_a_malformed_async_id_is_refused(server, key, light, async_id):
    answer = post(server, key, light, READ, f"?async-id={async_id}")
    assert (answer.status_code, answer.json["reason"]) == (400, "MALFORMED_ASYNC_ID")
    assert answer.json["fields"][0]["name"] == "async-id"


@pytest.mark.parametrize("online", [True, False])
def test_the_same_request_under_the_same_async_id_is_queued_once(server, key, light, online):
    server.patch(key, light, online=online)
    for _ in range(3):
        assert server.place(key, light, "w", "PUT", SWITCH, value="1").status_code == 202
    server.patch(key, light, online=True)
    assert server.responses(key) == {"w": (200, None)}


def test_another_request_under_the_same_async_id_is_a_conflict(server, key, light):
    server.place(key, light, "w", "PUT", SWITCH, value="1")
    answer = server.place(key, light, "w", "PUT", SWITCH, value="0")
    assert answer.status_code == 409
    assert server.resource(key, light, SWITCH)["desired"]["value"] == "MQ=="


@pytest.mark.parametrize(
    ("body", "query"),
    [({"expiry_seconds": 60}, ""), ({}, "?expiry-seconds=60"), ({"expiry_seconds": 60}, "?expiry-seconds=60")],
)
def test_the_expiry_is_taken_from_the_body_or_the_query(server, key, light, body, query):
    server.patch(key, light, online=False)
    assert post(server, key, light, WRITE | body, query).status_code == 202
    server.advance(key, 59)
    assert server.responses(key) == {}
    server.advance(key, 1)
    assert list(server.responses(key).values()) == [(429, "REQUEST_EXPIRED")]


@pytest.mark.parametrize(("queue_mode", "seconds"), [(False, 2 * 3600), (True, 3 * DAY_SECONDS)])
def test_without_an_expiry_a_command_waits_two_hours_or_for_queue_mode_three_days(server, key, queue_mode, seconds):
    device = server.add_device(key, "d", {"path": SWITCH, "value": "0", "writable": True}, queue_mode=queue_mode)
    server.patch(key, device, online=False)
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    server.advance(key, seconds - 1)
    assert server.responses(key) == {}
    server.advance(key, 1)
    assert server.responses(key) == {"w": (429, "REQUEST_EXPIRED")}


def test_a_request_that_is_wrong_is_refused_by_field_and_changes_nothing(server, key, light):
    cases = [
        (WRITE | {"expiry_seconds": 0}, "", "expiry_seconds"),
        (WRITE | {"expiry_seconds": 30 * DAY_SECONDS + 1}, "", "expiry_seconds"),
        (WRITE | {"expiry_seconds": "60"}, "", "expiry_seconds"),
        (WRITE | {"expiry_seconds": 60}, "?expiry-seconds=61", "expiry_seconds"),
        (WRITE, "?expiry-seconds=0", "expiry-seconds"),
        (WRITE, "?expiry-seconds=abc", "expiry-seconds"),
        (WRITE, "?retry=11", "retry"),
        (WRITE, "?retry=-1", "retry"),
        ({"method": "DELETE", "uri": SWITCH}, "", "method"),
        ({"uri": SWITCH}, "", "method"),
        ({"method": "GET"}, "", "uri"),
        ({"method": "GET", "uri": "3311/0/5850"}, "", "uri"),
        ({"method": "GET", "uri": "/3311/0/70000"}, "", "uri"),
        ({"method": "GET", "uri": SWITCH + "?pmin=5"}, "", "uri"),
        (WRITE | {"uri": SWITCH + "?pmin=5"}, "", "uri"),
        ({"method": "PUT", "uri": SWITCH + "?"}, "", "uri"),
        ({"method": "PUT", "uri": SWITCH}, "", "payload-b64"),
        (WRITE | {"payload-b64": "***"}, "", "payload-b64"),
        (READ | {"payload-b64": "MQ=="}, "", "payload-b64"),
        (READ | {"payload_b64": "MQ=="}, "", "payload_b64"),
        (READ | {"more": 1}, "", "more"),
    ]
    for body, query, field in cases:
        answer = post(server, key, light, body, query)
        assert answer.status_code == 400
        assert [entry["name"] for entry in answer.json["fields"]] == [field]
        assert server.resource(key, light, SWITCH)["desired"] == {}
        assert server.responses(key) == {}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"data": "{", "content_type": "application/json"}, "MALFORMED_JSON_CONTENT"),
        ({"json": {"method": "GET", "uri": "/9/9/9"}}, "RESOURCE_NOT_FOUND"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_by_its_own_word(server, key, light, refused, options, reason):
    assert refused(server.call(key, "POST", f"/v2/device-requests/{light}", **options), 400).reason == reason


def test_twenty_commands_wait_for_a_device_and_no_more(server, key, light):
    server.patch(key, light, online=False)
    for number in range(20):
        assert server.place(key, light, f"w{number}", "PUT", SWITCH, value="1").status_code == 202
    full = server.place(key, light, "w20", "PUT", SWITCH, value="0")
    assert (full.status_code, full.json["reason"]) == (429, "QUEUE_IS_FULL")
    assert server.place(key, light, "w19", "PUT", SWITCH, value="1").status_code == 202
    server.patch(key, light, online=True)
    assert list(server.responses(key)) == [f"w{number}" for number in range(20)]
    assert server.place(key, light, "w20", "PUT", SWITCH, value="0").status_code == 202


def test_commands_are_delivered_in_order_one_at_a_time(server, key, light):
    server.patch(key, light, latency_seconds=1)
    for number in range(3):
        server.place(key, light, f"w{number}", "PUT", SWITCH, value="1")
    for number in range(3):
        assert len(server.responses(key)) == number
        server.advance(key, 1)
    assert list(server.responses(key)) == ["w0", "w1", "w2"]


def test_an_attempt_waits_120_seconds_and_the_next_command_follows(server, key, light):
    server.patch(key, light, answer="silent")
    server.place(key, light, "silent", "GET", SWITCH)
    server.place(key, light, "next", "GET", SWITCH)
    server.advance(key, 119)
    assert server.responses(key) == {}
    server.patch(key, light, answer="normal")
    server.advance(key, 1)
    assert server.responses(key) == {"silent": (504, "TIMEOUT"), "next": (200, None)}


def test_retries_are_further_attempts(server, key, light):
    server.patch(key, light, answer="silent")
    post(server, key, light, WRITE, "?retry=2&async-id=w")
    server.advance(key, 359)
    assert server.responses(key) == {}
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 0
    server.advance(key, 1)
    assert server.responses(key) == {"w": (504, "TIMEOUT")}
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 2


def test_a_retry_may_succeed(server, key, light):
    server.patch(key, light, answer="silent")
    post(server, key, light, WRITE, "?retry=1&async-id=w")
    server.advance(key, 60)
    server.patch(key, light, answer="normal")
    server.advance(key, 60)
    assert server.responses(key) == {"w": (200, None)}


def test_what_expires_behind_an_attempt_may_have_been_done(server, key, light):
    """Who takes back what was done is not to be told that the device never saw it."""
    server.patch(key, light, answer="silent")
    post(server, key, light, WRITE | {"expiry_seconds": 200}, "?retry=1&async-id=w")
    server.advance(key, 119)
    server.patch(key, light, online=False)
    server.place(key, light, "never", "PUT", SWITCH, value="0", expiry_seconds=60)
    server.advance(key, 81)
    assert server.responses(key) == {"w": (504, "TIMEOUT"), "never": (429, "REQUEST_EXPIRED")}


def test_a_connection_lost_in_an_attempt_fails_it(server, key, light):
    server.patch(key, light, latency_seconds=10)
    server.place(key, light, "w", "PUT", SWITCH, value="1")
    server.patch(key, light, online=False)
    assert server.responses(key) == {"w": (503, "NOT_CONNECTED")}


def test_waiting_for_a_device_that_is_not_connected_is_no_attempt(server, key, light):
    server.patch(key, light, online=False)
    server.place(key, light, "w", "PUT", SWITCH, value="1")
    server.advance(key, 3600)
    server.patch(key, light, online=True)
    assert server.responses(key) == {"w": (200, None)}


def test_a_sleeping_device_gets_its_commands_at_its_next_contact(server, key):
    sleeper = server.add_device(key, "s", {"path": SWITCH, "value": "0", "writable": True}, queue_mode=True)
    server.advance(key, 60)
    server.place(key, sleeper, "w", "PUT", SWITCH, value="1")
    assert server.responses(key) == {}
    server.advance(key, 15 * 60)
    assert server.responses(key) == {"w": (200, None)}


def test_deregistration_ends_what_waits(server, key, light):
    server.patch(key, light, latency_seconds=10)
    server.place(key, light, "under-way", "PUT", SWITCH, value="1")
    server.place(key, light, "waiting", "GET", SWITCH)
    server.registration(key, light, "DELETE")
    assert server.responses(key)["waiting"] == (429, "DEVICE_REMOVED_REGISTRATION")
    assert server.responses(key)["under-way"][0] in {429, 503}
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 2


def test_a_resource_is_executed(server, key, light):
    server.place(key, light, "x", "POST", "/3/0/4")
    server.place(key, light, "no", "POST", SWITCH)
    assert server.responses(key) == {"x": (200, None), "no": (400, "METHOD_NOT_ALLOWED")}
    assert server.resource(key, light, "/3/0/4")["desired"] == {}


def test_notification_rules_are_no_desired_value(server, key, light):
    server.place(key, light, "rules", "PUT", SWITCH + "?pmin=5&pmax=120")
    server.place(key, light, "bad", "PUT", SWITCH + "?pmin=x")
    assert server.responses(key) == {"rules": (200, None), "bad": (400, "BAD_VALUE")}
    assert server.resource(key, light, SWITCH)["desired"] == {}


def test_the_mirror_tells_in_which_content_type_a_value_was_written(server, key):
    device = server.add_device(key, "d", {"path": "/10/0/1", "writable": True})
    body = {"method": "PUT", "uri": "/10/0/1", "payload-b64": "/+8=", "content-type": "application/octet-stream"}
    assert server.call(key, "POST", f"/v2/device-requests/{device}", json=body).status_code == 202
    desired = server.resource(key, device, "/10/0/1")["desired"]
    assert (desired["value"], desired["content_type"]) == ("/+8=", "application/octet-stream")


def test_a_value_says_by_what_it_came_and_a_failed_write_why(server, key):
    device = server.add_device(
        key,
        "origins",
        {"path": "/3303/0/5700", "value": "1", "observable": True, "writable": True},
        {"path": "/3338/0/5850", "value": "0", "observable": True, "auto_observable": True},
    )
    server.place(key, device, "r", "GET", "/3303/0/5700")
    assert server.resource(key, device, "/3303/0/5700")["reported"]["origin"] == "read"
    assert "subscribed_at" not in server.resource(key, device, "/3303/0/5700")
    server.subscribe(key, device)
    subscribed = server.resource(key, device, "/3303/0/5700")
    assert subscribed["reported"]["origin"] == "subscription"
    assert subscribed["subscribed_at"] == "2026-01-05T08:00:00.000Z"
    server.call(key, "PUT", f"/sim/v1/devices/{device}/resources/3338/0/5850", json={"value": "1"})
    assert server.resource(key, device, "/3338/0/5850")["reported"]["origin"] == "auto_observation"
    server.call(key, "PATCH", f"/sim/v1/devices/{device}", json={"answer": "reject"})
    server.place(key, device, "w", "PUT", "/3303/0/5700", value="2")
    assert server.resource(key, device, "/3303/0/5700")["desired"]["category"] == "REJECTED"


@pytest.mark.parametrize(("method", "path"), [("PUT", SWITCH), ("GET", SWITCH), ("POST", "/3/0/4")])
def test_command_in_flight_ends_when_it_expires_and_the_next_one_follows(server, key, light, method, path):
    server.patch(key, light, answer="silent")
    value = {"value": "1"} if method == "PUT" else {}
    server.place(key, light, "in-flight", method, path, expiry_seconds=12, **value)
    server.place(key, light, "behind", "PUT", SWITCH, value="1", expiry_seconds=12)
    server.place(key, light, "next", "PUT", SWITCH, value="0")
    server.advance(key, 11)
    assert server.responses(key) == {}
    server.patch(key, light, answer="normal")
    server.advance(key, 1)
    # The device may have acted on what was sent; what was never sent has expired.
    assert server.responses(key) == {
        "in-flight": (504, "TIMEOUT"),
        "behind": (429, "REQUEST_EXPIRED"),
        "next": (200, None),
    }


def test_command_in_flight_that_expires_is_not_retried(server, key, light):
    server.patch(key, light, answer="silent")
    post(server, key, light, WRITE | {"expiry_seconds": 60}, "?retry=2&async-id=w")
    server.advance(key, 60)
    assert server.responses(key) == {"w": (504, "TIMEOUT")}


def test_response_after_the_expiry_changes_no_outcome(server, key, light):
    server.patch(key, light, latency_seconds=30)
    server.place(key, light, "w", "PUT", SWITCH, value="1", expiry_seconds=10)
    server.advance(key, 30)
    assert server.responses(key) == {"w": (504, "TIMEOUT")}
    desired = server.resource(key, light, SWITCH)["desired"]
    assert (desired["status"], desired["category"]) == (2, "TIMEOUT")
