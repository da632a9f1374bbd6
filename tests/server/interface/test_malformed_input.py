"""Malformed paths and queries are rejected with the field and the fix, and change nothing."""

import itertools

import pytest
from app_routes import has_route
from device_resources import control

PATH = "/3303/0/5700"


@pytest.fixture(scope="module")
def server(shared_server):
    device = control(PATH, "1")
    shared_server.device = shared_server.add_device(shared_server.key(), "d", device)
    return shared_server


@pytest.fixture(scope="module")
def key(server):
    return server.key()


REPEATED = [
    ("GET", "/v2/notification/pull", "after=1&after=2", "after"),
    ("GET", "/v2/notification/pull", "after=latest&after=latest", "after"),
    ("GET", "/v2/notification/pull", "after=0&hold=0&hold=1", "hold"),
    ("GET", "/v2/notification/events", "after=0&after=1", "after"),
    ("GET", "/v3/devices", "limit=2&limit=3", "limit"),
    ("GET", "/v3/devices", "after=a&after=b", "after"),
    ("GET", "/v3/devices", "order=ASC&order=DESC", "order"),
    ("GET", "/v3/devices", "include=total_count&include=total_count", "include"),
    ("POST", "/v2/device-requests/{device}", "async-id=a&async-id=b", "async-id"),
    ("POST", "/v2/device-requests/{device}", "retry=1&retry=2", "retry"),
    ("POST", "/v2/device-requests/{device}", "expiry-seconds=1&expiry-seconds=2", "expiry-seconds"),
]


def test_duplicate_parameter_is_400(server, key, check_error, unchanged):
    for method, path, query, field in REPEATED:
        if not has_route(server.app, method, path):
            continue
        body = {"POST": {"method": "GET", "uri": PATH}, "PUT": []}.get(method)
        options = {} if body is None else {"json": body}
        url = f"{path.format(device=server.device)}?{query}"
        message = check_error(server.call(key, method, url, **options), 400, field).message
        assert "once" in message
        assert field in message


PATHS = [
    "/v3/devices/../healthz/echo",
    "/v3/devices/%2e%2e/echo",
    "/v3/devices/%2F/echo",
    "/v3/devices/%00/echo",
    "/v3/devices/%FF%FE/echo",
    "/v3/devices/" + "x" * 5000,
    "/v3/devices/';DROP TABLE devices;--/echo",
    "/v2/subscriptions/{device}/../../x",
    "/v2/subscriptions/{device}/3303/0/%00",
    "/v2/subscriptions/{device}/3303/0/5700/1/2",
    "/v2/subscriptions/{device}/3303/0/99999999999999999999",
    "/v2/subscriptions/{device}/3303/0/-1",
    "/v2/subscriptions/{device}/3303/0/٣",
    "/v2/endpoints/%0d%0aSet-Cookie:x=1",
    "/%2e%2e/%2e%2e/etc/passwd",
]


def test_manipulated_paths_are_404(server, key, check_error, unchanged):
    for path in PATHS:
        for method in ("GET", "PUT", "DELETE"):
            response = server.call(key, method, path.format(device=server.device))
            assert response.status_code in {400, 404, 405}, path
            check_error(response, response.status_code)
            assert "Set-Cookie" not in response.headers


TRICKS = ["%00", "%FF", "x" * 5000, "1 OR 1=1", "';DROP TABLE devices;--", "%F0%9F%92%A9", "%0a"]


DEVICE_FIELDS = ["after", "endpoint_name", "id__in", "created_at__gte", "limit", "filter", "%00", "a__eq", "name"]
DEVICE_FIELDS += ["description", "custom_attributes__a", "custom_attributes__%00", "etag__gte"]
FIELDS = {
    "/v3/devices": DEVICE_FIELDS,
    "/v3/device-queries": ["after", "name", "id__in", "filter", "%00"],
    "/v3/device-events": ["after", "id__in", "date_time__gte", "state_change", "filter", "%00"],
}


@pytest.mark.parametrize("path", FIELDS)
def test_sql_in_a_filter_matches_nothing(server, key, check_error, unchanged, path):
    for name, text in itertools.product(FIELDS[path] if has_route(server.app, "GET", path) else (), TRICKS):
        response = server.call(key, "GET", f"{path}?{name}={text}")
        if response.status_code == 200:
            assert (path, name) == ("/v3/devices", "after") or response.json["data"] == [], (name, text)
        else:
            check_error(response, 400)


WITHOUT_HEAD = ["/v2/notification/pull", "/v2/notification/events", "/v3/device-echo", "/v3/device-echo/ranges"]
WITHOUT_HEAD += ["/v2/endpoints", "/v2/endpoints/{device}" + PATH]


def test_head_is_405_for_routes_with_side_effects(server, key, unchanged):
    for path in WITHOUT_HEAD:
        if has_route(server.app, "GET", path):
            assert server.call(key, "HEAD", path.format(device=server.device)).status_code == 405, path
