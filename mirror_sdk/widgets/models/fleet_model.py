"""The model of the fleet table: each device with its status and its counts."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import display_names, visible
from mirror_sdk.errors import NotFound
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import DIRECTORY_SCHEMA, DriftKind, drift_frame
from mirror_sdk.frames.columns import build
from mirror_sdk.tables.columns import INSTANT, fixed_category
from mirror_sdk.widgets.models.formatting import format_count, format_time
from mirror_sdk.widgets.models.model import DIRECTORY_EVENTS, Model, Row, Run, run_now
from mirror_sdk.widgets.models.periodic_read import PeriodicRead
from mirror_sdk.widgets.models.reporting_intervals import ReportingIntervals
from mirror_sdk.widgets.models.status import Status
from mirror_sdk.wire.directory import Device

DEVICES_PER_READ = 100
"""The maximum number of devices in one request."""
RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0

DEVICE_STATUSES = (
    Status.FAILED,
    Status.DRIFTING,
    Status.PENDING,
    Status.STALE,
    Status.NEVER_REPORTED,
    Status.OFFLINE,
    Status.IN_SYNC,
)
"""The statuses of devices, worst first. A device has the first one that applies."""
_COUNTED = {
    "failed": Status.FAILED,
    "drifting": Status.DRIFTING,
    "pending": Status.PENDING,
    "stale": Status.STALE,
}
"""The counts of a device that give it a status, worst first."""
_COUNTS = (*_COUNTED, "unconfirmed")
_DRIFT_COUNTS = {
    DriftKind.FAILED: "failed",
    DriftKind.PENDING: "pending",
    DriftKind.UNCONFIRMED: "unconfirmed",
    DriftKind.REVERTED: "drifting",
    DriftKind.NEVER_REPORTED: "drifting",
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
"""The table of selected devices; see :attr:`mirror_sdk.widgets.FleetTable.selected`."""


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """A device with its counts. ``name`` comes from the device and may contain anything.

    Attributes:
        device: The device as the directory lists it.
        name: The displayed name.
        resources: The number of its resources.
        counts: The number of ``failed``, ``drifting``, ``pending``, ``stale`` and ``unconfirmed`` ones.
        last_reported_at: The time of its last report of anything.
    """

    device: Device
    name: str
    resources: int
    counts: Mapping[str, int]
    last_reported_at: datetime | None

    @property
    def status(self) -> Status:
        """The worst status that applies."""
        counted = next((status for name, status in _COUNTED.items() if self.counts[name]), None)
        return counted or next(iter(self._statuses), Status.IN_SYNC)

    @property
    def text(self) -> str:
        """All statuses that apply, in words."""
        parts = [f"{self.counts[name]} {name}" for name in _COUNTS if self.counts[name]]
        parts += [status.word.lower() for status in self._statuses]
        return ", ".join(parts) or "in sync"

    @property
    def last_contact_at(self) -> datetime | None:
        """The time of the last contact of the device."""
        known = [at for at in (self.device.last_contact_at, self.last_reported_at) if at is not None]
        return max(known, default=None)

    @property
    def row(self) -> Row:
        """The device as a row of the grid."""
        return {
            "key": self.device.id,
            "name": self.name,
            "status": self.status.text,
            "type": visible(self.device.endpoint_type or ""),
            "state": self.device.state,
            "last_contact": self.last_contact_at,
            # Empty instead of 0, because it needs no attention.
            **{name: self.counts[name] or None for name in _COUNTED},
            "tones": {"status": self.status.tone},
            "hints": {"name": f"{self.name} ({self.device.id})", "status": self.text},
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
        """The statuses that do not count resources."""
        never = [Status.NEVER_REPORTED] if self.last_reported_at is None else []
        return never + ([] if self.device.state == "registered" else [Status.OFFLINE])


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The fleet as it was read."""

    directory: dict[str, Device]
    names: dict[str, str]
    summaries: dict[str, DeviceSummary]
    metadata: dict[str, Any]


