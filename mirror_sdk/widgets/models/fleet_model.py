"""The model of the fleet table, which has a row for each device with its status and its counts."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import pandas as pd
import pyarrow as pa

from mirror_sdk._client import MirrorClient
from mirror_sdk._formatting import display_names, number_text, utc_text, visible
from mirror_sdk.arrow_tables.columns import INSTANT, fixed_category
from mirror_sdk.errors import InvalidValue, MirrorError, NotFound
from mirror_sdk.events import Event, EventKind, utc_now
from mirror_sdk.frames import DIRECTORY_SCHEMA, DriftKind, drift_frame
from mirror_sdk.frames.columns import build
from mirror_sdk.frames.plot_legend import label_of
from mirror_sdk.object_definitions import never_changes
from mirror_sdk.widgets.models.fleet_view import ATTRIBUTE, STATUS_NAMES, FleetView
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.main_value import main_path
from mirror_sdk.widgets.models.model import DIRECTORY_EVENTS, Model, Row, Run, run_now
from mirror_sdk.widgets.models.past_values import PastValues, milliseconds, read_past_values
from mirror_sdk.widgets.models.periodic_read import PeriodicRead
from mirror_sdk.widgets.models.reporting_intervals import ReportingIntervals
from mirror_sdk.widgets.models.sparklines import SPARKLINE_LENGTH, Sparklines
from mirror_sdk.widgets.models.status import Status
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.object_definitions import display_unit

DEVICES_PER_READ = 100
"""The maximum number of devices in one request."""
RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
PAST_RELOAD_SECONDS = 900.0
MOST_DEVICES_AT_ONCE = 500
"""The maximum number of selected devices that are read or subscribed to at the same time."""
_FAILURES_NAMED = 3
_OBVIOUS = " · Sensor Value"
"""The end of a resource label that is omitted, because it adds nothing to the name of the object."""

DEVICE_STATUSES = tuple(Status[name.upper()] for name in STATUS_NAMES)
"""The statuses of devices, with the worst one first.

