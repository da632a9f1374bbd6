"""A handle for a simulated device in a test."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirror_sdk.simulator.simulator import Simulator
from mirror_sdk.wire.simulator import SimulatorDevice


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """A simulated device, with methods to control it.

    Attributes:
        id: The device id.
        endpoint_name: The endpoint name, such as ``light-01``.
        endpoint_type: The endpoint type, such as ``Light``.
        queue_mode: Whether the device sleeps between contacts. If it does, requests wait for its next contact.
        paths: The resource paths that the device had when it was added.
    """

    id: str
    endpoint_name: str
    endpoint_type: str
    queue_mode: bool
    paths: tuple[str, ...]
    _simulator: Simulator = field(repr=False, compare=False)

    @classmethod
    def of(cls, device: SimulatorDevice, simulator: Simulator) -> FleetDevice:
        """Return the handle of a device that the simulator lists."""
        paths = tuple(resource.path for resource in device.resources)
        return cls(device.id, device.endpoint_name, device.endpoint_type, device.queue_mode, paths, simulator)

    def values(self) -> dict[str, str]:
        """Return the current values of the device as strings, by path.

        The mirror may have older values or no values.
        """
        device = next(device for device in self._simulator.list_devices() if device.id == self.id)
        return {resource.path: resource.value for resource in device.resources}

    def set_value(self, path: str, value: object) -> None:
        """Change a value on the device, as a sensor would.

        The device reports the value if the resource is observed. See :meth:`mirror_sdk.Simulator.set_value`.

        See :meth:`mirror_sdk.Simulator.set_value`.
        """
        self._simulator.set_value(self.id, path, value)

    def set_online(self, online: bool) -> None:
        """Disconnect or reconnect the device. A reconnected device contacts the server immediately."""
        self._simulator.set_online(self.id, online)
