"""Keys and their scopes on every route. Source: wire.md 0."""

import itertools
import re

import pytest
from app_routes import has_route, of_extensions
from device_resources import setting

from mirror_server.cli.keys import create_key
from mirror_server.service import keys as access_keys
from mirror_server.service.keys import Scope
from mirror_server.store import keys as stored_keys

READ, WRITE, SUBSCRIBE, ADMIN = (frozenset({scope}) for scope in Scope)
ANY_USE = READ | WRITE | SUBSCRIBE
OPEN = frozenset()
"""Routes that need no key."""
TABLE = [
    (OPEN, "GET", "/healthz /readyz"),
    (ANY_USE | ADMIN, "GET", "/v3/api-keys/me"),
    (READ, "GET", "/v3/devices /v3/devices/{} /v3/devices/{}/echo /v2/endpoints/{}"),
    (READ | WRITE, "POST", "/v2/device-requests/{}"),
    (SUBSCRIBE, "PUT GET DELETE", "/v2/subscriptions /v2/subscriptions/{}/{}"),
    (SUBSCRIBE, "GET DELETE", "/v2/subscriptions/{}"),
    (ANY_USE, "GET", "/v2/notification/channel"),
    (ANY_USE, "GET DELETE", "/v2/notification/pull"),
    (ANY_USE, "PUT GET DELETE", "/v2/notification/callback"),
    *itertools.chain.from_iterable(of_extensions("ACCESS")),
]
ROUTES = {
    f"{method} {path}": frozenset(scopes)
    for scopes, methods, paths in TABLE
    for method, path in itertools.product(methods.split(), paths.split())
}
GUARDED = {route: scopes for route, scopes in ROUTES.items() if scopes}
UNKNOWN = "Bearer ak_0123456789abcdef_" + "x" * 43
ODD = "Bearer ak_0123456789abcdef_" + "é" * 43


@pytest.fixture(scope="module")
def server(shared_server):
    shared_server.keys = {scope: shared_server.key(scope) for scope in Scope}
    return shared_server


def split(route):
    method, _, path = route.partition(" ")
    return method, path.format("nobody", "3303/0/5700")


def test_access_table_lists_every_route_of_the_app(server):
    found = {
        f"{method} {re.sub('<[^>]*>', '{}', rule.rule)}"
        for rule in server.app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
        if not rule.endpoint.startswith("simulator.")
    }
    assert found == {route for route in ROUTES if has_route(server.app, *route.split())}


def test_every_route_is_401_without_a_valid_key(server, check_error):
    revoked = server.key()
    assert server.call(revoked, "GET", "/v3/devices").status_code == 200
    server.revoke(revoked)
    for authorization in (None, UNKNOWN, f"Bearer {revoked}"):
        for route in [*GUARDED, "GET /v9/nothing"]:
            check_unauthorized(server, check_error, authorization, route)


def test_malformed_or_partly_correct_authorization_is_401(server, check_error):
    mine, other = server.key().split("_", 2), server.key().split("_", 2)
    partly_right = ["_".join([*mine[:2], other[2]]), "_".join([mine[0], other[1], mine[2]])]
    malformed = ["", "Bearer", "Bearer ", "Basic abc", "ak_x", "Bearer x", ODD, f"{UNKNOWN} and more", f"{UNKNOWN}x"]
    malformed += [UNKNOWN.upper(), UNKNOWN.replace(" ", ","), UNKNOWN.removeprefix("Bearer ")]
    for authorization in [*malformed, *(f"Bearer {key}" for key in partly_right)]:
        check_unauthorized(server, check_error, authorization, "GET /v3/devices")


def check_unauthorized(server, check_error, authorization, route):
    headers = {} if authorization is None else {"Authorization": authorization}
    response = server.call(None, *split(route), headers=headers)
    check_error(response, 401)
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.headers.getlist("Cache-Control") == ["no-store"]


@pytest.mark.parametrize(
    "scopes_of_key", [*([scope] for scope in Scope), list(access_keys.DEFAULT_SCOPES)], ids=" ".join
)
def test_scopes_allow_only_their_routes_and_403_names_the_cure(server, check_error, scopes_of_key):
    assert len(scopes_of_key) == 1 or set(scopes_of_key) == set(Scope) - {Scope.ADMIN}, "the scopes of a key by default"
    key = server.key(*scopes_of_key)
    for route, scopes in GUARDED.items():
        if not has_route(server.app, *route.split()):
            continue
        response = server.call(key, *split(route), query_string={"hold": 0} if route.endswith("/pull") else {})
        if not scopes.isdisjoint(scopes_of_key):
            assert response.status_code not in {401, 403}, route
            continue
        commands = re.findall(r"'mirror-server (keys create NAME [^']*)'", check_error(response, 403).message)
        # One command for each sufficient scope, because only the client knows which one is meant.
        assert len(commands) == len(scopes), route
        for words in commands:
            made = create_key.make_context("create", words.split()[2:]).params["scopes"]
            assert set(scopes_of_key) < set(made), route
            assert not scopes.isdisjoint(made), route


def test_key_info_has_scopes_and_no_secret(server):
    for scope, key in server.keys.items():
        response = server.call(key, "GET", "/v3/api-keys/me")
        _, key_id, secret = key.split("_", 2)
        assert response.json == {"object": "api-key", "id": key_id, "scopes": [scope]}
        assert secret not in response.text


def test_read_key_reads_and_write_key_writes(server, check_error):
    key = server.key()
    device = server.add_device(key, "light-1", setting("/3311/0/5850"))
    read = {"method": "GET", "uri": "/3311/0/5850"}
    write = {"method": "PUT", "uri": "/3311/0/5850", "payload-b64": "MQ=="}
    execute = {"method": "POST", "uri": "/3311/0/5850"}
    url = f"/v2/device-requests/{device}"
    table = [(Scope.READ, read, write), (Scope.WRITE, write, read), (Scope.WRITE, execute, read)]
    for scope, allowed, forbidden in table:
        assert server.call(server.keys[scope], "POST", url, json=allowed).status_code == 202
        check_error(server.call(server.keys[scope], "POST", url, json=forbidden), 403)


def test_only_a_hash_of_the_secret_is_stored(server):
    key = server.key()
    secret = key.split("_", 2)[2]
    stored = server.services.database.write(lambda session: stored_keys.find(session, key.split("_")[1]))
    assert secret.encode() not in stored.secret_hash
    assert secret not in repr(stored)
    assert len(stored.secret_hash) == 32
