"""How devices are connected, as the directory and their link know it. Source: wire.md 6 [+]."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.devices.link import Connection, DeviceLink
from mirror_server.service.devices import DeviceService
from mirror_server.store.devices import DeviceRow


@dataclass(frozen=True, slots=True)
class DeviceConnection:
    """A device of the directory, how it is connected where its link knows it, and whether a command would arrive."""

    device: DeviceRow
    connection: Connection | None
    is_reachable: bool


class ConnectionService:
    """Tells how devices are connected.

    Args:
        devices: The directory.
        link: The way to the devices.
    """

    def __init__(self, devices: DeviceService, link: DeviceLink) -> None:
        self._devices = devices
        self._link = link

    def connection(self, device_id: str) -> DeviceConnection:
        """How a device is connected.

        Raises:
            Refusal: There is no such device (404).
        """
        device = self._devices.device(device_id)
        is_reachable = bool(device.registered) and self._link.is_reachable(device_id)
        return DeviceConnection(device, self._link.describe(device_id), is_reachable)