class FleetModel(Model):
    """The whole fleet, the devices with the worst status first.

    It is read by snapshots, one request each, or device by device if the service has no snapshots.

    Args:
        client: The mirror.
        run: Makes the client calls.
        stale_after_seconds: A resource that is silent for no longer than this is never stale; see
            :func:`mirror_sdk.frames.stale.silent_rows`.
        clock: Returns seconds; used to schedule reads.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.

    Attributes:
        status: The status of the displayed devices; ``None`` for all devices.
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
        self.status: Status | None = None
        self._intervals = ReportingIntervals(stale_after_seconds)
        self._fleet = _Fleet({}, {}, {}, {})
        self._rows: dict[str, Row] = {}
        self._all = PeriodicRead(self, "fleet", RELOAD_SECONDS)
        self._updates = PeriodicRead(self, "devices", RELOAD_SECONDS)
        self._changed_ids: set[str] = set()

    def load(self) -> None:
        """Read the directory and the whole fleet."""
        # Changes from now on may be missing in the read.
        earlier, self._changed_ids = self._changed_ids, set()
        self._all.start(
            "Reading the fleet", self._read_all, self._accept_all, lambda _: self._changed_ids.update(earlier)
        )

    # Display

    @property
    def rows(self) -> list[Row]:
        """The devices of the chosen status, worst first at the last read of the whole fleet."""
        summaries = self._fleet.summaries
        return [row for key, row in self._rows.items() if self.status in {None, summaries[key].status}]

    @property
    def counts(self) -> dict[Status, int]:
        """The number of devices by status."""
        return Counter(summary.status for summary in self._fleet.summaries.values())

    def show_only(self, status: Status | None) -> None:
        """Show only devices of this status; ``None`` shows all."""
        self.status = status
        self.changed()

    @property
    def counts_text(self) -> str:
        """The number of devices, and of their values and writes, in words."""
        summaries = self._fleet.summaries.values()
        parts = [format_count(len(summaries), "device")]
        nouns = ("failed write", "drifting value", "pending write", "stale value")
        parts += [
            format_count(sum(one.counts[name] for one in summaries), noun)
            for name, noun in zip(_COUNTED, nouns, strict=True)
        ]
        return " · ".join(parts)

    @property
    def as_of_text(self) -> str:
        """The time of the last read of the whole fleet, by the mirror's clock."""
        if self._fleet.metadata:
            return f"as of {format_time(datetime.fromisoformat(self._fleet.metadata['taken_at']))}"
        return "reading the fleet …" if self._all.is_running else "not read"

    @property
    def empty_text(self) -> str:
        """The reason why a fleet that was read has no devices; empty if it has some."""
        return "The directory lists no device." if self._fleet.metadata and not self._rows else ""

    def frame(self, device_ids: Collection[str]) -> pd.DataFrame:
        """Return the table of these devices; see :attr:`mirror_sdk.widgets.FleetTable.selected`."""
        records = [self._fleet.summaries[key].record for key in self._rows if key in set(device_ids)]
        columns = {name: [record[name] for record in records] for name in FLEET_SCHEMA.names}
        return build(columns, FLEET_SCHEMA, **self._fleet.metadata)

    # Events

    def receive(self, events: Sequence[Event]) -> None:
        """Schedule reads of the devices that the events concern."""
        for event in events:
            if event.device_id is not None:
                self._changed_ids.add(event.device_id)
            elif event.kind is EventKind.ASYNC_RESPONSE:
                # It names no device, but ends a write of a device with a pending write.
                self._changed_ids |= {key for key, one in self._fleet.summaries.items() if one.counts["pending"]}
            if event.kind in DIRECTORY_EVENTS:
                self._all.within(RELOAD_AFTER_EVENT_SECONDS)
        if self._changed_ids:
            self._updates.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Do pending reads. Call this several times a second."""
        if self._all.is_due:
            self.load()
        # Not during a read of the whole fleet, whose older values would replace the newer ones.
        elif self._updates.is_due and not self._all.is_running and self._changed_ids:
            count = min(DEVICES_PER_READ, len(self._changed_ids))
            self._reload_devices([self._changed_ids.pop() for _ in range(count)])

    def _reload_devices(self, device_ids: Sequence[str]) -> None:
        """Read these devices again. Devices that are not in the directory yet are read with it."""
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
        self._fleet = fleet
        # Sort only here, so that rows do not move under the mouse with each event.
        ranked = sorted(fleet.summaries.values(), key=lambda one: (DEVICE_STATUSES.index(one.status), one.name))
        self._rows = {one.device.id: one.row for one in ranked}

    def _accept_updates(self, summaries: Mapping[str, DeviceSummary] | None) -> None:
        if summaries is None:
            # One of the devices was deleted; the directory shows which.
            self._all.within(0)
            return
        listed = {device_id: summary for device_id, summary in summaries.items() if device_id in self._rows}
        self._fleet.summaries.update(listed)
        self._rows.update({device_id: summary.row for device_id, summary in listed.items()})

    def _read_all(self) -> _Fleet:
        directory = {device.id: device for device in self.client.devices.list()}
        names = display_names({device_id: device.endpoint_name for device_id, device in directory.items()})
        state = self.client.fleet.snapshot(raw=True)
        metadata = {name: state.attrs["mirror"][name] for name in ("taken_at", "complete", "server")}
        return _Fleet(
            directory, names, self._summarize(state, directory, names), metadata | {"devices": len(directory)}
        )

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
        return {
            device_id: DeviceSummary(
                device, names[device_id], resources[device_id], counts[device_id], last.get(device_id)
            )
            for device_id, device in devices.items()
        }
