"""Examples of the statuses and main values of devices, for Python and for the server's page."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mirror_sdk.device import DeviceObject
from mirror_sdk.wire.device_object import DeviceObjectBody

_FILE = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
STATUSES: list[str] = _FILE["statuses"]
CASES: list[dict[str, Any]] = _FILE["cases"]


def encoded(value: str) -> str:
    """Return a value of an example as base64. One with the prefix ``base64:`` has other bytes than a text."""
    return value.removeprefix("base64:") if value.startswith("base64:") else base64.b64encode(value.encode()).decode()


def reads_of(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the device objects of a case as the interface has them, the oldest first."""
    for read in case["reads"]:
        resources = [
            {"subscribed": False}
            | one
            | {
                part: one[part] | ({"value": encoded(one[part]["value"])} if one[part] else {})
                for part in ("reported", "desired")
            }
            for one in read["resources"]
        ]
        yield {"object": "device-echo", "device_id": "d", "endpoint_name": "d", **read, "resources": resources}


def device_objects(case: dict[str, Any]) -> Iterator[DeviceObject]:
    """Yield the same as objects of the client."""
    return (DeviceObject.from_wire(DeviceObjectBody.model_validate(read)) for read in reads_of(case))
