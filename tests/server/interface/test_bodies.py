"""Invalid request bodies are rejected with the field and the fix, and change nothing. Source: wire.md 0."""

import gzip
import json

import pytest
from app_routes import has_route, of_extensions
from device_resources import control
from invalid_bodies import UNREADABLE, WRONG_TYPES

PATH = "/3303/0/5700"
RULES = "PUT /v2/subscriptions"
REQUEST = "POST /v2/device-requests/{device}"
CALLBACK = "PUT /v2/notification/callback"
WEBSOCKET = "PUT /v2/notification/websocket"
QUERY = {"name": "reachable", "query": "state__eq=registered"}
WRITE = {"method": "PUT", "uri": PATH, "payload-b64": "MQ=="}
EVERY_BODY = {
    RULES: [{"endpoint-type": "Light"}],
    REQUEST: WRITE,
    CALLBACK: {"url": "http://127.0.0.1:9/x"},
}
for added in of_extensions("BODIES"):
    EVERY_BODY |= added
WITHOUT_BODY = "/v2/subscriptions/{device}/3303/0/5700"
OF_ANY_FORM = "/v2/endpoints/{device}/3303/0/5700"
"""Its body is the value itself: see test_older_requests."""


@pytest.fixture(scope="module")
def server(shared_server):
    device = control(PATH, "1")
    shared_server.device = shared_server.add_device(shared_server.key(), "d", device)
    shared_server.query = "none"
    if has_route(shared_server.app, "POST", "/v3/device-queries"):
        created = shared_server.call(shared_server.key(), "POST", "/v3/device-queries", json=QUERY)
        assert created.status_code == 201
        shared_server.query = created.json["id"]
    return shared_server


@pytest.fixture(scope="module")
def every_body(server):
    return {route: body for route, body in EVERY_BODY.items() if has_route(server.app, *route.split())}


@pytest.fixture(scope="module")
def objects(every_body):
    """Return the bodies with members."""
    return {route: body for route, body in every_body.items() if route != RULES}


@pytest.fixture(scope="module")
def key(server):
    return server.key()


def send(server, key, route, **options):
    method, path = route.format(device=server.device, query=server.query).split()
    return server.call(key, method, path, **options)


def as_json(data):
    return {"data": data, "content_type": "application/json"}


def test_body_table_lists_every_route_with_a_body(server, every_body):
    writing = {
        f"{method} {path}"
        for rule in server.app.url_map.iter_rules()
        for path in [rule.rule.replace("<path:path>", "3303/0/5700").replace("<device_id>", "{device}")]
        for path in [path.replace("<query_id>", "{query}")]
        for method in rule.methods & {"PUT", "POST", "PATCH"}
        if not path.endswith((WITHOUT_BODY, OF_ANY_FORM)) and not rule.endpoint.startswith("simulator.")
    }
    assert writing == set(every_body)


def routes_of(every_body, case):
    """Return the routes for which a case is invalid: the body of a websocket channel is optional."""
    return [route for route in every_body if not (route == WEBSOCKET and case.startswith("empty"))]


def test_body_that_is_not_plain_json_is_400(server, key, check_error, unchanged, every_body):
    for case, make in UNREADABLE.items():
        for route in routes_of(every_body, case):
            body = make(json.dumps(every_body[route]))
            error = check_error(send(server, key, route, **as_json(body)), 400)
            assert "x" not in [field.name for field in error.fields], "rejected as a document, not for a member"


OTHERWISE = {
    "empty, no type": (b"", None, 400),
    "text": (b"{}", "text/plain", 415),
    "form": (b"a=b", "application/x-www-form-urlencoded", 415),
    "other JSON": (b"{}", "application/json-patch+json", 415),
    "large": (b"{}" + b" " * 1024 * 1024, "application/json", 413),
}


def test_body_of_another_type_is_415_and_too_large_is_413(server, key, check_error, unchanged, every_body):
    for case, (data, content_type, code) in OTHERWISE.items():
        for route in routes_of(every_body, case):
            error = check_error(send(server, key, route, data=data, content_type=content_type), code).message
            assert code != 413 or "larger than 1048576 bytes" in error


