"""Device requests in the form of older programs, with the resource in the path. Source: wire.md 9."""

import base64

import pytest
from device_resources import action, control, sensor, setting

from mirror_server.store import commands
from mirror_server.views.deferred_responses import DEFER

TEMPERATURE, SWITCH, REBOOT, LABEL = "/3303/0/5700", "/3311/0/5850", "/3/0/4", "/3341/0/5527"


@pytest.fixture
def light(server, key):
    return server.add_device(
        key, "light-1", control(SWITCH), sensor(TEMPERATURE), setting(LABEL, "old"), action(REBOOT)
    )


def call(server, key, method, device, path, query="", data=None, headers=None):
    answer = server.call(key, method, f"/v2/endpoints/{device}{path}{query}", data=data, headers=headers)
    assert server.services.database.settle(60)
    return answer


def accepted(answer):
    """Return the async-id of an accepted request."""
    assert answer.status_code == 202, answer.get_data()
    assert answer.headers["Mirror-Requested-At"] < answer.headers["Mirror-Expires-At"]
    (name,) = answer.json
    assert name == "async-response-id"
    return answer.json[name]


def entries(server, key):
    return [entry for kind, entry in server.log(key) if kind == "async-responses"]


def written(server, key, light, payload, content_type=None):
    """Write a label; return its value and content type, and the response of the device."""
    headers = None if content_type is None else {"Content-Type": content_type}
    async_id = accepted(call(server, key, "PUT", light, LABEL, data=payload, headers=headers))
    desired = server.resource(key, light, LABEL)["desired"]
    return base64.b64decode(desired["value"]), desired["content_type"], server.responses(key)[async_id][0]


def test_body_of_a_write_is_the_value(server, key, light):
    for number, content_type in enumerate((None, "text/plain", "text/plain; charset=utf-8")):
        payload = b"%d" % number
        assert written(server, key, light, payload, content_type) == (payload, content_type or "text/plain", 200)
    payload, content_type = bytes(range(256)), "application/octet-stream"
    assert written(server, key, light, payload, content_type) == (payload, content_type, 400)


def test_unsupported_precondition_is_rejected(server, key, light, check_error):
    answer = call(server, key, "PUT", light, LABEL, data=b"new", headers={"If-Match": '"0"'})
    assert "preconditions are not supported" in check_error(answer, 400, "If-Match").message


def test_one_value_in_json_is_written_as_plain_text(server, key, light):
    for sent, expected in [
        (b"42", b"42"),
        (b" -4.50e1\n", b"-4.50e1"),
        (b"12345678901234567890123", b"12345678901234567890123"),
        (b'"\\u00e4\\n"', "ä\n".encode()),
        (b'""', b""),
        (b"true", b"1"),
        (b"false", b"0"),
    ]:
        for content_type in ("application/json", "Application/JSON; charset=utf-8"):
            assert written(server, key, light, sent, content_type) == (expected, "text/plain", 200)


def test_another_body_declared_as_json_keeps_that_type_only_where_it_is_json(server, key, light):
    for sent in (b"null", b"[1]", b'{"a": 1}'):
        assert written(server, key, light, sent, "application/json") == (sent, "application/json", 415)
    for sent in (b"100:200:100", b'"\\ud800"', b"\xff", b"1 2", b"NaN", b"[" * 5000):
        assert written(server, key, light, sent, "application/json")[:2] == (sent, "text/plain")


def test_body_of_an_execution_is_the_argument(server, key, light):
    server.patch(key, light, online=False)
    arguments = [(None, None), (b"0='1'", "text/plain")]
    for payload, _ in arguments:
        accepted(call(server, key, "POST", light, REBOOT, data=payload, headers={"Content-Type": "text/plain"}))
    with server.services.database.read() as session:
        waiting = [each.request for each in commands.waiting(session, light)]
    assert [(each.payload, each.content_type) for each in waiting] == arguments


def test_write_without_a_value_sets_notification_rules_in_fixed_order(server, key, light):
    async_id = accepted(call(server, key, "PUT", light, SWITCH, "?pmin=5&pmax=120"))
    assert server.responses(key)[async_id] == (200, None)
    assert server.resource(key, light, SWITCH)["desired"] == {}
    rejected_by_device = accepted(call(server, key, "PUT", light, SWITCH, "?pmax=1.5"))
    assert server.responses(key)[rejected_by_device] == (400, "BAD_VALUE")
    server.patch(key, light, online=False)
    call(server, key, "PUT", light, TEMPERATURE, "?st=0.5&lt=-3.25&pmin=1")
    (waiting,) = server.waiting(key)
    request = waiting.request
    assert (request.method, request.path, request.query) == ("PUT", TEMPERATURE, "pmin=1&lt=-3.25&st=0.5")


