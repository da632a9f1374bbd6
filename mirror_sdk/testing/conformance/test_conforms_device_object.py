"""Tests of the device object (E1). Source: specification 2.1, 2.2 and E1; wire.md 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mirror_sdk.testing.conformance.service import TIMESTAMP, Service, decoded
from mirror_sdk.testing.conformance.simulated_devices import SimulatedDevices
from mirror_sdk.wire.device_object import DeviceObjectBody
from mirror_sdk.wire.paths import parse_path

REPORTED = {"value", "content_type", "reported_at"}
DESIRED = {"value", "status", "desired_at"}


@pytest.fixture
def body(service: Service, device_id: str) -> Any:
    """The body of the device object."""
    return service.json("GET", f"/v3/devices/{device_id}/echo")


def instants(content: Any) -> Iterator[str]:
    """Yield all members whose name ends with ``_at``, at any depth."""
    if isinstance(content, dict):
        yield from (value for name, value in content.items() if name.endswith("_at"))
    for inner in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from instants(inner)


def test_device_object_has_all_members(body: Any, device_id: str) -> None:
    """The device object has the identifier and the members of wire.md 1."""
    DeviceObjectBody.model_validate(body)
    assert (body["object"], body["device_id"]) == ("device-echo", device_id)
    assert {"created_at", "updated_at", "resources"} <= body.keys()


def test_resource_paths_are_unique(body: Any) -> None:
    """A resource path consists of numbers after slashes."""
    paths = [resource["resource_path"] for resource in body["resources"]]
    assert paths
    assert len(set(paths)) == len(paths)
    for path in paths:
        parse_path(path)


def test_resource_values_are_empty_or_complete(body: Any) -> None:
    """Values are empty at first.

    Later they have the value, its time, its status and its subscription (specification 2.2).
    """
    for resource in body["resources"]:
        assert isinstance(resource["subscribed"], bool)
        reported, desired = resource["reported"], resource["desired"]
        assert reported == {} or reported.keys() >= REPORTED
        assert desired == {} or desired.keys() >= DESIRED
        for value in [state["value"] for state in (reported, desired) if state]:
            decoded(value)
        assert not desired or (desired["status"] in {0, 1, 2} and type(desired["status"]) is int)


def test_times_are_utc_with_milliseconds(body: Any) -> None:
    """Times are in RFC 3339 with milliseconds and ``Z`` (wire.md 0)."""
    for instant in instants(body):
        assert TIMESTAMP.fullmatch(instant), instant


@pytest.mark.parametrize(
    ("newest", "state", "member"),
    [("last_reported_at", "reported", "reported_at"), ("last_desired_at", "desired", "desired_at")],
)
def test_newest_times_cover_all_resources(body: Any, newest: str, state: str, member: str) -> None:
    """Both members are absent if no resource has such a time."""
    latest = max((resource[state][member] for resource in body["resources"] if resource[state]), default=None)
    assert body.get(newest) == latest


def test_an_unknown_device_is_not_found(service: Service) -> None:
    """The status is 404."""
    service.rejected(404, "GET", "/v3/devices/conformance-nobody/echo")


def test_device_object_cannot_be_deleted(service: Service, device_id: str) -> None:
    """Deletion is not available (specification 2.1). The status is 405 (wire.md 1)."""
    service.rejected(405, "DELETE", f"/v3/devices/{device_id}/echo")
    assert service.call("GET", f"/v3/devices/{device_id}/echo").status_code == 200


def test_unchanged_device_object_is_not_modified(service: Service, light: str) -> None:
    """The headers ``ETag`` and ``If-None-Match`` are an extension."""
    path = f"/v3/devices/{light}/echo"
    tag = service.call("GET", path).headers.get("ETag")
    if tag is None:
        pytest.skip("the server has no ETag on device objects")
    again = service.call("GET", path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert service.perform(light, "GET", "/3303/0/5700")["status"] == 200
    assert service.call("GET", path, headers={"If-None-Match": tag}).status_code == 200


def test_new_resources_have_empty_values(service: Service, light: str) -> None:
    """Source: specification 2.2."""
    for resource in service.json("GET", f"/v3/devices/{light}/echo")["resources"]:
        assert (resource["reported"], resource["desired"], resource["subscribed"]) == ({}, {}, False)


def test_registration_update_adds_resources_and_retains_removed_ones(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """Source: specification 2.1."""
    simulator.set_value(light, "/3304/0/5700", "40", observable=True)
    simulator.remove_resource(light, "/3303/0/5700")
    simulator.update_registration(light)
    assert service.resource(light, "/3304/0/5700")["reported"] == {}
    assert service.resource(light, "/3303/0/5700")
    listed = [resource["uri"] for resource in service.json("GET", f"/v2/endpoints/{light}")]
    assert ("/3304/0/5700" in listed, "/3303/0/5700" in listed) == (True, False)
