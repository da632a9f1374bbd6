"""Keys and their scopes on every route. Source: wire.md 0."""

import re

import pytest

from mirror_server.cli.key_commands import create_key
from mirror_server.service import keys as access_keys
from mirror_server.service.keys import Scope
from mirror_server.store import keys as stored_keys

READ, WRITE, SUBSCRIBE, ADMIN = (frozenset({scope}) for scope in Scope)
ANY_USE = READ | WRITE | SUBSCRIBE
ROUTES = {
    "GET /healthz": frozenset(),
    "GET /readyz": frozenset(),
    "GET /": frozenset(),
    "GET /page/{}": frozenset(),
    "GET /reference": frozenset(),
    "GET /reference/{}": frozenset(),
    "GET /openapi.json": frozenset(),
    "GET /v3/api-keys/me": ANY_USE | ADMIN,
    "GET /metrics": ADMIN,
    "GET /v3/device-echo": READ,
    "GET /v3/device-echo/ranges": READ,
    "GET /v3/device-echo/history": READ,
    "GET /v3/devices": READ,
    "GET /v3/devices/{}": READ,
    "PUT /v3/devices/{}": WRITE,
    "PATCH /v3/devices/{}": WRITE,
    "GET /v3/device-queries": READ,
    "POST /v3/device-queries": WRITE,
    "GET /v3/device-queries/{}": READ,
    "PUT /v3/device-queries/{}": WRITE,
    "PATCH /v3/device-queries/{}": WRITE,
    "DELETE /v3/device-queries/{}": WRITE,
    "GET /v3/device-events": READ,
    "GET /v3/device-events/{}": READ,
    "GET /v3/devicelog": READ,
    "GET /v3/devicelog/{}": READ,
    "GET /v3/devices/{}/connection": READ,
    "GET /v3/devices/{}/contacts": READ,
    "GET /v3/devices/{}/echo": READ,
    "POST /v3/devices/{}/echo/acknowledgements": WRITE,
    "GET /rest-versions": ANY_USE | ADMIN,
    "GET /v2/limits": ANY_USE,
    "GET /v2/endpoints": READ,
    "GET /v2/endpoints/{}": READ,
    "GET /v2/endpoints/{}/{}": READ,
    "PUT /v2/endpoints/{}/{}": WRITE,
    "POST /v2/endpoints/{}/{}": WRITE,
    "DELETE /v2/endpoints/{}/{}": WRITE,
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
    "PUT /v2/notification/websocket": ANY_USE,
    "GET /v2/notification/websocket": ANY_USE,
    "DELETE /v2/notification/websocket": ANY_USE,
    "GET /v2/notification/websocket-connect": ANY_USE,
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


def test_the_table_names_every_route_of_the_app(server):
    found = {
        f"{method} {re.sub('<[^>]*>', '{}', rule.rule)}"
        for rule in server.app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert found == set(ROUTES)


@pytest.mark.parametrize("authorization", [None, UNKNOWN])
def test_without_a_known_key_every_route_is_401(server, refused, authorization):
    for route in GUARDED:
        method, path = split(route)
        check_unauthorized(server, refused, authorization, method, path)


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "ak_x",
        "Bearer x",
        ODD,
        f"{UNKNOWN} and more",
        f"{UNKNOWN}x",
        UNKNOWN.upper(),
        UNKNOWN.replace(" ", ","),
        UNKNOWN.removeprefix("Bearer "),
    ],
)
def test_malformed_authorization_is_401(server, refused, authorization):
    check_unauthorized(server, refused, authorization, "GET", "/v3/devices")


def check_unauthorized(server, refused, authorization, method, path):
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = server.call(None, method, path, headers=headers)
    refused(answer, 401)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_an_unknown_path_tells_nothing_without_a_key(server, refused):
    refused(server.call(None, "GET", "/v9/nothing"), 401)


