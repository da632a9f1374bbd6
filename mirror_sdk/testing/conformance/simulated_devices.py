"""The simulated devices of a server under test. Source: wire.md 8."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from mirror_sdk.testing.conformance.service import Service, in_words

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
    """Controls simulated devices of its own.

    Attributes:
        service: The server.
        is_manual: Whether its clock stands still until it is advanced.
    """

    service: Service
    is_manual: bool

    def add(self, *, endpoint_type: str = "Conformance", queue_mode: bool = False) -> str:
        """Add a device with the resources above and return its id."""
        body = {
            "endpoint_name": f"conformance-{uuid.uuid4().hex[:12]}",
            "endpoint_type": endpoint_type,
            "queue_mode": queue_mode,
            "resources": list(RESOURCES),
        }
        device_id: str = self.service.json("POST", "/sim/v1/devices", json=body)["id"]
        return device_id

    def patch(self, device_id: str, **behavior: Any) -> None:
        """Change the behavior of a device."""
        self._act("PATCH", f"/sim/v1/devices/{device_id}", json=behavior)

    def set_value(self, device_id: str, path: str, value: str, **flags: bool) -> None:
        """Have a device change a value of its own."""
        self._act("PUT", f"/sim/v1/devices/{device_id}/resources{path}", json={"value": value, **flags})

    def remove(self, device_id: str, path: str) -> None:
        """Have a device remove a resource."""
        self._act("DELETE", f"/sim/v1/devices/{device_id}/resources{path}")

    def registration(self, device_id: str, method: str) -> None:
        """Have a device register (``POST``), update its registration (``PUT``) or deregister (``DELETE``)."""
        self._act(method, f"/sim/v1/devices/{device_id}/registration")

    def advance(self, seconds: float) -> None:
        """Advance the server's clock."""
        self._act("POST", "/sim/v1/clock", json={"advance_seconds": seconds})

    def now(self) -> str:
        """Return the time of the server's clock."""
        now: str = self.service.json("GET", "/sim/v1/clock")["now"]
        return now

    def _act(self, method: str, path: str, **options: Any) -> None:
        response = self.service.call(method, path, **options)
        assert response.is_success, in_words(response)
