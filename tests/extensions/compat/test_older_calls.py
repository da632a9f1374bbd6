"""The older calls of the public API, and paths without a version. Source: wire.md 9."""

import pytest
from asgi_requests import check_off_the_loop
from resource_paths import TEMPERATURE

from mirror_sdk.wire.legacy_calls import Endpoint, Limits
from mirror_server.service import slow_reads

ENDPOINTS = "/v2/endpoints"


def test_endpoints_come_page_by_page_without_devices_that_left(server, key, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.compat.views._DEVICES_AT_A_TIME", 2)
    first, *others = sorted(server.add_device(key, f"d{number}") for number in range(5))
    server.registration(key, first, "DELETE")
    # After a list was sent, there is space for the next.
    for _ in range(20):
        with server.call(key, "GET", ENDPOINTS) as answer:
            assert answer.headers["Content-Type"] == "application/json"
            assert [Endpoint.model_validate(entry, extra="forbid").name for entry in answer.json] == others
    assert server.call(key, "GET", f"{ENDPOINTS}?type=").json == []


def test_unsupported_parameter_of_endpoints_is_rejected_by_name(server, key, check_error):
    for query, field in (("type=a&type=b", "type"), ("typ=Light", "typ"), ("type=Light&limit=3", "limit")):
        check_error(server.call(key, "GET", f"{ENDPOINTS}?{query}"), 400, field)


def limits(server, key):
    answer = server.call(key, "GET", "/v2/limits")
    assert answer.status_code == 200
    Limits.model_validate(answer.json, extra="forbid", strict=True, by_alias=True, by_name=False)
    return answer.json


def test_limits_count_log_entries_of_the_key_and_registered_devices(server, key, other):
    before = limits(server, key)
    assert (before["transaction-count"], before["endpoint-count"]) == (0, 0)
    device = server.add_device(key, "d")
    server.submit(key, device, "r", "GET", TEMPERATURE)
    mine = limits(server, key)
    assert (mine["transaction-count"], mine["endpoint-count"]) == (2, 1)
    assert limits(server, other)["transaction-count"] == 1
    server.registration(key, device, "DELETE")
    assert limits(server, key) == {**mine, "transaction-count": 3, "endpoint-count": 0}
    assert mine["transaction-quota"] == mine["endpoint-quota"] == 2**31 - 1
    server.advance(key, 2 * 24 * 3600)
    server.registration(key, device, "POST")
    assert limits(server, key)["transaction-count"] == 1


def test_path_without_a_version_reaches_the_same_view(server, key, device):
    assert server.call(key, "PUT", f"/subscriptions/{device}{TEMPERATURE}").status_code == 200
    assert server.call(key, "GET", f"/v2/subscriptions/{device}{TEMPERATURE}").status_code == 200
    assert server.call(key, "GET", f"/subscriptions/{device}/").text == TEMPERATURE
    assert server.call(key, "DELETE", f"/subscriptions//{device}//").status_code == 204
    assert server.call(key, "GET", f"/subscriptions/{device}").status_code == 404
    assert server.call(key, "GET", "/notification/pull?noWait=true").status_code == 200
    assert server.call(key, "DELETE", "/notification/pull").status_code == 204


def test_path_without_a_version_needs_the_same_key_and_similar_paths_are_404(server, key, check_error):
    check_error(server.call(None, "GET", "/subscriptions"), 401)
    for path in ("/subscription", "/subscriptionsx", "/notifications/pull", "/notification", "/limits"):
        check_error(server.call(key, "GET", path), 404)


@pytest.mark.with_extension("openapi")
def test_description_has_the_paths_without_a_version(server):
    paths = server.call(None, "GET", "/openapi.json").json["paths"]
    unversioned = {
        path: operation["x-unversioned"]
        for path, item in paths.items()
        for operation in item.values()
        if "x-unversioned" in operation
    }
    assert unversioned
    assert all(path == f"/v2{name}" for path, name in unversioned.items())
    assert set(unversioned) == {path for path in paths if path.startswith(("/v2/subscriptions", "/v2/notification/"))}


def test_list_rejects_head_and_limits_concurrent_downloads(server, key, check_error):
    server.add_device(key, "d")
    assert server.call(key, "HEAD", ENDPOINTS).status_code == 405
    open_ones = [server.call(key, "GET", ENDPOINTS) for _ in range(slow_reads._MAX_DOWNLOADS // 2)]
    assert check_error(server.call(key, "GET", ENDPOINTS), 429).reason == "TOO_MANY_SNAPSHOTS"
    for one in open_ones:
        one.close()
    assert server.call(key, "GET", ENDPOINTS).status_code == 200


@pytest.mark.anyio
async def test_loop_serves_others_while_limits_are_counted(server, bridge, key):
    await check_off_the_loop(server, bridge, key, "/v2/limits")


@pytest.mark.with_extension("openapi")
def test_routes_and_names_need_the_extension(new_server):
    complete = new_server().call(None, "GET", "/openapi.json").json
    left = new_server(without=("compat",))
    without = left.call(None, "GET", "/openapi.json").json
    assert complete["paths"].keys() - without["paths"].keys() == {
        "/rest-versions",
        "/v2/limits",
        ENDPOINTS,
        f"{ENDPOINTS}/{{device_id}}/{{path}}",
    }
    assert complete["components"]["schemas"].keys() - without["components"]["schemas"].keys() == {"Endpoint", "Limits"}
    assert "x-unversioned" not in str(without)
    key = left.key()
    device_id = left.add_device(key, "d")
    assert left.call(key, "GET", f"{ENDPOINTS}/{device_id}").status_code == 200
    assert left.call(key, "GET", "/subscriptions").status_code == 404
