"""One simulated device: what it is and has, as it is stored. It knows no clock, no timer and no service."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from mirror_sdk.wire.simulator import AnswerMode
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.devices.link import Registration
from mirror_server.extensions.simulator.kinds import KINDS, KINDS_BY_NAME, SERIAL_NUMBER_PATH, DeviceKind, ResourceRule
from mirror_server.extensions.simulator.models import Setting, draw, heated_temperature, room_celsius
from mirror_server.store.resources import AnnouncedResource

BACKEND = "simulated"
"""The name of the simulator as a backend."""

LIFETIME_SECONDS = 24 * 3600
UPDATE_SECONDS = 12 * 3600
CONTACT_SECONDS = 15 * 60
"""How often a queue-mode device makes contact."""


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
    answer: AnswerMode
    latency_seconds: float
    resources: tuple[SimulatedResource, ...]


class UnknownSimulatedDevice(LookupError):
    """No simulated device has this id."""

    def __init__(self, device_id: str) -> None:
        super().__init__(f"{device_id!r} is not a simulated device; GET /sim/v1/devices lists them")
        self.device_id = device_id


class SimulatorError(ValueError):
    """The simulator cannot do this; ``field`` names what stands in the way, ``message`` says what to do."""

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
    """A resource of a simulated device; one without a ``value`` follows the model of its kind.

    ``baseline_at`` is when it had the value that a new device does not send.
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
        """Give it a value of its own: from now on it follows no model."""
        if value != self.value:
            self.value, self.value_at = value, now

    @property
    def reported(self) -> bool:
        """Whether its changes are sent."""
        return (self.observed or self.auto_observable) and not self.executable


