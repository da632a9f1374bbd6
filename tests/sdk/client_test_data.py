"""Shared test data of the client tests: the address of the service, paths, and the resources of devices."""

from collections.abc import Iterable
from typing import Any

import httpx
import pandas as pd
from resource_paths import LEVEL, SWITCH, TEMPERATURE

from mirror_sdk import Simulator

URL = "http://mirror.localhost"
DEVICE = "015f0000592df24b952bc53fa97265c8"
OWN = "/10250/0/1"
FLOAT, INTEGER, UNSIGNED, BOOLEAN = "/3308/0/5900", "/3311/0/5852", "/5/0/13", SWITCH
STRING, TIME, OBJLINK, OPAQUE, EXECUTABLE = "/3/0/15", "/3/0/13", "/1/0/10", "/5/0/0", "/3/0/4"
NASTY = "<img src=x onerror=alert(1)>"
SENSOR = {"path": TEMPERATURE, "value": "21.5", "observable": True}
DIMMER = {"path": LEVEL, "value": "10", "observable": True, "writable": True}
LAMP = {"path": SWITCH, "value": "0", "observable": True, "writable": True}
RESOURCES = [SENSOR, LAMP, {"path": "/3/0/4", "value": "", "executable": True}]


class Clock:
    """A clock that tests advance."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def add_lights(
    simulator: Simulator, count: int, reader: Any = None, resources: Any = (DIMMER, LAMP, SENSOR)
) -> list[str]:
    """Add lights; a reader reads their levels."""
    ids = [simulator.add_device(f"light-{number}", resources, endpoint_type="Light") for number in range(count)]
    if reader is not None:
        levels(reader, ids)
    return ids


def all_to(devices: Iterable[str], level: int = 40) -> list[tuple[str, str, int]]:
    """Return the entries of a plan that writes one level to all devices."""
    return [(device_id, LEVEL, level) for device_id in devices]


def levels(client: Any, devices: Iterable[str]) -> list[Any]:
    return [client.read_value(device_id, LEVEL) for device_id in devices]


def statuses(frame: pd.DataFrame) -> list[Any]:
    return frame["status"].tolist()


def page_of(numbers: Iterable[int], *, has_more: bool) -> httpx.Response:
    """Return a response with a page of the directory."""
    one = {"object": "device", "state": "registered"} | dict.fromkeys(["created_at", "updated_at"], "2026-01-31T00:00Z")
    devices = [one | {"id": f"{number:032x}", "endpoint_name": f"e-{number}"} for number in numbers]
    page = {"object": "list", "data": devices, "has_more": has_more, "limit": 1000, "order": "ASC"}
    return httpx.Response(200, json=page)
