# Made from async_simulator.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The simulator: plays the device's side of simulated devices, and lets time pass.

It works with a service that simulates devices, and with a key that has the scope ``admin``. Each method returns when
all it causes is on disk. Every one may raise :class:`NotFound` (no such simulated device, or a service without a
simulator) and :class:`AccessDenied`, besides what every call of a client may raise.

Source: wire.md 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.operation import Operation
from mirror_sdk.naming import DeviceLike
from mirror_sdk.simulator import operations as _simulator_operations
from mirror_sdk.wire.simulator import AnswerMode, SimulatorDevice, SimulatorNewResource


class Simulator:
    """The simulated devices of the service a client talks to.

    A device is given as to a client: its id, its endpoint name, or what has its id. The simulator itself is asked for
    names.

    Args:
        client: Carries the calls; its key needs the scope ``admin``.
    """

    def __init__(self, client: MirrorClient) -> None:
        self._client = client
        self._send = client._session.sender.send

    def __repr__(self) -> str:
        return f"<Simulator of {self._client!r}>"

    def list_devices(self) -> list[SimulatorDevice]:
        """The simulated devices, what they are set to do, and their own values.

        >>> sorted(device.endpoint_name for device in simulator.list_devices())
        ['light-01', 'station-01']
        """
        return self._send(_simulator_operations.list_simulator_devices())

    def add_device(
        self,
        endpoint_name: str,
        resources: Iterable[SimulatorNewResource | Mapping[str, object]] = (),
        *,
        endpoint_type: str = "default",
        queue_mode: bool = False,
    ) -> str:
        """Add a device, which registers at once.

        Args:
            endpoint_name: Its endpoint name.
            resources: Resources, or mappings such as
                ``{"path": "/3303/0/5700", "value": "21.5", "observable": True}``; other flags are
                ``auto_observable``, ``writable`` and ``executable``; what is executable has no value to observe.
            endpoint_type: Its endpoint type.
            queue_mode: Whether it sleeps between contacts.

        Returns:
            Its device id.

        Raises:
            ValueError: It cannot be a device; the message names what is wrong.
            BadRequest: The service does not take it.

        >>> fan = simulator.add_device("fan-01", [{"path": "/3306/0/5850", "value": "0", "writable": True}])
        """
        given = {
            "endpoint_name": endpoint_name,
            "endpoint_type": endpoint_type,
            "queue_mode": queue_mode,
            "resources": list(resources),
        }
        return self._send(_simulator_operations.add_simulator_device(given))

    def set_online(self, device_id: DeviceLike, online: bool) -> None:
        """Connect a device, which makes contact at once, or cut it off.

        >>> simulator.set_online(light, False)
        """
        self._tell(device_id, lambda found: _simulator_operations.patch_simulator_device(found, {"online": online}))

    def set_answer(self, device_id: DeviceLike, answer: AnswerMode) -> None:
        """How a device answers commands: ``normal``, ``reject`` or ``silent``.

        Raises:
            ValueError: It is another word.

        >>> simulator.set_answer(light, "reject")
        >>> request = client.requests.begin_write(light, "/3311/0/5850", True)
        >>> request.exception().category
        'REJECTED'
        """
        self._tell(device_id, lambda found: _simulator_operations.patch_simulator_device(found, {"answer": answer}))

    def set_latency_seconds(self, device_id: DeviceLike, latency_seconds: float) -> None:
        """How long a device takes to answer, 0 to 3600.

        Raises:
            ValueError: It is outside of this range.

        >>> simulator.set_latency_seconds(light, 1.5)
        """
        self._tell(
            device_id,
            lambda found: _simulator_operations.patch_simulator_device(found, {"latency_seconds": latency_seconds}),
        )

    def set_value(
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
        """A device changes a value of its own, or gets a new resource, which the service learns of at the next update.

        Args:
            device_id: The device: its id, its endpoint name, or what has its id.
            path: The resource path.
            value: As for a write; a text is taken as it is, so that a device can have a value that is wrong. A
                simulated device has no resources with several instances.
            observable: Whether it can be observed; a flag that is not given stays as it is.
            auto_observable: Whether the device sends changes without a subscription; it can then be subscribed, too.
            writable: Whether it can be written.
            executable: Whether it can be executed; then it has no value to observe.

        Raises:
            InvalidValue: The value does not go with what is declared for the path.
            BadRequest: The service does not take it, for instance what would be executable and observable at once.

        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.read_value(station, "/3303/0/5700")
        22.5
        """
        flags = {
            "observable": observable,
            "auto_observable": auto_observable,
            "writable": writable,
            "executable": executable,
        }
        self._tell(device_id, lambda found: _simulator_operations.put_simulator_resource(found, path, value, flags))

    def remove_resource(self, device_id: DeviceLike, path: str) -> None:
        """A device removes a resource; the mirror keeps it (specification 2.1).

        >>> simulator.remove_resource(light, "/3311/0/5851")
        """
        self._tell(device_id, lambda found: _simulator_operations.delete_simulator_resource(found, path))

    def register(self, device_id: DeviceLike) -> None:
        """A device makes a full registration; single subscriptions of it end, presubscriptions are applied.

        >>> simulator.register(light)
        """
        self._tell(device_id, lambda found: _simulator_operations.simulator_registration(found, "POST"))

    def update_registration(self, device_id: DeviceLike) -> None:
        """A device updates its registration, with new resources if it got some.

        >>> simulator.update_registration(light)
        """
        self._tell(device_id, lambda found: _simulator_operations.simulator_registration(found, "PUT"))

    def deregister(self, device_id: DeviceLike) -> None:
        """A device leaves.

        >>> simulator.deregister(light)
        >>> client.devices.get(light).state
        'deregistered'
        """
        self._tell(device_id, lambda found: _simulator_operations.simulator_registration(found, "DELETE"))

    def _tell(self, device: DeviceLike, operation: Callable[[str], Operation[None]]) -> None:
        self._client._session.run(_simulator_operations.send_to_simulator(device, operation))

    def get_clock(self) -> datetime:
        """The service's present, in UTC.

        >>> print(simulator.get_clock())
        2026-01-05 08:00:00+00:00
        """
        return self._send(_simulator_operations.get_simulator_clock()).now

    def has_manual_clock(self) -> bool:
        """Whether :meth:`advance` can move the service's clock; not where the service runs on real time.

        >>> simulator.has_manual_clock()
        True
        """
        return self._send(_simulator_operations.get_simulator_clock()).manual

    def advance(self, amount: float | timedelta) -> datetime:
        """Let time pass, with all that falls due in it.

        Args:
            amount: Seconds, or a timedelta; more than nothing and at most 366 days.

        Returns:
            The service's new present, in UTC.

        Raises:
            ValueError: The amount is outside of this range.
            APIError: The service runs on real time.

        >>> print(simulator.advance(timedelta(hours=1)))
        2026-01-05 09:00:00+00:00
        """
        return self._send(_simulator_operations.advance_simulator_clock(amount)).now
