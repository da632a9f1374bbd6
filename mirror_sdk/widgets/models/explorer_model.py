"""The model of the explorer: the devices, the resources of the chosen one, running requests, and failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import display_names, visible
from mirror_sdk.device import DeviceList, DeviceObject
from mirror_sdk.errors import AccessDenied, NotFound
from mirror_sdk.events import Event, EventKind
from mirror_sdk.explanation import unconfirmed_write
from mirror_sdk.frames import DriftKind, drift_frame, state_frame
from mirror_sdk.resource import Resource
from mirror_sdk.widgets.models.formatting import format_count, format_time, format_value
from mirror_sdk.widgets.models.model import DIRECTORY_EVENTS, Model, Row, Run, run_now
from mirror_sdk.widgets.models.periodic_read import PeriodicRead
from mirror_sdk.widgets.models.reporting_intervals import ReportingIntervals
from mirror_sdk.widgets.models.status import DRIFT_STATUS, Status, Tone
from mirror_sdk.wire.directory import DeviceConnection
from mirror_sdk.wire.subscriptions import SubscriptionState

RELOAD_SECONDS = 10.0
DIRECTORY_RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
_SUBSCRIPTIONS = {
    SubscriptionState.ACTIVE: "subscribed",
    SubscriptionState.ASKED: f"{Status.PENDING.sign} requested",
    SubscriptionState.REFUSED: f"{Status.REJECTED.sign} refused",
}
# The response to a request names no device: it may concern this one.
_EVENTS_OF_ANY_DEVICE = {EventKind.ASYNC_RESPONSE, EventKind.GAP}


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The chosen device as it was read.

    Attributes:
        device: The device object.
        statuses: The status of each resource that drifts or is stale, by path.
        subscriptions: This application's subscriptions by path; ``None`` if the key may not read them.
        connection: The connection of the device; ``None`` if the service has no such information.
    """

    device: DeviceObject
    statuses: Mapping[str, Status]
    subscriptions: Mapping[str, SubscriptionState] | None
    connection: DeviceConnection | None


