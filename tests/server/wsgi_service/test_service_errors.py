"""The error body of every error of every route, request ids, and how paths are read. Source: wire.md 0."""

import itertools
import logging
import re

import pytest

METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH")
UNKNOWN_DEVICE = (
    ("GET", "/v3/devices/nobody", None),
    ("GET", "/v3/devices/nobody/echo", None),
    ("GET", "/v2/endpoints/nobody", None),
    ("POST", "/v2/device-requests/nobody", {"method": "GET", "uri": "/3303/0/5700"}),
    ("PUT", "/v2/subscriptions/nobody/3303/0/5700", None),
    ("PATCH", "/sim/v1/devices/nobody", {"online": True}),
    ("PUT", "/sim/v1/devices/nobody/resources/3303/0/5700", {"value": "1"}),
    ("DELETE", "/sim/v1/devices/nobody/resources/3303/0/5700", None),
    ("POST", "/sim/v1/devices/nobody/registration", None),
    ("PUT", "/sim/v1/devices/nobody/registration", None),
    ("DELETE", "/sim/v1/devices/nobody/registration", None),
)
WITH_BODY = {
    ("POST", "/v2/device-requests/nobody"): {"method": "GET", "uri": "/3303/0/5700"},
    ("PUT", "/v2/notification/callback"): {"url": "https://app.example.com/callback"},
    ("POST", "/sim/v1/devices"): {"endpoint_name": "x"},
    ("PATCH", "/sim/v1/devices/nobody"): {},
    ("PUT", "/sim/v1/devices/nobody/resources/3303/0/5700"): {},
    ("POST", "/sim/v1/clock"): {"advance_seconds": 1},
}
RULES = ("PUT", "/v2/subscriptions")
NO_BODY = "registration|/v2/subscriptions/"
DEEP = b"[" * 100_000 + b"]" * 100_000
DEEP_OBJECT = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
GIVEN_ID = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def server(shared_server):
    return shared_server


@pytest.fixture(scope="module")
def key(shared_server):
    return shared_server.key()


def methods_by_path(app):
    found = {}
    for rule in app.url_map.iter_rules():
        path = re.sub("<[^>]*>", "nobody", re.sub("<path:[^>]*>", "3303/0/5700", rule.rule))
        found.setdefault(path, set()).update(rule.methods)
    return found


def test_the_table_of_bodies_names_every_route_that_reads_one(server):
    writing = {
        (method, path)
        for path, methods in methods_by_path(server.app).items()
        for method in methods & {"PUT", "POST", "PATCH"}
        if not re.search(NO_BODY, path)
    }
    assert writing == {RULES, *WITH_BODY}


def test_every_wrong_method_of_every_path_is_405_with_the_right_ones(server, key, refused):
    for path, allowed in methods_by_path(server.app).items():
        for method in set(METHODS) - allowed:
            answer = server.call(key, method, path)
            refused(answer, 405)
            assert set(re.split(r",\s*", answer.headers["Allow"])) == allowed, path


def test_a_poll_by_head_names_the_methods_there_are(server, key):
    answer = server.call(key, "HEAD", "/v2/notification/pull?hold=0")
    assert answer.status_code == 405
    assert {"GET", "DELETE"} <= set(re.split(r",\s*", answer.headers["Allow"]))


@pytest.mark.parametrize(("method", "path", "body"), UNKNOWN_DEVICE)
def test_an_unknown_device_is_404_by_its_word(server, key, refused, method, path, body):
    answer = server.call(key, method, path, json=body)
    assert refused(answer, 404).reason == "DEVICE_NOT_FOUND"


@pytest.mark.parametrize(
    "path", ["/page", "/v9", "/v3", "/v2/subscriptionz", "/sim/v2/devices", "/v3/devices/a/b", "/é", "/%ff"]
)
def test_an_unknown_path_is_404_whatever_the_method(server, key, refused, path):
    for method in METHODS:
        refused(server.call(key, method, path), 404)


@pytest.mark.parametrize("route", [RULES, *WITH_BODY])
@pytest.mark.parametrize(
    ("data", "content_type", "code"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"", None, 400),
        (b"\xff", "application/json", 400),
        (b"NaN", "application/json", 400),
        (DEEP, "application/json", 400),
        (DEEP_OBJECT, "application/json", 400),
        (b"[" * 800 + b"]" * 800, "application/json", 400),
        (b"12", "application/json", 400),
        (b"null", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "multipart/form-data; boundary=x", 415),
        (b"{}", "application/json-patch+json", 415),
        (b"{}" + b" " * 1024 * 1024, "application/json", 413),
    ],
    ids=["cut", "empty", "empty, no type", "no UTF-8", "NaN", "deep", "deep object", "half deep", "number", "null",
         "text", "form", "other JSON", "large"],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_refused(server, key, refused, route, data, content_type, code):
    method, path = route
    refused(server.call(key, method, path, data=data, content_type=content_type), code)


def test_a_body_of_exactly_the_limit_is_read(server, key):
    body = b"[]" + b" " * (1024 * 1024 - 2)
    assert server.call(key, *RULES, data=body, content_type="application/json").status_code == 202


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", None])
def test_json_is_taken_with_any_spelling_of_its_type(server, key, content_type):
    assert server.call(key, *RULES, data=b"[]", content_type=content_type).status_code == 202


