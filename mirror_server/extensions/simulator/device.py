"""One simulated device and its stored state, without clock, timers and service."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from mirror_sdk.wire.simulator import ResponseMode
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.interface import Registration
from mirror_server.extensions.simulator.kinds import KINDS, KINDS_BY_NAME, SERIAL_NUMBER_PATH, DeviceKind, ResourceRule
from mirror_server.extensions.simulator.models import Setting, draw, heated_temperature, room_celsius
from mirror_server.store.resources import AnnouncedResource

BACKEND = "simulated"
"""The name of the simulator as a backend."""

LIFETIME_SECONDS = 24 * 3600
UPDATE_SECONDS = 12 * 3600
CONTACT_SECONDS = 15 * 60
"""The interval between contacts of a queue-mode device."""


@dataclass(frozen=True, slots=True)
class SimulatedResource:
    """A resource inside a simulated device, with the device's own value as text."""

    path: str
    value: str = ""
    observable: bool = False
    auto_observable: bool = False
    writable: bool = False
    executable: bool = False


@dataclass(frozen=True, slots=True)
class SimulatedState:
    """A simulated device and its state, as of one instant."""

    id: str
    endpoint_name: str
    endpoint_type: str
    queue_mode: bool
    online: bool
    registered: bool
    answer: ResponseMode
    latency_seconds: float
    resources: tuple[SimulatedResource, ...]


class UnknownSimulatedDevice(LookupError):
    """No simulated device has this id."""

    def __init__(self, device_id: str) -> None:
        super().__init__(f"{device_id!r} is not a simulated device; GET /sim/v1/devices lists them")
        self.device_id = device_id


class SimulatorError(ValueError):
    """The simulator cannot do this. ``field`` is the name of the invalid field, ``message`` says what to do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


def flags_of(resource: object) -> dict[str, Any]:
    """Return the flags of a resource, which may also be one of the simulator or of a kind."""
    names = ("observable", "auto_observable", "writable", "executable")
    return {name: getattr(resource, name) for name in names}


class SensorReading(NamedTuple):
    """A value and the device's time of it."""

    text: str
    measured_at: Instant


@dataclass(slots=True)
class RunningResource:
    """A resource of a simulated device. Without a ``value``, the resource follows the model of its kind.

    ``baseline_at`` is the time of the first value, which a new device does not send.
    """

    value: str | None = None
    value_at: Instant = 0
    baseline_at: Instant | None = None
    observable: bool = False
    auto_observable: bool = False
    writable: bool = False
    executable: bool = False
    observed: bool = False
    pmin_seconds: int = 0
    pmax_seconds: int | None = None

    def set(self, value: str, now: Instant) -> None:
        """Set a value. The resource does not follow a model from now on."""
        if value != self.value:
            self.value, self.value_at = value, now

    @property
    def reported(self) -> bool:
        """Whether its changes are sent."""
        return (self.observed or self.auto_observable) and not self.executable