@pytest.mark.parametrize("part", [1, 2])
def test_a_key_that_is_right_in_one_half_only_is_401(server, refused, part):
    mine, other = server.key().split("_", 2), server.key().split("_", 2)
    mine[part] = other[part]
    refused(server.call("_".join(mine), "GET", "/v3/devices"), 401)


def test_two_keys_of_one_name_are_two_applications(server):
    one, other = (access_keys.create(server.services.database, "same", tuple(Scope), server.now) for _ in range(2))
    server.call(one, "PUT", "/v2/subscriptions", json=[{"endpoint-type": "Nothing"}])
    assert server.call(other, "GET", "/v2/subscriptions").json == []


def test_with_a_revoked_key_every_route_is_401(server, refused):
    for route in GUARDED:
        refused(server.call(server.revoked, *split(route)), 401)


@pytest.mark.parametrize("scope", Scope)
def test_each_scope_opens_its_routes_alone(server, refused, scope):
    for route, scopes in GUARDED.items():
        answer = call_route(server, server.keys[scope], route)
        if scope in scopes:
            assert answer.status_code not in {401, 403}, route
        else:
            refused(answer, 403)


@pytest.mark.parametrize("held", [*([scope] for scope in Scope), list(access_keys.DEFAULT_SCOPES)], ids=" ".join)
def test_a_key_made_as_the_refusal_says_may_do_that_and_all_it_did(server, held):
    key = server.key(*held)
    for route, scopes in GUARDED.items():
        answer = call_route(server, key, route)
        if answer.status_code != 403:
            assert not scopes.isdisjoint(held), route
            continue
        told = re.findall(r"'mirror-server (keys create NAME [^']*)'", answer.json["message"])
        # One for each scope that would do: which of them is meant, only who asks can know.
        assert len(told) == len(scopes), route
        for words in told:
            made = create_key.make_context("create", words.split()[2:]).params["scopes"]
            assert set(held) < set(made), route
            assert not scopes.isdisjoint(made), route


def call_route(server, key, route):
    return server.call(key, *split(route), query_string={"hold": 0} if route.endswith("/pull") else {})


@pytest.mark.parametrize("scope", Scope)
def test_a_key_is_told_its_scopes_and_never_its_secret(server, scope):
    key = server.keys[scope]
    answer = server.call(key, "GET", "/v3/api-keys/me")
    _, key_id, secret = key.split("_", 2)
    assert answer.json == {"object": "api-key", "id": key_id, "scopes": [scope]}
    assert secret not in answer.text


def test_a_read_key_reads_and_a_write_key_writes(server, refused):
    key = server.key()
    device = server.add_device(key, "light-1", {"path": "/3311/0/5850", "value": "0", "writable": True})
    read = {"method": "GET", "uri": "/3311/0/5850"}
    write = {"method": "PUT", "uri": "/3311/0/5850", "payload-b64": "MQ=="}
    execute = {"method": "POST", "uri": "/3311/0/5850"}
    url = f"/v2/device-requests/{device}"
    table = [(Scope.READ, read, write), (Scope.WRITE, write, read), (Scope.WRITE, execute, read)]
    for scope, allowed, forbidden in table:
        assert server.call(server.keys[scope], "POST", url, json=allowed).status_code == 202
        refused(server.call(server.keys[scope], "POST", url, json=forbidden), 403)


def test_a_revoked_key_is_401_at_once(server, refused):
    key = server.key()
    assert server.call(key, "GET", "/v3/devices").status_code == 200
    revoke(server, key)
    refused(server.call(key, "GET", "/v3/devices"), 401)


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


def test_a_key_made_without_scopes_cannot_use_the_bench(server, refused):
    key = access_keys.create(server.services.database, "app", access_keys.DEFAULT_SCOPES, server.now)
    refused(server.call(key, "GET", "/sim/v1/devices"), 403)
    assert server.call(key, "GET", "/v2/subscriptions").status_code == 200
