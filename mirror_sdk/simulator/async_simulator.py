"""The simulator: controls simulated devices and the clock of a service.

It needs a service that simulates devices, and a key with the scope ``admin``. Each method returns when all its effects
are on disk. Every method may raise :class:`NotFound` (no such simulated device, or a service without a simulator) and
:class:`AccessDenied`, in addition to the errors of every call of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from mirror_sdk._async_client import AsyncMirrorClient
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk.device_lookup import DeviceLike
from mirror_sdk.simulator import operations as _simulator_operations
from mirror_sdk.wire.simulator import ResponseMode, SimulatorDevice, SimulatorNewResource


class AsyncSimulator:
    """Controls the simulated devices and the clock of a service.

    As for a client, a device can be an id, an endpoint name, or an object with the id of a device.

    Args:
        client: The client that sends the requests. Its key needs the scope ``admin``.
    """

    def __init__(self, client: AsyncMirrorClient) -> None:
        self._client = client
        self._send = client._session.sender.send

    def __repr__(self) -> str:
        return f"<AsyncSimulator of {self._client!r}>"

    async def list_devices(self) -> list[SimulatorDevice]:
        """List the simulated devices, their settings, and their own values.

        >>> sorted(device.endpoint_name for device in await simulator.list_devices())
        ['light-01', 'station-01']
        """
        return await self._send(_simulator_operations.list_simulator_devices())

    async def add_device(
        self,
        endpoint_name: str,
        resources: Iterable[SimulatorNewResource | Mapping[str, object]] = (),
        *,
        endpoint_type: str = "default",
        queue_mode: bool = False,
    ) -> str:
        """Add a device. It registers at once.

        Args:
            endpoint_name: The endpoint name of the device.
            resources: Resources, or mappings such as
                ``{"path": "/3303/0/5700", "value": "21.5", "observable": True}``. Other flags are ``auto_observable``,
                ``writable`` and ``executable``. An executable resource cannot be observed.
            endpoint_type: The endpoint type.
            queue_mode: Whether the device sleeps between contacts.

        Returns:
            The id of the device.

        Raises:
            ValueError: A part of the device is invalid; the message names it.
            BadRequest: The service rejects the device.

        >>> fan = await simulator.add_device("fan-01", [{"path": "/3306/0/5850", "value": "0", "writable": True}])
        """
        device = {
            "endpoint_name": endpoint_name,
            "endpoint_type": endpoint_type,
            "queue_mode": queue_mode,
            "resources": list(resources),
        }
        return await self._send(_simulator_operations.add_simulator_device(device))

    async def set_online(self, device_id: DeviceLike, online: bool) -> None:
        """Disconnect or reconnect a device. A reconnected device contacts the service at once.

        >>> await simulator.set_online(light, False)
        """
        await self._patch(device_id, online=online)

    async def set_response_mode(self, device_id: DeviceLike, mode: ResponseMode) -> None:
        """Set how a device responds to commands: ``normal``, ``reject`` or ``silent``.

        Raises:
            ValueError: ``mode`` is not one of these.

        >>> await simulator.set_response_mode(light, "reject")
        >>> request = await client.requests.begin_write(light, "/3311/0/5850", True)
        >>> (await request.exception()).category
        'REJECTED'
        """
        await self._patch(device_id, answer=mode)

    async def set_latency_seconds(self, device_id: DeviceLike, latency_seconds: float) -> None:
        """Set how long a device takes to respond, from 0 to 3600 seconds.

        Raises:
            ValueError: ``latency_seconds`` is out of this range.

        >>> await simulator.set_latency_seconds(light, 1.5)
        """
        await self._patch(device_id, latency_seconds=latency_seconds)

    async def set_value(
        self,
        device_id: DeviceLike,
        path: str,
        value: object,
        *,
        observable: bool | None = None,
        auto_observable: bool | None = None,
        writable: bool | None = None,
        executable: bool | None = None,
    ) -> None:
        """Change a value at a device, as a sensor would, or add a resource.

        The service learns of a new resource with the next registration update. All flags stay unchanged by default.

        Args:
            device_id: The device: its id, its endpoint name, or an object with its id.
            path: The resource path.
            value: A value as for a write. A string is not checked, so that a device can have an invalid value.
                Resources with several instances are not supported.
            observable: Whether the resource can be observed.
            auto_observable: Whether the device also sends changes without a subscription.
            writable: Whether the resource can be written.
            executable: Whether the resource can be executed. If so, it cannot be observed.

        Raises:
            InvalidValue: ``value`` does not match the declaration of the path.
            BadRequest: The service rejects the resource, for example because it is both executable and observable.

        >>> await simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> await client.read_value(station, "/3303/0/5700")
        22.5
        """
        flags = {
            "observable": observable,
            "auto_observable": auto_observable,
            "writable": writable,
            "executable": executable,
        }
        await self._command(
            device_id, lambda found: _simulator_operations.put_simulator_resource(found, path, value, flags)
        )

    async def remove_resource(self, device_id: DeviceLike, path: str) -> None:
        """Remove a resource of a device. The mirror keeps its last value (specification 2.1).

        >>> await simulator.remove_resource(light, "/3311/0/5851")
        """
        await self._command(device_id, lambda found: _simulator_operations.delete_simulator_resource(found, path))

    async def register(self, device_id: DeviceLike) -> None:
        """Register a device. Its subscriptions end, and the service applies the presubscription rules.

        >>> await simulator.register(light)
        """
        await self._command(device_id, lambda found: _simulator_operations.simulator_registration(found, "POST"))

    async def update_registration(self, device_id: DeviceLike) -> None:
        """Update the registration of a device, with its new resources.

        >>> await simulator.update_registration(light)
        """
        await self._command(device_id, lambda found: _simulator_operations.simulator_registration(found, "PUT"))

    async def deregister(self, device_id: DeviceLike) -> None:
        """Deregister a device.

        >>> await simulator.deregister(light)
        >>> (await client.devices.get(light)).state
        'deregistered'
        """
        await self._command(device_id, lambda found: _simulator_operations.simulator_registration(found, "DELETE"))

    async def _patch(self, device: DeviceLike, **settings: object) -> None:
        await self._command(device, lambda found: _simulator_operations.patch_simulator_device(found, settings))

    async def _command(self, device: DeviceLike, operation: Callable[[str], Operation[None]]) -> None:
        await self._client._session.run(_simulator_operations.send_to_simulator(device, operation))

    async def get_clock(self) -> datetime:
        """Return the current time of the service, in UTC.

        >>> print(await simulator.get_clock())
        2026-01-05 08:00:00+00:00
        """
        return (await self._send(_simulator_operations.get_simulator_clock())).now

    async def has_manual_clock(self) -> bool:
        """Return whether :meth:`advance` can advance the service's clock. If it uses real time, it cannot.

        >>> await simulator.has_manual_clock()
        True
        """
        return (await self._send(_simulator_operations.get_simulator_clock())).manual

    async def advance(self, amount: float | timedelta) -> datetime:
        """Advance the clock. Everything that becomes due happens before this returns.

        Args:
            amount: Seconds, or a timedelta; more than 0 and at most 366 days.

        Returns:
            The new time of the service, in UTC.

        Raises:
            ValueError: ``amount`` is out of this range.
            APIError: The service uses real time.

        >>> print(await simulator.advance(timedelta(hours=1)))
        2026-01-05 09:00:00+00:00
        """
        return (await self._send(_simulator_operations.advance_simulator_clock(amount))).now
