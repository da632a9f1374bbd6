"""E2: validation, order of delivery and outcome of device requests. Source: wire.md 2."""

import pytest
from device_resources import action, control, setting
from resource_paths import SWITCH

from mirror_server.store import commands

READ = {"method": "GET", "uri": SWITCH}
WRITE = {"method": "PUT", "uri": SWITCH, "payload-b64": "MQ=="}
DAY_SECONDS = 24 * 3600


@pytest.fixture
def light(server, key):
    return server.add_device(key, "light-1", control(SWITCH), action("/3/0/4"))


def post(server, key, device_id, body, query=""):
    return server.call(key, "POST", f"/v2/device-requests/{device_id}{query}", json=body)


def test_202_has_request_time_and_expiry_headers(server, key, light):
    def times_of(response):
        assert (response.status_code, response.json) == (202, {"async-response-id": "w"})
        return response.headers["Mirror-Requested-At"], response.headers["Mirror-Expires-At"]

    server.patch(key, light, online=False)
    first = times_of(post(server, key, light, WRITE, "?async-id=w"))
    assert first == ("2026-01-05T08:00:00.000Z", "2026-01-05T10:00:00.000Z")
    assert server.resource(key, light, SWITCH)["desired"]["requested_at"] == first[0]
    server.advance(key, 30)
    assert times_of(post(server, key, light, WRITE | {"expiry_seconds": 999}, "?async-id=w")) == first
    server.patch(key, light, online=True)
    assert server.responses(key) == {"w": (200, None)}
    assert times_of(post(server, key, light, WRITE, "?async-id=w")) == first


def test_request_expires_after_the_requested_or_default_time(server, key):
    """The default is two hours, or three days for a device in queue mode."""
    cases = [
        (False, {}, "", 2 * 3600),
        (True, {}, "", 3 * DAY_SECONDS),
        (False, {"expiry_seconds": 60}, "", 60),
        (False, {}, "?expiry-seconds=60", 60),
        (False, {"expiry_seconds": 60}, "?expiry-seconds=60", 60),
    ]
    for number, (queue_mode, body, query, seconds) in enumerate(cases):
        resource = setting(SWITCH)
        device = server.add_device(key, f"d{number}", resource, queue_mode=queue_mode)
        server.patch(key, device, online=False)
        made = post(server, key, device, WRITE | body, query).json["async-response-id"]
        server.advance(key, seconds - 1)
        assert made not in server.responses(key)
        server.advance(key, 1)
        assert server.responses(key)[made] == (429, "REQUEST_EXPIRED")


def test_invalid_request_is_400_with_its_field_and_changes_nothing(server, key, light, check_error):
    cases = [
        (WRITE | {"expiry_seconds": 60}, "?expiry-seconds=61", "expiry_seconds"),
        (WRITE, "?expiry-seconds=0", "expiry-seconds"),
        (WRITE, "?retry=11", "retry"),
        ({"method": "GET", "uri": SWITCH + "?pmin=5"}, "", "uri"),
        (WRITE | {"uri": SWITCH + "?pmin=5"}, "", "uri"),
        ({"method": "PUT", "uri": SWITCH + "?"}, "", "uri"),
        ({"method": "PUT", "uri": SWITCH}, "", "payload-b64"),
        (READ | {"payload-b64": "MQ=="}, "", "payload-b64"),
    ]
    for body, query, field in cases:
        check_error(post(server, key, light, body, query), 400, field)
    missing = check_error(post(server, key, light, {"method": "GET", "uri": "/9/9/9"}), 400)
    assert missing.reason == "RESOURCE_NOT_FOUND"
    assert server.resource(key, light, SWITCH)["desired"] == {}
    assert server.responses(key) == {}


def test_queue_holds_twenty_commands_and_delivers_them_in_order_one_at_a_time(server, key, light):
    server.patch(key, light, online=False)
    for number in range(20):
        assert server.submit(key, light, f"w{number}", "PUT", SWITCH, value="1").status_code == 202
    full = server.submit(key, light, "w20", "PUT", SWITCH, value="0")
    assert (full.status_code, full.json["reason"]) == (429, "QUEUE_IS_FULL")
    assert server.submit(key, light, "w19", "PUT", SWITCH, value="1").status_code == 202
    server.patch(key, light, online=True, latency_seconds=1)
    for number in range(20):
        assert len(server.responses(key)) == number
        server.advance(key, 1)
    assert list(server.responses(key)) == [f"w{number}" for number in range(20)]
    assert server.submit(key, light, "w20", "PUT", SWITCH, value="0").status_code == 202


def test_attempt_times_out_after_120_seconds_and_the_next_command_follows(server, key, light):
    server.patch(key, light, answer="silent")
    server.submit(key, light, "silent", "GET", SWITCH)
    server.submit(key, light, "next", "GET", SWITCH)
    server.advance(key, 119)
    assert server.responses(key) == {}
    server.patch(key, light, answer="normal")
    server.advance(key, 1)
    assert server.responses(key) == {"silent": (504, "TIMEOUT"), "next": (200, None)}


