"""What the overview of a fleet knows: for each device what drifts, what waits and what is old."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import shown_names
from mirror_sdk.errors import NotFound
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import DriftKind, drift_frame
from mirror_sdk.progress import without_progress
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.pages import Pages
from mirror_sdk.widgets.models.reload import Reload
from mirror_sdk.widgets.models.wording import count_text
from mirror_sdk.wire.directory import Device

TILES_SHOWN = 48
DEVICES_IN_A_LOOK = 100
"""As many as can be named in one request."""
RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
DEFAULT_STALE_AFTER_SECONDS = 3600.0
_OF_THE_DIRECTORY = {EventKind.REGISTRATION, EventKind.DEREGISTRATION, EventKind.EXPIRED, EventKind.GAP}


class Condition(StrEnum):
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


_ORDER = list(Condition)
_DRIFTING = set(DriftKind) - {DriftKind.FAILED, DriftKind.PENDING, DriftKind.UNCONFIRMED}


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """A device in numbers; ``name`` may hold anything a device says.

    Attributes:
        device_id: The device.
        name: Its endpoint name.
        is_registered: Whether it is registered.
        resources: How many resources it has introduced.
        failed: How many of them have a write that failed.
        drifting: How many differ from what was asked for.
        pending: How many writes wait.
        stale: How many values are older than they may be.
        last_reported_at: When it last reported anything.
        unconfirmed: How many were reported before the device took another value.
    """

    device_id: str
    name: str
    is_registered: bool
    resources: int
    failed: int
    drifting: int
    pending: int
    stale: int
    last_reported_at: datetime | None
    unconfirmed: int = 0

    @property
    def conditions(self) -> list[Condition]:
        """All that is true of it, the worst first; ``FINE`` where nothing is wrong."""
        told = {
            Condition.FAILED: self.failed,
            Condition.DRIFT: self.drifting,
            Condition.PENDING: self.pending,
            Condition.STALE: self.stale,
            Condition.SILENT: self.last_reported_at is None,
            Condition.GONE: not self.is_registered,
        }
        return [condition for condition, is_true in told.items() if is_true] or [Condition.FINE]

    @property
    def worst(self) -> Condition:
        """The worst that is true of it."""
        return self.conditions[0]

    @property
    def text(self) -> str:
        """What is to be known of it in words."""
        parts = [f"{count} {word}" for count, word in self._counted if count]
        parts += [word for is_true, word in self._said if is_true]
        return ", ".join(parts) or "all as asked for"

    @property
    def _counted(self) -> list[tuple[int, str]]:
        return [
            (self.failed, "failed"),
            (self.drifting, "drifting"),
            (self.pending, "pending"),
            (self.stale, "stale"),
            (self.unconfirmed, "unconfirmed"),
        ]

    @property
    def _said(self) -> list[tuple[bool, str]]:
        return [(self.last_reported_at is None, "never reported"), (not self.is_registered, "not registered")]


@dataclass(frozen=True, slots=True)
class _Fleet:
    """What one reading of the fleet gave."""

    directory: dict[str, Device]
    names: dict[str, str]
    summaries: dict[str, DeviceSummary]


class FleetModel:
    """The whole fleet at a glance, worst first.

    It is read by snapshots, one request each; a service that has none is asked for one device after another.

    Args:
        client: The mirror.
        run: Makes the client calls.
        stale_after_seconds: How old a value may be for which the device gave no time of its own.
        clock: Seconds, for how often the fleet is looked at again.

    Raises:
        ValueError: ``stale_after_seconds`` is not above 0.

    Attributes:
        search: Part of a name or id that devices must have.
        condition: What must be true of devices; ``None`` for anything.
        pages: Which part of the devices is shown.
        notices: What went wrong.
        version: Grows with every change of what is shown.
    """

    def __init__(
        self,
        client: MirrorClient,
        run: Run = run_now,
        *,
        stale_after_seconds: float = DEFAULT_STALE_AFTER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not stale_after_seconds > 0:
            raise ValueError(f"stale_after_seconds={stale_after_seconds} is no age; give seconds above 0")
        self.search = ""
        self.condition: Condition | None = None
        self.pages = Pages(TILES_SHOWN)
        self.notices = Notices()
        self.version = 0
        self._client = client
        self._run = run
        self._stale_after = timedelta(seconds=stale_after_seconds)
        self._directory: dict[str, Device] = {}
        self._names: dict[str, str] = {}
        self._summaries: dict[str, DeviceSummary] = {}
        self._ranked: list[str] = []
        self._loading = Reload(clock, RELOAD_SECONDS)
        self._looking = Reload(clock, RELOAD_SECONDS)
        self._changed: set[str] = set()

    def load(self) -> None:
        """Read the directory and the whole fleet."""
        number = self._loading.begin()
        self._run(
            lambda: _read_fleet(self._client, self._stale_after),
            lambda fleet: self._took_fleet(number, fleet),
            lambda error: self._failed(number, error),
        )

    def find(self, search: str, condition: Condition | None) -> None:
        """Show the devices with this in their name or id, of which the condition is true; ``None`` for any."""
        self.search, self.condition = search, condition
        self.pages.index = 0
        self._rank()
        self.version += 1

    def turn_page(self, step: int) -> None:
        """Go on by so many pages, or back."""
        self.pages.index += step
        self.version += 1

    def dismiss(self) -> None:
        """The notices were read."""
        self.notices.dismiss()
        self.version += 1

    # What is shown

    @property
    def tiles(self) -> Sequence[DeviceSummary]:
        """The devices of the page, worst first."""
        return self.pages.cut(self._found)

    @property
    def counts(self) -> dict[Condition, int]:
        """How many devices there are by the worst that is true of them, the worst first."""
        counted = Counter(summary.worst for summary in self._summaries.values())
        return {condition: counted[condition] for condition in Condition}

    @property
    def counts_text(self) -> str:
        """What the whole fleet has, in words; values and writes are counted, not devices."""
        summaries = self._summaries.values()
        parts = [count_text(len(self._directory), "device")]
        parts += [
            count_text(sum(one.failed for one in summaries), "failed write"),
            count_text(sum(one.drifting for one in summaries), "drifting value"),
            count_text(sum(one.pending for one in summaries), "pending write"),
            count_text(sum(one.stale for one in summaries), "stale value"),
        ]
        return " · ".join(parts)

    @property
    def empty_text(self) -> str:
        """Why no device is shown; empty when one is."""
        if self._found:
            return ""
        if self._loading.is_running:
            return "reading the fleet …"
        return "No device matches." if self._directory else "The directory lists no device."

    # What comes in

    def take(self, events: Iterable[Event]) -> None:
        """Look again soon at the devices the events are about."""
        for event in events:
            if event.device_id is not None:
                self._changed.add(event.device_id)
            elif event.kind is EventKind.ASYNC_RESPONSE:
                # It names no device, but ends a write of one where a write waits.
                self._changed |= {one.device_id for one in self._summaries.values() if one.pending}
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

    @property
    def _found(self) -> list[DeviceSummary]:
        wanted = self.search.strip().casefold()
        ranked = [self._summaries[key] for key in self._ranked if key in self._summaries]
        return [
            one
            for one in ranked
            if wanted in f"{one.name}\n{one.device_id}".casefold()
            and (self.condition is None or self.condition in one.conditions)
        ]

    def _rank(self) -> None:
        """Put the worst first. Not with every event: a tile must not move away under the hand."""
        found = sorted(self._summaries.values(), key=lambda one: (_ORDER.index(one.worst), one.name, one.device_id))
        self._ranked = [one.device_id for one in found]

    def _took_fleet(self, number: int, fleet: _Fleet) -> None:
        if self._loading.end(number):
            self._directory, self._names, self._summaries = fleet.directory, fleet.names, fleet.summaries
            self._changed.clear()
            self._rank()
            self.notices.clear("fleet")
            self.version += 1

    def _look(self, device_ids: Sequence[str]) -> None:
        """Look at these devices again; those the directory did not list come with its next reading."""
        devices = {device_id: self._directory[device_id] for device_id in device_ids if device_id in self._directory}
        names, age = self._names, self._stale_after
        number = self._looking.begin()
        self._run(
            lambda: _summarise(_states(self._client, list(devices)), devices, names, age) if devices else {},
            lambda summaries: self._looked(number, summaries),
            lambda error: self._missed(number, device_ids, error),
        )

    def _looked(self, number: int, summaries: Mapping[str, DeviceSummary]) -> None:
        self._looking.end(number)
        self._summaries = {**self._summaries, **summaries}
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

    def _failed(self, number: int, error: Exception) -> None:
        if self._loading.end(number):
            self.notices.put("fleet", "Reading the fleet", error)
            self.version += 1


def _read_fleet(client: MirrorClient, stale_after: timedelta) -> _Fleet:
    directory = {device.id: device for device in client.list_devices()}
    names = shown_names({device_id: device.endpoint_name for device_id, device in directory.items()})
    return _Fleet(directory, names, _summarise(_states(client), directory, names, stale_after))


def _states(client: MirrorClient, device_ids: Sequence[str] | None = None) -> pd.DataFrame:
    # The widget says that it reads; a bar would come into the output of some cell.
    with without_progress():
        return client.snapshot(device_ids, raw=True)


def _summarise(
    state: pd.DataFrame, devices: Mapping[str, Device], names: Mapping[str, str], stale_after: timedelta
) -> dict[str, DeviceSummary]:
    """Each of the devices in numbers. A value is old where its device said so, or said nothing and it is too old."""
    kinds = _drift_by_device(state)
    resources = Counter(state["device_id"])
    holds_until = state["fresh_until"].fillna(state["reported_at"] + stale_after)
    stale = Counter(state["device_id"][holds_until < pd.Timestamp(state.attrs["mirror"]["taken_at"])])
    reported = state.dropna(subset=["reported_at"]).groupby("device_id", observed=True)["reported_at"].max()
    last = {str(device_id): at.to_pydatetime() for device_id, at in reported.items()}
    return {
        device_id: DeviceSummary(
            device_id=device_id,
            name=names[device_id],
            is_registered=device.state == "registered",
            resources=resources[device_id],
            failed=kinds[device_id, DriftKind.FAILED],
            pending=kinds[device_id, DriftKind.PENDING],
            drifting=sum(kinds[device_id, kind] for kind in _DRIFTING),
            stale=stale[device_id],
            last_reported_at=last.get(device_id),
            unconfirmed=kinds[device_id, DriftKind.UNCONFIRMED],
        )
        for device_id, device in devices.items()
    }


def _drift_by_device(state: pd.DataFrame) -> Counter[tuple[str, DriftKind]]:
    drift = drift_frame(state, unconfirmed=True)
    return Counter(
        (str(device_id), DriftKind(kind)) for device_id, kind in zip(drift["device_id"], drift["kind"], strict=True)
    )
