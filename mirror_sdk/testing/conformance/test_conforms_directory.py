"""The device directory. Source: wire.md 6."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_sdk.testing.conformance.bench import RESOURCES, Bench
from mirror_sdk.testing.conformance.service import TIMESTAMP, Service
from mirror_sdk.wire.directory import Device, DevicePage

DEVICES = "/v3/devices"


def listed(service: Service, **query: Any) -> list[str]:
    """The ids of the devices that a query gives, over all pages."""
    ids: list[str] = []
    more = True
    while more:
        after = {"after": ids[-1]} if ids else {}
        page = service.json("GET", DEVICES, params={"limit": 1000, **query, **after})
        ids += [device["id"] for device in page["data"]]
        more = page["has_more"]
    return ids


def test_a_page_has_all_its_members(service: Service) -> None:
    """``total_count`` only when it is asked for."""
    page = service.json("GET", DEVICES)
    DevicePage.model_validate(page)
    assert (page["object"], page["limit"], page["order"], page["after"]) == ("list", 50, "ASC", None)
    assert "total_count" not in page
    counted = service.json("GET", DEVICES, params={"include": "total_count"})["total_count"]
    assert counted >= len(page["data"])
    assert counted == len(page["data"]) or page["has_more"]


def test_a_device_has_all_its_members(service: Service, device_id: str) -> None:
    """Alone as in the list."""
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
    """404, also for its resources."""
    service.refused(404, "GET", f"{DEVICES}/conformance-nobody")
    service.refused(404, "GET", "/v2/endpoints/conformance-nobody")


@pytest.mark.parametrize("limit", ["1", "1001", "x", "-5"])
def test_a_limit_is_2_to_1000(service: Service, limit: str) -> None:
    """400."""
    service.refused(400, "GET", DEVICES, params={"limit": limit})


@pytest.mark.parametrize("query", [{"colour": "red"}, {"state__like": "x"}, {"filter": "colour=red"}, {"order": "UP"}])
def test_an_unknown_filter_is_refused_with_the_known_ones(service: Service, query: dict[str, str]) -> None:
    """400 that lists what is known."""
    body = service.refused(400, "GET", DEVICES, params=query)
    known = {"colour": "endpoint_name", "filter": "endpoint_name", "state__like": "eq", "order": "ASC"}
    assert known[next(iter(query))] in body["message"]


def test_pages_follow_each_other_in_both_orders(service: Service, bench: Bench) -> None:
    """``after`` is the last id of the page before."""
    added = {bench.add(), bench.add(), bench.add()}
    up = [device_id for device_id in listed(service, limit=2) if device_id in added]
    down = [device_id for device_id in listed(service, limit=2, order="DESC") if device_id in added]
    assert len(up) == 3
    assert up == down[::-1]


def test_both_spellings_of_a_filter_give_the_same(service: Service, device_id: str) -> None:
    """A parameter of its own, and inside ``filter``; keys bare or with an operator."""
    for query in [{"id__eq": device_id}, {"id": device_id}, {"filter": f"id__eq={device_id}"}, {"id__in": device_id}]:
        assert listed(service, **query) == [device_id]
    assert device_id not in listed(service, id__neq=device_id)
    assert device_id not in listed(service, id__nin=f"{device_id},nobody")


def test_a_device_that_leaves_is_deregistered(service: Service, bench: Bench, light: str) -> None:
    """Its state, and what a filter gives."""
    assert service.json("GET", f"{DEVICES}/{light}")["state"] == "registered"
    bench.registration(light, "DELETE")
    assert service.json("GET", f"{DEVICES}/{light}")["state"] == "deregistered"
    assert listed(service, state="registered", id=light) == []
    bench.registration(light, "POST")
    assert listed(service, state="registered", id=light) == [light]


def test_the_resources_of_a_device(service: Service, light: str) -> None:
    """``GET /v2/endpoints/{id}``."""
    found = {resource["uri"]: resource["obs"] for resource in service.json("GET", f"/v2/endpoints/{light}")}
    assert found == {resource["path"]: bool(resource.get("observable")) for resource in RESOURCES}
