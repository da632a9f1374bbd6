"""How devices are connected, as the directory and their backend know it. Source: wire.md 6 [+]."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.devices.backends import DeviceBackends
from mirror_server.devices.link import Connection
from mirror_server.service.devices import DeviceService
from mirror_server.store.devices import DeviceRow


@dataclass(frozen=True, slots=True)
class DeviceConnection:
    """A device of the directory, how it is connected where its backend knows it, and whether a command would arrive."""

    device: DeviceRow
    connection: Connection | None
    is_reachable: bool


class ConnectionService:
    """Tells how devices are connected.

    Args:
        devices: The directory.
        backends: The ways to the devices.
    """

    def __init__(self, devices: DeviceService, backends: DeviceBackends) -> None:
        self._devices = devices
        self._backends = backends

    def connection(self, device_id: str) -> DeviceConnection:
        """How a device is connected.

        Raises:
            Refusal: There is no such device (404).
        """
        device = self._devices.device(device_id)
        is_reachable = bool(device.registered) and self._backends.is_reachable(device_id)
        return DeviceConnection(device, self._backends.describe(device_id), is_reachable)