def test_retries_are_additional_attempts(server, key, light):
    server.patch(key, light, answer="silent")
    post(server, key, light, WRITE, "?retry=2&async-id=w")
    server.advance(key, 359)
    assert server.responses(key) == {}
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 0
    server.advance(key, 1)
    assert server.responses(key) == {"w": (504, "TIMEOUT")}
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 2
    post(server, key, light, WRITE, "?retry=1&async-id=again")
    server.advance(key, 60)
    server.patch(key, light, answer="normal")
    server.advance(key, 60)
    assert server.responses(key)["again"] == (200, None)


def test_write_that_expires_after_a_failed_attempt_ends_with_timeout(server, key, light):
    """Otherwise a client would assume that the device never got the write."""
    server.patch(key, light, answer="silent")
    post(server, key, light, WRITE | {"expiry_seconds": 200}, "?retry=1&async-id=w")
    server.advance(key, 119)
    server.patch(key, light, online=False)
    server.advance(key, 81)
    assert server.responses(key) == {"w": (504, "TIMEOUT")}


def test_sleeping_device_gets_commands_at_its_next_contact(server, key):
    sleeper = server.add_device(key, "s", setting(SWITCH), queue_mode=True)
    server.advance(key, 60)
    server.submit(key, sleeper, "w", "PUT", SWITCH, value="1")
    assert server.responses(key) == {}
    server.advance(key, 15 * 60)
    assert server.responses(key) == {"w": (200, None)}


def test_deregistration_fails_waiting_commands(server, key, light):
    server.patch(key, light, latency_seconds=10)
    server.submit(key, light, "under-way", "PUT", SWITCH, value="1")
    server.submit(key, light, "waiting", "GET", SWITCH)
    server.registration(key, light, "DELETE")
    assert server.responses(key)["waiting"] == (429, "DEVICE_REMOVED_REGISTRATION")
    assert server.responses(key)["under-way"][0] in {429, 503}
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 2


def test_executes_and_notification_rules_set_no_desired_value(server, key, light):
    server.submit(key, light, "execute", "POST", "/3/0/4")
    server.submit(key, light, "no", "POST", SWITCH)
    server.submit(key, light, "rules", "PUT", SWITCH + "?pmin=5&pmax=120")
    server.submit(key, light, "bad", "PUT", SWITCH + "?pmin=x")
    failed = {"no": (400, "METHOD_NOT_ALLOWED"), "bad": (400, "BAD_VALUE")}
    assert server.responses(key) == {"execute": (200, None), "rules": (200, None), **failed}
    for path in ("/3/0/4", SWITCH):
        assert server.resource(key, light, path)["desired"] == {}


def test_request_reaches_the_device_unchanged(server, key, light):
    server.patch(key, light, online=False)
    body = {"uri": SWITCH, "content-type": "text/plain", "accept": "application/cbor"}
    post(server, key, light, {**body, "method": "GET"})
    post(server, key, light, {**body, "method": "PUT", "payload-b64": "MQ=="})
    with server.services.database.read() as session:
        read, write = (command.request for command in commands.waiting(session, light))
    assert (read.accept, write.payload, write.content_type) == ("application/cbor", b"1", "text/plain")


def test_value_has_origin_and_write_has_content_type(server, key):
    resource = control("/3303/0/5700", "1")
    device = server.add_device(key, "origins", resource)
    server.submit(key, device, "r", "GET", resource["path"])
    read = server.resource(key, device)
    assert (read["reported"]["origin"], "subscribed_at" in read) == ("read", False)
    server.subscribe(key, device)
    subscribed = server.resource(key, device)
    assert subscribed["reported"]["origin"] == "subscription"
    assert subscribed["subscribed_at"] == "2026-01-05T08:00:00.000Z"
    server.subscribe(key, device, method="DELETE")
    ended = server.resource(key, device)
    assert (ended["subscribed"], "subscribed_at" in ended) == (False, False)
    body = {"payload-b64": "/+8=", "content-type": "application/octet-stream"}
    server.submit(key, device, "w", "PUT", resource["path"], **body)
    desired = server.resource(key, device)["desired"]
    assert (desired["value"], desired["content_type"]) == ("/+8=", "application/octet-stream")


def test_command_in_flight_ends_when_it_expires_and_the_next_one_follows(server, key, light):
    for method, path in [("PUT", SWITCH), ("GET", SWITCH), ("POST", "/3/0/4")]:
        server.patch(key, light, answer="silent")
        query = f"?retry=2&async-id={method}"
        body = WRITE if method == "PUT" else {"method": method, "uri": path}
        post(server, key, light, body | {"expiry_seconds": 12}, query)
        server.submit(key, light, f"behind-{method}", "PUT", SWITCH, value="1", expiry_seconds=12)
        server.submit(key, light, f"next-{method}", "PUT", SWITCH, value="0")
        server.advance(key, 11)
        assert method not in server.responses(key)
        server.patch(key, light, answer="normal")
        server.advance(key, 1)
        # The device may have acted on a sent request; an unsent one has expired.
        responses = server.responses(key)
        assert responses[method] == (504, "TIMEOUT")
        assert responses[f"behind-{method}"] == (429, "REQUEST_EXPIRED")
        assert responses[f"next-{method}"] == (200, None)