class ExplorerModel(Model):
    """The devices, and the resources of the chosen one.

    Args:
        client: The mirror. Choosing a device reads the mirror, never the device.
        run: Makes the client calls.
        stale_after_seconds: A resource that is silent for no longer than this is never stale; see
            :func:`mirror_sdk.frames.stale.silent_rows`.
        clock: Returns seconds; used to schedule reads.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.

    Attributes:
        device_id: The chosen device.
    """

    def __init__(
        self,
        client: MirrorClient,
        run: Run = run_now,
        *,
        stale_after_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, run, clock=clock)
        self.device_id: str | None = None
        self._intervals = ReportingIntervals(stale_after_seconds)
        self._devices = DeviceList([])
        self._names: Mapping[str, str] = {}
        self._directory = PeriodicRead(self, "directory", DIRECTORY_RELOAD_SECONDS)
        self._loaded: _Loaded | None = None
        self._device = PeriodicRead(self, "device", RELOAD_SECONDS)
        self._activities: dict[tuple[str, str], str] = {}
        self._failures: dict[tuple[str, str], str] = {}

    # Devices

    def load_devices(self) -> None:
        """Read the directory."""
        self._directory.start("Reading the directory", self.client.devices.list, self._accept_devices)

    @property
    def device_rows(self) -> list[Row]:
        """The devices, ordered by name."""
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
        """The number of devices, in words."""
        if self._directory.is_running and not self._devices:
            return "reading the directory …"
        return format_count(len(self._devices), "device")

    # Resources

    def choose(self, device_id: str | None) -> None:
        """Show this device."""
        if device_id == self.device_id:
            return
        self.device_id = device_id
        self._loaded = None
        self._device.cancel()
        self.notices.clear("device")
        self.changed()
        self.load()

    def load(self) -> None:
        """Read the chosen device from the mirror."""
        device_id = self.device_id
        if device_id is not None:
            action = f"Reading {self._name(device_id)}"
            self._device.start(action, lambda: self._read_device(device_id), self._accept_device, self._drop_if_deleted)

    @property
    def title(self) -> str:
        """Name of the chosen device."""
        return "No device chosen" if self.device_id is None else self._name(self.device_id)

    @property
    def subtitle(self) -> str:
        """The id and the times of the chosen device, or a hint."""
        if self.device_id is None:
            return "Choose a device to see its resources."
        if self._loaded is None:
            return "reading the mirror …" if self._device.is_running else f"{self.device_id} could not be read"
        device = self._loaded.device
        reported = format_time(device.last_reported_at) if device.last_reported_at else "never"
        return (
            f"{self.device_id} · {format_count(len(device), 'resource')} · last reported {reported} · "
            f"as of {format_time(device.created_at)}"
        )

    @property
    def connection_text(self) -> str:
        """The connection of the chosen device; empty if unknown."""
        if self._loaded is None or self._loaded.connection is None:
            return ""
        connection = self._loaded.connection
        parts = [
            connection.way,
            f"binding {visible(connection.binding)}" if connection.binding else "",
            "reachable" if connection.reachable else "not reachable now",
            f"lifetime {connection.lifetime_seconds} s",
            f"last contact {format_time(connection.last_contact_at)}",
            f"from {visible(connection.address)}" if connection.address else "",
        ]
        return " · ".join(filter(None, parts))

    @property
    def empty_text(self) -> str:
        """The reason why a device that was read has no resources; empty if it has some."""
        if self._loaded is None or len(self._loaded.device):
            return ""
        return "The device has introduced no resource yet."

    @property
    def rows(self) -> list[Row]:
        """The resources of the chosen device."""
        if self._loaded is None:
            return []
        return [self._row(self._loaded, resource) for resource in self._loaded.device.resources.values()]

    def frame(self, paths: Collection[str]) -> pd.DataFrame:
        """Return the rows of the state table for these resources, from the last read of the chosen device."""
        if self._loaded is None:
            return state_frame([], taken_at=None, server=self.client.base_url)
        device = self._loaded.device
        state = state_frame([device], taken_at=device.created_at, server=self.client.base_url)
        return state[state["path"].isin(paths)].reset_index(drop=True)

    # Requests

    def read(self, path: str) -> None:
        """Read a resource from the chosen device, unless a request for it is in progress."""
        self._start(path, "reading …", lambda device_id: self.client.requests.begin_read(device_id, path).result())

    def subscribe(self, path: str) -> None:
        """Subscribe a resource of the chosen device."""
        self._start(path, "subscribing …", lambda device_id: self.client.subscribe(device_id, path))

    def unsubscribe(self, path: str) -> None:
        """End this application's subscription of a resource, if there is one."""
        if self._loaded is not None and _subscription_state(self._loaded, path).is_active_or_pending:
            self._start(path, "ending …", lambda device_id: self.client.unsubscribe(device_id, path))

    def dismiss(self) -> None:
        """Remove the notices and the failures in the rows."""
        self._failures.clear()
        super().dismiss()

    # Events

    def receive(self, events: Sequence[Event]) -> None:
        """Schedule reads for the changes that the events report."""
        for event in events:
            if event.device_id == self.device_id or event.kind in _EVENTS_OF_ANY_DEVICE:
                self._device.within(RELOAD_AFTER_EVENT_SECONDS)
            if event.kind in DIRECTORY_EVENTS:
                self._directory.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Do pending reads. Call this several times a second."""
        if self._device.is_due:
            self.load()
        if self._directory.is_due:
            self.load_devices()

    def _accept_devices(self, devices: DeviceList) -> None:
        self._devices = devices
        self._names = display_names({device.id: device.endpoint_name for device in devices})

    def _accept_device(self, loaded: _Loaded) -> None:
        self._loaded = loaded

    def _drop_if_deleted(self, error: Exception) -> None:
        if isinstance(error, NotFound):
            # The last state would suggest that the device still exists.
            self._loaded = None

    def _start(self, path: str, activity: str, call: Callable[[str], object]) -> None:
        device_id = self.device_id
        if device_id is None or (device_id, path) in self._activities:
            return
        key = (device_id, path)
        self._activities[key] = activity
        self._failures.pop(key, None)
        self.changed()
        self.run(
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
            action = activity.removesuffix(" …").capitalize()
            self.report(subject, f"{action} {path} of {self._name(device_id)}", error)
            self._failures[key] = f"{action}: {str(error) or type(error).__name__}"
        self.changed()
        if device_id == self.device_id:
            self.load()
            # A device accepts a subscription later, and no event reports that.
            self._device.within(RELOAD_AFTER_EVENT_SECONDS)

    def _name(self, device_id: str) -> str:
        own = self._loaded and self._loaded.device.endpoint_name
        return self._names.get(device_id) or visible(own or device_id)

    def _read_device(self, device_id: str) -> _Loaded:
        device = self.client.get_device(device_id)
        state = device.to_frame(raw=True)
        drift = drift_frame(state, unconfirmed=True)
        statuses = dict.fromkeys(state["path"][self._intervals.stale(state, self._devices)], Status.STALE)
        # A drift is more important than the age of a value.
        statuses |= {
            path: DRIFT_STATUS[DriftKind(kind)] for path, kind in zip(drift["path"], drift["kind"], strict=True)
        }
        return _Loaded(device, statuses, _subscriptions(self.client, device), _connection(self.client, device_id))

    def _row(self, loaded: _Loaded, resource: Resource) -> Row:
        path, reported, status = resource.path, resource.reported, loaded.statuses.get(resource.path)
        is_drift = status not in {None, Status.STALE}
        key = (loaded.device.device_id, path)
        activity, failure = self._activities.get(key, ""), self._failures.get(key, "")
        tones = {"status": status.tone} if status else {}
        tones |= {"activity": Tone.NOTE if activity else Tone.BAD} if activity or failure else {}
        return {
            "key": path,
            "path": path,
            "label": resource.label,
            "value": format_value(reported.value, resource.unit) if reported else "",
            "reported_at": reported and reported.reported_at,
            "status": status.text if status else "",
            "desired": format_value(resource.desired.value, resource.unit) if is_drift and resource.desired else "",
            "subscription": _subscription_text(loaded, resource),
            "activity": activity or (f"{Status.FAILED.sign} {failure}" if failure else ""),
            "tones": tones,
            "hints": {"status": _status_hint(resource, status)},
        }


def _connection(client: MirrorClient, device_id: str) -> DeviceConnection | None:
    try:
        return client.devices.connection(device_id)
    except NotFound:
        return None


def _subscriptions(client: MirrorClient, device: DeviceObject) -> dict[str, SubscriptionState] | None:
    try:
        return {
            path: SubscriptionState.ACTIVE
            if path in device.resources and device.resources[path].subscribed
            else client.subscriptions.state(device.device_id, path)
            for path in client.subscriptions.list(device.device_id)
        }
    except AccessDenied:
        return None


def _subscription_state(loaded: _Loaded, path: str) -> SubscriptionState:
    return (loaded.subscriptions or {}).get(path, SubscriptionState.NONE)


def _status_hint(resource: Resource, status: Status | None) -> str:
    if status is Status.UNCONFIRMED and resource.desired is not None and resource.reported is not None:
        return unconfirmed_write(resource, resource.desired, resource.reported)
    return status.meaning if status else ""


def _subscription_text(loaded: _Loaded, resource: Resource) -> str:
    state = _subscription_state(loaded, resource.path)
    if state in _SUBSCRIPTIONS:
        return _SUBSCRIPTIONS[state]
    if resource.subscribed:
        return "by another key" if loaded.subscriptions is not None else "subscribed"
    if resource.reported is not None and resource.reported.origin == "auto_observation":
        return "auto-observed"
    return ""