@pytest.mark.parametrize("route", WITH_BODY)
def test_an_unknown_member_is_named(server, key, refused, route):
    method, path = route
    body = refused(server.call(key, method, path, json={**WITH_BODY[route], "surprise": 1}), 400, "surprise")
    assert "unknown" in body.fields[0].message


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        (*RULES, [{}, {"resource_path": ["/3303/*"]}], "1.resource_path"),
        ("POST", "/sim/v1/devices", {"endpoint_name": "x", "resources": [{"path": "/1", "obs": 1}]}, "resources.0.obs"),
        (
            "PUT",
            "/v2/notification/callback",
            {"url": "https://a.example", "serialization": {"x": 1}},
            "serialization.x",
        ),
        (
            "PUT",
            "/v2/notification/callback",
            {"url": "https://a.example", "serialization": {"cfg": {"includeUid": True}}},
            "serialization.cfg.includeUid",
        ),
        (
            "POST",
            "/v2/device-requests/nobody",
            {"method": "GET", "uri": "/3303/0/5700", "content_type": "a"},
            "content_type",
        ),
    ],
)
def test_an_unknown_member_is_named_by_where_it_stands(server, key, refused, method, path, body, field):
    refused(server.call(key, method, path, json=body), 400, field)


def test_every_answer_has_a_request_id_of_its_own_and_a_given_one_comes_back(server, key):
    ids = set()
    for path, method in itertools.product(methods_by_path(server.app), METHODS):
        ids.add(server.call(key, method, f"{path}?hold=0").headers["X-Request-ID"])
        answer = server.call(key, method, f"{path}?hold=0", headers={"X-Request-ID": GIVEN_ID})
        assert answer.headers["X-Request-ID"] == GIVEN_ID, (method, path)
        if answer.status_code >= 400:
            assert answer.json["request_id"] == GIVEN_ID
    assert len(ids) == len(METHODS) * len(methods_by_path(server.app))
    assert all(re.fullmatch("[0-9a-f]{32}", identity) for identity in ids)


@pytest.mark.parametrize("given", ["", "short", "x" * 32, GIVEN_ID + "0", GIVEN_ID + "\u00e9"])
def test_a_request_id_of_another_form_is_replaced(server, key, given):
    identity = server.call(key, "GET", "/v3/devices", headers={"X-Request-ID": given}).headers["X-Request-ID"]
    assert re.fullmatch("[0-9a-f]{32}", identity)
    assert identity not in given or not given


def test_the_request_id_stands_in_the_log_and_the_key_does_not(server, key, caplog):
    caplog.set_level(logging.DEBUG)
    server.call(key, "GET", "/v3/devices/nobody?after=secret", headers={"X-Request-ID": GIVEN_ID})
    (record,) = caplog.records
    assert record.request_id == GIVEN_ID
    assert key.split("_", 2)[2] not in str(vars(record))
    assert "secret" not in str(vars(record))


@pytest.mark.parametrize("path", ["/v3/devices/", "/v3//devices//", "/v2/subscriptions/", "/healthz/"])
def test_slashes_may_be_doubled_and_stand_at_the_end(server, key, path):
    answer = server.call(key, "GET", path)
    plain = server.call(key, "GET", re.sub("/+", "/", path).rstrip("/"))
    assert (answer.status_code, answer.json) == (200, plain.json)


@pytest.mark.parametrize("path", ["/3303/0/5700", "//3303/0/5700", "/3303//0/5700/", "//3303//0//5700//"])
def test_a_resource_path_is_the_same_with_doubled_slashes(server, key, path):
    device = server.add_device(key, f"slashes-{path}")
    assert server.call(key, "PUT", f"/v2/subscriptions/{device}{path}").status_code == 200
    assert server.call(key, "GET", f"/v2/subscriptions/{device}").get_data(as_text=True) == "/3303/0/5700"
    assert server.call(key, "GET", f"/v2/subscriptions/{device}{path}").status_code == 200
    url = f"/sim/v1/devices/{device}/resources{path}"
    assert server.call(key, "PUT", url, json={"value": "9"}).status_code == 204
    assert server.resource(key, device)["reported"]["value"] == "OQ=="


def test_a_get_or_delete_never_reads_a_body(server, key):
    headers = {"Content-Type": "application/json"}

    def status(method, url, **options):
        # A stream or a snapshot that is not read to its end holds a place until it is closed.
        with server.call(key, method, url, **options) as answer:
            return answer.status_code

    for path, methods in methods_by_path(server.app).items():
        # A plain poll moves the position, so the second would be another one.
        url = f"{path}?after=0&hold=0" if path.endswith("/pull") else path
        for method in methods & {"GET", "DELETE"}:
            plain = status(method, url)
            typed = status(method, url, headers=headers)
            broken = status(method, url, headers=headers, data=b"{")
            assert plain == typed == broken, (method, path)


def test_a_failure_inside_is_a_500_in_the_same_shape(server, key, refused, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("what is inside")

    monkeypatch.setattr(server.services.devices, "page", fail)
    body = refused(server.call(key, "GET", "/v3/devices"), 500)
    assert "inside" not in body.message


def test_answers_in_json_say_so_and_empty_ones_have_no_type(server, key):
    device = server.add_device(key, "typed-1")
    for path in ["/v3/devices", f"/v3/devices/{device}", f"/v3/devices/{device}/echo", f"/v2/endpoints/{device}",
                 "/v2/subscriptions", "/v2/notification/channel", "/sim/v1/devices", "/sim/v1/clock"]:  # fmt: skip
        assert server.call(key, "GET", path).headers["Content-Type"] == "application/json", path
    answer = server.call(key, "DELETE", "/v2/subscriptions")
    assert (answer.status_code, answer.get_data(), answer.headers.get("Content-Type")) == (204, b"", None)
