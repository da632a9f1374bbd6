"""Who may use which route, read from the app itself. Source: wire.md 0."""

import re

import pytest

from mirror_server import keys
from mirror_server.keys import Scope
from mirror_server.store import keys as stored_keys

SCOPES_BY_PREFIX = {
    "/healthz": set(),
    "/v3/": {Scope.READ},
    "/v2/endpoints/": {Scope.READ},
    "/v2/device-requests/": {Scope.READ, Scope.WRITE},
    "/v2/subscriptions": {Scope.SUBSCRIBE},
    "/v2/notification/": {Scope.READ, Scope.WRITE, Scope.SUBSCRIBE},
    "/sim/v1/": {Scope.ADMIN},
}
SECRET = "A" * 43


@pytest.fixture(scope="module")
def server(shared_server):
    shared_server.keys = {scope: shared_server.key(scope) for scope in Scope}
    return shared_server


def routes(app):
    """Method, path with the parameters filled in, and view of everything the app answers to."""
    for rule in app.url_map.iter_rules():
        path = re.sub("<path:[^>]*>", "3303/0/5700", rule.rule)
        path = re.sub("<[^>]*>", "nobody", path)
        for method in sorted(rule.methods - {"OPTIONS"}):
            yield method, path, app.view_functions[rule.endpoint]


def expected_scopes(path):
    (scopes,) = [scopes for prefix, scopes in SCOPES_BY_PREFIX.items() if path.startswith(prefix)]
    return scopes


def test_every_view_declares_the_scopes_of_its_part_of_the_interface(server):
    found = list(routes(server.app))
    assert len(found) > 30
    for method, path, view in found:
        assert isinstance(view.required_scopes, frozenset), view
        assert view.required_scopes == expected_scopes(path), (method, path)


@pytest.mark.parametrize("scope", Scope)
def test_a_key_with_one_scope_gets_403_exactly_where_another_is_needed(server, refused, scope):
    for method, path, _ in routes(server.app):
        answer = server.call(server.keys[scope], method, path, query_string={"hold": 0})
        needed = expected_scopes(path)
        if not needed or scope in needed:
            assert answer.status_code not in {401, 403}, (method, path)
        elif method == "HEAD":
            assert answer.status_code == 403
        else:
            body = refused(answer, 403)
            assert all(word in body.message for word in needed), path


def test_a_key_with_all_scopes_is_never_refused_for_a_scope(server):
    key = server.key()
    for method, path, _ in routes(server.app):
        assert server.call(key, method, path, query_string={"hold": 0}).status_code not in {401, 403}, (method, path)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "bearer no-key",
        "Basic dXNlcjpwYXNz",
        f"ak_0123456789abcdef_{SECRET}",
        f"Bearer ak_0123456789abcdef_{SECRET}",
        f"Bearer ak_0123456789abcdef_{SECRET}A",
        f"Bearer ak_0123456789abcdef_{SECRET} and more",
        f"Bearer ak_0123456789ABCDEF_{SECRET}",
        f"Bearer,ak_0123456789abcdef_{SECRET}",
    ],
)
def test_without_a_known_key_every_route_but_health_is_401(server, refused, authorization):
    headers = {} if authorization is None else {"Authorization": authorization}
    for method, path, _ in routes(server.app):
        answer = server.call(None, method, path, headers=headers)
        if path == "/healthz":
            assert answer.status_code == 200
        elif method == "HEAD":
            assert answer.status_code == 401
        else:
            refused(answer, 401)
            assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_an_unknown_path_tells_nothing_without_a_key(server, refused):
    refused(server.call(None, "GET", "/v9/nothing"), 401)


@pytest.mark.parametrize("part", [1, 2])
def test_a_key_that_is_right_in_one_half_only_is_401(server, refused, part):
    mine, other = server.key().split("_", 2), server.key().split("_", 2)
    mine[part] = other[part]
    refused(server.call("_".join(mine), "GET", "/v3/devices"), 401)


def test_a_revoked_key_is_401_and_another_goes_on(server, refused):
    key, other = server.key(), server.key()
    key_id = key.split("_")[1]
    assert server.services.database.write(lambda session: stored_keys.revoke(session, key_id, server.now))
    refused(server.call(key, "GET", "/v3/devices"), 401)
    assert server.call(other, "GET", "/v3/devices").status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_taken_in_any_case(server, scheme):
    headers = {"Authorization": f"{scheme} {server.keys[Scope.READ]}"}
    assert server.call(None, "GET", "/v3/devices", headers=headers).status_code == 200


def test_a_device_request_needs_the_scope_of_its_method(server, refused):
    device = server.add_device(server.key(), "light-1", {"path": "/3311/0/5850", "writable": True, "executable": False})
    url = f"/v2/device-requests/{device}"
    bodies = {
        "GET": {"method": "GET", "uri": "/3311/0/5850"},
        "PUT": {"method": "PUT", "uri": "/3311/0/5850", "payload-b64": "MQ=="},
        "POST": {"method": "POST", "uri": "/3311/0/5850"},
    }
    for method, body in bodies.items():
        right, wrong = (Scope.READ, Scope.WRITE) if method == "GET" else (Scope.WRITE, Scope.READ)
        assert server.call(server.keys[right], "POST", url, json=body).status_code == 202
        refused(server.call(server.keys[wrong], "POST", url, json=body), 403)


def test_two_keys_of_one_name_are_two_applications(server):
    one, other = (keys.create(server.services.database, "same", tuple(Scope), server.now) for _ in range(2))
    server.call(one, "PUT", "/v2/subscriptions", json=[{"endpoint-type": "Nothing"}])
    assert server.call(one, "GET", "/v2/subscriptions").json == [{"endpoint-type": "Nothing"}]
    assert server.call(other, "GET", "/v2/subscriptions").json == []
