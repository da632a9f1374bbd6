"""What the overview of a fleet knows: each device in numbers, and how it stands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import pandas as pd
import pyarrow as pa

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import shown_names, visible
from mirror_sdk.errors import NotFound
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import DIRECTORY_SCHEMA, DriftKind, drift_frame
from mirror_sdk.frames.columns import build
from mirror_sdk.progress import without_progress
from mirror_sdk.tables.columns import INSTANT, fixed_category
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.marks import Mark
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.reload import Reload
from mirror_sdk.widgets.models.rhythm import Rhythms
from mirror_sdk.widgets.models.wording import count_text
from mirror_sdk.wire.directory import Device

DEVICES_IN_A_LOOK = 100
"""How many devices are looked at in one request: as many as it can name."""
RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
_OF_THE_DIRECTORY = {EventKind.REGISTRATION, EventKind.DEREGISTRATION, EventKind.EXPIRED, EventKind.GAP}


class DeviceCondition(StrEnum):
    """How a device stands, the worst first; a device has the worst that is true of it.

    ``FAILED``: a write failed. ``DRIFT``: a desired and a reported value differ. ``PENDING``: a write waits.
    ``STALE``: a value is older than it may be. ``SILENT``: nothing was ever reported. ``GONE``: not registered.
    """

    FAILED = "failed"
    DRIFT = "drift"
    PENDING = "pending"
    STALE = "stale"
    SILENT = "silent"
    GONE = "gone"
    FINE = "fine"


OF_CONDITION = {
    DeviceCondition.FAILED: Mark.FAILED,
    DeviceCondition.DRIFT: Mark.DIFFERS,
    DeviceCondition.PENDING: Mark.PENDING,
    DeviceCondition.STALE: Mark.STALE,
    DeviceCondition.SILENT: Mark.SILENT,
    DeviceCondition.GONE: Mark.GONE,
    DeviceCondition.FINE: Mark.FINE,
}
"""How each condition is shown."""
_ORDER = list(DeviceCondition)
_COUNTS = {
    DeviceCondition.FAILED: "failed",
    DeviceCondition.DRIFT: "drifting",
    DeviceCondition.PENDING: "pending",
    DeviceCondition.STALE: "stale",
}
"""What is counted of devices, by the condition it leads to."""
_NUMBERS = ("resources", *_COUNTS.values(), "unconfirmed")
_DRIFTING = set(DriftKind) - {DriftKind.FAILED, DriftKind.PENDING, DriftKind.UNCONFIRMED}
FLEET_SCHEMA = pa.schema(
    [
        *DIRECTORY_SCHEMA,
        fixed_category("condition", list(DeviceCondition)),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
        pa.field("last_reported_at", INSTANT),
    ]
)
"""The table of selected devices; see :attr:`mirror_sdk.widgets.FleetTable.selected`."""


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """A device in numbers; ``name`` may hold anything a device says.

    Attributes:
        device: What the directory says of it.
        name: How it is called here.
        resources: How many resources it has introduced.
        failed: How many of them have a write that failed and was not acknowledged.
        drifting: How many differ from what was asked for.
        pending: How many writes wait.
        stale: How many values are stale; see :func:`mirror_sdk.frames.stale.silent_rows`.
        unconfirmed: How many were reported before the device took another value.
        last_reported_at: When it last reported anything.
    """

    device: Device
    name: str
    resources: int
    failed: int
    drifting: int
    pending: int
    stale: int
    unconfirmed: int
    last_reported_at: datetime | None

    @property
    def condition(self) -> DeviceCondition:
        """The worst that is true of it; ``FINE`` where nothing is wrong."""
        if found := next((condition for condition, name in _COUNTS.items() if getattr(self, name)), None):
            return found
        if self.last_reported_at is None:
            return DeviceCondition.SILENT
        return DeviceCondition.FINE if self.device.state == "registered" else DeviceCondition.GONE

    @property
    def text(self) -> str:
        """What is to be known of it in words."""
        counted = [(getattr(self, name), name) for name in (*_COUNTS.values(), "unconfirmed")]
        said = [
            (self.last_reported_at is None, "never reported"),
            (self.device.state != "registered", "not registered"),
        ]
        parts = [f"{count} {name}" for count, name in counted if count] + [words for is_true, words in said if is_true]
        return ", ".join(parts) or "all as asked for"

    @property
    def last_contact_at(self) -> datetime | None:
        """When anything last came from it."""
        known = [at for at in (self.device.last_contact_at, self.last_reported_at) if at is not None]
        return max(known, default=None)

    @property
    def row(self) -> dict[str, Any]:
        """The device, for a grid."""
        return {
            "key": self.device.id,
            "name": self.name,
            "condition": OF_CONDITION[self.condition].text,
            "type": visible(self.device.endpoint_type or ""),
            "state": self.device.state,
            "last_contact": self.last_contact_at,
            # Nothing to be seen where there is nothing to do.
            **{name: getattr(self, name) or None for name in _COUNTS.values()},
            "tones": {"condition": OF_CONDITION[self.condition].tone},
            "hints": {"name": f"{self.name} ({self.device.id})", "condition": self.text},
        }


@dataclass(frozen=True, slots=True)
class _Fleet:
    """What one reading of the fleet gave."""

    directory: dict[str, Device]
    names: dict[str, str]
    summaries: dict[str, DeviceSummary]
    about: dict[str, Any]


class FleetModel:
    """The whole fleet at a glance, worst first.

    It is read by snapshots, one request each; a service that has none is asked for one device after another.

    Args:
        client: The mirror.
        run: Makes the client calls.
        stale_after_seconds: What silence of a resource is never too long; see
            :func:`mirror_sdk.frames.stale.silent_rows`.
        clock: Seconds, for how often the fleet is looked at again.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.

    Attributes:
        mark: What is the worst that is true of the devices that are shown; ``None`` for all devices.
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
        self.mark: Mark | None = None
        self.notices = Notices()
        self.version = 0
        self._client = client
        self._run = run
        self._rhythms = Rhythms(stale_after_seconds)
        self._fleet = _Fleet({}, {}, {}, {})
        self._rows: dict[str, dict[str, Any]] = {}
        self._loading = Reload(clock, RELOAD_SECONDS)
        self._looking = Reload(clock, RELOAD_SECONDS)
        self._changed: set[str] = set()

    def load(self) -> None:
        """Read the directory and the whole fleet."""
        number = self._loading.begin()
        # What is told from now on may have happened behind what is read.
        told, self._changed = self._changed, set()
        self._run(
            self._read_fleet,
            lambda fleet: self._took_fleet(number, fleet),
            lambda error: self._failed(number, told, error),
        )

    def dismiss(self) -> None:
        """The notices were read."""
        self.notices.dismiss()
        self.version += 1

    # What is shown

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The devices, for a grid, the worst first as the fleet was read."""
        shown = self._fleet.summaries
        return [row for key, row in self._rows.items() if self.mark in (None, OF_CONDITION[shown[key].condition])]

    @property
    def counts(self) -> dict[Mark, int]:
        """How many devices there are by the worst that is true of them."""
        return Counter(OF_CONDITION[summary.condition] for summary in self._fleet.summaries.values())

    def find(self, mark: Mark | None) -> None:
        """Show the devices of which this is the worst that is true; ``None`` shows all."""
        self.mark = mark
        self.version += 1

    @property
    def counts_text(self) -> str:
        """What the whole fleet has, in words; values and writes are counted, not devices."""
        summaries = self._fleet.summaries.values()
        parts = [count_text(len(summaries), "device")]
        nouns = ("failed write", "drifting value", "pending write", "stale value")
        parts += [
            count_text(sum(getattr(one, name) for one in summaries), noun)
            for name, noun in zip(_COUNTS.values(), nouns, strict=True)
        ]
        return " · ".join(parts)

    @property
    def as_of_text(self) -> str:
        """As of when it is, by the mirror's clock; what events tell of single devices since is shown too."""
        if self._fleet.about:
            return f"as of {pd.Timestamp(self._fleet.about['taken_at']):%Y-%m-%d %H:%M:%S} UTC"
        return "reading the fleet …" if self._loading.is_running else "not read"

    @property
    def empty_text(self) -> str:
        """Why no device is shown; empty when one is, or nobody knows yet."""
        return "The directory lists no device." if self._fleet.about and not self._rows else ""

    def frame(self, device_ids: Collection[str]) -> pd.DataFrame:
        """The table of these devices, as far as they are there; see :attr:`mirror_sdk.widgets.FleetTable.selected`."""
        found = [self._fleet.summaries[one] for one in self._rows if one in set(device_ids)]
        of_device = {"device_id": "id", "last_contact": "last_contact_at"}
        columns = {
            name: [getattr(one.device, of_device.get(name, name)) for one in found] for name in DIRECTORY_SCHEMA.names
        }
        own = [name for name in FLEET_SCHEMA.names if name not in columns]
        columns |= {name: [getattr(one, name) for one in found] for name in own}
        columns["last_contact"] = [one.last_contact_at for one in found]
        return build(columns, FLEET_SCHEMA, **self._fleet.about)

    # What comes in

    def take(self, events: Iterable[Event]) -> None:
        """Look again soon at the devices the events are about."""
        for event in events:
            if event.device_id is not None:
                self._changed.add(event.device_id)
            elif event.kind is EventKind.ASYNC_RESPONSE:
                # It names no device, but ends a write of one where a write waits.
                self._changed |= {one.device.id for one in self._fleet.summaries.values() if one.pending}
            if event.kind in _OF_THE_DIRECTORY:
                self._loading.within(RELOAD_AFTER_EVENT_SECONDS)
        if self._changed:
            self._looking.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Do what is due: it is to be called some times a second."""
        if self._loading.is_due:
            self.load()
        elif self._looking.is_due and not self._loading.is_running and self._changed:
            self._look([self._changed.pop() for _ in range(min(DEVICES_IN_A_LOOK, len(self._changed)))])

    def _took_fleet(self, number: int, fleet: _Fleet) -> None:
        if self._loading.end(number):
            self._fleet = fleet
            # Not with every event: a row must not move away under the hand.
            ranked = sorted(fleet.summaries.values(), key=lambda one: (_ORDER.index(one.condition), one.name))
            self._rows = {one.device.id: one.row for one in ranked}
            self.notices.clear("fleet")
            self.version += 1

    def _look(self, device_ids: Sequence[str]) -> None:
        """Look at these devices again; those the directory did not list come with its next reading."""
        fleet = self._fleet
        devices = {device_id: fleet.directory[device_id] for device_id in device_ids if device_id in fleet.directory}
        number = self._looking.begin()
        self._run(
            lambda: self._summarise(_states(self._client, list(devices)), devices, fleet.names) if devices else {},
            lambda summaries: self._looked(number, summaries),
            lambda error: self._missed(number, device_ids, error),
        )

    def _looked(self, number: int, summaries: Mapping[str, DeviceSummary]) -> None:
        self._looking.end(number)
        there = {device_id: summary for device_id, summary in summaries.items() if device_id in self._rows}
        self._fleet.summaries.update(there)
        self._rows.update({device_id: summary.row for device_id, summary in there.items()})
        self.version += 1

    def _missed(self, number: int, device_ids: Iterable[str], error: Exception) -> None:
        self._looking.end(number)
        if isinstance(error, NotFound):
            # One of them is gone, and the directory knows which.
            self._loading.within(0)
            return
        self._changed |= set(device_ids)
        self.notices.put("fleet", "Reading devices again", error)
        self.version += 1

    def _failed(self, number: int, told: Iterable[str], error: Exception) -> None:
        self._changed |= set(told)
        if self._loading.end(number):
            self.notices.put("fleet", "Reading the fleet", error)
            self.version += 1

    def _read_fleet(self) -> _Fleet:
        directory = {device.id: device for device in self._client.devices.list()}
        names = shown_names({device_id: device.endpoint_name for device_id, device in directory.items()})
        state = _states(self._client)
        about = {name: state.attrs["mirror"][name] for name in ("taken_at", "complete", "server")}
        return _Fleet(directory, names, self._summarise(state, directory, names), about | {"devices": len(directory)})

    def _summarise(
        self, state: pd.DataFrame, devices: Mapping[str, Device], names: Mapping[str, str]
    ) -> dict[str, DeviceSummary]:
        """Each of the devices in numbers."""
        kinds = _drift_by_device(state)
        resources = Counter(state["device_id"])
        stale = Counter(state["device_id"][self._rhythms.stale(state, devices.values())])
        reported = state.dropna(subset=["reported_at"]).groupby("device_id", observed=True)["reported_at"].max()
        last = {str(device_id): at.to_pydatetime() for device_id, at in reported.items()}
        return {
            device_id: DeviceSummary(
                device=device,
                name=names[device_id],
                resources=resources[device_id],
                failed=kinds[device_id, DriftKind.FAILED],
                pending=kinds[device_id, DriftKind.PENDING],
                drifting=sum(kinds[device_id, kind] for kind in _DRIFTING),
                stale=stale[device_id],
                unconfirmed=kinds[device_id, DriftKind.UNCONFIRMED],
                last_reported_at=last.get(device_id),
            )
            for device_id, device in devices.items()
        }


def _states(client: MirrorClient, device_ids: Sequence[str] | None = None) -> pd.DataFrame:
    # The widget says that it reads; a bar would come into the output of some cell.
    with without_progress():
        return client.fleet.snapshot(device_ids, raw=True)


def _drift_by_device(state: pd.DataFrame) -> Counter[tuple[str, DriftKind]]:
    drift = drift_frame(state, unconfirmed=True)
    return Counter(
        (str(device_id), DriftKind(kind)) for device_id, kind in zip(drift["device_id"], drift["kind"], strict=True)
    )
