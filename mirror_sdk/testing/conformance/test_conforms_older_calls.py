"""Tests of the older calls of the public API, for programs that still use them. Source: wire.md 9."""

from __future__ import annotations

import httpx
import pytest

from mirror_sdk.testing.conformance.service import Entry, Service, decoded, in_words
from mirror_sdk.testing.conformance.simulated_devices import REBOOT, RESOURCES, SWITCH, TEMPERATURE, SimulatedDevices

ENDPOINTS = "/v2/endpoints"
RULES = [{"endpoint-type": "Conformance-of-older-calls"}]


def outcome_of(service: Service, accepted: httpx.Response) -> Entry:
    """Wait for the async response of an accepted request, and return it."""
    assert accepted.status_code == 202, in_words(accepted)
    return service.outcome(accepted.json()["async-response-id"])


def test_a_registered_device_is_an_endpoint(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """The device has ``name``, ``type``, ``status`` and ``q``, also if devices are listed by type.

    Deregistered devices are not listed.
    """
    expected = {"name": light, "type": "Conformance", "status": "ACTIVE", "q": False}
    assert expected in service.json("GET", ENDPOINTS)
    assert expected in service.json("GET", ENDPOINTS, params={"type": "Conformance"})
    assert expected not in service.json("GET", ENDPOINTS, params={"type": "conformance"})
    simulator.deregister(light)
    assert light not in [endpoint["name"] for endpoint in service.json("GET", ENDPOINTS)]
    simulator.register(light)


def test_an_endpoint_in_queue_mode_is_marked(service: Service, simulator: SimulatedDevices) -> None:
    """``q`` is true for such an endpoint."""
    sleeper = simulator.add(queue_mode=True)
    assert [endpoint["q"] for endpoint in service.json("GET", ENDPOINTS) if endpoint["name"] == sleeper] == [True]
    simulator.deregister(sleeper)


def test_limits_are_numbers(service: Service) -> None:
    """Counts do not exceed their quotas."""
    limits = service.json("GET", "/v2/limits")
    assert limits.keys() >= {"transaction-quota", "transaction-count", "endpoint-quota", "endpoint-count"}
    for name in ("transaction", "endpoint"):
        assert 0 <= limits[f"{name}-count"] <= limits[f"{name}-quota"]


def test_the_versions_are_those_of_the_paths(service: Service) -> None:
    """The versions are in ascending order."""
    assert service.json("GET", "/rest-versions") == ["v2", "v3"]


def test_a_read_has_its_async_response_in_the_channel(service: Service, light: str) -> None:
    """The path of the request contains the resource."""
    response = outcome_of(service, service.call("GET", f"{ENDPOINTS}/{light}{TEMPERATURE}"))
    value = str(RESOURCES[0]["value"]).encode()
    assert (response["status"], decoded(response["payload"])) == (200, value)


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_a_write_sends_its_body_as_the_value(service: Service, light: str, headers: dict[str, str]) -> None:
    """The body is plain text, unless the request has a content type."""
    response = service.call("PUT", f"{ENDPOINTS}/{light}{SWITCH}", content=b"1", headers=headers)
    assert outcome_of(service, response)["status"] == 200
    desired = service.resource(light, SWITCH)["desired"]
    assert (decoded(desired["value"]), desired["status"]) == (b"1", 1)


def test_an_execution_may_have_an_argument(service: Service, light: str) -> None:
    """The argument is in the body of the request."""
    for content in (b"", b"0='1'"):
        assert (
            outcome_of(service, service.call("POST", f"{ENDPOINTS}/{light}{REBOOT}", content=content))["status"] == 200
        )


def test_a_delete_is_rejected(service: Service, light: str) -> None:
    """The status is 400, as for ``DELETE`` in a device request."""
    service.rejected(400, "DELETE", f"{ENDPOINTS}/{light}{SWITCH}")


def test_cache_only_reads_the_mirror(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """The status is 205 if there is no value.

    Otherwise the response has the value, and no request is sent to the device.
    """
    path = f"{ENDPOINTS}/{light}{TEMPERATURE}"
    assert service.call("GET", path, params={"cacheOnly": "true"}).status_code == 205
    outcome_of(service, service.call("GET", path, params={"cacheOnly": "false"}))
    simulator.set_online(light, False)
    cached = service.http.get(path, params={"cacheOnly": "true"})
    assert (cached.status_code, cached.content) == (200, str(RESOURCES[0]["value"]).encode())


def test_a_request_with_no_resp_has_no_async_response(service: Service, light: str) -> None:
    """The status is 204, and there is no async response."""
    before = len(service.received("async-responses"))
    response = service.call("GET", f"{ENDPOINTS}/{light}{TEMPERATURE}", params={"noResp": "true"})
    assert (response.status_code, response.content) == (204, b"")
    # A later entry shows that all earlier entries were delivered.
    outcome_of(service, service.call("GET", f"{ENDPOINTS}/{light}{SWITCH}"))
    assert len(service.received("async-responses")) == before + 1


@pytest.mark.parametrize("query", ["sync=true", "pri=1", "cacheOnly=x", "noResp=x"])
def test_unsupported_query_is_rejected_by_name(service: Service, light: str, query: str) -> None:
    """The status is 400."""
    body = service.rejected(400, "GET", f"{ENDPOINTS}/{light}{TEMPERATURE}?{query}")
    assert [field["name"] for field in body["fields"]] == [query.partition("=")[0]]


def test_an_unknown_device_is_not_found(service: Service) -> None:
    """The status is 404."""
    for method in ("GET", "PUT", "POST"):
        service.rejected(404, method, f"{ENDPOINTS}/conformance-nobody{TEMPERATURE}", content=b"1")


def test_a_poll_without_hold_returns_immediately(service: Service) -> None:
    """The status is 204 if there are no entries."""
    service.poll_now()
    assert service.call("GET", "/v2/notification/pull", params={"noWait": "true"}).status_code in {200, 204}
    service.rejected(400, "GET", "/v2/notification/pull", params={"noWait": "perhaps"})


def test_a_path_may_be_without_its_version(service: Service) -> None:
    """This applies to rules and channels. A PUT of rules has the status 204."""
    response = service.call("PUT", "/subscriptions", json=RULES)
    assert (response.status_code, response.content) == (204, b"")
    assert service.json("GET", "/v2/subscriptions") == service.json("GET", "/subscriptions") == RULES
    assert service.call("DELETE", "/subscriptions").status_code == 204
    assert service.json("GET", "/v2/subscriptions") == []
    assert service.call("GET", "/notification/callback").status_code == 404
    assert service.json("GET", "/notification/channel") == service.json("GET", "/v2/notification/channel")