def test_unsupported_option_is_rejected_by_name(server, key, light, check_error, unchanged):
    cases = [
        ("PUT", "", None, "body"),
        ("PUT", "?pmin=1", b"1", "body"),
        ("PUT", "?pmin=", None, "pmin"),
        ("PUT", "?pmin=1%26pmax=2", None, "pmin"),
        ("PUT", "?pmin=1&pmin=2", None, "pmin"),
        ("PUT", "?epmin=1", None, "epmin"),
        ("GET", "?pmin=1", None, "pmin"),
        ("PUT", "?pri=1", b"1", "pri"),
        ("GET", "?sync=true", None, "sync"),
        ("GET", "?sync=1", None, "sync"),
        ("GET", "?cacheOnly=yes", None, "cacheOnly"),
        ("GET", "?cacheOnly=true&cacheOnly=true", None, "cacheOnly"),
        ("POST", "?cacheOnly=true", None, "cacheOnly"),
        ("POST", "?noResp=1", None, "noResp"),
        ("GET", "?noResp=true&cacheOnly=true", None, "noResp"),
        ("GET", "?async-id=a", None, "async-id"),
    ]
    for method, query, data, field in cases:
        check_error(call(server, key, method, light, SWITCH, query, data=data), 400, field)


def test_false_option_has_no_effect(server, key, light):
    for method, path, data in (("GET", SWITCH, None), ("PUT", SWITCH, "1"), ("POST", REBOOT, "")):
        for query in ("?sync=false", "?cacheOnly=False&noResp=false"):
            async_id = accepted(call(server, key, method, light, path, query, data=data))
            assert server.responses(key)[async_id] == (200, None)


def test_request_without_a_notification_is_204(server, key, other, light):
    for method, path, data in (("GET", TEMPERATURE, None), ("PUT", SWITCH, b"1"), ("POST", REBOOT, b"")):
        for yes in ("true", "True"):
            answer = call(server, key, method, light, path, f"?noResp={yes}", data=data)
            assert (answer.status_code, answer.get_data()) == (204, b"")
    assert entries(server, key) == entries(server, other) == []
    assert server.resource(key, light)["reported"]["value"] == base64.b64encode(b"21.5").decode()
    assert server.resource(key, light, SWITCH)["desired"]["status"] == 1


def test_request_without_a_notification_is_queued_and_fails_silently(server, key, light):
    server.patch(key, light, online=False)
    for value in (b"1", b"0"):
        assert call(server, key, "PUT", light, SWITCH, "?noResp=true", data=value).status_code == 204
    async_id = accepted(call(server, key, "GET", light, SWITCH))
    server.restart()
    assert [each.request.method for each in server.waiting(key)] == ["PUT", "PUT", "GET"]
    server.advance(key, 2 * 3600)
    assert server.responses(key) == {async_id: (429, "REQUEST_EXPIRED")}
    assert server.resource(key, light, SWITCH)["desired"]["category"] == "REQUEST_EXPIRED"
    call(server, key, "PUT", light, SWITCH, "?noResp=true", data=b"1")
    server.patch(key, light, online=True, answer="silent")
    server.registration(key, light, "DELETE")
    assert list(server.responses(key)) == [async_id]
    assert server.resource(key, light, SWITCH)["desired"]["category"] == "DEVICE_REMOVED_REGISTRATION"


def test_device_in_queue_mode_needs_a_notification(server, key, check_error):
    sleeper = server.add_device(key, "d", setting(SWITCH), queue_mode=True)
    for method, data in (("GET", None), ("PUT", b"1")):
        check_error(call(server, key, method, sleeper, SWITCH, "?noResp=true", data=data), 409, "noResp")
    assert server.resource(key, sleeper, SWITCH)["desired"] == {}
    assert server.waiting(key) == []


