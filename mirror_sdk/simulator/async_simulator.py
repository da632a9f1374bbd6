"""The simulator, which controls simulated devices and the clock of a service.

The simulator needs a service with simulated devices, and an access key with the scope ``admin``. Each method returns
when all of its effects have been stored on disk. In addition to the errors of all calls, every method may raise
:class:`NotFound` and :class:`AccessDenied`. :class:`NotFound` means that there is no such simulated device, or that the
service has no simulator.
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
    """A client for the simulated devices and the clock of a service.

    As in other clients, a device is an id, an endpoint name, or an object that contains an id.

    Args:
        client: The client that sends the requests. Its key needs the scope ``admin``.
    """

    def __init__(self, client: AsyncMirrorClient) -> None:
        self._client = client
        self._send = client._session.sender.send

    def __repr__(self) -> str:
        return f"<AsyncSimulator of {self._client!r}>"

    async def list_devices(self) -> list[SimulatorDevice]:
        """Return the simulated devices with their settings and the values that they currently have.

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
        """Add a simulated device, which registers at once.

        Args:
            endpoint_name: The endpoint name of the device.
            resources: The resources. Mappings work too, such as
                ``{"path": "/3303/0/5700", "value": "21.5", "observable": True}``.
                Further flags are ``auto_observable``, ``writable`` and ``executable``. An executable resource cannot be
                observed.
            endpoint_type: The endpoint type.
            queue_mode: Whether the device sleeps between contacts.

        Returns:
            The id of the device.

        Raises:
            ValueError: A part of the device is not valid. The message describes the part.
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
        """Disconnect or reconnect a device. After it has reconnected, a device contacts the service at once.

        >>> await simulator.set_online(light, False)
        """
        await self._patch(device_id, online=online)

    async def set_response_mode(self, device_id: DeviceLike, mode: ResponseMode) -> None:
        """Set how a device responds to requests: ``normal``, ``reject`` or ``silent``.

        Raises:
            ValueError: ``mode`` is not one of these values.

        >>> await simulator.set_response_mode(light, "reject")
        >>> request = await client.requests.begin_write(light, "/3311/0/5850", True)
        >>> (await request.exception()).category
        'REJECTED'
        """
        await self._patch(device_id, answer=mode)

    async def set_latency_seconds(self, device_id: DeviceLike, latency_seconds: float) -> None:
        """Set how long a device takes to respond, from 0 to 3600 seconds.

        Raises:
            ValueError: ``latency_seconds`` is not in this range.

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
        """Change the value of a resource on a device, as a sensor would, or add a resource to the device.

        The device announces a new resource with its next registration update. By default, all flags stay unchanged.

        Args:
            device_id: The id or the endpoint name of the device, or an object that contains its id.
            path: The resource path.
            value: The value, as for a write. A string is not checked, so that a device can have an invalid value.
                Resources with several instances are not supported.
            observable: Whether the resource can be observed.
            auto_observable: Whether the device also sends changes without a subscription.
            writable: Whether the resource can be written.
            executable: Whether the resource can be executed. In this case, it cannot be observed.

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
        """Remove a resource from a device. The mirror still stores the last value of the resource (specification 2.1).

        >>> await simulator.remove_resource(light, "/3311/0/5851")
        """
        await self._command(device_id, lambda found: _simulator_operations.delete_simulator_resource(found, path))

    async def register(self, device_id: DeviceLike) -> None:
        """Register a device. This ends its subscriptions, and the service applies the presubscription rules.

        >>> await simulator.register(light)
        """
        await self._command(device_id, lambda found: _simulator_operations.simulator_registration(found, "POST"))

    async def update_registration(self, device_id: DeviceLike) -> None:
        """Update the registration of a device, which announces its new resources.

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
        """Return the current time of the service in UTC.

        >>> print(await simulator.get_clock())
        2026-01-05 08:00:00+00:00
        """
        return (await self._send(_simulator_operations.get_simulator_clock())).now

    async def has_manual_clock(self) -> bool:
        """Return whether the clock of the service is manual.

        A manual clock stands still until :meth:`advance` is called. Otherwise the service uses real time.

        >>> await simulator.has_manual_clock()
        True
        """
        return (await self._send(_simulator_operations.get_simulator_clock())).manual

    async def advance(self, amount: float | timedelta) -> datetime:
        """Advance the clock. All actions that become due take place before this method returns.

        Args:
            amount: The duration in seconds or as a timedelta. It must be more than 0 and at most 366 days.

        Returns:
            The new time of the service in UTC.

        Raises:
            ValueError: ``amount`` is not in this range.
            APIError: The service uses real time.

        >>> print(await simulator.advance(timedelta(hours=1)))
        2026-01-05 09:00:00+00:00
        """
        return (await self._send(_simulator_operations.advance_simulator_clock(amount))).now