@dataclass(slots=True)
class SimulatedDevice:
    """A simulated device. Its models depend on ``key``.

    ``introduced`` has the resources of the last registration (path -> observable). ``introduced_auto`` has the
    resources among them that are sent without a subscription. ``renewed_at`` is the time of the last registration or
    registration update, and ``awoken_at`` that of the last regular contact. ``room_celsius`` is the temperature of the
    room when its set-point was last set.
    """

    device_id: str
    endpoint_name: str
    endpoint_type: str
    queue_mode: bool
    key: str
    kind: str | None = None
    online: bool = True
    registered: bool = False
    renewed_at: Instant = 0
    awoken_at: Instant = 0
    answer: ResponseMode = "normal"
    latency_seconds: float = 0.0
    room_celsius: float | None = None
    introduced: dict[str, bool] = field(default_factory=dict)
    introduced_auto: set[str] = field(default_factory=set)
    resources: dict[str, RunningResource] = field(default_factory=dict)

    def rule(self, path: str) -> ResourceRule | None:
        """Return the rule of the device's kind for a resource, or ``None`` for a device or resource that was added."""
        return KINDS_BY_NAME[self.kind].rules.get(path) if self.kind else None

    def modeled(self, path: str) -> ResourceRule | None:
        """Return the rule of a resource whose value follows a model."""
        rule = self.rule(path)
        return rule if rule is not None and rule.model and self.resources[path].value is None else None

    def reading(self, path: str, now: Instant) -> SensorReading:
        """Return the value of a resource: the last one that was set or measured."""
        resource, rule = self.resources[path], self.modeled(path)
        if rule is None or rule.model is None:
            return SensorReading(resource.value or "", resource.value_at)
        measured_at = self._last_measured_at(now, rule)
        setting = self._setting(rule) if rule.set_point else None
        if setting is None:
            return SensorReading(rule.model(self.key, measured_at), measured_at)
        return SensorReading(heated_temperature(self.key, measured_at, setting), measured_at)

    def set_value(self, path: str, value: str, now: Instant) -> None:
        """Set the value of a resource. The room of a set-point continues from its current temperature."""
        resource = self.resources[path]
        rules = KINDS_BY_NAME[self.kind].rules.values() if self.kind else ()
        room = next((rule for rule in rules if rule.set_point == path), None)
        if room is not None and value != resource.value:
            self.room_celsius = room_celsius(self.key, self._last_measured_at(now, room), self._setting(room))
        resource.set(value, now)

    def _setting(self, room: ResourceRule) -> Setting | None:
        """Return the setting of a room's set-point, or ``None`` if it follows its model or its value is invalid."""
        resource, rule = self.resources.get(room.set_point), self.rule(room.set_point)
        if resource is None or rule is None or resource.value is None or self.room_celsius is None:
            return None
        if rule.accepts is not None and not rule.accepts(resource.value):
            return None
        return Setting(float(resource.value), resource.value_at, self.room_celsius)

    def _last_measured_at(self, now: Instant, rule: ResourceRule) -> Instant:
        """Return the time of the last measurement of a resource."""
        return self.next_period_after(now, rule.period_seconds) - rule.period_seconds * 1000

    def next_period_after(self, now: Instant, period_seconds: int) -> Instant:
        """Return the next instant of a period. Each device has its own phase."""
        period = period_seconds * 1000
        phase = int(draw(self.key, "phase") * CONTACT_SECONDS) * 1000
        return now + period - (now - phase) % period

    @property
    def update_due_at(self) -> Instant:
        """The instant at which the registration update is due."""
        return after_seconds(self.renewed_at, UPDATE_SECONDS)

    def is_registration_expired(self, now: Instant) -> bool:
        """Whether the registration has expired, so that a new one is needed."""
        return now >= after_seconds(self.renewed_at, LIFETIME_SECONDS)

    def reported_paths(self) -> list[str]:
        """Return the paths whose changes are sent: registered resources that are observed or auto-observable."""
        return [path for path, resource in self.resources.items() if resource.reported and path in self.introduced]

    def is_introduced(self) -> bool:
        """Whether the service knows the current resources."""
        return self._structure() == (self.introduced, self.introduced_auto)

    def introduce(self) -> tuple[AnnouncedResource, ...]:
        """Return the resources for a registration, and record that the service knows them."""
        self.introduced, self.introduced_auto = self._structure()
        return tuple(
            AnnouncedResource(path, observable=observable, auto_observed=path in self.introduced_auto)
            for path, observable in self.introduced.items()
        )

    def _structure(self) -> tuple[dict[str, bool], set[str]]:
        auto = {path for path, resource in self.resources.items() if resource.auto_observable}
        return {path: resource.observable for path, resource in self.resources.items()}, auto

    def register(self, now: Instant) -> Registration:
        """Return a full registration, which ends all observations, as in LwM2M."""
        self.registered, self.renewed_at = True, now
        self.forget_observations()
        return Registration(
            endpoint_name=self.endpoint_name,
            endpoint_type=self.endpoint_type,
            queue_mode=self.queue_mode,
            lifetime_seconds=LIFETIME_SECONDS,
            resources=self.introduce(),
            backend=BACKEND,
            device_id=self.device_id,
        )

    def forget_observations(self) -> None:
        """End all observations. Auto-observable resources are still sent."""
        for resource in self.resources.values():
            resource.observed = False

    def state(self, now: Instant) -> SimulatedState:
        """Return the device as the simulator's routes return it."""
        return SimulatedState(
            id=self.device_id,
            endpoint_name=self.endpoint_name,
            endpoint_type=self.endpoint_type,
            queue_mode=self.queue_mode,
            online=self.online,
            registered=self.registered,
            answer=self.answer,
            latency_seconds=self.latency_seconds,
            resources=tuple(
                SimulatedResource(path, self.reading(path, now).text, **flags_of(resource))
                for path, resource in self.resources.items()
            ),
        )

    def to_json(self) -> str:
        """Serialize the device as a JSON document."""
        return _DOCUMENT.dump_json(self).decode()

    @classmethod
    def from_json(cls, document: str) -> SimulatedDevice:
        """Return the device of a JSON document.

        Raises:
            pydantic.ValidationError: The document is not one that :meth:`to_json` wrote.
        """
        return _DOCUMENT.validate_json(document)


_DOCUMENT = TypeAdapter(SimulatedDevice)

_FIRST_ORDINAL = 0x015F0000
_ADDED_ORDINAL = 0xFFFF


def _identifier(seed: int, name: str, ordinal: int) -> str:
    """Return a device id. It begins with the ordinal, so devices ordered by id are in the order of their addition."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=12).hexdigest()
    return f"{_FIRST_ORDINAL + ordinal:08x}{digest}"


def seeded_device(seed: int, index: int, now: Instant) -> SimulatedDevice:
    """Return the simulated device number ``index`` (from 0) of a seed."""
    number, turn = divmod(index, len(KINDS))
    kind = KINDS[turn]
    device_id = _identifier(seed, f"seeded/{index}", index)
    return device_of_kind(kind, device_id, f"{kind.name}-{number + 1:02}", f"{seed}/{index}", now)


def device_of_kind(kind: DeviceKind, device_id: str, endpoint_name: str, key: str, now: Instant) -> SimulatedDevice:
    """Return a new device of a kind. Its models depend on ``key``."""
    device = SimulatedDevice(
        device_id=device_id,
        endpoint_name=endpoint_name,
        endpoint_type=kind.endpoint_type,
        queue_mode=kind.queue_mode,
        key=key,
        kind=kind.name,
        resources={
            path: RunningResource(None if rule.model else rule.value, now, **flags_of(rule))
            for path, rule in kind.rules.items()
        },
    )
    device.resources[SERIAL_NUMBER_PATH].set(device.device_id[-12:].upper(), now)
    return device


def added_device_id(seed: int, endpoint_name: str) -> str:
    """Return the id of a device that the simulator adds."""
    # The prefix must stay, because another one would change the ids of existing devices.
    return _identifier(seed, f"bench/{endpoint_name}", _ADDED_ORDINAL)


def added_resource(resource: SimulatedResource, now: Instant) -> RunningResource:
    """Return a resource that the simulator adds to a device."""
    return RunningResource(resource.value, now, **flags_of(resource))