@dataclass(slots=True)
class SimulatedDevice:
    """A simulated device; ``key`` is what its models depend on.

    ``introduced`` is the structure the service was told last (path -> observable), and ``introduced_auto`` the
    resources in it that are sent without a subscription; ``renewed_at`` is the last registration or registration
    update, and ``awoken_at`` the last time the device spoke by its rhythm. ``room_celsius`` is how warm its room was
    when its set-point was last set.
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
    answer: AnswerMode = "normal"
    latency_seconds: float = 0.0
    room_celsius: float | None = None
    introduced: dict[str, bool] = field(default_factory=dict)
    introduced_auto: set[str] = field(default_factory=set)
    resources: dict[str, RunningResource] = field(default_factory=dict)

    def rule(self, path: str) -> ResourceRule | None:
        """What the device's kind says of a resource; nothing for a device or resource the simulator added."""
        return KINDS_BY_NAME[self.kind].rules.get(path) if self.kind else None

    def modeled(self, path: str) -> ResourceRule | None:
        """The rule of a resource whose value follows a model."""
        rule = self.rule(path)
        return rule if rule is not None and rule.model and self.resources[path].value is None else None

    def reading(self, path: str, now: Instant) -> SensorReading:
        """The value of a resource: the last one set, or the last one measured."""
        resource, rule = self.resources[path], self.modeled(path)
        if rule is None or rule.model is None:
            return SensorReading(resource.value or "", resource.value_at)
        measured_at = self._last_beat(now, rule)
        setting = self._setting(rule) if rule.set_point else None
        if setting is None:
            return SensorReading(rule.model(self.key, measured_at), measured_at)
        return SensorReading(heated_temperature(self.key, measured_at, setting), measured_at)

    def set_value(self, path: str, value: str, now: Instant) -> None:
        """Give a resource a value of its own; the room of a set-point goes on from how warm it is."""
        resource = self.resources[path]
        rules = KINDS_BY_NAME[self.kind].rules.values() if self.kind else ()
        room = next((rule for rule in rules if rule.set_point == path), None)
        if room is not None and value != resource.value:
            self.room_celsius = room_celsius(self.key, self._last_beat(now, room), self._setting(room))
        resource.set(value, now)

    def _setting(self, room: ResourceRule) -> Setting | None:
        """What the set-point of a room was set to; nothing where it follows its model, or is none a room could have."""
        resource, rule = self.resources.get(room.set_point), self.rule(room.set_point)
        if resource is None or rule is None or resource.value is None or self.room_celsius is None:
            return None
        if rule.accepts is not None and not rule.accepts(resource.value):
            return None
        return Setting(float(resource.value), resource.value_at, self.room_celsius)

    def _last_beat(self, now: Instant, rule: ResourceRule) -> Instant:
        """When a resource was last measured."""
        return self.next_beat_after(now, rule.period_seconds) - rule.period_seconds * 1000

    def next_beat_after(self, now: Instant, period_seconds: int) -> Instant:
        """When the device next does what it does every ``period_seconds``; each device beats at seconds of its own."""
        period = period_seconds * 1000
        phase = int(draw(self.key, "phase") * CONTACT_SECONDS) * 1000
        return now + period - (now - phase) % period

    @property
    def update_due_at(self) -> Instant:
        """When the registration is to be updated."""
        return after_seconds(self.renewed_at, UPDATE_SECONDS)

    def lapsed(self, now: Instant) -> bool:
        """Whether the registration outlived its lifetime, so that only a new one helps."""
        return now >= after_seconds(self.renewed_at, LIFETIME_SECONDS)

    def reported_paths(self) -> list[str]:
        """The resources whose changes are sent: those the service knows and has observed, or auto-observable ones."""
        return [path for path, resource in self.resources.items() if resource.reported and path in self.introduced]

    def is_introduced(self) -> bool:
        """Whether the service knows the resources there are now."""
        return self._structure() == (self.introduced, self.introduced_auto)

    def introduce(self) -> tuple[AnnouncedResource, ...]:
        """The structure for a registration; from now on the service knows it."""
        self.introduced, self.introduced_auto = self._structure()
        return tuple(
            AnnouncedResource(path, observable=observable, auto_observed=path in self.introduced_auto)
            for path, observable in self.introduced.items()
        )

    def _structure(self) -> tuple[dict[str, bool], set[str]]:
        auto = {path for path, resource in self.resources.items() if resource.auto_observable}
        return {path: resource.observable for path, resource in self.resources.items()}, auto

    def register(self, now: Instant) -> Registration:
        """A full registration; it ends all observations, as LwM2M has it."""
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
        """Nothing is observed any more; auto-observable resources are none the less sent."""
        for resource in self.resources.values():
            resource.observed = False

    def state(self, now: Instant) -> SimulatedState:
        """The device as the simulator shows it."""
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
        """The device as a JSON document."""
        return _DOCUMENT.dump_json(self).decode()

    @classmethod
    def from_json(cls, document: str) -> SimulatedDevice:
        """The device of a JSON document.

        Raises:
            pydantic.ValidationError: The document is not one that :meth:`to_json` wrote.
        """
        return _DOCUMENT.validate_json(document)


_DOCUMENT = TypeAdapter(SimulatedDevice)

_FIRST_ORDINAL = 0x015F0000
_ADDED_ORDINAL = 0xFFFF


def _identifier(seed: int, what: str, ordinal: int) -> str:
    """A device id. It begins with the ordinal, so that the directory, ordered by id, lists devices as they came."""
    digest = hashlib.blake2b(f"{seed}/{what}".encode(), digest_size=12).hexdigest()
    return f"{_FIRST_ORDINAL + ordinal:08x}{digest}"


def seeded_device(seed: int, index: int, now: Instant) -> SimulatedDevice:
    """The simulated device number ``index`` (from 0) of a seed."""
    number, turn = divmod(index, len(KINDS))
    kind = KINDS[turn]
    device_id = _identifier(seed, f"seeded/{index}", index)
    return device_of_kind(kind, device_id, f"{kind.name}-{number + 1:02}", f"{seed}/{index}", now)


def device_of_kind(kind: DeviceKind, device_id: str, endpoint_name: str, key: str, now: Instant) -> SimulatedDevice:
    """A new device of a kind; ``key`` is what its models depend on."""
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
    """The id of a device the simulator adds."""
    # The prefix is part of every such id since they exist; another one would give the same device another id.
    return _identifier(seed, f"bench/{endpoint_name}", _ADDED_ORDINAL)


def added_resource(resource: SimulatedResource, now: Instant) -> RunningResource:
    """A resource the simulator gives a device."""
    return RunningResource(resource.value, now, **flags_of(resource))
