"""Keys, scopes and the shape of errors, on every route. Source: wire.md 0."""

import re

import pytest

from mirror_sdk.wire.errors import ErrorBody
from mirror_server import keys as access_keys
from mirror_server.keys import Scope
from mirror_server.store import keys as stored_keys

READ, WRITE, SUBSCRIBE, ADMIN = (frozenset({scope}) for scope in Scope)
ANY_USE = READ | WRITE | SUBSCRIBE
ROUTES = {
    "GET /healthz": frozenset(),
    "GET /readyz": frozenset(),
    "GET /": frozenset(),
    "GET /page/{}": frozenset(),
    "GET /openapi.json": frozenset(),
    "GET /metrics": ADMIN,
    "GET /v3/device-echo": READ,
    "GET /v3/device-echo/ranges": READ,
    "GET /v3/devices": READ,
    "GET /v3/devices/{}": READ,
    "GET /v3/devices/{}/contacts": READ,
    "GET /v3/devices/{}/echo": READ,
    "GET /v2/endpoints/{}": READ,
    "POST /v2/device-requests/{}": READ | WRITE,
    "GET /v2/device-requests": READ | WRITE,
    "GET /v2/device-requests/{}": READ | WRITE,
    "PUT /v2/subscriptions": SUBSCRIBE,
    "GET /v2/subscriptions": SUBSCRIBE,
    "DELETE /v2/subscriptions": SUBSCRIBE,
    "GET /v2/subscriptions/{}": SUBSCRIBE,
    "DELETE /v2/subscriptions/{}": SUBSCRIBE,
    "PUT /v2/subscriptions/{}/{}": SUBSCRIBE,
    "GET /v2/subscriptions/{}/{}": SUBSCRIBE,
    "DELETE /v2/subscriptions/{}/{}": SUBSCRIBE,
    "GET /v2/notification/pull": ANY_USE,
    "DELETE /v2/notification/pull": ANY_USE,
    "GET /v2/notification/channel": ANY_USE,
    "GET /v2/notification/events": ANY_USE,
    "PUT /v2/notification/callback": ANY_USE,
    "GET /v2/notification/callback": ANY_USE,
    "DELETE /v2/notification/callback": ANY_USE,
    "GET /sim/v1/devices": ADMIN,
    "POST /sim/v1/devices": ADMIN,
    "PATCH /sim/v1/devices/{}": ADMIN,
    "PUT /sim/v1/devices/{}/resources/{}": ADMIN,
    "DELETE /sim/v1/devices/{}/resources/{}": ADMIN,
    "POST /sim/v1/devices/{}/registration": ADMIN,
    "PUT /sim/v1/devices/{}/registration": ADMIN,
    "DELETE /sim/v1/devices/{}/registration": ADMIN,
    "GET /sim/v1/clock": ADMIN,
    "POST /sim/v1/clock": ADMIN,
}
GUARDED = {route: scopes for route, scopes in ROUTES.items() if scopes}
UNKNOWN = "Bearer ak_0123456789abcdef_" + "x" * 43
ODD = "Bearer ak_0123456789abcdef_" + "é" * 43
WITHOUT_BODY = r"/registration$|^PUT /v2/subscriptions/{}/{}$"
WITH_BODY = [route for route in ROUTES if re.match("(PUT|POST|PATCH) ", route) and not re.search(WITHOUT_BODY, route)]


@pytest.fixture(scope="module")
def server(shared_server):
    shared_server.keys = {scope: shared_server.key(scope) for scope in Scope}
    shared_server.revoked = shared_server.key()
    revoke(shared_server, shared_server.revoked)
    return shared_server


def revoke(server, key):
    key_id = key.split("_")[1]
    assert server.services.database.write(lambda session: stored_keys.revoke(session, key_id, server.now))


def split(route):
    method, _, path = route.partition(" ")
    return method, path.format("nobody", "3303/0/5700")


def checked(answer, code):
    """An error body of this code, as the interface has it."""
    assert answer.status_code == code, answer.get_data()
    assert answer.mimetype == "application/json"
    body = ErrorBody.model_validate(answer.json, extra="forbid")
    assert body.code == code
    assert re.fullmatch("[0-9a-f]{32}", body.request_id)
    assert answer.headers["X-Request-ID"] == body.request_id
    assert body.message
    return body


def test_the_table_names_every_route_of_the_app(server):
    found = {
        f"{method} {re.sub('<[^>]*>', '{}', rule.rule)}"
        for rule in server.app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert found == set(ROUTES)


@pytest.mark.parametrize("route", GUARDED)
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "ak_x",
        "Bearer x",
        UNKNOWN,
        ODD,
        f"{UNKNOWN} and more",
        f"{UNKNOWN}x",
        UNKNOWN.upper(),
        UNKNOWN.replace(" ", ","),
        UNKNOWN.removeprefix("Bearer "),
    ],
)
def test_without_a_known_key_every_route_is_401(server, route, authorization):
    method, path = split(route)
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = server.call(None, method, path, headers=headers)
    assert checked(answer, 401).type == "invalid_auth"
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_an_unknown_path_tells_nothing_without_a_key(server):
    checked(server.call(None, "GET", "/v9/nothing"), 401)


@pytest.mark.parametrize("part", [1, 2])
def test_a_key_that_is_right_in_one_half_only_is_401(server, part):
    mine, other = server.key().split("_", 2), server.key().split("_", 2)
    mine[part] = other[part]
    checked(server.call("_".join(mine), "GET", "/v3/devices"), 401)


