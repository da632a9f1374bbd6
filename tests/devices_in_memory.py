"""Devices in memory that tests control, as a device backend for tests that need no particular kind of device.

A device renews its registration twice per lifetime. In queue mode it makes contact every quarter of an hour and listens
for a while. Everything uses the clock of the server and survives a restart.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from mirror_server.clock import ManualClock
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.interface import (
    CancelObservation,
    ConnectionStatus,
    Content,
    DeviceCommand,
    DeviceResponse,
    Execute,
    Observation,
    Observe,
    Outcome,
    Read,
    Registration,
    SplitInstance,
    Write,
    WriteAttributes,
)
from mirror_server.hooks import extends
from mirror_server.store.resources import AnnouncedResource
from mirror_server.store.session import MANUAL_CLOCK

if TYPE_CHECKING:
    from mirror_server.clock import Timer
    from mirror_server.server import Services

LIFETIME_SECONDS = 24 * 3600
UPDATE_SECONDS = 12 * 3600
CONTACT_SECONDS = 900
AWAKE_SECONDS = 10
WRITTEN_TYPES = ("text/plain", "application/octet-stream")


@dataclass
class Resource:
    """A resource of a device; ``sent`` is the last notified value, sent at ``sent_at``."""

    value: str = ""
    observable: bool = False
    auto_observable: bool = False
    writable: bool = False
    executable: bool = False
    value_at: Instant = 0
    observed: bool = False
    sent: str | None = None
    sent_at: Instant = 0
    pmin_seconds: int = 0


@dataclass
class Device:
    """A device; ``answer`` says whether it responds, rejects, or is silent."""

    device_id: str
    endpoint_name: str
    resources: dict[str, Resource]
    endpoint_type: str = "default"
    queue_mode: bool = False
    online: bool = True
    registered: bool = False
    answer: str = "normal"
    latency_seconds: float = 0
    renewed_at: Instant = 0
    awoken_at: Instant = 0
    introduced: tuple[AnnouncedResource, ...] = ()
    in_hand: list[Callable[[DeviceResponse], None]] = field(default_factory=list)
    timer: Timer | None = None

    def is_reachable(self, now: Instant) -> bool:
        is_awake = not self.queue_mode or now < after_seconds(self.awoken_at, AWAKE_SECONDS)
        return self.online and self.registered and is_awake

    def structure(self) -> tuple[AnnouncedResource, ...]:
        return tuple(
            AnnouncedResource(path, observable=each.observable, auto_observed=each.auto_observable)
            for path, each in self.resources.items()
        )


class DevicesInMemory:
    """A device backend with any number of devices. Each method returns when the service has received the resulting
    events.
    """

    name = "memory"
    split_instance: SplitInstance | None = None

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._numbers = itertools.count(1)
        # Commands of the service are handled without this lock.
        self._lock = threading.RLock()

    def join(self, services: Services) -> None:
        """Add these devices to a server that has not started yet."""
        self._events, self._clock = services.devices, services.clock
        services.backends.add(self)
        services.extensions.add(self)

    def add(self, endpoint_name: str, *resources: dict[str, Any], **more: Any) -> str:
        device_id, now = f"{next(self._numbers):032x}", self._clock.now()
        own = {each.pop("path"): Resource(**each, value_at=now) for each in map(dict, resources)}
        for resource in own.values():
            # A new device sends nothing until something changes.
            resource.sent = resource.value if resource.auto_observable else None
        with self._lock:
            device = self._devices[device_id] = Device(device_id, endpoint_name, own, **more)
            self._register(device)
        return device_id

    def device(self, device_id: str) -> Device:
        return self._devices[device_id]

    def behave(self, device_id: str, **behavior: Any) -> None:
        with self._lock:
            device = self._devices[device_id]
            was_online = device.online
            for name, value in behavior.items():
                setattr(device, name, value)
            if device.online and not was_online:
                self._live(device, contact=True)
            elif was_online and not device.online:
                self._drop(device)

    def set_value(self, device_id: str, path: str, value: str, **flags: Any) -> None:
        with self._lock:
            device = self._devices[device_id]
            resource = device.resources.setdefault(path, Resource())
            for name, flag in flags.items():
                setattr(resource, name, flag)
            self._set(resource, value)
            self._report(device, path)

    def remove_resource(self, device_id: str, path: str) -> None:
        with self._lock:
            del self._devices[device_id].resources[path]

    def register(self, device_id: str) -> None:
        with self._lock:
            self._register(self._devices[device_id])

    def update(self, device_id: str) -> None:
        with self._lock:
            self._update(self._devices[device_id])

    def deregister(self, device_id: str) -> None:
        with self._lock:
            device = self._devices[device_id]
            device.registered = False
            self._events.deregistered(device_id)
            self._drop(device)

    def has(self, device_id: str) -> bool:
        return device_id in self._devices

    def describe(self, device_id: str) -> ConnectionStatus | None:
        return ConnectionStatus("memory")

    def is_reachable(self, device_id: str) -> bool:
        return self._devices[device_id].is_reachable(self._clock.now())

    def send(self, device_id: str, command: DeviceCommand, answer: Callable[[DeviceResponse], None]) -> None:
        with self._lock:
            device = self._devices[device_id]
            if not device.is_reachable(self._clock.now()):
                answer(DeviceResponse(Outcome.NOT_SENT))
            elif device.latency_seconds == 0:
                self._respond(device, command, answer)
            else:
                device.in_hand.append(answer)
                due_at = after_seconds(self._clock.now(), device.latency_seconds)
                self._clock.call_at(due_at, lambda: self._respond_late(device, command, answer))

    def cancel(
        self, device_id: str, command: DeviceCommand, cancelled: Callable[[bool], None], *, also_sent: bool
    ) -> None:
        cancelled(True)

    def _respond_late(self, device: Device, command: DeviceCommand, answer: Callable[[DeviceResponse], None]) -> None:
        with self._lock:
            if answer in device.in_hand:
                device.in_hand.remove(answer)
                self._respond(device, command, answer)

    def _respond(self, device: Device, command: DeviceCommand, answer: Callable[[DeviceResponse], None]) -> None:
        if device.answer != "silent":
            answer(self._execute(device, command))
            self._report(device, command.path)

    def _execute(self, device: Device, command: DeviceCommand) -> DeviceResponse:
        resource = device.resources.get(command.path)
        if device.answer == "reject":
            return DeviceResponse(Outcome.REJECTED)
        if resource is None:
            return DeviceResponse(Outcome.NOT_FOUND)
        if resource.executable != isinstance(command, Execute) and not isinstance(command, CancelObservation):
            return DeviceResponse(Outcome.METHOD_NOT_ALLOWED)
        content = None
        match command:
            case Read() | Observe():
                if isinstance(command, Read) and command.accept not in (None, "text/plain", "*/*"):
                    return DeviceResponse(Outcome.UNSUPPORTED_CONTENT_TYPE)
                if isinstance(command, Observe):
                    resource.observed, resource.sent, resource.sent_at = True, resource.value, self._clock.now()
                content = Content(resource.value.encode())
            case Write():
                return DeviceResponse(self._write(resource, command.content))
            case WriteAttributes():
                return DeviceResponse(_write_attributes(resource, command.query))
            case CancelObservation():
                resource.observed = False
        return DeviceResponse(Outcome.DONE, content, responded_at=None if content is None else resource.value_at)

    def _write(self, resource: Resource, content: Content) -> Outcome:
        if not resource.writable:
            return Outcome.METHOD_NOT_ALLOWED
        if content.content_type.partition(";")[0] not in WRITTEN_TYPES:
            return Outcome.UNSUPPORTED_CONTENT_TYPE
        try:
            self._set(resource, content.payload.decode())
        except UnicodeDecodeError:
            return Outcome.BAD_VALUE
        return Outcome.DONE

    def _set(self, resource: Resource, value: str) -> None:
        if value != resource.value:
            resource.value, resource.value_at = value, self._clock.now()

    @extends(specname="connect_devices")
    def _go_on(self) -> None:
        """Resume after the server has started: process everything that became due in the meantime."""
        with self._lock:
            for device in self._devices.values():
                device.in_hand.clear()
                self._wake(device)

    def _wake(self, device: Device) -> None:
        with self._lock:
            due_at = after_seconds(device.awoken_at, CONTACT_SECONDS)
            self._live(device, contact=device.queue_mode and self._clock.now() >= due_at)

    def _live(self, device: Device, *, contact: bool) -> None:
        now = self._clock.now()
        if device.online and device.registered:
            if now >= after_seconds(device.renewed_at, LIFETIME_SECONDS):
                self._register(device)
                return
            if now >= after_seconds(device.renewed_at, UPDATE_SECONDS):
                self._update(device)
            if contact:
                device.awoken_at = now
                self._events.contact(device.device_id)
            if contact or not device.queue_mode:
                self._report(device)
        self._arm(device)

    def _register(self, device: Device) -> None:
        device.registered = True
        self._renew(device)
        device.introduced = device.structure()
        for resource in device.resources.values():
            resource.observed = False
        self._events.registered(
            Registration(
                device.endpoint_name,
                device.endpoint_type,
                device.queue_mode,
                LIFETIME_SECONDS,
                device.introduced,
                self.name,
                device.device_id,
            )
        )
        self._report(device)
        self._arm(device)

    def _update(self, device: Device) -> None:
        self._renew(device)
        before, device.introduced = device.introduced, device.structure()
        self._events.registration_updated(device.device_id, None if device.introduced == before else device.introduced)
        self._report(device)
        self._arm(device)

    def _renew(self, device: Device) -> None:
        """Listen before the service receives the event, because it may send something at once."""
        device.renewed_at = device.awoken_at = self._clock.now()

    def _report(self, device: Device, *only: str) -> None:
        """Send the changed values of observed resources, of all or of one."""
        if not (device.online and device.registered):
            return
        now, observations = self._clock.now(), []
        for path in only or tuple(each.path for each in device.introduced):
            resource = device.resources.get(path)
            if resource is None or resource.executable or not (resource.observed or resource.auto_observable):
                continue
            if resource.value == resource.sent or all(path != each.path for each in device.introduced):
                continue
            delayed_until = after_seconds(resource.sent_at, resource.pmin_seconds)
            if now < delayed_until:
                self._clock.call_at(delayed_until, partial(self._report_delayed, device, path))
            else:
                resource.sent, resource.sent_at = resource.value, now
                content = Content(resource.value.encode())
                observations.append(Observation(device.device_id, path, content, resource.value_at))
        if observations:
            self._events.observed(observations)

    def _report_delayed(self, device: Device, path: str) -> None:
        with self._lock:
            self._report(device, path)

    def _drop(self, device: Device) -> None:
        """Drop the commands that the device is processing."""
        dropped, device.in_hand = device.in_hand, []
        for answer in dropped:
            answer(DeviceResponse(Outcome.UNAVAILABLE))

    def _arm(self, device: Device) -> None:
        if device.timer is not None:
            device.timer.cancel()
        due_at = after_seconds(device.renewed_at, UPDATE_SECONDS)
        if device.queue_mode:
            due_at = min(due_at, after_seconds(device.awoken_at, CONTACT_SECONDS))
        if device.online and device.registered:
            device.timer = self._clock.call_at(due_at, lambda: self._wake(device))


def _write_attributes(resource: Resource, query: str) -> Outcome:
    """Accept ``pmin`` and ``pmax``; the latter has no effect here."""
    rules = parse_qs(query)
    if not rules.keys() <= {"pmin", "pmax"} or not all(text.isdecimal() for (text,) in rules.values()):
        return Outcome.BAD_VALUE
    if "pmin" in rules:
        resource.pmin_seconds = int(rules["pmin"][0])
    return Outcome.DONE


def advance(services: Services, seconds: float) -> None:
    """Advance a manual clock, execute everything that becomes due, and wait until it is done."""
    milliseconds, database = round(seconds * 1000), services.database
    until_at = services.clock.now() + milliseconds
    database.write(lambda session: session.put_setting(MANUAL_CLOCK, str(until_at)))
    assert isinstance(services.clock, ManualClock)
    services.clock.advance(milliseconds, settle=database.settle)
    services.extensions.hook.clock_advanced()
    assert database.settle(60)