def test_compressed_body_is_rejected_with_the_name_of_the_header(server, key, check_error, unchanged, every_body):
    for route, content in every_body.items():
        body = as_json(gzip.compress(json.dumps(content).encode()))
        error = check_error(send(server, key, route, **body, headers={"Content-Encoding": "gzip"}), 415)
        assert "Content-Encoding" in error.message
        assert "gzip" in error.message


def test_json_is_accepted_with_any_spelling_of_its_type_up_to_the_limit(server, key, check_error):
    for content_type in ("application/json", "Application/JSON; charset=utf-8", None):
        assert send(server, key, RULES, data=b"[]", content_type=content_type).status_code == 202
    assert send(server, key, RULES, json=[], headers={"Content-Encoding": "identity"}).status_code == 202
    assert send(server, key, RULES, **as_json(b"[]" + b" " * (1024 * 1024 - 2))).status_code == 202
    for empty in (b"", b" ", b"\n"):
        assert "the body is empty" in check_error(send(server, key, RULES, **as_json(empty)), 400).message


def test_unknown_member_is_named_with_its_path(server, key, check_error, unchanged, objects):
    for route, body in objects.items():
        error = check_error(send(server, key, route, json={**body, "surprise": 1}), 400, "surprise")
        assert "unknown" in error.fields[0].message
    url = {"url": "https://a.example"}
    cases = [
        (RULES, [{}, {"resource_path": ["/3303/*"]}], "1.resource_path"),
        (CALLBACK, {**url, "serialization": {"cfg": {"includeUid": True}}}, "serialization.cfg.includeUid"),
    ]
    for route, body, field in cases:
        check_error(send(server, key, route, json=body), 400, field)


def test_duplicate_member_is_400(server, key, check_error, unchanged, objects):
    for route, body in objects.items():
        name, value = next(iter(body.items()))
        text = json.dumps(body)[:-1] + f", {json.dumps(name)}: {json.dumps(value)}}}"
        assert json.loads(text) == body
        assert name in check_error(send(server, key, route, **as_json(text)), 400, name).message


def test_member_of_another_type_is_never_a_server_error(server, key, check_error, objects):
    for wrong in WRONG_TYPES:
        for route, name in [(route, name) for route, body in objects.items() for name in body]:
            response = send(server, key, route, json=objects[route] | {name: wrong})
            assert response.status_code < 500, (route, name, response.get_data())
            if response.status_code >= 400:
                assert check_error(response, response.status_code).fields


def test_text_invalid_in_a_header_or_query_is_400(server, key, check_error, unchanged):
    cases = [("content-type", text) for text in ("a\r\nb", "a\0", " text/plain", "téxt", "a\n")]
    cases += [("accept", text) for text in ("a\r\nb", "\0", " ")]
    cases += [("uri", f"{PATH}?{query}") for query in ("a\0", "pmin=1 2", "pmin=1\n", "é")]
    for name, text in cases:
        body = {"method": "PUT", "uri": text} if name == "uri" else WRITE | {name: text}
        error = check_error(send(server, key, REQUEST, json=body), 400, name).message
        assert "like" in error
        assert name in error


def test_response_to_many_or_long_mistakes_is_short(server, key, check_error, unchanged):
    bodies = [
        [{f"unknown-{number}": 1 for number in range(1000)}],
        [{"resource-path": ["/1", *[1] * 200], "endpoint-name": number} for number in range(1000)],
    ]
    for body in bodies:
        response = send(server, key, RULES, json=body)
        error = check_error(response, 400)
        assert len(error.fields) == 20
        assert "in total" in error.message
        assert len(response.get_data()) < 10_000
    for body in (b'{"%s":1}' % (b"a" * 900_000), b'{"%s":1,"%s":1}' % (b"a" * 400_000, b"a" * 400_000)):
        response = send(server, key, REQUEST, **as_json(body))
        check_error(response, 400)
        assert len(response.get_data()) < 2000


def test_body_with_too_many_members_is_400_before_validation(server, key, check_error, unchanged, monkeypatch):
    monkeypatch.setattr("mirror_sdk.wire.device_requests.DeviceRequestBody.model_validate", None)
    cases = {
        b"[" + b"[]," * 20_000 + b"[]]": "more than 20000 objects and lists",
        json.dumps(dict.fromkeys(map(str, range(1001)))).encode(): "1001 members; the limit is 1000",
    }
    for body, message in cases.items():
        assert message in check_error(send(server, key, REQUEST, **as_json(body)), 400).message
