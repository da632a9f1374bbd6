"""Tests of the device directory. Source: wire.md 6."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_sdk.testing.conformance.service import TIMESTAMP, Service
from mirror_sdk.testing.conformance.simulated_devices import RESOURCES, SimulatedDevices
from mirror_sdk.wire.device_events import DeviceEventPage
from mirror_sdk.wire.device_queries import DeviceQuery, DeviceQueryPage
from mirror_sdk.wire.directory import Device, DevicePage

DEVICES, QUERIES, EVENTS = "/v3/devices", "/v3/device-queries", "/v3/device-events"


def listed(service: Service, **query: Any) -> list[str]:
    """Return the ids of the devices that match a query, from all pages."""
    ids: list[str] = []
    more = True
    while more:
        after = {"after": ids[-1]} if ids else {}
        page = service.json("GET", DEVICES, params={"limit": 1000, **query, **after})
        ids += [device["id"] for device in page["data"]]
        more = page["has_more"]
    return ids


def test_a_page_has_all_its_members(service: Service) -> None:
    """``total_count`` is present only if it was requested."""
    page = service.json("GET", DEVICES)
    DevicePage.model_validate(page)
    assert (page["object"], page["limit"], page["order"], page["after"]) == ("list", 50, "ASC", None)
    assert "total_count" not in page
    counted = service.json("GET", DEVICES, params={"include": "total_count"})["total_count"]
    assert counted >= len(page["data"])
    assert counted == len(page["data"]) or page["has_more"]


def test_a_device_has_all_its_members(service: Service, device_id: str) -> None:
    """A single device has the same members as a device in the list."""
    device = service.json("GET", f"{DEVICES}/{device_id}")
    Device.model_validate(device)
    assert (device["object"], device["id"]) == ("device", device_id)
    assert device["state"] in {"registered", "deregistered"}
    for name in ["created_at", "updated_at", "bootstrapped_timestamp"]:
        assert TIMESTAMP.fullmatch(device[name]), name
    assert isinstance(device["custom_attributes"], dict)
    (again,) = service.json("GET", DEVICES, params={"id__eq": device_id})["data"]
    assert again == device


def test_an_unknown_device_is_not_found(service: Service) -> None:
    """The status is 404, also for the resources of the device."""
    service.rejected(404, "GET", f"{DEVICES}/conformance-nobody")
    service.rejected(404, "GET", "/v2/endpoints/conformance-nobody")


@pytest.mark.parametrize("limit", ["1", "1001", "x", "-5"])
def test_a_limit_out_of_range_is_rejected(service: Service, limit: str) -> None:
    """The status is 400."""
    service.rejected(400, "GET", DEVICES, params={"limit": limit})


@pytest.mark.parametrize("query", [{"color": "red"}, {"state__like": "x"}, {"filter": "color=red"}, {"order": "UP"}])
def test_an_unknown_filter_is_rejected_with_the_existing_ones(service: Service, query: dict[str, str]) -> None:
    """The status is 400, and the message lists the existing filters."""
    body = service.rejected(400, "GET", DEVICES, params=query)
    known = {"color": "endpoint_name", "filter": "endpoint_name", "state__like": "eq", "order": "ASC"}
    assert known[next(iter(query))] in body["message"]


def test_pages_follow_each_other_in_both_orders(service: Service, simulator: SimulatedDevices) -> None:
    """``after`` is the last id of the previous page."""
    added = {simulator.add(), simulator.add(), simulator.add()}
    up = [device_id for device_id in listed(service, limit=2) if device_id in added]
    down = [device_id for device_id in listed(service, limit=2, order="DESC") if device_id in added]
    assert len(up) == 3
    assert up == down[::-1]


def test_both_spellings_of_a_filter_are_equivalent(service: Service, device_id: str) -> None:
    """The filter can be given as separate parameters or inside ``filter``, with or without an operator."""
    for query in [{"id__eq": device_id}, {"id": device_id}, {"filter": f"id__eq={device_id}"}, {"id__in": device_id}]:
        assert listed(service, **query) == [device_id]
    assert device_id not in listed(service, id__neq=device_id)
    assert device_id not in listed(service, id__nin=f"{device_id},nobody")


def test_a_deregistered_device_is_listed_as_such(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """The state of the device and the results of a filter show the deregistration."""
    assert service.json("GET", f"{DEVICES}/{light}")["state"] == "registered"
    simulator.deregister(light)
    assert service.json("GET", f"{DEVICES}/{light}")["state"] == "deregistered"
    assert listed(service, state="registered", id=light) == []
    simulator.register(light)
    assert listed(service, state="registered", id=light) == [light]


def test_the_resources_of_a_device_are_listed(service: Service, light: str) -> None:
    """The resources are listed by ``GET /v2/endpoints/{id}``."""
    found = {resource["uri"]: resource["obs"] for resource in service.json("GET", f"/v2/endpoints/{light}")}
    assert found == {resource["path"]: bool(resource.get("observable")) for resource in RESOURCES}


def test_a_device_update_retains_omitted_members(service: Service, device_id: str) -> None:
    """Omitted members do not change, and the body may be a complete device from an earlier response."""
    url = f"{DEVICES}/{device_id}"
    changed = {"name": f"conformance {device_id}", "description": "conformance", "custom_attributes": {"of": device_id}}
    found = service.json("PUT", url, json=changed)
    Device.model_validate(found)
    assert found.items() >= changed.items()
    assert service.json("PUT", url, json={"description": "more"})["name"] == changed["name"]
    for query in ({"name__eq": changed["name"]}, {"filter": f"custom_attributes__of={device_id}"}):
        assert listed(service, **query) == [device_id]
    device = service.json("GET", url)
    assert service.json("PUT", url, json=device | {"custom_attributes": {}})["custom_attributes"] == {}
    service.rejected(400, "PUT", url, json={"endpoint_type": "conformance-another"})
    service.rejected(404, "PUT", f"{DEVICES}/conformance-nobody", json=changed)


def test_a_filter_is_saved_changed_and_deleted(service: Service, device_id: str) -> None:
    """The filter is identified by its id. An invalid filter has the status 400."""
    query = f"id={device_id}"
    saved = service.json("POST", QUERIES, json={"name": f"conformance {device_id}", "query": query})
    url = f"{QUERIES}/{saved['id']}"
    try:
        DeviceQuery.model_validate(saved)
        assert saved["object"] == "device-query"
        assert service.json("GET", url) == saved
        assert listed(service, filter=saved["query"]) == [device_id]
        assert service.json("PUT", url, json={"name": f"other {device_id}"})["query"] == query
        page = service.json("GET", QUERIES, params={"id__eq": saved["id"]})
        DeviceQueryPage.model_validate(page)
        assert [entry["name"] for entry in page["data"]] == [f"other {device_id}"]
        service.rejected(400, "PUT", url, json={"query": "conformance=none"})
    finally:
        assert service.call("DELETE", url).status_code == 204
    service.rejected(404, "GET", url)


def test_device_events_are_listed_in_order(service: Service, device_id: str) -> None:
    """A single event equals the same event in the list."""
    page = service.json("GET", EVENTS, params={"device_id__eq": device_id, "limit": 1000})
    DeviceEventPage.model_validate(page)
    assert page["object"] == "list"
    for event in page["data"]:
        assert (event["object"], event["device_id"]) == ("device-event", device_id)
        assert TIMESTAMP.fullmatch(event["date_time"])
    assert [event["id"] for event in page["data"]] == sorted(event["id"] for event in page["data"])
    for event in page["data"][-1:]:
        assert service.json("GET", f"{EVENTS}/{event['id']}") == event
        later = service.json("GET", EVENTS, params={"device_id__eq": device_id, "after": event["id"]})["data"]
        assert [entry["id"] for entry in later] == sorted(entry["id"] for entry in later if entry["id"] > event["id"])
    service.rejected(400, "GET", EVENTS, params={"conformance": "none"})
