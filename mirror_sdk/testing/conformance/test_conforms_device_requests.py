"""Tests of device requests and their outcomes (E2). Source: specification 3.1, 3.2, 3.3 and E2; wire.md 2 and 5."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_sdk.testing.conformance.service import Service, decoded, encoded, new_async_id
from mirror_sdk.testing.conformance.simulated_devices import REBOOT, SWITCH, TEMPERATURE, SimulatedDevices
from mirror_sdk.wire.simulator import ResponseMode

READ = {"method": "GET", "uri": TEMPERATURE}
WRITE = {"method": "PUT", "uri": SWITCH, "payload-b64": "MQ=="}
MONTH_SECONDS = 30 * 24 * 3600


def post(device_id: str, query: str = "") -> tuple[str, str]:
    """Return the method and path of a device request."""
    return "POST", f"/v2/device-requests/{device_id}{query}"


@pytest.mark.parametrize("async_id", ["%20", "a%20b", "x" * 65, "%C3%A4", "a%0A"])
def test_a_malformed_async_id_is_rejected(service: Service, device_id: str, async_id: str) -> None:
    """An async-id consists of 1 to 64 letters, digits, ``_`` and ``-``."""
    body = service.rejected(400, *post(device_id, f"?async-id={async_id}"), json=READ)
    assert body["reason"] == "MALFORMED_ASYNC_ID"


def test_a_malformed_body_is_rejected_with_a_reason(service: Service, device_id: str) -> None:
    """The reason is ``MALFORMED_JSON_CONTENT``."""
    headers = {"Content-Type": "application/json"}
    body = service.rejected(400, *post(device_id), content=b"{", headers=headers)
    assert body["reason"] == "MALFORMED_JSON_CONTENT"


@pytest.mark.parametrize(
    "members",
    [
        {"method": "DELETE"},
        {"method": "BREW"},
        {"uri": "3303/0/5700"},
        {"uri": ""},
        {"color": "red"},
        {"expiry_seconds": 0},
        {"expiry_seconds": -1},
        {"expiry_seconds": 1.5},
        {"expiry_seconds": "60"},
        {"expiry_seconds": MONTH_SECONDS + 1},
    ],
)
def test_an_invalid_request_is_rejected(service: Service, device_id: str, members: dict[str, Any]) -> None:
    """The method, the path and ``expiry_seconds`` must be valid (wire.md 2)."""
    service.rejected(400, *post(device_id), json=READ | members)


@pytest.mark.parametrize("query", ["expiry-seconds=0", "expiry-seconds=x", "retry=11", "retry=-1", "retry=x"])
def test_an_invalid_query_is_rejected(service: Service, device_id: str, query: str) -> None:
    """``retry`` must be between 0 and 10."""
    service.rejected(400, *post(device_id, f"?{query}"), json=READ)


def test_an_unknown_device_is_not_found(service: Service) -> None:
    """The status is 404."""
    service.rejected(404, *post("conformance-nobody"), json=READ)


def test_a_read_is_accepted_and_has_an_async_response(service: Service, device_id: str, observable_path: str) -> None:
    """The test follows the read flow of specification 3.3, on any device."""
    async_id = service.begin(device_id, "GET", observable_path, expiry_seconds=60)
    response = service.outcome(async_id)
    assert isinstance(response["status"], int)
    payload = decoded(response["payload"])
    if response["status"] != 200:
        pytest.skip(f"the device {device_id} did not respond to the read: {response}")
    reported = service.resource(device_id, observable_path)["reported"]
    assert "reported_at" in reported
    # If the device is observed, it may have reported another value in the meantime.
    assert decoded(reported["value"]) == payload or service.resource(device_id, observable_path)["subscribed"]


def test_prefer_wait_is_applied_or_ignored(service: Service, light: str) -> None:
    """With the extension ``Prefer: wait`` (RFC 7240), the 202 may contain the async response.

    The log has it in both cases.
    """
    async_id = new_async_id()
    route = post(light, f"?async-id={async_id}")
    accepted = service.call(*route, json=READ, headers={"Prefer": "wait=10"})
    assert accepted.status_code == 202
    preferred = accepted.json().get("async-response") if accepted.content else None
    outcome = service.outcome(async_id)
    assert preferred is None or {name: preferred.get(name) for name in outcome} == outcome


def test_a_read_is_accepted_under_its_async_id(service: Service, light: str) -> None:
    """The status is 202 (specification E2). The body of the response is an extension."""
    async_id = new_async_id()
    accepted = service.submit(light, "GET", TEMPERATURE, async_id)
    assert accepted.status_code == 202
    assert accepted.content == b"" or accepted.json()["async-response-id"] == async_id
    assert service.outcome(async_id)["id"] == async_id


def test_the_server_generates_a_missing_async_id(service: Service, light: str) -> None:
    """As an extension, the body of the response contains the generated id."""
    accepted = service.call(*post(light), json=READ)
    assert accepted.status_code == 202
    if not accepted.content:
        pytest.skip("the server does not return the generated async-id")
    assert service.outcome(accepted.json()["async-response-id"])["status"] == 200


def test_a_repeated_request_is_queued_once(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """As an extension, retries are safe. A different request with the same async-id has the status 409."""
    async_id = new_async_id()
    simulator.set_online(light, False)
    for _ in range(2):
        assert service.submit(light, "PUT", SWITCH, async_id, value="1").status_code == 202
    response = service.submit(light, "PUT", SWITCH, async_id, value="0")
    assert response.status_code == 409
    simulator.set_online(light, True)
    assert service.outcome(async_id)["status"] == 200
    last = service.perform(light, "GET", SWITCH)
    assert decoded(last["payload"]) == b"1"
    assert [entry["id"] for entry in service.received("async-responses")].count(async_id) == 1


def test_a_read_returns_and_stores_the_value(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """In the read flow of specification 3.3, the mirror is updated before the async response is sent."""
    simulator.set_value(light, TEMPERATURE, "22.5")
    response = service.perform(light, "GET", TEMPERATURE)
    assert (response["status"], decoded(response["payload"]), response["ct"]) == (200, b"22.5", "text/plain")
    assert isinstance(response["max-age"], int)
    reported = service.resource(light, TEMPERATURE)["reported"]
    assert decoded(reported["value"]) == b"22.5"
    assert not simulator.has_manual_clock() or reported["reported_at"] == simulator.now()


def test_a_write_is_pending_and_then_a_success(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """Source: specification 3.1, and the write flow of 3.3."""
    simulator.set_online(light, False)
    async_id = service.begin(light, "PUT", SWITCH, value="1")
    pending = service.resource(light, SWITCH)["desired"]
    assert (pending["status"], decoded(pending["value"])) == (0, b"1")
    assert "status_updated_at" not in pending
    if simulator.has_manual_clock():
        simulator.advance(5)
    simulator.set_online(light, True)
    assert service.outcome(async_id)["status"] == 200
    desired = service.resource(light, SWITCH)["desired"]
    assert (desired["status"], decoded(desired["value"])) == (1, b"1")
    assert desired["desired_at"] == desired["status_updated_at"]
    if simulator.has_manual_clock():
        assert desired["desired_at"] == simulator.now() > pending["desired_at"]


def test_revisions_show_the_order_of_reports_and_writes(service: Service, light: str) -> None:
    """Revisions are an extension (wire.md 1, ``revision``).

    They also show the order of changes within one millisecond.
    """
    orders = []
    for method, value in (("GET", {}), ("PUT", {"value": "1"}), ("GET", {}), ("PUT", {"value": "0"})):
        assert service.perform(light, method, SWITCH, **value)["status"] == 200
        resource = service.resource(light, SWITCH)
        orders.append((resource["reported"].get("revision"), resource["desired"].get("revision")))
    (first, _), (still_first, second), (third, still_second), (still_third, fourth) = orders
    if {first, second, third, fourth} == {None}:
        pytest.skip("the server sends no revisions")
    assert first == still_first < second == still_second < third == still_third < fourth


def test_if_match_write_needs_the_current_revision(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """As an extension, ``If-Match`` takes ``desired.revision``. A 412 contains the current resource (wire.md 2)."""
    assert service.perform(light, "PUT", SWITCH, value="1")["status"] == 200
    before = service.resource(light, SWITCH)
    if "revision" not in before["desired"]:
        pytest.skip("the server sends no revisions of desired values")
    simulator.set_online(light, False)
    write = {"method": "PUT", "uri": SWITCH, "payload-b64": encoded("0")}
    headers = {"If-Match": f'"{before["desired"]["revision"]}"'}
    assert service.call(*post(light), json=write, headers=headers).status_code == 202
    conflict = service.rejected(412, *post(light), json=write | {"payload-b64": encoded("1")}, headers=headers)
    assert conflict["resource"] == service.resource(light, SWITCH) != before
    assert decoded(conflict["resource"]["desired"]["value"]) == b"0"


@pytest.mark.parametrize(
    ("path", "mode", "status", "error"),
    [(TEMPERATURE, "normal", 400, "METHOD_NOT_ALLOWED"), (SWITCH, "reject", 400, "REJECTED")],
)
def test_a_write_that_the_device_rejects_is_a_failure(
    service: Service, simulator: SimulatedDevices, light: str, path: str, mode: ResponseMode, status: int, error: str
) -> None:
    """Either the resource is not writable, or the device rejects the write (specification 3.1 and 7)."""
    simulator.set_response_mode(light, mode)
    response = service.perform(light, "PUT", path, value="1")
    assert (response["status"], response["error"], response["payload"]) == (status, error, "")
    resource = service.resource(light, path)
    assert (resource["desired"]["status"], resource["reported"]) == (2, {})


def test_a_failed_write_is_acknowledged_until_the_next_write(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """The members ``acknowledged_at`` and ``acknowledged_by`` are an extension.

    Without a failed write, the status is 409.
    """
    route = ("POST", f"/v3/devices/{light}/echo/acknowledgements")
    body = {"resource_path": SWITCH, "by": "night shift"}
    response = service.call(*route, json=body)
    if response.status_code in {404, 405}:
        pytest.skip("the server has no acknowledgements")
    assert (response.status_code, response.json()["reason"]) == (409, "NO_FAILED_WRITE")
    simulator.set_response_mode(light, "reject")
    assert service.perform(light, "PUT", SWITCH, value="1")["error"] == "REJECTED"
    failed = service.resource(light, SWITCH)["desired"]
    assert service.call(*route, json=body).status_code == 204
    acknowledged = service.resource(light, SWITCH)["desired"]
    assert acknowledged.pop("acknowledged_at")
    assert acknowledged.pop("acknowledged_by") == "night shift"
    assert acknowledged == failed
    simulator.set_response_mode(light, "normal")
    assert service.perform(light, "PUT", SWITCH, value="0")["status"] == 200
    assert not {"acknowledged_at", "acknowledged_by"} & service.resource(light, SWITCH)["desired"].keys()


def test_a_write_fails_when_the_device_does_not_connect_in_time(
    service: Service, manual_simulator: SimulatedDevices, light: str
) -> None:
    """``expiry_seconds`` limits the time (specification 3.1 and 7)."""
    manual_simulator.set_online(light, False)
    async_id = service.begin(light, "PUT", SWITCH, value="1", expiry_seconds=60)
    manual_simulator.advance(59)
    assert service.resource(light, SWITCH)["desired"]["status"] == 0
    manual_simulator.advance(1)
    assert service.resource(light, SWITCH)["desired"]["status"] == 2
    response = service.outcome(async_id)
    assert (response["status"], response["error"]) == (429, "REQUEST_EXPIRED")


def test_a_request_to_a_silent_device_times_out(
    service: Service, manual_simulator: SimulatedDevices, light: str
) -> None:
    """An attempt waits for the response of the device. After that, the status is 504 (wire.md 2 and 5)."""
    manual_simulator.set_response_mode(light, "silent")
    async_id = service.begin(light, "GET", TEMPERATURE)
    manual_simulator.advance(2 * 3600)
    response = service.outcome(async_id)
    assert (response["status"], response["error"]) == (504, "TIMEOUT")


def test_a_resource_the_device_does_not_have_is_not_found(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """The mirror still has the resource, because the device once had it (wire.md 5)."""
    simulator.remove_resource(light, TEMPERATURE)
    simulator.update_registration(light)
    response = service.perform(light, "GET", TEMPERATURE)
    assert (response["status"], response["error"]) == (404, "RESOURCE_NOT_FOUND")


def test_a_resource_is_executed(service: Service, light: str) -> None:
    """``POST`` executes a resource."""
    assert service.perform(light, "POST", REBOOT)["status"] == 200


def test_a_newer_write_supersedes_a_pending_one(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """Both writes are delivered in order and have async responses. The mirror follows the newer write (wire.md 2)."""
    simulator.set_online(light, False)
    older, newer = service.begin(light, "PUT", SWITCH, value="0"), service.begin(light, "PUT", SWITCH, value="1")
    desired = service.resource(light, SWITCH)["desired"]
    assert (desired["status"], desired["value"]) == (0, encoded("1"))
    simulator.set_online(light, True)
    assert (service.outcome(older)["status"], service.outcome(newer)["status"]) == (200, 200)
    desired = service.resource(light, SWITCH)["desired"]
    assert (desired["status"], desired["value"]) == (1, encoded("1"))


def test_a_request_to_a_full_queue_is_rejected(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """The reason is ``QUEUE_IS_FULL`` if 20 commands wait for one device."""
    simulator.set_online(light, False)
    for _ in range(20):
        service.begin(light, "GET", TEMPERATURE)
    body = service.rejected(429, *post(light), json=READ)
    assert body["reason"] == "QUEUE_IS_FULL"


def test_pending_requests_fail_when_the_device_deregisters(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """The error is ``DEVICE_REMOVED_REGISTRATION``."""
    simulator.set_response_mode(light, "silent")
    async_id = service.begin(light, "GET", TEMPERATURE)
    simulator.deregister(light)
    response = service.outcome(async_id)
    assert (response["status"], response["error"]) == (429, "DEVICE_REMOVED_REGISTRATION")
