"""A device as the mirror shows it, and the list of devices of the directory; both readable in a notebook.

Source: specification 1.3, 2.1, 2.2 and E1; wire.md 1 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mirror_sdk._arguments import closest
from mirror_sdk._cards import CARD, DIM, instant, table
from mirror_sdk._fork import import_whole
from mirror_sdk._visible import visible
from mirror_sdk.errors import UnknownResource
from mirror_sdk.object_table import IN_SENSOR_UNITS, SENSOR_UNITS, lookup
from mirror_sdk.values import PythonValue, Value, ValueKind, decode
from mirror_sdk.wire import device_object as wire_object
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.model import JsonForm, plain, write_timestamp
from mirror_sdk.wire.paths import parse_path

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class ReportedValue(JsonForm):
    """The last value received from the device; fresh until ``expires_at`` where the device said how long it holds.

    ``origin`` is ``read``, ``subscription`` or ``auto_observation``, where the service tells that. ``revision`` is the
    number of the mirror's change that brought it, ``None`` where the service does not tell it (wire.md 1).
    """

    value: Value
    reported_at: datetime | None
    expires_at: datetime | None
    origin: str | None = None
    revision: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As :meth:`Value.to_dict`, and the other attributes beside that, for any JSON encoder."""
        told = JsonForm.to_dict(self)
        return {**told.pop("value"), **told}

    def __repr__(self) -> str:
        return f"<ReportedValue {self.value}{_at(self.reported_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class DesiredValue(JsonForm):
    """The last value requested to be written, and what became of the write.

    ``desired_at`` is the issue time while pending, then the time of the status update (specification 2.2);
    ``requested_at`` stays the issue time, ``status_updated_at`` is ``None`` while pending. ``category`` says why the
    write failed; the service tells that only to the application that placed it (specification 3.1 and 7). ``revision``
    is the number of the mirror's change that made all of this what it is, ``None`` where the service does not tell it.
    """

    value: Value
    status: DesiredStatus | None
    desired_at: datetime | None
    status_updated_at: datetime | None
    requested_at: datetime | None
    category: str | None = None
    revision: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As :meth:`Value.to_dict`, and the other attributes beside that, for any JSON encoder."""
        told = JsonForm.to_dict(self)
        return {**told.pop("value"), **told}

    def __repr__(self) -> str:
        status = "" if self.status is None else f" {self.status.name}"
        return f"<DesiredValue {self.value}{status}{_at(self.desired_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Resource(JsonForm):
    """One resource; ``reported`` and ``desired`` are ``None`` before the first value.

    ``value`` and ``desired_value`` are the plain values of the two; ``reported.value`` has the payload too.
    ``label`` and ``unit`` are empty where nothing declares them; a unit the device reports in resource 5701 of the
    same object instance goes before the declared one. ``subscribed_at`` is ``None`` where the service does not tell it.
    """

    path: str
    label: str
    unit: str
    subscribed: bool
    reported: ReportedValue | None
    desired: DesiredValue | None
    subscribed_at: datetime | None = None

    @property
    def value(self) -> PythonValue | None:
        """The last reported value as a plain Python value; ``None`` before the first one.

        A number, a text, ``True`` or ``False``, an aware UTC ``datetime``, or ``bytes`` where the payload is opaque or
        could not be read as what is declared; ``reported.value`` then says why, in ``problem``.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.get_device(station)["/3303/0/5700"].value
        21.5
        """
        return None if self.reported is None else self.reported.value.python

    @property
    def desired_value(self) -> PythonValue | None:
        """The last desired value as a plain Python value, whatever became of the write; ``None`` before the first one.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.get_device(light)["/3311/0/5851"].desired_value
        40
        """
        return None if self.desired is None else self.desired.value.python

    @property
    def is_reported_since(self) -> bool | None:
        """Whether the value was reported after the last write of it was issued, or has ended; ``None`` if unknown.

        The revisions tell, also within one millisecond; without them the times do, unless they are the same. It is
        unknown too where nothing was reported or nothing was written. Source: wire.md 1.

        >>> client.read_value(light, "/3311/0/5851")
        10
        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.get_device(light)["/3311/0/5851"].is_reported_since
        False
        """
        reported, desired = self.reported, self.desired
        if reported is None or desired is None:
            return None
        if reported.revision is not None and desired.revision is not None and reported.revision != desired.revision:
            return reported.revision > desired.revision
        if reported.reported_at is None or desired.desired_at is None or reported.reported_at == desired.desired_at:
            return None
        return reported.reported_at > desired.desired_at

    def __repr__(self) -> str:
        return f"<Resource {self.path} {self.label!r} reported={self.reported!r} desired={self.desired!r}>"


def _at(moment: datetime | None) -> str:
    return "" if moment is None else f" at {write_timestamp(moment)}"


class _Unread:
    """Where a device object has its resources as they came, until they are looked at."""

    __slots__ = ("_states",)
    _states: Sequence[wire_object.ResourceState] | None


@dataclass(frozen=True, slots=True, repr=False)
class DeviceObject(_Unread, Mapping[str, Resource], JsonForm):
    """The mirror of one device at ``created_at``; a mapping of resource path to resource, in the order of the answer.

    It is a :class:`collections.abc.Mapping`: ``device[path]``, ``device.get(path)``, ``path in device``,
    ``len(device)``, ``device.items()``, ``dict(device)``. Two are equal where all their attributes are, the times among
    them.

    Its values get their types when ``resources`` is first looked at, all at once. ``updated_at`` is the device's last
    registration event, ``last_reported_at`` and ``last_desired_at`` are the newest over all resources. Times are UTC;
    a time the service did not give is ``None``.
    """

    device_id: str
    endpoint_name: str | None
    created_at: datetime
    updated_at: datetime | None
    last_reported_at: datetime | None
    last_desired_at: datetime | None
    resources: Mapping[str, Resource]

    @classmethod
    def from_wire(cls, wire: wire_object.DeviceObject) -> DeviceObject:
        """Read the answer of E1; a payload that is not what its path declares becomes an opaque value.

        Source: wire.md 1.
        """
        device = object.__new__(cls)
        for name in _PLAIN_FIELDS:
            object.__setattr__(device, name, getattr(wire, name))
        object.__setattr__(device, "_states", wire.resources)
        return device

    if not TYPE_CHECKING:  # which would believe that there are attributes of any name

        def __getattr__(self, name: str) -> object:
            """The resources, the first time: to read 20 values takes as long as to read and check their JSON."""
            if name != "resources":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            states = self._states
            if states is not None:  # else another thread was quicker
                object.__setattr__(self, "resources", _resources(states))
                object.__setattr__(self, "_states", None)
            return self.resources

    def __getitem__(self, path: str) -> Resource:
        """The resource of this path.

        Raises:
            UnknownResource: The device never introduced it; the message lists close paths. It is a ``KeyError`` too.
        """
        try:
            return self.resources[path]
        except KeyError:
            close = closest(str(path), self.resources)
            raise UnknownResource(f"{self.device_id} has no resource {path!r}; {close}") from None

    @overload
    def get(self, key: str, /) -> Resource | None: ...
    @overload
    def get(self, key: str, /, default: Resource | T) -> Resource | T: ...
    def get(self, key: str, /, default: Resource | T | None = None) -> Resource | T | None:
        """The resource of this path, or the default where the device never introduced it.

        >>> device = client.get_device(light)
        >>> device.get("/3311/0/5850").label, device.get("/3303/0/5700")
        ('Light Control · On/Off', None)
        """
        # Without the search for close paths, which would be for nothing.
        return self.resources.get(key, default)

    def __contains__(self, path: object) -> bool:
        return path in self.resources

    def __iter__(self) -> Iterator[str]:
        return iter(self.resources)

    def __len__(self) -> int:
        return len(self.resources)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.resources)

    def to_frame(self, *, raw: bool = False) -> pd.DataFrame:
        """The state table of this device, one row per resource, taken at ``created_at``; see ``state_frame``.

        >>> client.get_device(light).to_frame()["path"].tolist()
        ['/3/0/4', '/3311/0/5850', '/3311/0/5851']
        """
        import_whole("mirror_sdk.frames")
        from mirror_sdk.frames import state_frame

        return state_frame([self], raw=raw, taken_at=self.created_at)

    def __repr__(self) -> str:
        resources = self.resources.values()
        reported = sum(resource.reported is not None for resource in resources)
        pending = sum(_is_pending(resource) for resource in resources)
        return (
            f"<DeviceObject {self.device_id} endpoint_name={self.endpoint_name!r} resources={len(resources)} "
            f"reported={reported} pending={pending} created_at={write_timestamp(self.created_at)}>"
        )

    def _repr_html_(self) -> str:
        resources = self.resources.values()
        empty = all(resource.reported is None and resource.desired is None for resource in resources)
        return (
            f"<div {CARD}><strong>{escape(visible(self.endpoint_name or self.device_id))}</strong> "
            f"<code>{escape(self.device_id)}</code>"
            f"<div {DIM}>last registration event {instant(self.updated_at)} · "
            f"last reported {instant(self.last_reported_at)} · last desired {instant(self.last_desired_at)} · "
            f"as of {instant(self.created_at)}</div>"
            f"{_EMPTY_MIRROR if empty else ''}"
            f"{table(_RESOURCE_COLUMNS, map(_resource_cells, resources))}</div>"
        )


class DeviceList(Sequence[Device], JsonForm):
    """Devices of the directory, in its order; a slice is a device list again.

    A text is an endpoint name: ``devices["light-01"]`` is ``devices.by_name("light-01")``, with completion.
    """

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = tuple(devices)

    @overload
    def __getitem__(self, index: int | str) -> Device: ...
    @overload
    def __getitem__(self, index: slice) -> DeviceList: ...
    def __getitem__(self, index: int | str | slice) -> Device | DeviceList:
        if isinstance(index, str):
            return self.by_name(index)
        if isinstance(index, slice):
            return DeviceList(self._devices[index])
        return self._devices[index]

    def __len__(self) -> int:
        return len(self._devices)

    def _ipython_key_completions_(self) -> list[str]:
        return [device.endpoint_name for device in self._devices]

    @property
    def ids(self) -> list[str]:
        """The device ids, in order.

        >>> client.list_devices(endpoint_name="light-01").ids == [light]
        True
        """
        return [device.id for device in self._devices]

    def by_name(self, name: str) -> Device:
        """The one device with this endpoint name.

        Raises:
            KeyError: No device has it, or more than one; the message lists close names or the ids to choose from.

        >>> client.list_devices().by_name("light-01").endpoint_type
        'Light'
        """
        found = [device for device in self._devices if device.endpoint_name == name]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(device.id for device in found)
            raise KeyError(f"{len(found)} devices have the endpoint name {name!r}; choose one by its id: {ids}")
        names = [device.endpoint_name for device in self._devices]
        raise KeyError(f"no device has the endpoint name {name!r}; {closest(name, names)}")

    def to_dict(self) -> dict[str, Any]:
        """A list of all ``devices``, for any JSON encoder.

        >>> [device["endpoint_name"] for device in client.list_devices(endpoint_type="Light").to_dict()["devices"]]
        ['light-01']
        """
        return {"devices": plain(self._devices)}

    def to_frame(self) -> pd.DataFrame:
        """The directory as a table, one row per device; see ``directory_frame``.

        >>> client.list_devices().to_frame()["endpoint_name"].sort_values().tolist()
        ['light-01', 'station-01']
        """
        import_whole("mirror_sdk.frames")
        from mirror_sdk.frames import directory_frame

        return directory_frame(self)

    def __repr__(self) -> str:
        return f"<DeviceList of {len(self)} devices>"

    def _repr_html_(self) -> str:
        count = f"<div {DIM}>{len(self)} devices</div>"
        return f"<div {CARD}>{table(_DEVICE_COLUMNS, map(_device_cells, self._devices))}{count}</div>"


_PLAIN_FIELDS = tuple(field.name for field in fields(DeviceObject) if field.name != "resources")


def _resources(states: Sequence[wire_object.ResourceState]) -> dict[str, Resource]:
    units = _units_by_instance(states)
    return {state.resource_path: _resource(state, units) for state in states}


def _units_by_instance(states: Iterable[wire_object.ResourceState]) -> dict[str, str]:
    """The unit each object instance names in its resource 5701, by the path of the instance (``/3303/0``)."""
    suffix = f"/{SENSOR_UNITS}"
    values = {
        state.resource_path.removesuffix(suffix): _reported(state)
        for state in states
        if state.resource_path.endswith(suffix)
    }
    return {
        instance: str(reported.value.python)
        for instance, reported in values.items()
        if reported is not None and reported.value.kind is ValueKind.TEXT
    }


def _resource(state: wire_object.ResourceState, units: Mapping[str, str]) -> Resource:
    path = state.resource_path
    definition = lookup(path)
    unit = definition.unit if definition else ""
    if definition is not None and definition.resource_id in IN_SENSOR_UNITS:
        parts = parse_path(path)
        unit = units.get(f"/{parts.object_id}/{parts.instance_id}", unit)
    return Resource(
        path=path,
        label=definition.label if definition else "",
        unit=unit,
        subscribed=state.subscribed,
        reported=_reported(state),
        desired=_desired(state),
        subscribed_at=state.subscribed_at,
    )


def _reported(state: wire_object.ResourceState) -> ReportedValue | None:
    reported = state.reported
    if reported.value is None:
        return None
    value = decode(reported.value, reported.content_type, state.resource_path)
    return ReportedValue(value, reported.reported_at, reported.expires_at, reported.origin, reported.revision)


def _desired(state: wire_object.ResourceState) -> DesiredValue | None:
    desired = state.desired
    if desired.value is None:
        return None
    value = decode(desired.value, desired.content_type, state.resource_path)
    return DesiredValue(
        value=value,
        status=desired.status,
        desired_at=desired.desired_at,
        status_updated_at=desired.status_updated_at,
        requested_at=desired.requested_at,
        category=desired.category,
        revision=desired.revision,
    )


def _is_pending(resource: Resource) -> bool:
    return resource.desired is not None and resource.desired.status is DesiredStatus.PENDING


_NO_VALUE_YET = f"<span {DIM}>no value yet</span>"
_EMPTY_MIRROR = (
    "<div><em>no value yet</em>: the mirror shows what a read, a write, a subscription or auto-observation brought"
    "</div>"
)
_MAX_SHOWN = 80
_RESOURCE_COLUMNS = ("path", "label", "reported", "reported at", "desired", "status", "subscribed")
_DEVICE_COLUMNS = ("endpoint name", "device id", "type", "queue mode", "state", "updated at")


def _shown(value: Value, unit: str) -> str:
    text = str(value)
    if len(text) > _MAX_SHOWN:
        text = f"{text[: _MAX_SHOWN - 1]}…"
    return escape(f"{text} {unit}" if unit and value.kind is ValueKind.NUMBER else text)


def _resource_cells(resource: Resource) -> tuple[str, ...]:
    reported, desired = resource.reported, resource.desired
    return (
        f"<code>{escape(resource.path)}</code>",
        escape(resource.label),
        _shown(reported.value, resource.unit) if reported else _NO_VALUE_YET,
        instant(reported.reported_at, "") if reported else "",
        _shown(desired.value, resource.unit) if desired else "",
        desired.status.name.lower() if desired and desired.status is not None else "",
        "yes" if resource.subscribed else "no",
    )


def _device_cells(device: Device) -> tuple[str, ...]:
    queue_mode = "yes" if device.queue_mode else "no"
    about = (visible(device.endpoint_name), device.id, device.endpoint_type or "", queue_mode, device.state)
    return tuple(map(escape, (*about, instant(device.updated_at))))