The status of a device is the first one that applies.
"""
_COUNTED = {
    "failed": Status.FAILED,
    "drifting": Status.DRIFTING,
    "pending": Status.PENDING,
    "stale": Status.STALE,
}
"""The counts that determine the status of a device, with the worst one first."""
_COUNTS = (*_COUNTED, "unconfirmed")
_DRIFT_COUNTS = {
    DriftKind.FAILED: "failed",
    DriftKind.PENDING: "pending",
    DriftKind.UNCONFIRMED: "unconfirmed",
    # A value that was never reported does not differ from another value. It means that no report confirms the write.
    DriftKind.NEVER_REPORTED: "unconfirmed",
    DriftKind.REVERTED: "drifting",
    DriftKind.TYPE_MISMATCH: "drifting",
}
FLEET_SCHEMA = pa.schema(
    [
        *DIRECTORY_SCHEMA,
        fixed_category("status", [status.name.lower() for status in DEVICE_STATUSES]),
        *(pa.field(name, pa.int64()) for name in ("resources", *_COUNTS)),
        pa.field("last_reported_at", INSTANT),
    ]
)
"""The schema of the table of selected devices; see :attr:`mirror_sdk.widgets.FleetTable.selected`."""


class Reading(NamedTuple):
    """The last reported number or boolean of a resource.

    ``unit`` is a unit code, and ``at`` is in milliseconds since 1970.
    """

    number: float
    is_boolean: bool
    unit: str
    at: int

    @property
    def text(self) -> str:
        """The value with its unit, in readable form."""
        if self.is_boolean:
            return "true" if self.number else "false"
        return f"{number_text(self.number)} {visible(display_unit(self.unit))}".rstrip()


@dataclass(frozen=True)
class DeviceSummary:
    """A device with its counts. ``name`` comes from the device and may contain any characters.

    Attributes:
        device: The device as the directory lists it.
        name: The displayed name.
        resources: The number of resources of the device.
        counts: The number of resources that are ``failed``, ``drifting``, ``pending``, ``stale`` and ``unconfirmed``.
        last_reported_at: The time at which the device last reported any value.
        readings: The last number or boolean of each resource, by path.
        main_path: The path of the main value. It is empty if the device has not reported any number or boolean.
    """

    device: Device
    name: str
    resources: int
    counts: Mapping[str, int]
    last_reported_at: datetime | None
    readings: Mapping[str, Reading]
    main_path: str

    @cached_property
    def status(self) -> Status:
        """The worst status that applies to the device."""
        counted = next((status for name, status in _COUNTED.items() if self.counts[name]), None)
        return counted or next(iter(self._statuses), Status.IN_SYNC)

    @property
    def text(self) -> str:
        """A string that lists all statuses that apply to the device."""
        parts = [f"{self.counts[name]} {name}" for name in _COUNTS if self.counts[name]]
        parts += [status.word.lower() for status in self._statuses]
        return ", ".join(parts) or "in sync"

    @property
    def last_contact_at(self) -> datetime | None:
        """The time of the last contact with the device."""
        known = [at for at in (self.device.last_contact_at, self.last_reported_at) if at is not None]
        return max(known, default=None)

    def row(self, resource: str, sparklines: Sparklines | None) -> Row:
        """Return the device as a row of the table.

        Args:
            resource: The path of the resource to display, or an empty string if there is no such resource.
            sparklines: The object that draws the small charts of past values, or ``None`` if the table does not display
                them.
        """
        reading = self.readings.get(resource)
        at = None if reading is None else datetime.fromtimestamp(reading.at / 1000, UTC)
        attributes = self.device.custom_attributes.items()
        return {
            "key": self.device.id,
            "name": self.name,
            "status": self.status.word,
            "value": "" if reading is None else reading.text,
            "sparkline": sparklines and reading and sparklines.line(self.device.id, is_state=reading.is_boolean),
            "last_contact": self.last_contact_at,
            # Empty instead of 0, because such a device needs no attention.
            **{name: self.counts[name] or None for name in _COUNTED},
            "type": visible(self.device.endpoint_type or ""),
            "state": self.device.state,
            **{f"{ATTRIBUTE}{name}": visible(str(value)) for name, value in attributes},
            "tones": {name: status.tone for name, status in _COUNTED.items() if self.counts[name]},
            "hints": {
                "name": f"{self.name} ({self.device.id})",
                "status": self.text,
                **({} if at is None else {"value": f"{short_label(resource)}, reported {utc_text(at)}"}),
            },
        }

    @property
    def record(self) -> dict[str, Any]:
        """The device as a row of the table of selected devices."""
        return {
            **{name: getattr(self.device, name, None) for name in DIRECTORY_SCHEMA.names},
            **{name: self.counts[name] for name in _COUNTS},
            "device_id": self.device.id,
            "last_contact": self.last_contact_at,
            "status": self.status.name.lower(),
            "resources": self.resources,
            "last_reported_at": self.last_reported_at,
        }

    @property
    def _statuses(self) -> list[Status]:
        """The statuses that do not depend on the number of resources in a certain state."""
        never = [Status.NEVER_REPORTED] if self.last_reported_at is None else []
        return never + ([] if self.device.state == "registered" else [Status.OFFLINE])


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The data of the fleet, as they were read.

    ``clock_ahead_ms`` is how far the mirror's clock is ahead of the local clock, in milliseconds.
    """

    directory: dict[str, Device]
    names: dict[str, str]
    summaries: dict[str, DeviceSummary]
    metadata: dict[str, Any]
    clock_ahead_ms: int = 0


@dataclass(frozen=True, slots=True)
class FleetResource:
    """A resource whose values can be displayed: its path, its name, and the number of devices that have reported it."""

    path: str
    label: str
    devices: int


