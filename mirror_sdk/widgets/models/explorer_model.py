"""The model of the explorer.

It contains the devices, and the resources of the chosen device, their past, and requests to the device.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._formatting import display_names, utc_text, visible
from mirror_sdk.arrow_tables.units import names_unit
from mirror_sdk.device import DeviceList, DeviceObject
from mirror_sdk.errors import AccessDenied, InvalidValue, MirrorError, NotFound, failure_reason
from mirror_sdk.events import Event, EventKind, utc_now
from mirror_sdk.frames import DriftKind, drift_frame, state_frame
from mirror_sdk.object_definitions import lookup
from mirror_sdk.resource import Resource
from mirror_sdk.value_explanation import unconfirmed_write
from mirror_sdk.values import Value, ValueKind, parse_value
from mirror_sdk.widgets.models.formatting import format_count, format_value
from mirror_sdk.widgets.models.model import DIRECTORY_EVENTS, Model, Row, Run, run_now
from mirror_sdk.widgets.models.past_values import PastValues, milliseconds, point_of, read_past_values, time_of
from mirror_sdk.widgets.models.periodic_read import PeriodicRead, empty_directory_text
from mirror_sdk.widgets.models.reporting_intervals import ReportingIntervals
from mirror_sdk.widgets.models.resource_past import ResourcePast
from mirror_sdk.widgets.models.sparklines import Sparklines
from mirror_sdk.widgets.models.status import DRIFT_STATUS, Status, Tone
from mirror_sdk.widgets.models.write_inputs import InputForm, entry_of, form_of
from mirror_sdk.wire.directory import DeviceConnection
from mirror_sdk.wire.paths import check_path, parse_path
from mirror_sdk.wire.subscriptions import SubscriptionState

RELOAD_SECONDS = 10.0
DIRECTORY_RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
PAST_RELOAD_SECONDS = 900.0
HOURS = (24, 1, 6, 168)
"""The lengths of the period, in hours, of which the earlier values can be displayed.

The first length is the default.
"""
_SUBSCRIPTIONS = {
    SubscriptionState.ACTIVE: "subscribed",
    SubscriptionState.ASKED: "requested",
    SubscriptionState.REFUSED: "rejected",
}
# The response to a request names no device: it may concern this one.
_EVENTS_OF_ANY_DEVICE = {EventKind.ASYNC_RESPONSE, EventKind.GAP}


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The data of the chosen device, as they were read.

    Attributes:
        device: The device object.
        statuses: The status of each resource that drifts or is stale, by path.
        subscriptions: This application's subscriptions by path; ``None`` if the access key may not read them.
        connection: The connection of the device; ``None`` if the service has no such information.
        clock_ahead_ms: The difference between the mirror's clock and the local clock in milliseconds. It is positive if
            the mirror's clock is ahead.
    """

    device: DeviceObject
    statuses: Mapping[str, Status]
    subscriptions: Mapping[str, SubscriptionState] | None
    connection: DeviceConnection | None
    clock_ahead_ms: int


@dataclass(frozen=True, slots=True)
class Card:
    """The properties of the selected device in the form in which they are displayed.

    Strings come from the device and are safe to display.

    Attributes:
        name: The name of the device.
        id: The id of the device.
        type: The endpoint type, or an empty string if the device has none.
        description: The description in the directory.
        state: ``registered`` or ``deregistered``. It is empty if the directory has not been read yet.
        attributes: The names and values of the custom attributes.
        connection: The properties of the connection, such as protocol and lifetime, as pairs of name and text.
        is_reachable: Whether a request would currently reach the device; ``None`` if this is unknown.
        last_contact: The time at which the device last sent any message.
        last_reported: The time at which the device last reported a value.
    """

    name: str
    id: str
    type: str
    description: str
    state: str
    attributes: Sequence[tuple[str, str]]
    connection: Sequence[tuple[str, str]]
    is_reachable: bool | None
    last_contact: datetime | None
    last_reported: datetime | None


@dataclass(slots=True)
class Editor:
    """The resource whose details are open: its current value, its earlier values and its requests.

    Attributes:
        path: The path of the resource.
        form: The input form for values of the resource.
        text: The value as the user typed it.
        is_edited: Whether the user has typed anything.
    """

    path: str
    form: InputForm
    text: str = ""
    is_edited: bool = False

    @property
    def problem(self) -> str:
        """The reason why the text is not a valid value of the resource.

        It is empty if the text is valid, or if the user has not typed anything.
        """
        if not self.is_edited:
            return ""
        try:
            parse_value(self.text, self.path)
        except InvalidValue as error:
            return str(error)
        return ""


