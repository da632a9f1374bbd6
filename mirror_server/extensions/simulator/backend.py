"""The simulated devices as a :class:`~mirror_server.devices.interface.DeviceBackend`."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from mirror_sdk.wire.paths import parse_path
from mirror_sdk.wire.simulator import ResponseMode
from mirror_server.clock import Clock
from mirror_server.devices.interface import ConnectionStatus, DeviceCommand, DeviceResponse, Outcome
from mirror_server.extensions.simulator.device import (
    BACKEND,
    RunningResource,
    SimulatedDevice,
    SimulatedResource,
    SimulatedState,
    SimulatorError,
    UnknownSimulatedDevice,
    added_device_id,
    added_resource,
    seeded_device,
)
from mirror_server.extensions.simulator.fleet import SimulatedFleet, SimulatorStore, Turn
from mirror_server.extensions.simulator.running_device import LastSent, RunningDevice
from mirror_server.service.devices import DeviceService


class SimulatorBackend:
    """Simulated devices that act by themselves at the times of a clock.

    All methods may be called on any thread. A method that changes devices returns only after the resulting calls to the
    service were made. The exception is :meth:`send`.
    """

    name = BACKEND
    split_instance = None

    def __init__(self, *, events: DeviceService, store: SimulatorStore, clock: Clock, seed: int) -> None:
        self._fleet = SimulatedFleet(events=events, store=store, clock=clock)
        self._store = store
        self._seed = seed

    def start(self, count: int) -> None:
        """Start the stored devices, and add seeded devices until there are ``count`` devices.

        Stored devices continue as if they had been running all the time. They perform every action that has become due,
        and send the values that the service has not received. A device whose registration has expired registers again.
        """
        with self._fleet.turn() as turn:
            last_sent: dict[str, dict[str, LastSent]] = defaultdict(dict)
            for each in self._store.last_observed():
                last_sent[each.device_id][each.path] = LastSent(each.text, each.observed_at)
            for device_id, document in self._store.load().items():
                running = self._fleet.add(SimulatedDevice.from_json(document))
                running.recall(last_sent[device_id])
                self._fleet.resume(turn, running)
            self._add_seeded(turn, self._seed, count - len(self._fleet.running))

    def stop(self) -> None:
        """Remove all devices from memory. Their stored state remains."""
        self._fleet.remove_all()

    def has(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        return device_id in self._fleet.running

    def is_reachable(self, device_id: str) -> bool:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        with self._fleet.reading() as now:
            running = self._fleet.running.get(device_id)
            return running is not None and running.reachable(now)

    def send(self, device_id: str, command: DeviceCommand, on_response: Callable[[DeviceResponse], None]) -> None:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`.

        If the device has no latency, it has responded when this method returns. The exception is that another thread is
        calling the service at that time: then that thread passes on the response.
        """
        with self._fleet.turn(wait=False) as turn:
            running = self._fleet.running.get(device_id)
            if running is None or not running.reachable(turn.now):
                turn.calls.append(partial(on_response, DeviceResponse(Outcome.NOT_SENT)))
            else:
                self._fleet.receive(turn, running, command, on_response)

    def cancel(
        self,
        device_id: str,  # noqa: ARG002 - as a backend has it
        command: DeviceCommand,  # noqa: ARG002
        cancelled: Callable[[bool], None],
        *,
        also_sent: bool,  # noqa: ARG002
    ) -> None:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`. A simulated device gets a command at once."""
        cancelled(True)

    def describe(self, device_id: str) -> ConnectionStatus | None:
        """See :class:`~mirror_server.devices.interface.DeviceBackend`."""
        with self._fleet.reading():
            return ConnectionStatus("simulated") if device_id in self._fleet.running else None

    def list_states(self) -> list[SimulatedState]:
        """Return the states of all simulated devices with their current values, sorted by name."""
        with self._fleet.reading() as now:
            states = [running.device.state(now) for running in self._fleet.running.values()]
        return sorted(states, key=lambda state: state.endpoint_name)

    def add(
        self, endpoint_name: str, endpoint_type: str, queue_mode: bool, resources: Sequence[SimulatedResource]
    ) -> str:
        """Add a device, which registers immediately. Return its device id.

        Raises:
            SimulatorError: The name is in use by a simulated device, a path is repeated or is not a resource path, or a
                resource is both executable and observable.
        """
        for index, resource in enumerate(resources):
            _check_path(resource.path)
            _check_flags(resource, f"resources.{index}.executable")
        if len({resource.path for resource in resources}) < len(resources):
            raise SimulatorError("resources", "duplicate path; use a different path for each resource")
        with self._fleet.turn() as turn:
            if endpoint_name in self._endpoint_names():
                raise SimulatorError(
                    "endpoint_name", f"a simulated device already has the name {endpoint_name!r}; use another name"
                )
            device = SimulatedDevice(
                device_id=added_device_id(self._seed, endpoint_name),
                endpoint_name=endpoint_name,
                endpoint_type=endpoint_type,
                queue_mode=queue_mode,
                key=f"{self._seed}/{endpoint_name}",
                resources={resource.path: added_resource(resource, turn.now) for resource in resources},
            )
            self._register_new(turn, device)
        return device.device_id

    def add_seeded(self, count: int, seed: int) -> list[str]:
        """Add devices of all kinds in turn, generated from a seed, and return their ids. Names in use are skipped."""
        with self._fleet.turn() as turn:
            return self._add_seeded(turn, seed, count)

    def set_behavior(
        self,
        device_id: str,
        online: bool | None = None,
        answer: ResponseMode | None = None,
        latency_seconds: float | None = None,
    ) -> None:
        """Change how a device behaves. An argument that is ``None`` changes nothing.

        A device that comes online contacts the service immediately. When a device goes offline, the commands that it is
        processing fail.

        Raises:
            UnknownSimulatedDevice: No simulated device has this id.
        """
        with self._fleet.turn() as turn:
            running = self._running(device_id)
            device = running.device
            was_online = device.online
            device.online = was_online if online is None else online
            device.answer = answer or device.answer
            device.latency_seconds = device.latency_seconds if latency_seconds is None else latency_seconds
            turn.save(running)
            if device.online and not was_online:
                self._fleet.come_online(turn, running)
            elif was_online and not device.online:
                self._fleet.drop_commands(turn, running)

    def set_value(
        self,
        device_id: str,
        path: str,
        value: str | None = None,
        *,
        observable: bool | None = None,
        auto_observable: bool | None = None,
        writable: bool | None = None,
        executable: bool | None = None,
    ) -> None:
        """Change the value or the flags of a resource. An argument that is ``None`` changes nothing.

        The device sends the value if the resource is observed and the device is online. If the path is new, it becomes
        a resource of the device. The service learns of the resource at the next registration update, and receives its
        values from then on.

        Raises:
            UnknownSimulatedDevice: No simulated device has this id.
            SimulatorError: The path is not a resource path, or the resource would be both executable and observable.
        """
        _check_path(path)
        flags = {
            "observable": observable,
            "auto_observable": auto_observable,
            "writable": writable,
            "executable": executable,
        }
        with self._fleet.turn() as turn:
            running = self._running(device_id)
            # The change is made to a copy, so that a rejected change does not affect the resource.
            resource = replace(running.device.resources.get(path) or RunningResource(value_at=turn.now))
            changes = {flag: state for flag, state in flags.items() if state is not None}
            for flag, state in changes.items():
                setattr(resource, flag, state)
            if raised := [flag for flag in ("executable", "observable", "auto_observable") if changes.get(flag)]:
                _check_flags(resource, raised[0])
            running.device.resources[path] = resource
            if value is not None:
                running.device.set_value(path, value, turn.now)
            turn.save(running)
            self._fleet.report(turn, running, only=path)

    def remove_resource(self, device_id: str, path: str) -> None:
        """Remove a resource of the device. The service learns of this at the next registration update.

        Raises:
            UnknownSimulatedDevice: No simulated device has this id.
            SimulatorError: The device has no resource with this path.
        """
        with self._fleet.turn() as turn:
            running = self._running(device_id)
            if running.device.resources.pop(path, None) is None:
                raise SimulatorError("path", f"the device has no resource {path}")
            turn.save(running)

    def register(self, device_id: str) -> None:
        """Make the device send a full registration. As in LwM2M, this ends all observations of the device.

        Raises:
            UnknownSimulatedDevice: No simulated device has this id.
            SimulatorError: The device is offline.
        """
        with self._fleet.turn() as turn:
            self._fleet.register(turn, self._online_device(device_id))

    def update(self, device_id: str) -> None:
        """Make the device send a registration update.

        Raises:
            UnknownSimulatedDevice: No simulated device has this id.
            SimulatorError: The device is offline or not registered.
        """
        with self._fleet.turn() as turn:
            self._fleet.update(turn, self._registered_device(device_id))

    def deregister(self, device_id: str) -> None:
        """Make the device deregister, which ends its observations.

        Raises:
            UnknownSimulatedDevice: No simulated device has this id.
            SimulatorError: The device is offline or not registered.
        """
        with self._fleet.turn() as turn:
            self._fleet.deregister(turn, self._registered_device(device_id))

    def _add_seeded(self, turn: Turn, seed: int, count: int) -> list[str]:
        used_names = self._endpoint_names()
        every = (seeded_device(seed, index, turn.now) for index in itertools.count())
        added = list(islice((device for device in every if device.endpoint_name not in used_names), max(0, count)))
        for device in added:
            self._register_new(turn, device)
        return [device.device_id for device in added]

    def _register_new(self, turn: Turn, device: SimulatedDevice) -> None:
        running = self._fleet.add(device)
        running.note_baseline(turn.now)
        self._fleet.register(turn, running)

    def _endpoint_names(self) -> set[str]:
        return {running.device.endpoint_name for running in self._fleet.running.values()}

    def _running(self, device_id: str) -> RunningDevice:
        running = self._fleet.running.get(device_id)
        if running is None:
            raise UnknownSimulatedDevice(device_id)
        return running

    def _online_device(self, device_id: str) -> RunningDevice:
        running = self._running(device_id)
        if not running.device.online:
            raise SimulatorError("online", "the device is offline; set online to true first")
        return running

    def _registered_device(self, device_id: str) -> RunningDevice:
        running = self._online_device(device_id)
        if not running.device.registered:
            raise SimulatorError("registered", "the device is not registered; make a full registration first")
        return running


def _check_flags(resource: SimulatedResource | RunningResource, field: str) -> None:
    """Reject a resource that is both executable and observable, because it has no value to observe."""
    if resource.executable and (resource.observable or resource.auto_observable):
        raise SimulatorError(
            field,
            "an executable resource cannot be observed, because it has no value; set executable to false, or set both"
            " observable and auto_observable to false",
        )


def _check_path(path: str) -> None:
    try:
        parse_path(path)
    except ValueError as error:
        raise SimulatorError("path", str(error)) from error
