"""The state of a device in the mirror, and lists of devices. Notebooks display both as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, Unpack, overload

from mirror_sdk._arguments import InstantLike, closest
from mirror_sdk._fork import import_locked
from mirror_sdk._formatting import CARD, DIM, TimePrecision, html_table, time_precision, time_text, visible
from mirror_sdk._protocol.resource_states import resources_of
from mirror_sdk.errors import InvalidValue, UnknownResource
from mirror_sdk.resource import Resource
from mirror_sdk.values import Value
from mirror_sdk.values.display import display_value
from mirror_sdk.wire import device_object as wire_object
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.model import JsonForm, plain, write_timestamp

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class SupportsHistory(Protocol[T_co]):
    """A client that can return the history of devices."""

    @property
    def history(self) -> Callable[..., T_co]:
        """The method ``history`` of the client. The result of an asynchronous client must be awaited."""


class DeviceHistoryOptions(TypedDict, total=False):
    """The options of :meth:`DeviceObject.history`."""

    begin: InstantLike | None
    end: InstantLike | None
    raw: bool
    tz: str | None
    limit: int | None
    timeout: float | None


class _Unread:
    """The slots for resources that have not been decoded yet, and for the client that returned the device object."""

    __slots__ = ("_client", "_states")
    _states: Sequence[wire_object.ResourceState] | None
    _client: SupportsHistory[Any] | None


@dataclass(frozen=True, slots=True, repr=False)
class DeviceObject(_Unread, Mapping[str, Resource], JsonForm):
    """The state of one device in the mirror, which is a mapping from resource paths to resources.

    Use it like a ``dict``: ``device[path]``, ``device.get(path)``, ``path in device``, ``len(device)``,
    ``device.items()``. The paths are in the order of the response. Two device objects are equal if all their attributes
    are equal, including the times.

    Attributes:
        device_id: The id of the device.
        endpoint_name: The endpoint name of the device.
        created_at: The time at which the service read the state.
        updated_at: The time of the last registration, registration update or deregistration.
        last_reported_at: The time of the newest reported value.
        last_desired_at: The time of the newest desired value.
        resources: The resources by path. Their values are decoded when this attribute is first read.

    All times are in UTC. A time that the service did not return is ``None``.
    """

    device_id: str
    endpoint_name: str | None
    created_at: datetime
    updated_at: datetime | None
    last_reported_at: datetime | None
    last_desired_at: datetime | None
    resources: Mapping[str, Resource]

    @classmethod
    def from_wire(cls, wire: wire_object.DeviceObjectBody, client: SupportsHistory[Any] | None = None) -> DeviceObject:
        """Create a device object from a response of the service.

        If a payload does not match the declaration of its resource, the value is opaque (``bytes``).

        Args:
            wire: The response of the service.
            client: The client that :meth:`history` uses.
        """
        # Not through the constructor, so that `resources` stays unset until its first access decodes the states.
        device = object.__new__(cls)
        for name in _PLAIN_FIELDS:
            object.__setattr__(device, name, getattr(wire, name))
        object.__setattr__(device, "_states", wire.resources)
        object.__setattr__(device, "_client", client)
        return device

    if not TYPE_CHECKING:  # otherwise a type checker would accept any attribute

        def __getattr__(self, name: str) -> object:
            """Decode the resources when they are first read, because decoding takes as long as parsing the JSON."""
            if name != "resources":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            states = self._states
            if states is not None:  # otherwise another thread was faster
                # In this order, because a thread that finds no states reads the resources.
                object.__setattr__(self, "resources", resources_of(states))
                object.__setattr__(self, "_states", None)
            return self.resources

    def __getitem__(self, path: str) -> Resource:
        """Return the resource with this path.

        Raises:
            UnknownResource: The device never had this resource. The message lists similar paths. The error is also a
                ``KeyError``.
        """
        try:
            return self.resources[path]
        except KeyError:
            close = closest(str(path), self.resources)
            name = visible(self.endpoint_name or self.device_id)
            raise UnknownResource(f"{name} has no resource {path!r}; {close}") from None

    @overload
    def get(self, key: str, /) -> Resource | None: ...
    @overload
    def get(self, key: str, /, default: Resource | T) -> Resource | T: ...
    def get(self, key: str, /, default: Resource | T | None = None) -> Resource | T | None:
        """Return the resource with this path, or the default if the device never had it.

        >>> device = client.get_device(light)
        >>> device.get("/3311/0/5850").label, device.get("/3303/0/5700")
        ('Light Control · On/Off', None)
        """
        # Not through ``__getitem__``, which would search for similar paths for its error.
        return self.resources.get(key, default)

    def __contains__(self, path: object) -> bool:
        return path in self.resources

    def __iter__(self) -> Iterator[str]:
        return iter(self.resources)

    def __len__(self) -> int:
        return len(self.resources)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.resources)

    @overload
    def history(self, path: str | None = None, **options: Unpack[DeviceHistoryOptions]) -> pd.DataFrame: ...
    @overload
    def history(
        self, path: str | None = None, *, client: SupportsHistory[T_co], **options: Unpack[DeviceHistoryOptions]
    ) -> T_co: ...
    def history(self, path: str | None = None, *, client: SupportsHistory[Any] | None = None, **options: Any) -> Any:
        """Return the history of this device as a table; see :meth:`mirror_sdk.MirrorClient.history`.

        If the device object comes from an :class:`~mirror_sdk.AsyncMirrorClient`, await the result. Pass ``client=`` as
        well, so that type checkers know the type of the result.

        Args:
            path: The path of a resource, or a pattern such as ``/3303/*``. ``None`` selects all resources.
            client: The client that sends the request. The default is the client that returned this device object.
            options: The arguments ``begin``, ``end``, ``raw``, ``tz``, ``limit`` and ``timeout`` of the client's
                method.

        Raises:
            InvalidValue: The device object has no client, for example because it was pickled, and ``client`` was not
                passed.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.get_device(station).history("/3303/0/5700")["value_num"].dropna().tolist()
        [21.5]
        """
        source = getattr(self, "_client", None) if client is None else client
        if source is None:
            raise InvalidValue(
                f"device object {self.device_id} has lost its client, for example because it was pickled; pass client="
            )
        return source.history([self.device_id], None if path is None else [path], **options)

    def to_frame(self, *, raw: bool = False) -> pd.DataFrame:
        """Return a table with one row for each resource; see :func:`mirror_sdk.frames.state_frame`.

        >>> client.get_device(light).to_frame()["path"].tolist()
        ['/3/0/4', '/3311/0/5850', '/3311/0/5851']
        """
        import_locked("mirror_sdk.frames")
        from mirror_sdk.frames import state_frame

        return state_frame([self], raw=raw, taken_at=self.created_at)

    def __repr__(self) -> str:
        resources = self.resources.values()
        reported = sum(resource.reported is not None for resource in resources)
        pending = sum(_is_pending(resource) for resource in resources)
        return (
            f"<DeviceObject {visible(self.device_id)} endpoint_name={self.endpoint_name!r} resources={len(resources)} "
            f"reported={reported} pending={pending} created_at={write_timestamp(self.created_at)}>"
        )

    def _repr_html_(self) -> str:
        resources = self.resources.values()
        empty = all(resource.reported is None and resource.desired is None for resource in resources)
        times = [resource.reported.reported_at for resource in resources if resource.reported]
        times += [self.updated_at, self.last_reported_at, self.last_desired_at, self.created_at]
        instant = partial(_instant, time_precision(times))
        return (
            f"<div {CARD}><strong>{escape(visible(_cut(self.endpoint_name or self.device_id)))}</strong> "
            f"<code>{escape(visible(self.device_id))}</code>"
            f"<div {DIM}>last registration event {instant(self.updated_at)} · "
            f"last reported {instant(self.last_reported_at)} · last desired {instant(self.last_desired_at)} · "
            f"as of {instant(self.created_at)} (UTC)</div>"
            f"{_EMPTY_MIRROR if empty else ''}"
            f"{html_table(_RESOURCE_COLUMNS, (_resource_cells(resource, instant) for resource in resources))}</div>"
        )


class DeviceList(Sequence[Device], JsonForm):
    """A list of devices in the order of the directory.

    The index is a position or an endpoint name: ``devices["light-01"]`` is the same as ``devices.by_name("light-01")``.
    Notebooks offer the names for completion. A slice is also a ``DeviceList``.
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
        """The ids of the devices, in the order of the list.

        >>> client.devices.list(endpoint_name="light-01").ids == [light]
        True
        """
        return [device.id for device in self._devices]

    def by_name(self, name: str) -> Device:
        """Return the device with this endpoint name.

        Raises:
            KeyError: No device or several devices have this name. The message lists similar names, or the ids of these
                devices.

        >>> client.devices.list().by_name("light-01").endpoint_type
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
        """Return the list as ``{"devices": [...]}``, which any JSON encoder accepts.

        >>> [device["endpoint_name"] for device in client.devices.list(endpoint_type="Light").to_dict()["devices"]]
        ['light-01']
        """
        return {"devices": plain(self._devices)}

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each device; see :func:`mirror_sdk.frames.directory_frame`.

        >>> client.devices.list().to_frame()["endpoint_name"].sort_values().tolist()
        ['light-01', 'station-01']
        """
        import_locked("mirror_sdk.frames")
        from mirror_sdk.frames import directory_frame

        return directory_frame(self)

    def __repr__(self) -> str:
        return f"<DeviceList of {len(self)} devices>"

    def _repr_html_(self) -> str:
        count = f"<div {DIM}>{len(self)} devices</div>"
        precision = time_precision(device.updated_at for device in self._devices)
        rows = (_device_cells(device, precision) for device in self._devices)
        return f"<div {CARD}>{html_table(_DEVICE_COLUMNS, rows)}{count}</div>"


_PLAIN_FIELDS = tuple(field.name for field in fields(DeviceObject) if field.name != "resources")


def _is_pending(resource: Resource) -> bool:
    return resource.desired is not None and resource.desired.status is DesiredStatus.PENDING


_EMPTY_MIRROR = (
    "<div><em>no value yet</em>: the first one comes from a read, a write, a subscription or auto-observation</div>"
)
_MAX_LENGTH = 80
_RESOURCE_COLUMNS = ("path", "label", "reported", "reported at (UTC)", "desired", "status", "subscribed")
_DEVICE_COLUMNS = ("endpoint name", "device id", "type", "queue mode", "state", "updated at (UTC)")


def _instant(precision: TimePrecision, at: datetime | None, missing: str = "never") -> str:
    return missing if at is None else time_text(at, precision)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def _formatted(value: Value, unit: str) -> str:
    return escape(display_value(value, unit, _MAX_LENGTH))


def _resource_cells(resource: Resource, instant: Callable[[datetime | None, str], str]) -> tuple[str, ...]:
    reported, desired = resource.reported, resource.desired
    return (
        f"<code>{escape(visible(resource.path))}</code>",
        escape(visible(resource.label)),
        _formatted(reported.value, resource.unit) if reported else "",
        instant(reported.reported_at, "") if reported else "",
        _formatted(desired.value, resource.unit) if desired else "",
        desired.status.name.lower() if desired and desired.status is not None else "",
        "yes" if resource.subscribed else "no",
    )


def _device_cells(device: Device, precision: TimePrecision) -> tuple[str, ...]:
    queue_mode = "yes" if device.queue_mode else "no"
    texts = (device.endpoint_name, device.id, device.endpoint_type or "", queue_mode, device.state)
    return tuple(escape(visible(_cut(text))) for text in (*texts, _instant(precision, device.updated_at)))
