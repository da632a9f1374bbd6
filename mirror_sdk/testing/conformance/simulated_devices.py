"""The simulated devices of a server under test. Source: wire.md 8."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from mirror_sdk.testing.conformance.service import Service

TEMPERATURE = "/3303/0/5700"
SWITCH = "/3311/0/5850"
REBOOT = "/3/0/4"
DOOR = "/3200/0/5500"
RESOURCES = (
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": SWITCH, "value": "0", "observable": True, "writable": True},
    {"path": REBOOT, "executable": True},
    {"path": DOOR, "value": "0", "observable": True, "auto_observable": True},
)


@dataclass(frozen=True, slots=True)
class SimulatedDevices:
    """Plays devices of its own.

    Attributes:
        service: The server.
        is_manual: Whether its clock stands still until it is advanced.
    """

    service: Service
    is_manual: bool

    def add(self, *, endpoint_type: str = "Conformance", queue_mode: bool = False) -> str:
        """A new device with the resources above; gives its id."""
        body = {
            "endpoint_name": f"conformance-{uuid.uuid4().hex[:12]}",
            "endpoint_type": endpoint_type,
            "queue_mode": queue_mode,
            "resources": list(RESOURCES),
        }
        device_id: str = self.service.json("POST", "/sim/v1/devices", json=body)["id"]
        return device_id

    def patch(self, device_id: str, **behaviour: Any) -> None:
        """Say how a device behaves."""
        self._act("PATCH", f"/sim/v1/devices/{device_id}", json=behaviour)

    def set_value(self, device_id: str, path: str, value: str, **flags: bool) -> None:
        """A device changes a value of its own."""
        self._act("PUT", f"/sim/v1/devices/{device_id}/resources{path}", json={"value": value, **flags})

    def remove(self, device_id: str, path: str) -> None:
        """A device removes a resource."""
        self._act("DELETE", f"/sim/v1/devices/{device_id}/resources{path}")

    def registration(self, device_id: str, method: str) -> None:
        """A device registers (``POST``), updates its registration (``PUT``) or leaves (``DELETE``)."""
        self._act(method, f"/sim/v1/devices/{device_id}/registration")

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._act("POST", "/sim/v1/clock", json={"advance_seconds": seconds})

    def now(self) -> str:
        """The server's present."""
        now: str = self.service.json("GET", "/sim/v1/clock")["now"]
        return now

    def _act(self, method: str, path: str, **options: Any) -> None:
        answer = self.service.call(method, path, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