class ExplorerModel(Model):
    """The model of the explorer, with the devices and the resources of the chosen device.

    Args:
        client: The client of the mirror. Choosing a device reads from the mirror, never from the device.
        run: The function that makes the client calls.
        stale_after_seconds: The silence in seconds up to which a resource is never stale; see
            :func:`mirror_sdk.frames.staleness.silent_rows`.
        clock: A function that returns the time in seconds. It is used to schedule reads.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.

    Attributes:
        device_id: The id of the chosen device.
        selected: The paths of the selected resources.
        editor: The resource whose details are open, or ``None`` if no details are open.
        hours: The length of the period, in hours, of which the earlier values are displayed.
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
        self.selected: list[str] = []
        self.editor: Editor | None = None
        self.hours = HOURS[0]
        self._intervals = ReportingIntervals(stale_after_seconds)
        self._devices = DeviceList([])
        self._names: Mapping[str, str] = {}
        self._directory = PeriodicRead(self, "directory", DIRECTORY_RELOAD_SECONDS)
        self._loaded: _Loaded | None = None
        self._clock_ahead_ms: int | None = None
        self._device = PeriodicRead(self, "device", RELOAD_SECONDS)
        self._past = ResourcePast()
        self._sparklines: Sparklines | None = None
        self._past_read = PeriodicRead(self, "past", PAST_RELOAD_SECONDS)
        self._is_history = False
        self._activities: dict[tuple[str, str], str] = {}
        self._failures: dict[tuple[str, str], str] = {}

    # Devices

    def load_devices(self) -> None:
        """Read the directory of devices."""
        self._directory.start("Reading the directory", self._read_directory, self._accept_devices)
        if self.is_reading_devices:
            self.changed()

    @property
    def device_rows(self) -> list[Row]:
        """The rows of the devices, sorted by name."""
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
        """A phrase that contains the number of devices."""
        return format_count(len(self._devices), "device") if self._devices else empty_directory_text(self._directory)

    @property
    def is_reading_devices(self) -> bool:
        """Whether the directory is being read for the first time."""
        return self._directory.is_running and not self._devices

    # Resources

    def choose(self, device_id: str | None) -> None:
        """Show the resources of this device.

        Raises:
            TypeError: The id is not a string.
        """
        if device_id is not None and not isinstance(device_id, str):
            raise TypeError(f"device_id must be a string, got {device_id!r}")
        if device_id == self.device_id:
            return
        self.device_id = device_id
        self._loaded = self._sparklines = self.editor = None
        self._past = ResourcePast()
        self.selected = []
        for read in (self._device, self._past_read):
            read.cancel()
        for subject in ("device", "past"):
            self.notices.clear(subject)
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
        """The name of the chosen device."""
        return "No device chosen" if self.device_id is None else self._name(self.device_id)

    @property
    def subtitle(self) -> str:
        """A sentence about the progress or failure of reading the selected device.

        It is empty after a successful read.
        """
        if self.device_id is None:
            return "Choose a device to see its resources."
        if self._loaded is None:
            return "reading the mirror …" if self._device.is_running else "the device could not be read"
        return ""

    @property
    def is_reading(self) -> bool:
        """Whether the chosen device is being read for the first time."""
        return self._loaded is None and self._device.is_running

    @property
    def as_of(self) -> datetime | None:
        """The time of the last read of the chosen device, by the mirror's clock."""
        return self._loaded.device.created_at if self._loaded else None

    @property
    def clock_ahead_ms(self) -> int:
        """The difference between the mirror's clock and the local clock in milliseconds.

        It is positive if the mirror's clock is ahead.
        """
        return self._clock_ahead_ms or 0

    @property
    def card(self) -> Card | None:
        """The properties of the selected device, or ``None`` until the device has been read."""
        if self._loaded is None:
            return None
        device, connection = self._loaded.device, self._loaded.connection
        listed = next((one for one in self._devices if one.id == device.device_id), None)
        contacts = (
            listed.last_contact_at if listed else None,
            connection.last_contact_at if connection else None,
            device.last_reported_at,
        )
        description = listed.description if listed and listed.description else ""
        attributes = listed.custom_attributes if listed else {}
        return Card(
            name=self._name(device.device_id),
            id=device.device_id,
            type=visible(listed.endpoint_type or "") if listed else "",
            description=visible(description),
            state=visible(listed.state) if listed else "",
            attributes=[(visible(name), visible(str(value))) for name, value in attributes.items()],
            connection=[] if connection is None else _facts_of(connection),
            is_reachable=None if connection is None else connection.reachable,
            last_contact=max(filter(None, contacts), default=None),
            last_reported=device.last_reported_at,
        )

    @property
    def empty_text(self) -> str:
        """The reason why a device that was read has no resources. It is empty if the device has resources."""
        if self._loaded is None or len(self._loaded.device):
            return ""
        return "The device has no resources yet."

    @property
    def rows(self) -> list[Row]:
        """The rows of the resources of the chosen device."""
        if self._loaded is None:
            return []
        resources = self._loaded.device.resources
        groups = _group_names(resources)
        return [
            self._row(self._loaded, resource, groups[_instance_of(path)])
            for path, resource in sorted(resources.items(), key=lambda item: _path_order(item[0]))
        ]

    def frame(self, paths: Collection[str]) -> pd.DataFrame:
        """Return the rows of the state table for these resources.

        They come from the last read of the chosen device.
        """
        if self._loaded is None:
            return state_frame([], taken_at=None, server=self.client.base_url)
        device = self._loaded.device
        state = state_frame([device], taken_at=device.created_at, server=self.client.base_url)
        return state[state["path"].isin(paths)].reset_index(drop=True)

    def select(self, paths: Sequence[str]) -> None:
        """Select these resources, and no others."""
        self.selected = list(paths)
        self.changed()

    # One resource in detail

    def open_resource(self, path: str | None) -> None:
        """Open the details of a resource: its earlier values and an input field. ``None`` closes the details.

        Raises:
            ValueError: ``path`` is not a path.
        """
        if path is None:
            self.editor = None
        elif self.editor is None or self.editor.path != path:
            check_path(path)
            self.editor = Editor(path, form_of(path))
            self._apply_device()
        self.changed()

    def enter(self, text: str) -> None:
        """Store the string that the user typed into the input field of the resource editor."""
        if self.editor is not None:
            self.editor.text, self.editor.is_edited = text, True
            self.changed()

    def show_hours(self, hours: int) -> None:
        """Display the earlier values of this number of hours.

        Raises:
            InvalidValue: This length is not available.
        """
        if hours not in HOURS:
            raise InvalidValue(f"hours must be one of {', '.join(map(str, sorted(HOURS)))}, got {hours!r}")
        is_longer, self.hours = hours > self.hours, hours
        if is_longer:
            self._load_past()
        self.changed()

    def label(self, path: str) -> str:
        """Return the name of a resource. It is empty if the resource has no name."""
        definition = lookup(path)
        return definition.label if definition else ""

    def access(self, path: str) -> str:
        """Return the declared access to a resource: ``R``, ``W``, ``RW`` or ``E``.

        It is empty if there is no declaration.
        """
        definition = lookup(path)
        return definition.access if definition else ""

    @property
    def past(self) -> ResourcePast:
        """The earlier values of the resources, as lines and states over time."""
        return self._past

    @property
    def past_text(self) -> str:
        """A sentence that explains where the earlier values come from."""
        if self._past_read.is_running:
            return "reading the past …"
        return "" if self._is_history else "the service keeps no history, so values may be missing"

    # Requests

    def read(self, path: str) -> None:
        """Read a resource from the chosen device, unless such a request is already in progress."""
        self._start(path, "reading …", lambda device_id: self.client.requests.begin_read(device_id, path).result())

    def write(self, path: str, text: str) -> None:
        """Write a value to a resource of the chosen device, as the user typed it.

        Raises:
            InvalidValue: The text is not a valid value of the resource.
        """
        value = parse_value(text, path)
        self._start(path, "writing …", lambda device_id: self.client.write_value(device_id, path, value))

    def write_entered(self) -> None:
        """Write the value that the user typed into the input field of the details.

        Raises:
            InvalidValue: The text is not a valid value of the resource.
        """
        if self.editor is not None:
            self.write(self.editor.path, self.editor.text)
            # The next report of the device is displayed again.
            self.editor.is_edited = False

    def execute(self, path: str, argument: str = "") -> None:
        """Execute a resource of the chosen device."""
        self._start(path, "executing …", lambda device_id: self.client.execute(device_id, path, argument or None))

    def acknowledge(self, path: str) -> None:
        """Acknowledge the failed write of a resource, so that it no longer counts as failed."""
        resource = self._loaded.device.resources.get(path) if self._loaded else None
        if resource is not None:
            self._start(
                path,
                "acknowledging …",
                lambda device_id: self.client.requests.acknowledge_failed_write(device_id, path, if_match=resource),
            )

    def subscribe(self, path: str) -> None:
        """Subscribe to a resource of the chosen device."""
        self._start(path, "subscribing …", lambda device_id: self.client.subscribe(device_id, path))

    def unsubscribe(self, path: str) -> None:
        """End this application's subscription to a resource, if there is one."""
        if self._loaded is not None and _subscription_state(self._loaded, path).is_active_or_pending:
            self._start(path, "ending …", lambda device_id: self.client.unsubscribe(device_id, path))

    def dismiss(self) -> None:
        """Remove the notices, and the failures that are displayed in the rows."""
        self._failures.clear()
        super().dismiss()

    # Events

    def receive(self, events: Sequence[Event]) -> None:
        """Schedule reads because of the changes that the events report, and add the new values to the earlier ones."""
        for event in events:
            if event.device_id == self.device_id and event.path is not None and event.value is not None:
                self._add_value(event.path, time_of(event), event.value)
                self.changed()
            if event.device_id == self.device_id or event.kind in _EVENTS_OF_ANY_DEVICE:
                self._device.within(RELOAD_AFTER_EVENT_SECONDS)
            if event.kind in DIRECTORY_EVENTS:
                self._directory.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Start the reads that are due. Call this several times a second."""
        if self._device.is_due:
            self.load()
        if self._directory.is_due:
            self.load_devices()
        if self._past_read.is_due:
            self._load_past()

    def _load_past(self) -> None:
        """Read the values of the chosen device in the displayed hours."""
        device_id = self.device_id
        if device_id is not None:
            end, length = self.as_of or utc_now(), timedelta(hours=self.hours)
            self._past_read.start(
                f"Reading the past of {self._name(device_id)}",
                lambda: read_past_values(self.client, [device_id], (), end, length),
                self._accept_past,
            )
            self.changed()

    def _accept_past(self, past: PastValues) -> None:
        self._is_history = past.is_history
        self._past.set_past(past)
        if self._sparklines is not None:
            self._sparklines.set_past(past, past.paths)

    def _add_value(self, path: str, at: datetime, value: Value) -> None:
        point = point_of(value)
        if point is not None:
            self._past.add(path, milliseconds(at), *point)
            if self._sparklines is not None and not math.isnan(point[0]):
                self._sparklines.add(path, milliseconds(at), point[0])

    def _read_directory(self) -> tuple[DeviceList, int | None]:
        devices, ahead_ms = self.client.devices.list(), self._clock_ahead_ms
        if devices and ahead_ms is None and self.device_id is None:
            # The directory does not contain the time of the mirror's clock, to which its times refer.
            with suppress(MirrorError):
                ahead_ms = _clock_ahead_ms(self.client.get_device(devices[0].id))
        return devices, ahead_ms

    def _accept_devices(self, read: tuple[DeviceList, int | None]) -> None:
        devices, ahead_ms = read
        self._devices = devices
        if self._clock_ahead_ms is None:
            self._clock_ahead_ms = ahead_ms
        self._names = display_names({device.id: device.endpoint_name for device in devices})

    def _accept_device(self, loaded: _Loaded) -> None:
        is_first, self._loaded, self._clock_ahead_ms = self._loaded is None, loaded, loaded.clock_ahead_ms
        now = milliseconds(loaded.device.created_at)
        if self._sparklines is None:
            self._sparklines = Sparklines(now)
        self._sparklines.advance(now)
        for path, resource in loaded.device.resources.items():
            if resource.reported is not None and resource.reported.reported_at is not None:
                self._add_value(path, resource.reported.reported_at, resource.reported.value)
        self._apply_device()
        if is_first:
            self._load_past()

    def _apply_device(self) -> None:
        """Update the input form of the details from the state of the device.

        Its text is also set, unless the user has changed it.
        """
        if self.editor is None or self._loaded is None:
            return
        resource = self._loaded.device.resources.get(self.editor.path)
        if resource is None:
            return
        self.editor.form = form_of(resource.path, resource.unit)
        if not self.editor.is_edited and resource.reported is not None:
            entry = entry_of(self.editor.form, resource.reported.value)
            self.editor.text = ("true" if entry else "false") if isinstance(entry, bool) else str(entry)

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
        ahead_ms = _clock_ahead_ms(device)
        state = device.to_frame(raw=True)
        drift = drift_frame(state, unconfirmed=True)
        statuses = dict.fromkeys(state["path"][self._intervals.stale(state, self._devices)], Status.STALE)
        # A drift is more important than the age of a value.
        statuses |= {
            path: DRIFT_STATUS[DriftKind(kind)] for path, kind in zip(drift["path"], drift["kind"], strict=True)
        }
        subscriptions, connection = _subscriptions(self.client, device), _connection(self.client, device_id)
        return _Loaded(device, statuses, subscriptions, connection, ahead_ms)

    def _row(self, loaded: _Loaded, resource: Resource, group: str) -> Row:
        path, reported, status = resource.path, resource.reported, loaded.statuses.get(resource.path)
        is_drift = status not in {None, Status.STALE}
        key = (loaded.device.device_id, path)
        activity, failure = self._activities.get(key, ""), self._failures.get(key, "")
        tones = {"status": status.tone} if status else {}
        tones |= {"activity": Tone.NOTE if activity else Tone.BAD} if activity or failure else {}
        access = self.access(path)
        is_empty = reported is None and resource.desired is None and access != "E"
        is_state = reported is not None and reported.value.kind is ValueKind.BOOLEAN
        return {
            "key": path,
            "path": path,
            "group": group,
            "name": _resource_name(path),
            "value": format_value(reported.value, resource.unit) if reported else "executable" if access == "E" else "",
            "sparkline": self._sparklines and self._sparklines.line(path, is_state=is_state),
            "reported_at": reported and reported.reported_at,
            "status": status.word if status else "",
            "desired": format_value(resource.desired.value, resource.unit) if is_drift and resource.desired else "",
            "subscription": _subscription_text(loaded, resource),
            "activity": activity or failure,
            "access": access,
            "is_minor": is_empty or (names_unit(path) and status is None),
            "tones": tones,
            "hints": {"name": f"{resource.label} {path}".strip(), "status": _status_hint(resource, status)},
        }


def _facts_of(connection: DeviceConnection) -> list[tuple[str, str]]:
    """Return the properties of a connection as pairs of name and text, except for the last contact."""
    expires_at = connection.registration_expires_at
    facts = [
        ("Connection", connection.way),
        ("Binding", connection.binding or ""),
        ("Lifetime", f"{connection.lifetime_seconds:,} s"),
        ("Registered until", utc_text(expires_at) if expires_at else ""),
        ("Address", connection.address or ""),
    ]
    return [(name, visible(text)) for name, text in facts if text]


def _instance_of(path: str) -> tuple[int, int | None]:
    parts = parse_path(path)
    return parts.object_id, parts.instance_id


def _path_order(path: str) -> list[int]:
    return [int(number) for number in path.split("/")[1:]]


def _group_names(paths: Collection[str]) -> dict[tuple[int, int | None], str]:
    """Return the name of each object instance of a device.

    It includes the instance number if the device has several instances of the object.
    """
    instances = sorted({_instance_of(path) for path in paths})
    objects = {_instance_of(path)[0]: _object_name(path) for path in reversed([*paths])}
    names = Counter(object_id for object_id, _ in instances)
    return {
        (object_id, instance): objects[object_id] + (f" {instance}" if names[object_id] > 1 else "")
        for object_id, instance in instances
    }


def _object_name(path: str) -> str:
    definition = lookup(path)
    return definition.label.partition(" · ")[0] if definition else f"Object {parse_path(path).object_id}"


def _resource_name(path: str) -> str:
    definition = lookup(path)
    return definition.label.partition(" · ")[2] if definition else path


def _connection(client: MirrorClient, device_id: str) -> DeviceConnection | None:
    try:
        return client.devices.connection(device_id)
    except NotFound:
        return None


def _clock_ahead_ms(device: DeviceObject) -> int:
    return round((device.created_at - utc_now()).total_seconds()) * 1000


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
    if status is Status.FAILED and resource.desired is not None and resource.desired.category:
        return f"The write failed: {failure_reason(resource.desired.category, 'PUT')}."
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