Act: TypeAlias = Callable[[], Exception | None]
"""A function that waits for the end of a read or subscription and returns the error, or ``None`` if it succeeded."""


class FleetModel(Model):
    """The model of the entire fleet, with the devices with the worst status first.

    The model reads all devices with a single snapshot request, or device by device if the service has no snapshots.
    Another single request reads the history of the displayed resource for all devices.

    Args:
        client: The client of the mirror.
        run: The function that makes the client calls.
        stale_after_seconds: The silence in seconds up to which a resource is never stale; see
            :func:`mirror_sdk.frames.staleness.silent_rows`.
        view: The initial view.
        clock: A function that returns the time in seconds. It is used to schedule reads.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.

    Attributes:
        view: The current view.
        selected: The ids of the selected devices.
        is_acting: Whether a read or a subscription of selected devices is in progress.
        activity: A sentence about the read or subscription in progress, or about its result. It is empty if there is
            nothing to report.
    """

    def __init__(
        self,
        client: MirrorClient,
        run: Run = run_now,
        *,
        stale_after_seconds: float | None = None,
        view: FleetView | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, run, clock=clock)
        self.view = view or FleetView()
        self.selected: list[str] = []
        self.activity = ""
        self.is_acting = False
        self._intervals = ReportingIntervals(stale_after_seconds)
        self._fleet = _Fleet({}, {}, {}, {})
        self._rows: dict[str, Row] = {}
        self._resources: list[FleetResource] = []
        self._sparklines: Sparklines | None = None
        self._is_history = False
        self._past_of: frozenset[str] = frozenset()
        self._all = PeriodicRead(self, "fleet", RELOAD_SECONDS)
        self._updates = PeriodicRead(self, "devices", RELOAD_SECONDS)
        self._past = PeriodicRead(self, "sparklines", PAST_RELOAD_SECONDS)
        self._changed_ids: set[str] = set()

    def load(self) -> None:
        """Read the directory and the state of all devices."""
        # The read may lack changes that happen from now on.
        earlier, self._changed_ids = self._changed_ids, set()
        self._all.start(
            "Reading the fleet", self._read_all, self._accept_all, lambda _: self._changed_ids.update(earlier)
        )
        if self.is_loading:
            self.changed()

    # Display

    @property
    def rows(self) -> list[Row]:
        """The table rows of all devices.

        They are sorted by the status that the devices had when the entire fleet was last read, with the worst status
        first.
        """
        return list(self._rows.values())

    @property
    def displayed_rows(self) -> list[Row]:
        """The rows of those devices that have the status selected in the view."""
        word = Status[self.view.status.upper()].word if self.view.status else ""
        return [row for row in self._rows.values() if not word or row["status"] == word]

    @property
    def counts(self) -> Counter[Status]:
        """The number of devices with each status."""
        return Counter(summary.status for summary in self._fleet.summaries.values())

    @property
    def counts_text(self) -> str:
        """A sentence that contains the numbers of devices, values and writes."""
        summaries = self._fleet.summaries.values()
        parts = [format_count(len(summaries), "device")]
        nouns = ("failed write", "drifting value", "pending write", "stale value")
        parts += [
            format_count(sum(one.counts[name] for one in summaries), noun)
            for name, noun in zip(_COUNTED, nouns, strict=True)
        ]
        return " · ".join(parts)

    @property
    def taken_at(self) -> datetime | None:
        """The time of the last read of the entire fleet, by the mirror's clock."""
        return datetime.fromisoformat(self._fleet.metadata["taken_at"]) if self._fleet.metadata else None

    @property
    def as_of_text(self) -> str:
        """A sentence that contains the time at which the entire fleet was last read."""
        if self.taken_at is not None:
            return f"as of {utc_text(self.taken_at)}"
        return "reading the fleet …" if self._all.is_running else "not read"

    @property
    def is_loading(self) -> bool:
        """Whether the fleet is being read for the first time."""
        return self._all.is_running and not self._fleet.metadata

    @property
    def clock_ahead_ms(self) -> int:
        """The difference between the mirror's clock and the local clock in milliseconds.

        It is positive if the mirror's clock is ahead.
        """
        return self._fleet.clock_ahead_ms

    @property
    def empty_text(self) -> str:
        """The reason why a fleet that was read has no devices. It is empty if there are devices."""
        return "The directory lists no device." if self._fleet.metadata and not self._rows else ""

    @property
    def attributes(self) -> list[str]:
        """The names of the custom attributes in the fleet."""
        return sorted({name for device in self._fleet.directory.values() for name in device.custom_attributes})

    def frame(self, device_ids: Collection[str]) -> pd.DataFrame:
        """Return the table of these devices; see :attr:`mirror_sdk.widgets.FleetTable.selected`."""
        chosen = set(device_ids)
        records = [self._fleet.summaries[key].record for key in self._rows if key in chosen]
        columns = {name: [record[name] for record in records] for name in FLEET_SCHEMA.names}
        return build(columns, FLEET_SCHEMA, **self._fleet.metadata)

    # The view

    def change_view(self, changes: Mapping[str, Any]) -> None:
        """Change some members of the view. The members have the same names as in :meth:`FleetView.to_dict`.

        Raises:
            InvalidValue: A member is unknown or has an invalid value.
        """
        self.show_view(self.view.with_changes(changes))

    def show_view(self, view: FleetView) -> None:
        """Show another view."""
        before, self.view = self.view, view
        if before.resource != view.resource:
            self._show_values()
        if before != view:
            self.changed()

    def show_only(self, status: Status | None) -> None:
        """Show only devices with this status. ``None`` shows all devices."""
        self.change_view({"status": "" if status is None else status.name.lower()})

    # The displayed values

    @property
    def resource(self) -> FleetResource | None:
        """The resource of the view. It is ``None`` if the main value of each device is displayed."""
        path = self.view.resource
        if not path:
            return None
        found = next((one for one in self._resources if one.path == path), None)
        return found or FleetResource(path, label_of(path), 0)

    @property
    def resources(self) -> list[FleetResource]:
        """The resources of the fleet that have numbers or booleans, with the most frequent one first."""
        return self._resources

    def displayed_path(self, device: Device) -> str:
        """Return the path of the resource that is displayed for a device.

        It is the resource of the view, or else the resource with the main value of the device.

        Returns:
            The path. It is empty if the device has not reported any number or boolean.
        """
        summary = self._fleet.summaries.get(device.id)
        return self.view.resource or ("" if summary is None else summary.main_path)

    @property
    def sparkline_text(self) -> str:
        """A sentence that explains the sparklines."""
        if self._past.is_running and self._sparklines is None:
            return "reading the last 24 hours …"
        if self._is_history:
            return "mean of each half hour in the last 24 hours"
        return "mean of each half hour; the service keeps no history, so values may be missing"

    def _show_values(self) -> None:
        """Show the values of the current resources, and read their past unless it was already read."""
        main_paths = {summary.main_path for summary in self._fleet.summaries.values()}
        paths = frozenset([self.view.resource] if self.view.resource else main_paths - {""})
        if paths != self._past_of:
            self._past_of, self._sparklines = paths, None
            self._past.cancel()
            if paths:
                self._load_past()
        self._fill_rows(self._fleet.summaries.values())

    def _load_past(self) -> None:
        paths, end = sorted(self._past_of), self.taken_at or utc_now()
        self._past.start(
            "Reading the last 24 hours",
            lambda: read_past_values(self.client, (), paths, end, SPARKLINE_LENGTH),
            self._accept_past,
        )
        self.changed()

    def _accept_past(self, past: PastValues) -> None:
        if self._sparklines is None:
            self._sparklines = Sparklines(milliseconds(self.taken_at or utc_now()))
        displayed = {key: self.displayed_path(device) for key, device in self._fleet.directory.items()}
        is_displayed = [displayed.get(key) == path for key, path in zip(past.device_ids, past.paths, strict=True)]
        found = past.where(is_displayed)
        self._sparklines.set_past(found, found.device_ids)
        self._is_history = past.is_history
        self._fill_rows(self._fleet.summaries.values())

    def _fill_rows(self, summaries: Iterable[DeviceSummary]) -> None:
        """Build the rows of these devices again, and add the values of the devices to the sparklines."""
        sparklines = self._sparklines
        for summary in summaries:
            path = self.displayed_path(summary.device)
            reading = summary.readings.get(path)
            if sparklines is not None and reading is not None:
                sparklines.add(summary.device.id, reading.at, reading.number)
            self._rows[summary.device.id] = summary.row(path, sparklines)

    # Acts on the selection

    def select(self, device_ids: Iterable[str]) -> None:
        """Select these devices, and no others."""
        # A page sends JSON, which may be a list of any values.
        self.selected = list(map(str, device_ids))
        if not self.is_acting:
            self.activity = ""
        self.changed()

    @property
    def selected_with_value(self) -> list[str]:
        """The selected devices that have a displayed value."""
        found = [self._fleet.summaries[key] for key in self.selected if key in self._fleet.summaries]
        return [one.device.id for one in found if self.displayed_path(one.device) in one.readings]

    def read_selected(self) -> None:
        """Read the displayed resources from the selected devices.

        Raises:
            InvalidValue: Too many devices are selected, or none of them has a displayed value.
        """
        self._act("Reading", "Read", self._read_value)

    def subscribe_selected(self) -> None:
        """Subscribe to the displayed resources of the selected devices.

        Raises:
            InvalidValue: Too many devices are selected, or none of them has a displayed value.
        """
        self._act("Subscribing to", "Subscribed to", self._subscribe)

    def _act(self, present: str, past: str, act: Callable[[str, str], Act]) -> None:
        """Start a read or subscription for each selected device with a value, and report the outcome of all of them."""
        if self.is_acting:
            return
        directory = self._fleet.directory
        paths = {key: self.displayed_path(directory[key]) for key in self.selected_with_value}
        if not paths:
            raise InvalidValue("none of the selected devices has a value in the table; select devices with a value")
        if len(paths) > MOST_DEVICES_AT_ONCE:
            raise InvalidValue(f"{len(paths):,} devices are selected; select at most {MOST_DEVICES_AT_ONCE} at once")
        labels = {short_label(path) for path in paths.values()}
        label = labels.pop() if len(labels) == 1 else "the values"
        self.is_acting = True
        subject = f"{label} of {format_count(len(paths), 'device')}"
        self.activity = f"{present} {subject} …"
        self.changed()

        def ended(failures: Mapping[str, Exception]) -> None:
            self.is_acting = False
            done = len(paths) - len(failures)
            self.activity = f"{past} {label} of {format_count(done, 'device')}" if done else ""
            if failures:
                self.report("selection", f"{present} {subject}", _summary_of(failures, self._fleet.names))
            else:
                self.notices.clear("selection")
            self._changed_ids.update(paths)
            self._updates.within(0)
            self.changed()

        def failed(error: Exception) -> None:
            self.is_acting = False
            self.activity = ""
            self.report("selection", f"{present} {subject}", error)
            self.changed()

        def perform() -> dict[str, Exception]:
            started = {key: act(key, path) for key, path in paths.items()}
            outcomes = {key: outcome() for key, outcome in started.items()}
            return {key: error for key, error in outcomes.items() if error is not None}

        self.run(perform, ended, failed)

    def _read_value(self, device_id: str, path: str) -> Act:
        try:
            return self.client.requests.begin_read(device_id, path).exception
        except MirrorError as error:
            return _failed_with(error)

    def _subscribe(self, device_id: str, path: str) -> Act:
        try:
            self.client.subscribe(device_id, path)
        except MirrorError as error:
            return _failed_with(error)
        return lambda: None

    # Events

    def receive(self, events: Sequence[Event]) -> None:
        """Schedule reads of the devices that the events concern."""
        for event in events:
            if event.device_id is not None:
                self._changed_ids.add(event.device_id)
            elif event.kind is EventKind.ASYNC_RESPONSE:
                # The event does not contain a device, but it ends a write on one of the devices with a pending write.
                self._changed_ids |= {key for key, one in self._fleet.summaries.items() if one.counts["pending"]}
            if event.kind in DIRECTORY_EVENTS:
                self._all.within(RELOAD_AFTER_EVENT_SECONDS)
        if self._changed_ids:
            self._updates.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Start the reads that are due. Call this several times a second."""
        if self._all.is_due:
            self.load()
        # This must not happen during a read of the entire fleet, whose older values would replace the newer ones.
        elif self._past.is_due and self._past_of:
            self._load_past()
        elif self._updates.is_due and not self._all.is_running and self._changed_ids:
            count = min(DEVICES_PER_READ, len(self._changed_ids))
            self._reload_devices([self._changed_ids.pop() for _ in range(count)])

    def _reload_devices(self, device_ids: Sequence[str]) -> None:
        """Read these devices again.

        If a device is not in the directory yet, the directory is read as well.
        """
        fleet = self._fleet
        devices = {device_id: fleet.directory[device_id] for device_id in device_ids if device_id in fleet.directory}

        def read() -> dict[str, DeviceSummary] | None:
            try:
                state = self.client.fleet.snapshot(list(devices), raw=True) if devices else None
            except NotFound:
                return None
            return {} if state is None else self._summarize(state, devices, fleet.names)

        self._updates.start(
            "Reading devices again", read, self._accept_updates, lambda _: self._changed_ids.update(device_ids)
        )

    def _accept_all(self, fleet: _Fleet) -> None:
        self._drop_lines_of_other_values(fleet.summaries)
        self._fleet = fleet
        if self._sparklines is not None and self.taken_at is not None:
            self._sparklines.advance(milliseconds(self.taken_at))
        self._resources = _resources_of(fleet.summaries.values())
        # Rows are sorted only here, so that they do not move under the mouse with each event.
        ranked = sorted(fleet.summaries.values(), key=lambda one: (DEVICE_STATUSES.index(one.status), one.name))
        self._rows = {one.device.id: {} for one in ranked}
        self.selected = [key for key in self.selected if key in self._rows]
        self._show_values()

    def _accept_updates(self, summaries: Mapping[str, DeviceSummary] | None) -> None:
        if summaries is None:
            # One of the devices was deleted. The directory shows which one.
            self._all.within(0)
            return
        listed = {device_id: summary for device_id, summary in summaries.items() if device_id in self._rows}
        earlier = self._fleet.summaries
        has_new_resource = any(one.readings.keys() != earlier[key].readings.keys() for key, one in listed.items())
        self._drop_lines_of_other_values(listed)
        earlier.update(listed)
        if has_new_resource:
            self._resources = _resources_of(earlier.values())
            self._show_values()
        else:
            self._fill_rows(listed.values())

    def _drop_lines_of_other_values(self, summaries: Mapping[str, DeviceSummary]) -> None:
        """Remove the sparklines of devices whose main value is now a different resource."""
        before = self._fleet.summaries
        if self._sparklines is not None and not self.view.resource:
            for key, summary in summaries.items():
                if key in before and before[key].main_path != summary.main_path:
                    self._sparklines.drop(key)

    def _read_all(self) -> _Fleet:
        directory = {device.id: device for device in self.client.devices.list()}
        names = display_names({device_id: device.endpoint_name for device_id, device in directory.items()})
        state = self.client.fleet.snapshot(raw=True)
        metadata = {name: state.attrs["mirror"][name] for name in ("taken_at", "complete", "server")}
        ahead = datetime.fromisoformat(metadata["taken_at"]) - utc_now()
        summaries = self._summarize(state, directory, names)
        # The difference is rounded to seconds, because it includes the time that the response took.
        ahead_ms = round(ahead.total_seconds()) * 1000
        return _Fleet(directory, names, summaries, metadata | {"devices": len(directory)}, ahead_ms)

    def _summarize(
        self, state: pd.DataFrame, devices: Mapping[str, Device], names: Mapping[str, str]
    ) -> dict[str, DeviceSummary]:
        drift = drift_frame(state, unconfirmed=True)
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for device_id, kind in zip(drift["device_id"], drift["kind"], strict=True):
            counts[device_id][_DRIFT_COUNTS[DriftKind(kind)]] += 1
        for device_id in state["device_id"][self._intervals.stale(state, devices.values())]:
            counts[device_id]["stale"] += 1
        resources = Counter(state["device_id"])
        reported = state.dropna(subset=["reported_at"]).groupby("device_id", observed=True)["reported_at"].max()
        last = {str(device_id): at.to_pydatetime() for device_id, at in reported.items()}
        readings = _readings_of(state)
        none = dict.fromkeys(_COUNTS, 0)
        return {
            device_id: DeviceSummary(
                device,
                names[device_id],
                resources[device_id],
                none | counts[device_id] if device_id in counts else none,
                last.get(device_id),
                readings.get(device_id, {}),
                main_path(readings.get(device_id, {})),
            )
            for device_id, device in devices.items()
        }


def _readings_of(state: pd.DataFrame) -> dict[str, dict[str, Reading]]:
    """Return the numbers and booleans of a state table by device and path, except those that never change."""
    constant = [path for path in state["path"].cat.categories if never_changes(path)]
    is_boolean = state["reported_bool"].notna()
    rows = state[(is_boolean | state["reported_num"].notna()) & state["reported_at"].notna()]
    rows = rows[~rows["path"].isin(constant)]
    numbers = rows["reported_num"].fillna(rows["reported_bool"].astype("Float64")).astype("float64")
    at = rows["reported_at"].astype("datetime64[ms, UTC]").astype("int64")
    units = rows["unit"].astype(object).where(rows["unit"].notna(), "")
    found: defaultdict[str, dict[str, Reading]] = defaultdict(dict)
    for device_id, path, *reading in zip(
        rows["device_id"], rows["path"], numbers.tolist(), is_boolean[rows.index], units, at.tolist(), strict=True
    ):
        found[device_id][path] = Reading(*reading)
    return dict(found)


def _resources_of(summaries: Iterable[DeviceSummary]) -> list[FleetResource]:
    """Return the resources that have readings, with the most frequent one first."""
    counts = Counter(path for summary in summaries for path in summary.readings)
    found = [FleetResource(path, label_of(path), count) for path, count in counts.items()]
    return sorted(found, key=lambda one: (-one.devices, one.label, one.path))


def short_label(path: str) -> str:
    """Return the name of a resource, without an ending that only repeats the name of the object."""
    return label_of(path).removesuffix(_OBVIOUS)


def _failed_with(error: MirrorError) -> Act:
    return lambda: error


def _summary_of(failures: Mapping[str, Exception], names: Mapping[str, str]) -> Exception:
    """Return one error that summarizes the failures of several devices."""
    reasons = [f"{names.get(device_id, device_id)}: {error}" for device_id, error in failures.items()]
    more = len(reasons) - _FAILURES_NAMED
    text = "; ".join(reasons[:_FAILURES_NAMED]) + (f"; and {format_count(more, 'more device')}" if more > 0 else "")
    return MirrorError(f"failed for {format_count(len(reasons), 'device')}. {text}")
