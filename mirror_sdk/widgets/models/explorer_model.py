"""What the explorer knows: devices, the resources of the chosen one, what is under way and what went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import shown_names, visible
from mirror_sdk.device import DeviceList, DeviceObject
from mirror_sdk.errors import AccessDenied, NotFound
from mirror_sdk.events import Event, EventKind
from mirror_sdk.explanation import unconfirmed_write
from mirror_sdk.frames import DriftKind, drift_frame, state_frame
from mirror_sdk.resource import Resource
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.marks import OF_DRIFT, Mark, Tone
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.reload import Reload
from mirror_sdk.widgets.models.rhythm import Rhythms
from mirror_sdk.widgets.models.wording import count_text, instant_text, value_text
from mirror_sdk.wire.directory import DeviceConnection
from mirror_sdk.wire.subscriptions import SubscriptionState

RELOAD_SECONDS = 10.0
DIRECTORY_RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
_SUBSCRIPTIONS = {
    SubscriptionState.ACTIVE: "subscribed",
    SubscriptionState.ASKED: f"{Mark.PENDING.sign} asked for",
    SubscriptionState.REFUSED: Mark.REFUSED.text,
}
# What answers requests names no device: it may be about this one.
_OF_ANY_DEVICE = {EventKind.ASYNC_RESPONSE, EventKind.GAP}
_OF_THE_DIRECTORY = {EventKind.REGISTRATION, EventKind.DEREGISTRATION, EventKind.EXPIRED, EventKind.GAP}


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What one look at a device gave; ``own`` is ``None`` where the key may not ask for subscriptions.

    ``own`` are this application's subscriptions by path, ``stale`` the paths of stale values; ``connection`` is
    ``None`` where the service does not tell.
    """

    device: DeviceObject
    drift: Mapping[str, DriftKind]
    stale: Collection[str]
    own: Mapping[str, SubscriptionState] | None
    connection: DeviceConnection | None


