"""The simulated devices of the server under test. Source: wire.md 8."""

from __future__ import annotations

import uuid

from mirror_sdk.simulator.simulator import Simulator
from mirror_sdk.wire.model import write_timestamp

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


class SimulatedDevices(Simulator):
    """The simulator of the server, with devices for the conformance tests."""

    def add(self, *, endpoint_type: str = "Conformance", queue_mode: bool = False) -> str:
        """Add a device with the resources defined above, and return its id."""
        name = f"conformance-{uuid.uuid4().hex[:12]}"
        return self.add_device(name, RESOURCES, endpoint_type=endpoint_type, queue_mode=queue_mode)

    def now(self) -> str:
        """Return the time of the server's clock, in the format of JSON."""
        return write_timestamp(self.get_clock())