def test_two_keys_of_one_name_are_two_applications(server):
    one, other = (access_keys.create(server.services.database, "same", tuple(Scope), server.now) for _ in range(2))
    server.call(one, "PUT", "/v2/subscriptions", json=[{"endpoint-type": "Nothing"}])
    assert server.call(other, "GET", "/v2/subscriptions").json == []


@pytest.mark.parametrize("route", GUARDED)
def test_with_a_revoked_key_every_route_is_401(server, route):
    assert checked(server.call(server.revoked, *split(route)), 401).type == "invalid_auth"


@pytest.mark.parametrize("route", GUARDED)
@pytest.mark.parametrize("scope", Scope)
def test_each_scope_opens_its_routes_alone(server, route, scope):
    method, path = split(route)
    query = {"hold": 0} if route == "GET /v2/notification/pull" else {}
    answer = server.call(server.keys[scope], method, path, query_string=query)
    if scope in GUARDED[route]:
        assert answer.status_code not in {401, 403}
    else:
        assert checked(answer, 403).type == "access_denied"


def test_a_read_key_reads_and_a_write_key_writes(server):
    key = server.key()
    device = server.add_device(key, "light-1", {"path": "/3311/0/5850", "value": "0", "writable": True})
    read = {"method": "GET", "uri": "/3311/0/5850"}
    write = {"method": "PUT", "uri": "/3311/0/5850", "payload-b64": "MQ=="}
    execute = {"method": "POST", "uri": "/3311/0/5850"}
    url = f"/v2/device-requests/{device}"
    table = [(Scope.READ, read, write), (Scope.WRITE, write, read), (Scope.WRITE, execute, read)]
    for scope, allowed, refused in table:
        assert server.call(server.keys[scope], "POST", url, json=allowed).status_code == 202
        checked(server.call(server.keys[scope], "POST", url, json=refused), 403)


def test_a_revoked_key_is_401_at_once(server):
    key = server.key()
    assert server.call(key, "GET", "/v3/devices").status_code == 200
    revoke(server, key)
    checked(server.call(key, "GET", "/v3/devices"), 401)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_taken_in_any_case(server, scheme):
    headers = {"Authorization": f"{scheme} {server.keys[Scope.READ]}"}
    assert server.call(None, "GET", "/v3/devices", headers=headers).status_code == 200


def test_only_a_hash_of_the_secret_is_stored(server):
    key = server.key()
    secret = key.split("_", 2)[2]
    stored = server.services.database.write(lambda session: stored_keys.find(session, key.split("_")[1]))
    assert secret.encode() not in stored.secret_hash
    assert secret not in repr(stored)
    assert len(stored.secret_hash) == 32


def test_a_key_made_without_scopes_cannot_use_the_bench(server):
    key = access_keys.create(server.services.database, "app", access_keys.DEFAULT_SCOPES, server.now)
    checked(server.call(key, "GET", "/sim/v1/devices"), 403)
    assert server.call(key, "GET", "/v2/subscriptions").status_code == 200


def test_an_unknown_path_is_404_and_a_wrong_method_405_that_names_the_right_ones(server):
    key = server.keys[Scope.READ]
    assert checked(server.call(key, "GET", "/v9/nothing"), 404).type == "not_found"
    wrong = server.call(key, "PATCH", "/v3/devices")
    assert checked(wrong, 405).type == "method_not_allowed"
    assert "GET" in wrong.headers["Allow"]


@pytest.mark.parametrize("route", WITH_BODY)
@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 5000 + b"]" * 5000, "application/json", 400),
        (b'"text"', "application/json", 400),
        (b"null", "application/json", 400),
        (b'{"surprise": 1}', "application/json", 400),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b" " * (1024 * 1024 + 1), "application/json", 413),
    ],
    ids=["cut", "empty", "no UTF-8", "deep", "a text", "null", "unknown member", "a form", "too large"],
)
def test_a_body_that_cannot_be_read_is_refused_on_every_route(server, route, body, content_type, code):
    method, path = split(route)
    checked(server.call(server.key(), method, path, data=body, content_type=content_type), code)


def test_the_request_id_of_the_client_is_kept_when_it_has_our_form(server):
    key = server.keys[Scope.READ]
    given = "0123456789abcdef" * 2
    assert server.call(key, "GET", "/v3/devices", headers={"X-Request-ID": given}).headers["X-Request-ID"] == given
    other = server.call(key, "GET", "/v3/devices", headers={"X-Request-ID": "mine"}).headers["X-Request-ID"]
    assert re.fullmatch("[0-9a-f]{32}", other)


@pytest.mark.parametrize("path", ["/v3/devices/", "/v3//devices", "/v3/devices"])
def test_trailing_and_doubled_slashes_mean_the_same_path(server, path):
    assert server.call(server.keys[Scope.READ], "GET", path).json["object"] == "list"


def test_a_doubled_slash_before_a_resource_path_means_the_same(server):
    key = server.key()
    device = server.add_device(key, "sensor-2")
    assert server.call(key, "PUT", f"/v2/subscriptions/{device}//3303/0/5700").status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_content_type_without_a_body_is_no_body(server, method):
    answer = server.call(server.key(), method, "/v2/subscriptions", headers={"Content-Type": "application/json"})
    assert answer.status_code in {200, 204}


def test_a_failure_of_the_server_is_a_500_without_its_inside(server, monkeypatch):
    def fail(device_id):
        raise RuntimeError("inside")

    monkeypatch.setattr(server.services.devices, "device", fail)
    answer = server.call(server.keys[Scope.READ], "GET", "/v3/devices/x")
    assert checked(answer, 500).type == "internal"
    assert b"inside" not in answer.get_data()
