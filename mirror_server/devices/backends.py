"""The registry of device backends."""

from __future__ import annotations

from collections.abc import Callable

from mirror_server.devices.interface import (
    ConnectionStatus,
    DeviceBackend,
    DeviceCommand,
    DeviceResponse,
    Outcome,
    SplitInstance,
)


class DeviceBackends:
    """A registry of backends, which sends each command to the backend of its device.

    A device without a backend cannot be reached.
    """

    def __init__(self) -> None:
        self._backends: dict[str, DeviceBackend] = {}

    def add(self, backend: DeviceBackend) -> None:
        """Add a backend. Call this method before the server starts."""
        self._backends[backend.name] = backend

    def is_reachable(self, device_id: str) -> bool:
        """Return whether a command that is sent now would arrive. The result is false if the device has no backend."""
        backend = self._of(device_id)
        return backend is not None and backend.is_reachable(device_id)

    def send(self, device_id: str, command: DeviceCommand, response: Callable[[DeviceResponse], None]) -> None:
        """Send a command to the backend of the device. Without a backend, the outcome is ``NOT_SENT``."""
        backend = self._of(device_id)
        if backend is None:
            response(DeviceResponse(Outcome.NOT_SENT))
        else:
            backend.send(device_id, command, response)

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        """Cancel a command that timed out. See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        backend = self._of(device_id)
        if backend is None:
            # The command was sent to a backend to which the device is no longer connected.
            cancelled(True)
        else:
            backend.cancel(device_id, command, cancelled, also_sent=also_sent)

    def describe(self, device_id: str) -> ConnectionStatus | None:
        """Return the connection to a device, or ``None`` if the device has no backend."""
        backend = self._of(device_id)
        return None if backend is None else backend.describe(device_id)

    def split_instance(self, name: str) -> SplitInstance | None:
        """Return the function of a backend that splits object instances.

        Return ``None`` if the backend has no such function.
        """
        backend = self._backends.get(name)
        return None if backend is None else backend.split_instance

    def _of(self, device_id: str) -> DeviceBackend | None:
        return next((backend for backend in self._backends.values() if backend.has(device_id)), None)
