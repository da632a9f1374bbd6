"""The older calls of the public API, for programs that still use them. Source: wire.md 9."""

from __future__ import annotations

import httpx
import pytest

from mirror_sdk.testing.conformance.service import Entry, Service, decoded
from mirror_sdk.testing.conformance.simulated_devices import REBOOT, RESOURCES, SWITCH, TEMPERATURE, SimulatedDevices

ENDPOINTS = "/v2/endpoints"
RULES = [{"endpoint-type": "Conformance-of-older-calls"}]


def asked(service: Service, answer: httpx.Response) -> Entry:
    """The async response of a request that was accepted, waited for."""
    assert answer.status_code == 202, f"{answer.status_code} {answer.text}"
    return service.outcome(answer.json()["async-response-id"])


def test_a_registered_device_is_an_endpoint(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """``name``, ``type``, ``status`` and ``q``; also by its type, and no longer when it has left."""
    expected = {"name": light, "type": "Conformance", "status": "ACTIVE", "q": False}
    assert expected in service.json("GET", ENDPOINTS)
    assert expected in service.json("GET", ENDPOINTS, params={"type": "Conformance"})
    assert expected not in service.json("GET", ENDPOINTS, params={"type": "conformance"})
    simulator.registration(light, "DELETE")
    assert light not in [endpoint["name"] for endpoint in service.json("GET", ENDPOINTS)]
    simulator.registration(light, "POST")


def test_an_endpoint_in_queue_mode_says_so(service: Service, simulator: SimulatedDevices) -> None:
    """``q``."""
    sleeper = simulator.add(queue_mode=True)
    assert [endpoint["q"] for endpoint in service.json("GET", ENDPOINTS) if endpoint["name"] == sleeper] == [True]
    simulator.registration(sleeper, "DELETE")


def test_limits_are_numbers(service: Service) -> None:
    """What is counted is never above its quota."""
    limits = service.json("GET", "/v2/limits")
    assert limits.keys() >= {"transaction-quota", "transaction-count", "endpoint-quota", "endpoint-count"}
    for what in ("transaction", "endpoint"):
        assert 0 <= limits[f"{what}-count"] <= limits[f"{what}-quota"]


def test_the_versions_are_those_of_the_paths(service: Service) -> None:
    """The newest one last."""
    assert service.json("GET", "/rest-versions") == ["v2", "v3"]


def test_a_read_is_answered_through_the_channel(service: Service, light: str) -> None:
    """The resource stands in the path."""
    response = asked(service, service.call("GET", f"{ENDPOINTS}/{light}{TEMPERATURE}"))
    value = str(RESOURCES[0]["value"]).encode()
    assert (response["status"], decoded(response["payload"])) == (200, value)


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_a_write_takes_its_body_as_the_value(service: Service, light: str, headers: dict[str, str]) -> None:
    """As plain text, where nothing else is said."""
    answer = service.call("PUT", f"{ENDPOINTS}/{light}{SWITCH}", content=b"1", headers=headers)
    assert asked(service, answer)["status"] == 200
    desired = service.resource(light, SWITCH)["desired"]
    assert (decoded(desired["value"]), desired["status"]) == (b"1", 1)


def test_an_execution_may_have_an_argument(service: Service, light: str) -> None:
    """As its body."""
    for content in (b"", b"0='1'"):
        assert asked(service, service.call("POST", f"{ENDPOINTS}/{light}{REBOOT}", content=content))["status"] == 200


def test_nothing_is_deleted(service: Service, light: str) -> None:
    """400, as ``DELETE`` in a device request."""
    service.refused(400, "DELETE", f"{ENDPOINTS}/{light}{SWITCH}")


def test_the_cache_is_the_mirror(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """205 while it holds no value; then the value, without a word to the device."""
    path = f"{ENDPOINTS}/{light}{TEMPERATURE}"
    assert service.call("GET", path, params={"cacheOnly": "true"}).status_code == 205
    asked(service, service.call("GET", path, params={"cacheOnly": "false"}))
    simulator.patch(light, online=False)
    cached = service.http.get(path, params={"cacheOnly": "true"})
    assert (cached.status_code, cached.content) == (200, str(RESOURCES[0]["value"]).encode())


def test_a_request_may_want_no_answer(service: Service, light: str) -> None:
    """204, and nobody is told."""
    before = len(service.received("async-responses"))
    answer = service.call("GET", f"{ENDPOINTS}/{light}{TEMPERATURE}", params={"noResp": "true"})
    assert (answer.status_code, answer.content) == (204, b"")
    # What comes later shows that nothing came before.
    asked(service, service.call("GET", f"{ENDPOINTS}/{light}{SWITCH}"))
    assert len(service.received("async-responses")) == before + 1


@pytest.mark.parametrize("query", ["sync=true", "pri=1", "cacheOnly=x", "noResp=x"])
def test_what_cannot_be_had_is_refused_by_its_name(service: Service, light: str, query: str) -> None:
    """400."""
    body = service.refused(400, "GET", f"{ENDPOINTS}/{light}{TEMPERATURE}?{query}")
    assert [field["name"] for field in body["fields"]] == [query.partition("=")[0]]


def test_an_unknown_device_is_not_found(service: Service) -> None:
    """404."""
    for method in ("GET", "PUT", "POST"):
        service.refused(404, method, f"{ENDPOINTS}/conformance-nobody{TEMPERATURE}", content=b"1")


def test_a_poll_that_does_not_wait_is_answered_at_once(service: Service) -> None:
    """204 when there is nothing."""
    service.look()
    assert service.call("GET", "/v2/notification/pull", params={"noWait": "true"}).status_code in {200, 204}
    service.refused(400, "GET", "/v2/notification/pull", params={"noWait": "perhaps"})


def test_a_path_may_be_without_its_version(service: Service) -> None:
    """Rules and channels; rules that are put are answered with 204."""
    answer = service.call("PUT", "/subscriptions", json=RULES)
    assert (answer.status_code, answer.content) == (204, b"")
    assert service.json("GET", "/v2/subscriptions") == service.json("GET", "/subscriptions") == RULES
    assert service.call("DELETE", "/subscriptions").status_code == 204
    assert service.json("GET", "/v2/subscriptions") == []
    assert service.call("GET", "/notification/callback").status_code == 404
    assert service.json("GET", "/notification/channel") == service.json("GET", "/v2/notification/channel")