def test_invalid_content_type_or_unknown_resource_is_rejected(server, key, light, check_error, unchanged):
    for content_type in ("x" * 65, " ", "a/b\tc", "täxt/plain"):
        answer = call(server, key, "PUT", light, SWITCH, data=b"1", headers={"Content-Type": content_type})
        check_error(answer, 400, "Content-Type")
    for method in ("GET", "PUT", "POST"):
        error = check_error(call(server, key, method, light, "/3303/0/9999", data=b"1"), 400)
        assert (error.reason, error.message.count("/3303/0/9999")) == ("RESOURCE_NOT_FOUND", 1)
    for path in ("/a", "/3303/0/65536", "/3303/00", "/1/2/3/4/5"):
        check_error(call(server, key, "GET", light, path), 400, "path")
    assert "deleted" in check_error(call(server, key, "DELETE", light, SWITCH), 400).message


def cached(server, key, device):
    answer = call(server, key, "GET", device, TEMPERATURE, "?cacheOnly=True&noResp=False")
    return answer.status_code, answer.headers.get("Content-Type"), answer.get_data()


def test_cached_value_expires_after_the_max_age_of_the_device(server, key, light):
    call(server, key, "GET", light, TEMPERATURE)
    at = server.now + 60_000
    server.services.database.write(lambda session: session.run("UPDATE resources SET reported_expires_at = :at", at=at))
    server.advance(key, 59)
    assert cached(server, key, light)[0] == 200
    server.advance(key, 1)
    assert cached(server, key, light)[0] == 205


def test_content_type_with_invalid_header_characters_is_omitted(server, key, light):
    call(server, key, "GET", light, TEMPERATURE)
    for stored, displayed in (
        ("a\nSet-Cookie: x", "application/octet-stream"),
        ("ä", "application/octet-stream"),
        ("", "text/plain"),
    ):
        server.services.database.write(
            lambda session, kind=stored: session.run("UPDATE resources SET reported_content_type = :kind", kind=kind)
        )
        assert cached(server, key, light) == (200, displayed, b"21.5")


def test_too_large_body_is_rejected(new_server, check_error):
    server = new_server(max_body_bytes=1000)
    key = server.key()
    device = server.add_device(key, "d", setting(LABEL, ""))
    assert call(server, key, "PUT", device, LABEL, data=b"x" * 1000).status_code == 202
    check_error(call(server, key, "PUT", device, LABEL, data=b"x" * 1001), 413)


def test_resources_of_a_device_are_listed_with_any_cache_option(server, key, light, check_error):
    path = f"/v2/endpoints/{light}"
    listed = server.call(key, "GET", path).json
    assert server.call(key, "GET", f"{path}?noResp=false&cacheOnly=true").json == listed
    assert server.call(key, "GET", f"{path}?noResp=True").json == listed
    check_error(server.call(key, "GET", f"{path}?noResp=2"), 400, "noResp")


def test_an_unknown_device_is_404_with_its_name(server, key, check_error):
    for method, query in (("GET", ""), ("GET", "?cacheOnly=true"), ("PUT", ""), ("POST", "")):
        error = check_error(
            call(server, key, method, "nobody", TEMPERATURE, query, "1" if method == "PUT" else None), 404
        )
        assert (error.reason, "nobody" in error.message) == ("DEVICE_NOT_FOUND", True)


def test_compressed_body_is_rejected_and_head_is_not_allowed(server, key, light, check_error):
    for method in ("PUT", "POST"):
        headers = {"Content-Encoding": "gzip"}
        assert "gzip" in check_error(call(server, key, method, light, SWITCH, data=b"x", headers=headers), 415).message
    assert call(server, key, "HEAD", light, SWITCH).status_code == 405


def test_older_request_is_delayed_until_its_id_is_sent(server, key, light):
    def count_waiting(method, path, query, data):
        url = f"/v2/endpoints/{light}{path}{query}"
        environ = {DEFER: lambda deferred: None}
        server.call(key, method, url, data=data, environ_overrides=environ)
        assert server.services.database.settle(60)
        return len(server.waiting(key))

    for method, path, data in (("GET", TEMPERATURE, None), ("PUT", SWITCH, "1"), ("POST", REBOOT, None)):
        assert count_waiting(method, path, "?noResp=true", data) == 0
        assert count_waiting(method, path, "", data) == 1
        server.advance(key, 1)
    assert list(server.responses(key).values()) == [(200, None)] * 3
