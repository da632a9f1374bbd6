"""Error bodies of all routes, request ids and paths. Source: wire.md 0."""

import itertools
import re

import pytest
from app_routes import has_route

METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH")
READ, PLACE = {"method": "GET", "uri": "/3303/0/5700"}, {"resource_path": "/3303/0/5700"}
UNKNOWN_DEVICE = {
    "/v3/devices/nobody": {"GET": None},
    "/v3/devices/nobody/echo": {"GET": None},
    "/v3/devices/nobody/echo/acknowledgements": {"POST": PLACE},
    "/v2/endpoints/nobody": {"GET": None},
    "/v2/device-requests/nobody": {"POST": READ},
    "/v2/subscriptions/nobody/3303/0/5700": {"PUT": None},
}
PULL = "/v2/notification/pull"
CLIENT_REQUEST_ID = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def server(shared_server):
    return shared_server


@pytest.fixture(scope="module")
def key(shared_server):
    return shared_server.key()


def path_of(rule):
    return re.sub("<[^>]*>", "nobody", re.sub("<path:[^>]*>", "3303/0/5700", rule.rule))


def methods_by_path(app):
    found = {}
    for rule in app.url_map.iter_rules():
        found.setdefault(path_of(rule), set()).update(rule.methods)
    return found


def test_wrong_method_of_every_path_is_405_with_allow_header(server, key, check_error):
    for path, allowed in methods_by_path(server.app).items():
        for method in set(METHODS) - allowed:
            response = server.call(key, method, path)
            check_error(response, 405)
            assert set(re.split(r",\s*", response.headers["Allow"])) == allowed, path


def test_unknown_device_is_404_with_its_name(server, key, check_error):
    requests = [
        (method, path, body)
        for path, bodies in UNKNOWN_DEVICE.items()
        for method, body in bodies.items()
        if has_route(server.app, method, path)
    ]
    for method, path, body in requests:
        error = check_error(server.call(key, method, path, json=body), 404)
        assert error.reason == "DEVICE_NOT_FOUND"
        assert "nobody" in error.message
    assert "Gerät" in check_error(server.call(key, "GET", "/v3/devices/Gerät/echo"), 404).message


def test_unknown_path_is_404_for_every_method(server, key, check_error):
    for path in ("/page", "/v9", "/v2/subscriptionz", "/sim/v2/devices", "/v3/devices/a/b", "/é", "/%ff"):
        for method in METHODS:
            check_error(server.call(key, method, path), 404)


def test_every_response_has_request_id_and_forbids_caching_and_sniffing(server, key):
    ids = []
    for path, method in itertools.product([*methods_by_path(server.app), "/nothing"], METHODS):
        plain = server.call(key, method, f"{path}?hold=0")
        ids.append(plain.headers["X-Request-ID"])
        with_id = server.call(key, method, f"{path}?hold=0", headers={"X-Request-ID": CLIENT_REQUEST_ID})
        if with_id.status_code >= 400:
            assert with_id.json["request_id"] == CLIENT_REQUEST_ID
        assert with_id.headers.getlist("X-Request-ID") == [CLIENT_REQUEST_ID], (method, path)
        for response in (plain, with_id):
            is_page = response.status_code == 200 and path in {"/", "/reference"}
            assert response.headers.getlist("Cache-Control") == ["no-cache" if is_page else "no-store"], (method, path)
            assert response.headers.getlist("X-Content-Type-Options") == ["nosniff"], (method, path)
            assert response.status_code != 204 or "Content-Type" not in response.headers, (method, path)
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{32}", identity) for identity in ids)


def test_date_header_is_left_to_the_http_server(server, key):
    for path in ("/", "/page/page.js", "/healthz", "/v3/devices", "/page/objects.json"):
        response = server.call(key, "GET", path)
        again = server.call(key, "GET", path, {"If-None-Match": response.headers.get("ETag", "")})
        assert "Date" not in response.headers
        assert "Date" not in again.headers


def test_malformed_request_id_is_replaced(server, key):
    for request_id in ("", "short", "x" * 32, CLIENT_REQUEST_ID + "0", CLIENT_REQUEST_ID + "\u00e9"):
        identity = server.call(key, "GET", "/v3/devices", headers={"X-Request-ID": request_id}).headers["X-Request-ID"]
        assert re.fullmatch("[0-9a-f]{32}", identity)
        assert identity not in request_id or not request_id


def test_every_operation_with_a_key_rejects_an_unknown_parameter(server, key, check_error):
    tried = 0
    for rule in server.app.url_map.iter_rules():
        if not server.app.view_functions[rule.endpoint].__dict__["required_scopes"]:
            continue
        for method in rule.methods - {"HEAD", "OPTIONS"}:
            path = path_of(rule)
            # Deleting a poll channel always succeeds.
            if (method, path) != ("DELETE", PULL):
                body = {} if method != "GET" else None
                check_error(server.call(key, method, f"{path}?misspelt=1", json=body), 400, "misspelt")
                tried += 1
    assert tried > 10
    assert server.call(key, "DELETE", f"{PULL}?misspelt=1").status_code == 204


def test_401_precedes_the_error_for_an_unknown_parameter(server, check_error):
    for path in ("/healthz", "/readyz"):
        assert server.call(None, "GET", f"{path}?misspelt=1").status_code == 200
    check_error(server.call(None, "GET", f"{PULL}?aftr=1"), 401)
