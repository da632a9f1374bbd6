"""Both ways to devices, simulated ones and real ones, as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mirror_server.devices.link import Answer, Connection, DeviceCommand, DeviceLink

if TYPE_CHECKING:
    from mirror_server.devices.lwm2m.lwm2m import LwM2MLink


class DeviceLinks:
    """Sends each command to the link that has the device.

    Args:
        simulated: The simulated devices, and who answers for those that nobody has.
        real: The real devices; ``None`` where none can come.
    """

    def __init__(self, simulated: DeviceLink, real: LwM2MLink | None) -> None:
        self._simulated = simulated
        self._real = real

    def is_reachable(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.link.DeviceLink`."""
        return self._link(device_id).is_reachable(device_id)

    def send(self, device_id: str, command: DeviceCommand, answer: Callable[[Answer], None]) -> None:
        """See :class:`~mirror_server.devices.link.DeviceLink`."""
        self._link(device_id).send(device_id, command, answer)

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        """See :class:`~mirror_server.devices.link.DeviceLink`."""
        self._link(device_id).cancel(device_id, command, cancelled, also_sent=also_sent)

    def describe(self, device_id: str) -> Connection | None:
        """See :class:`~mirror_server.devices.link.DeviceLink`."""
        return self._link(device_id).describe(device_id)

    def _link(self, device_id: str) -> DeviceLink:
        return self._real if self._real is not None and self._real.has(device_id) else self._simulated
