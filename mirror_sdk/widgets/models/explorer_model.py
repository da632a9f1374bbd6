"""What the explorer knows: devices and filters, the resources of one device, what is under way and what went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import shown_names, visible
from mirror_sdk.device import DeviceList, DeviceObject, Resource
from mirror_sdk.errors import AccessDenied
from mirror_sdk.events import Event, EventKind
from mirror_sdk.explanation import of_unconfirmed
from mirror_sdk.frames import DriftKind, drift_frame
from mirror_sdk.values import Value
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.pages import Pages
from mirror_sdk.widgets.models.reload import Reload
from mirror_sdk.widgets.models.wording import DRIFT_MARKS, count_text, instant_text, value_text
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.subscriptions import SubscriptionState

DEVICES_SHOWN = 12
ROWS_SHOWN = 20
RELOAD_SECONDS = 10.0
DIRECTORY_RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
_STATE_TEXTS = {
    SubscriptionState.ACTIVE: "subscribed",
    SubscriptionState.ASKED: "asked for",
    SubscriptionState.REFUSED: "refused",
}
_UNCONFIRMED = DriftKind.UNCONFIRMED
# What answers requests names no device: it may be about this one.
_OF_ANY_DEVICE = {EventKind.ASYNC_RESPONSE, EventKind.GAP}
_OF_THE_DIRECTORY = {EventKind.REGISTRATION, EventKind.DEREGISTRATION, EventKind.EXPIRED, EventKind.GAP}


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One resource as it is shown; texts may hold anything a device says.

    Attributes:
        path: The resource path.
        label: What the object table calls it; empty where nothing declares it.
        value: The reported value with its unit.
        reported_at: When it was reported.
        is_stale: Whether the device's own time for it is over.
        drift: How desired and reported value differ; ``None`` where they do not.
        drift_text: The same in words, and on a second line the value that was asked for.
        subscription: ``subscribed``, ``asked for``, ``refused``, ``by another key`` or empty.
        is_own: Whether this application has a subscription of it, or has asked for one.
        activity: What is under way (``reading …``).
        drift_hint: What it means, where the words do not say so themselves.
    """

    path: str
    label: str
    value: str
    reported_at: str
    is_stale: bool
    drift: DriftKind | None
    drift_text: str
    subscription: str
    is_own: bool
    activity: str
    drift_hint: str = ""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What one look at a device gave; ``own`` is ``None`` where the key may not ask for subscriptions.

    ``own`` are this application's subscriptions by path.
    """

    device: DeviceObject
    drift: Mapping[str, DriftKind]
    own: Mapping[str, SubscriptionState] | None


class ExplorerModel:
    """Devices on one side, the resources of the chosen one on the other.

    Args:
        client: The mirror. Choosing a device reads the mirror, never the device.
        run: Makes the client calls.
        clock: Seconds, for how often the device is looked at again.

    Attributes:
        search: Part of a name or id that devices must have.
        endpoint_type: Endpoint type devices must have, or a part of it where that is none; empty for any.
        state: State devices must have; empty for any.
        resource_search: Part of a path or label that resources must have.
        only_drift: Whether only resources with a drift mark are listed, what is unconfirmed apart.
        device_id: The chosen device.
        device_pages: Which part of the devices is listed.
        pages: Which part of the resources is shown.
        notices: What went wrong.
        version: Grows with every change of what is shown.
    """

    def __init__(
        self, client: MirrorClient, run: Run = run_now, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.search = ""
        self.endpoint_type = ""
        self.state = ""
        self.resource_search = ""
        self.only_drift = False
        self.device_id: str | None = None
        self.device_pages = Pages(DEVICES_SHOWN)
        self.pages = Pages(ROWS_SHOWN)
        self.notices = Notices()
        self.version = 0
        self._client = client
        self._run = run
        self._devices = DeviceList([])
        self._names: Mapping[str, str] = {}
        self._listing = Reload(clock, DIRECTORY_RELOAD_SECONDS)
        self._loaded: _Loaded | None = None
        self._loading = Reload(clock, RELOAD_SECONDS)
        self._activities: dict[tuple[str, str], str] = {}

    # Devices

    def load_devices(self) -> None:
        """Read the directory."""
        number = self._listing.begin()
        self._run(
            self._client.list_devices,
            lambda devices: self._took_devices(number, devices),
            lambda error: self._no_devices(number, error),
        )

    def find(self, **filters: str | bool) -> None:
        """Set ``search``, ``endpoint_type``, ``state``, ``resource_search`` or ``only_drift``; nothing is sent."""
        for name, wanted in filters.items():
            setattr(self, name, wanted)
        self.pages.index = 0
        if filters.keys() & {"search", "endpoint_type", "state"}:
            self.device_pages.index = 0
        self.version += 1

    def turn_device_page(self, step: int) -> None:
        """Go on by so many pages of devices, or back."""
        self.device_pages.index += step
        self.version += 1

    @property
    def devices(self) -> list[Device]:
        """The devices that match search and filters, in the order of their names."""
        types = self._wanted_types
        found = [device for device in self._devices if device.endpoint_type in types and self._wants(device)]
        return sorted(found, key=lambda device: (device.endpoint_name, device.id))

    @property
    def choices(self) -> list[tuple[str, str]]:
        """What can be chosen, as (text, device id): the devices of the page."""
        shown = self.device_pages.cut(self.devices)
        return [(_choice_text(device, self._names[device.id]), device.id) for device in shown]

    @property
    def device_count(self) -> int:
        """How many devices there are."""
        return len(self._devices)

    @property
    def devices_text(self) -> str:
        """How many devices there are, and how many of them match."""
        if self._listing.is_running and not self._devices:
            return "reading the directory …"
        found, every = len(self.devices), len(self._devices)
        return count_text(every, "device") if found == every else f"{found:,} of {count_text(every, 'device')}"

    def values_of(self, field: str) -> list[str]:
        """The values a directory field (``endpoint_type``, ``state``) has, sorted."""
        return sorted({value for device in self._devices if (value := getattr(device, field))})

    # Resources

    def choose(self, device_id: str | None) -> None:
        """Show this device."""
        if device_id == self.device_id:
            return
        self.device_id = device_id
        self._loaded = None
        self.pages.index = 0
        self.version += 1
        self.load()

    def load(self) -> None:
        """Read the chosen device's object from the mirror."""
        if self.device_id is None:
            return
        device_id = self.device_id
        number = self._loading.begin()
        self._run(
            lambda: _look_at(self._client, device_id),
            lambda loaded: self._took_device(number, loaded),
            lambda error: self._no_device(number, device_id, error),
        )

    @property
    def title(self) -> str:
        """Name of the chosen device."""
        if self.device_id is None:
            return "No device chosen"
        loaded_name = self._loaded and self._loaded.device.endpoint_name
        return self._names.get(self.device_id) or visible(loaded_name or self.device_id)

    @property
    def subtitle(self) -> str:
        """The chosen device's id and times, or what to do."""
        if self.device_id is None:
            return "Choose a device to see its resources."
        if self._loaded is None:
            return "reading the mirror …" if self._loading.is_running else f"{self.device_id} could not be read"
        device = self._loaded.device
        reported = instant_text(device.last_reported_at, device.created_at) or "never"
        return (
            f"{self.device_id} · {count_text(len(device), 'resource')} · last reported {reported} · "
            f"as of {device.created_at:%Y-%m-%d %H:%M:%S} UTC"
        )

    @property
    def empty_text(self) -> str:
        """Why no resource is listed; empty when one is."""
        if self._loaded is None or self._found(self._loaded):
            return ""
        return "No resource matches." if len(self._loaded.device) else "The device has introduced no resource yet."

    @property
    def rows(self) -> Sequence[ResourceRow]:
        """The resources of the page."""
        if self._loaded is None:
            return []
        return [self._row(self._loaded, resource) for resource in self.pages.cut(self._found(self._loaded))]

    def turn_page(self, step: int) -> None:
        """Go on by so many pages, or back."""
        self.pages.index += step
        self.version += 1

    # What is asked for

    def read(self, path: str) -> None:
        """Have the chosen device tell a value; asking again while it is asked does nothing."""
        device_id = self.device_id
        if device_id is not None:
            self._begin(device_id, path, "reading …", lambda: self._client.begin_read(device_id, path).result())

    def toggle_subscription(self, path: str) -> None:
        """Subscribe a resource of the chosen device, or end this application's subscription of it."""
        device_id = self.device_id
        if device_id is None or self._loaded is None:
            return
        if _is_held(self._loaded, path):
            self._begin(device_id, path, "ending …", lambda: self._client.unsubscribe(device_id, path))
        else:
            self._begin(device_id, path, "subscribing …", lambda: self._client.subscribe(device_id, path))

    def dismiss(self) -> None:
        """The notices were read."""
        self.notices.dismiss()
        self.version += 1

    # What comes in

    def take(self, events: Iterable[Event]) -> None:
        """Look at the device again soon if an event may be about it."""
        for event in events:
            if event.device_id == self.device_id or event.kind in _OF_ANY_DEVICE:
                self._loading.within(RELOAD_AFTER_EVENT_SECONDS)
            if event.kind in _OF_THE_DIRECTORY:
                self._listing.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Do what is due: it is to be called some times a second."""
        if self._loading.is_due:
            self.load()
        if self._listing.is_due:
            self.load_devices()

    @property
    def _wanted_types(self) -> set[str | None]:
        """The one that is meant, or all that have it in their name."""
        wanted = self.endpoint_type.strip().casefold()
        known = {device.endpoint_type for device in self._devices}
        same = {one for one in known if wanted and (one or "").casefold() == wanted}
        return same or {one for one in known if wanted in (one or "").casefold()}

    def _wants(self, device: Device) -> bool:
        text = f"{device.endpoint_name}\n{device.id}".casefold()
        return self.search.strip().casefold() in text and self.state in ("", device.state)

    def _took_devices(self, number: int, devices: DeviceList) -> None:
        if self._listing.end(number):
            self._devices = devices
            self._names = shown_names({device.id: device.endpoint_name for device in devices})
            self.notices.clear("directory")
            self.version += 1

    def _no_devices(self, number: int, error: Exception) -> None:
        if self._listing.end(number):
            self.notices.put("directory", "Reading the directory", error)
            self.version += 1

    def _took_device(self, number: int, loaded: _Loaded) -> None:
        if self._loading.end(number):
            self._loaded = loaded
            self.notices.clear("device")
            self.version += 1

    def _no_device(self, number: int, device_id: str, error: Exception) -> None:
        if self._loading.end(number):
            self.notices.put("device", f"Reading {self._name(device_id)}", error)
            self.version += 1

    def _begin(self, device_id: str, path: str, activity: str, call: Callable[[], object]) -> None:
        key = (device_id, path)
        if key in self._activities:
            return
        self._activities[key] = activity
        self.version += 1
        self._run(call, lambda _: self._ended(key, activity), lambda error: self._ended(key, activity, error))

    def _ended(self, key: tuple[str, str], activity: str, error: Exception | None = None) -> None:
        device_id, path = key
        self._activities.pop(key, None)
        subject = f"{device_id}{path}"
        if error is None:
            self.notices.clear(subject)
        else:
            what = activity.removesuffix(" …").capitalize()
            self.notices.put(subject, f"{what} {path} of {self._name(device_id)}", error)
        self.version += 1
        if device_id == self.device_id:
            self.load()
            # The device takes its time to accept a subscription, and no event tells that it did.
            self._loading.within(RELOAD_AFTER_EVENT_SECONDS)

    def _name(self, device_id: str) -> str:
        return self._names.get(device_id) or visible(device_id)

    def _found(self, loaded: _Loaded) -> list[Resource]:
        wanted = self.resource_search.strip().casefold()
        return [
            resource
            for resource in loaded.device.resources.values()
            if wanted in f"{resource.path}\n{resource.label}".casefold()
            and (not self.only_drift or loaded.drift.get(resource.path, _UNCONFIRMED) is not _UNCONFIRMED)
        ]

    def _row(self, loaded: _Loaded, resource: Resource) -> ResourceRow:
        now = loaded.device.created_at
        reported, kind = resource.reported, loaded.drift.get(resource.path)
        return ResourceRow(
            path=resource.path,
            label=resource.label,
            value=value_text(reported.value, resource.unit) if reported else "",
            reported_at=instant_text(reported.reported_at, now) if reported else "",
            is_stale=bool(reported and reported.expires_at and reported.expires_at < now),
            drift=kind,
            drift_text=_drift_text(resource, kind),
            drift_hint=_drift_hint(resource, kind),
            subscription=_subscription(loaded, resource),
            is_own=_is_held(loaded, resource.path),
            activity=self._activities.get((loaded.device.device_id, resource.path), ""),
        )


def _look_at(client: MirrorClient, device_id: str) -> _Loaded:
    device = client.get_device(device_id)
    drift = drift_frame(device.to_frame(raw=True), unconfirmed=True)
    kinds = {str(path): DriftKind(kind) for path, kind in zip(drift["path"], drift["kind"], strict=True)}
    return _Loaded(device, kinds, _own_subscriptions(client, device))


def _own_subscriptions(client: MirrorClient, device: DeviceObject) -> dict[str, SubscriptionState] | None:
    try:
        paths = client.list_subscriptions(device.device_id)
        return {path: _state_of(client, device, path) for path in paths}
    except AccessDenied:
        return None


def _state_of(client: MirrorClient, device: DeviceObject, path: str) -> SubscriptionState:
    resource = device.resources.get(path)
    if resource is not None and resource.subscribed:
        return SubscriptionState.ACTIVE
    return client.subscription_state(device.device_id, path)


def _is_held(loaded: _Loaded, path: str) -> bool:
    return (loaded.own or {}).get(path, SubscriptionState.NONE).is_held


def _choice_text(device: Device, name: str) -> str:
    return name if device.state == "registered" else f"{name} · {device.state}"


def _drift_text(resource: Resource, kind: DriftKind | None) -> str:
    if kind is None or resource.desired is None:
        return ""
    wanted: Value = resource.desired.value
    return f"{DRIFT_MARKS[kind]}\n{value_text(wanted, resource.unit)}"


def _drift_hint(resource: Resource, kind: DriftKind | None) -> str:
    if kind is not _UNCONFIRMED or resource.desired is None or resource.reported is None:
        return ""
    return of_unconfirmed(resource, resource.desired, resource.reported)


def _subscription(loaded: _Loaded, resource: Resource) -> str:
    state = (loaded.own or {}).get(resource.path, SubscriptionState.NONE)
    if state in _STATE_TEXTS:
        return _STATE_TEXTS[state]
    if resource.subscribed:
        return "by another key" if loaded.own is not None else "subscribed"
    return ""