class ExplorerModel:
    """Devices on one side, the resources of the chosen one on the other.

    Args:
        client: The mirror. Choosing a device reads the mirror, never the device.
        run: Makes the client calls.
        stale_after_seconds: What silence of a resource is never too long; see
            :func:`mirror_sdk.frames.stale.silent_rows`.
        clock: Seconds, for how often the device is looked at again.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.

    Attributes:
        device_id: The chosen device.
        notices: What went wrong.
        version: Grows with every change of what is shown.
    """

    def __init__(
        self,
        client: MirrorClient,
        run: Run = run_now,
        *,
        stale_after_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device_id: str | None = None
        self.notices = Notices()
        self.version = 0
        self._client = client
        self._run = run
        self._rhythms = Rhythms(stale_after_seconds)
        self._devices = DeviceList([])
        self._names: Mapping[str, str] = {}
        self._listing = Reload(clock, DIRECTORY_RELOAD_SECONDS)
        self._loaded: _Loaded | None = None
        self._loading = Reload(clock, RELOAD_SECONDS)
        self._activities: dict[tuple[str, str], str] = {}
        self._failures: dict[tuple[str, str], str] = {}

    # Devices

    def load_devices(self) -> None:
        """Read the directory."""
        number = self._listing.begin()
        self._run(
            self._client.devices.list,
            lambda devices: self._took_devices(number, devices),
            lambda error: self._no_devices(number, error),
        )

    @property
    def device_rows(self) -> list[dict[str, Any]]:
        """The devices, for a grid, by their names."""
        return [
            {
                "key": device.id,
                "name": self._names[device.id],
                "type": visible(device.endpoint_type or ""),
                "state": device.state,
                "last_contact": device.last_contact_at,
                "tones": {} if device.state == "registered" else {"state": Tone.DIM},
                "hints": {"name": f"{self._names[device.id]} ({device.id})"},
            }
            for device in sorted(self._devices, key=lambda device: (device.endpoint_name, device.id))
        ]

    @property
    def devices_text(self) -> str:
        """How many devices there are."""
        if self._listing.is_running and not self._devices:
            return "reading the directory …"
        return count_text(len(self._devices), "device")

    # Resources

    def choose(self, device_id: str | None) -> None:
        """Show this device."""
        if device_id == self.device_id:
            return
        self.device_id = device_id
        self._loaded = None
        self.notices.clear("device")
        self.version += 1
        self.load()

    def load(self) -> None:
        """Read the chosen device's object from the mirror."""
        if self.device_id is None:
            return
        device_id = self.device_id
        number = self._loading.begin()
        self._run(
            lambda: self._look_at(device_id),
            lambda loaded: self._took_device(number, loaded),
            lambda error: self._no_device(number, device_id, error),
        )

    @property
    def title(self) -> str:
        """Name of the chosen device."""
        return "No device chosen" if self.device_id is None else self._name(self.device_id)

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
    def connection_text(self) -> str:
        """How the chosen device is connected; empty where nothing tells."""
        if self._loaded is None or self._loaded.connection is None:
            return ""
        device, connection = self._loaded.device, self._loaded.connection
        parts = [
            connection.way,
            f"binding {visible(connection.binding)}" if connection.binding else "",
            "reachable" if connection.reachable else "not reachable now",
            f"lifetime {connection.lifetime_seconds} s",
            f"last contact {instant_text(connection.last_contact_at, device.created_at)}",
            f"from {visible(connection.address)}" if connection.address else "",
        ]
        return " · ".join(filter(None, parts))

    @property
    def empty_text(self) -> str:
        """Why no resource is listed; empty when one is, or none is to be."""
        if self._loaded is None or len(self._loaded.device):
            return ""
        return "The device has introduced no resource yet."

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The resources of the chosen device, for a grid."""
        if self._loaded is None:
            return []
        return [self._row(self._loaded, resource) for resource in self._loaded.device.resources.values()]

    def frame(self, paths: Collection[str]) -> pd.DataFrame:
        """The rows of the state table for these resources of the chosen device, as of when it was looked at."""
        if self._loaded is None:
            return state_frame([], taken_at=None, server=self._client.base_url)
        device = self._loaded.device
        state = state_frame([device], taken_at=device.created_at, server=self._client.base_url)
        return state[state["path"].isin(paths)].reset_index(drop=True)

    # What is asked for

    def read(self, path: str) -> None:
        """Have the chosen device tell a value; asking again while it is asked does nothing."""
        self._begin(path, "reading …", lambda device_id: self._client.requests.begin_read(device_id, path).result())

    def subscribe(self, path: str) -> None:
        """Subscribe a resource of the chosen device."""
        self._begin(path, "subscribing …", lambda device_id: self._client.subscribe(device_id, path))

    def unsubscribe(self, path: str) -> None:
        """End this application's subscription of a resource of the chosen device, where it has one."""
        if self._loaded is not None and _is_held(self._loaded, path):
            self._begin(path, "ending …", lambda device_id: self._client.unsubscribe(device_id, path))

    def dismiss(self) -> None:
        """The notices were read."""
        self.notices.dismiss()
        self._failures.clear()
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
            if isinstance(error, NotFound):
                # It is gone: what was known of it last would look as if it were there.
                self._loaded = None
            self.notices.put("device", f"Reading {self._name(device_id)}", error)
            self.version += 1

    def _begin(self, path: str, activity: str, call: Callable[[str], object]) -> None:
        device_id = self.device_id
        if device_id is None or (device_id, path) in self._activities:
            return
        key = (device_id, path)
        self._activities[key] = activity
        self._failures.pop(key, None)
        self.version += 1
        self._run(
            lambda: call(device_id),
            lambda _: self._ended(key, activity),
            lambda error: self._ended(key, activity, error),
        )

    def _ended(self, key: tuple[str, str], activity: str, error: Exception | None = None) -> None:
        device_id, path = key
        self._activities.pop(key, None)
        subject = f"{device_id}{path}"
        if error is None:
            self.notices.clear(subject)
        else:
            what = activity.removesuffix(" …").capitalize()
            self.notices.put(subject, f"{what} {path} of {self._name(device_id)}", error)
            self._failures[key] = f"{what}: {str(error) or type(error).__name__}"
        self.version += 1
        if device_id == self.device_id:
            self.load()
            # The device takes its time to accept a subscription, and no event tells that it did.
            self._loading.within(RELOAD_AFTER_EVENT_SECONDS)

    def _name(self, device_id: str) -> str:
        told = self._loaded and self._loaded.device.endpoint_name
        return self._names.get(device_id) or visible(told or device_id)

    def _look_at(self, device_id: str) -> _Loaded:
        device = self._client.get_device(device_id)
        state = device.to_frame(raw=True)
        drift = drift_frame(state, unconfirmed=True)
        kinds = {str(path): DriftKind(kind) for path, kind in zip(drift["path"], drift["kind"], strict=True)}
        stale = set(state["path"][self._rhythms.stale(state, self._devices)])
        own = _own_subscriptions(self._client, device)
        return _Loaded(device, kinds, stale, own, _connection(self._client, device_id))

    def _row(self, loaded: _Loaded, resource: Resource) -> dict[str, Any]:
        path, reported, kind = resource.path, resource.reported, loaded.drift.get(resource.path)
        key = (loaded.device.device_id, path)
        failure, is_stale = self._failures.get(key, ""), path in loaded.stale
        activity = self._activities.get(key, "")
        tones = {"drift": OF_DRIFT[kind].tone} if kind else {}
        tones |= {"stale": Mark.STALE.tone} if is_stale else {}
        tones |= {"activity": Tone.NOTE if activity else Tone.BAD} if activity or failure else {}
        return {
            "key": path,
            "path": path,
            "label": resource.label,
            "value": value_text(reported.value, resource.unit) if reported else "",
            "reported_at": reported and reported.reported_at,
            "drift": OF_DRIFT[kind].text if kind else "",
            "desired": value_text(resource.desired.value, resource.unit) if kind and resource.desired else "",
            "stale": Mark.STALE.text if is_stale else "",
            "subscription": _subscription(loaded, resource),
            "activity": activity or (f"{Mark.FAILED.sign} {failure}" if failure else ""),
            "tones": tones,
            "hints": {"drift": _drift_hint(resource, kind)},
        }


def _connection(client: MirrorClient, device_id: str) -> DeviceConnection | None:
    try:
        return client.devices.connection(device_id)
    except NotFound:
        return None


def _own_subscriptions(client: MirrorClient, device: DeviceObject) -> dict[str, SubscriptionState] | None:
    try:
        paths = client.subscriptions.list(device.device_id)
        return {path: _state_of(client, device, path) for path in paths}
    except AccessDenied:
        return None


def _state_of(client: MirrorClient, device: DeviceObject, path: str) -> SubscriptionState:
    resource = device.resources.get(path)
    if resource is not None and resource.subscribed:
        return SubscriptionState.ACTIVE
    return client.subscriptions.state(device.device_id, path)


def _is_held(loaded: _Loaded, path: str) -> bool:
    return (loaded.own or {}).get(path, SubscriptionState.NONE).is_held


def _drift_hint(resource: Resource, kind: DriftKind | None) -> str:
    if kind is not DriftKind.UNCONFIRMED or resource.desired is None or resource.reported is None:
        return ""
    return unconfirmed_write(resource, resource.desired, resource.reported)


def _subscription(loaded: _Loaded, resource: Resource) -> str:
    state = (loaded.own or {}).get(resource.path, SubscriptionState.NONE)
    if state in _SUBSCRIPTIONS:
        return _SUBSCRIPTIONS[state]
    if resource.subscribed:
        return "by another key" if loaded.own is not None else "subscribed"
    if resource.reported is not None and resource.reported.origin == "auto_observation":
        return "auto-observed"
    return ""
