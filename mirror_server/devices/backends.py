"""All kinds of device connections as one."""

from __future__ import annotations

from collections.abc import Callable

from mirror_server.devices.link import (
    ConnectionStatus,
    DeviceBackend,
    DeviceCommand,
    DeviceResponse,
    Outcome,
    SplitInstance,
)


class DeviceBackends:
    """Sends each command to the backend that has the device; a device that none has cannot be reached."""

    def __init__(self) -> None:
        self._backends: dict[str, DeviceBackend] = {}

    def add(self, backend: DeviceBackend) -> None:
        """Take a backend in, before the server begins."""
        self._backends[backend.name] = backend

    def is_reachable(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        backend = self._of(device_id)
        return backend is not None and backend.is_reachable(device_id)

    def send(self, device_id: str, command: DeviceCommand, response: Callable[[DeviceResponse], None]) -> None:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        backend = self._of(device_id)
        if backend is None:
            response(DeviceResponse(Outcome.NOT_SENT))
        else:
            backend.send(device_id, command, response)

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        backend = self._of(device_id)
        if backend is None:
            # It was sent to a backend that no longer has the device.
            cancelled(True)
        else:
            backend.cancel(device_id, command, cancelled, also_sent=also_sent)

    def describe(self, device_id: str) -> ConnectionStatus | None:
        """See :class:`~mirror_server.devices.link.DeviceBackend`."""
        backend = self._of(device_id)
        return None if backend is None else backend.describe(device_id)

    def split_instance(self, name: str) -> SplitInstance | None:
        """What takes apart an object instance for the backend of this name; ``None`` where nothing does."""
        backend = self._backends.get(name)
        return None if backend is None else backend.split_instance

    def _of(self, device_id: str) -> DeviceBackend | None:
        return next((backend for backend in self._backends.values() if backend.has(device_id)), None)
