"""What the overview of a fleet knows: for each device what drifts, what waits and what is old."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mirror_sdk._client import MirrorClient
from mirror_sdk.device import DeviceList, DeviceObject, Resource
from mirror_sdk.errors import NotFound
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import DriftKind, drift_frame, state_frame
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.pages import Pages
from mirror_sdk.widgets.models.reload import Reload
from mirror_sdk.widgets.models.wording import count_text
from mirror_sdk.wire.directory import Device

TILES_SHOWN = 48
DEVICES_IN_A_LOOK = 200
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
        ]

    @property
    def _said(self) -> list[tuple[bool, str]]:
        return [(self.last_reported_at is None, "never reported"), (not self.is_registered, "not registered")]


class FleetModel:
    """The whole fleet at a glance, worst first. It is read in parts, each shown as it comes.

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
        self._summaries: dict[str, DeviceSummary] = {}
        self._ranked: list[str] = []
        self._loading = Reload(clock, RELOAD_SECONDS)
        self._looking = Reload(clock, RELOAD_SECONDS)
        self._changed: set[str] = set()

    def load(self) -> None:
        """Read the directory and then every device, part by part."""
        number = self._loading.begin()
        self._run(
            self._client.list_devices,
            lambda devices: self._took_directory(number, devices),
            lambda error: self._failed(number, "Reading the directory", error),
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
        every = len(self._directory)
        parts = [count_text(every, "device")]
        if len(summaries) < every:
            parts = [f"{len(summaries):,} of {count_text(every, 'device')} read"]
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
            part = [self._changed.pop() for _ in range(min(DEVICES_IN_A_LOOK, len(self._changed)))]
            number = self._looking.begin()
            self._look(part, lambda: self._looking.end(number), lambda error: self._missed(number, part, error))

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

    def _took_directory(self, number: int, devices: DeviceList) -> None:
        self._directory = {device.id: device for device in devices}
        self._summaries = {key: one for key, one in self._summaries.items() if key in self._directory}
        self._changed.clear()
        self.version += 1
        self._look_on(number, list(self._directory))

    def _look_on(self, number: int, device_ids: Sequence[str]) -> None:
        """Read the next part of the fleet, and then the rest."""
        self._rank()
        if not device_ids:
            self._loading.end(number)
            self.notices.clear("fleet")
            self.version += 1
            return
        part, rest = device_ids[:DEVICES_IN_A_LOOK], device_ids[DEVICES_IN_A_LOOK:]
        self._look(
            part,
            lambda: self._look_on(number, rest),
            lambda error: self._failed(number, "Reading the fleet", error),
        )

    def _look(self, device_ids: Sequence[str], then: Callable[[], object], failed: Callable[[Exception], None]) -> None:
        directory = [self._directory[device_id] for device_id in device_ids if device_id in self._directory]

        def took(summaries: Mapping[str, DeviceSummary]) -> None:
            self._summaries |= summaries
            self.version += 1
            then()

        self._run(lambda: _summarise(self._client, directory, self._stale_after), took, failed)

    def _missed(self, number: int, device_ids: Iterable[str], error: Exception) -> None:
        self._looking.end(number)
        self._changed |= set(device_ids)
        self.notices.put("fleet", "Reading devices again", error)
        self.version += 1

    def _failed(self, number: int, what: str, error: Exception) -> None:
        self._loading.end(number)
        self.notices.put("fleet", what, error)
        self.version += 1


def _summarise(client: MirrorClient, devices: Iterable[Device], stale_after: timedelta) -> dict[str, DeviceSummary]:
    """Look at each device in the mirror; one that is gone by now is left out."""
    objects: dict[str, DeviceObject] = {}
    known = {device.id: device for device in devices}
    for device_id in known:
        try:
            objects[device_id] = client.get_device(device_id)
        except NotFound:
            continue
    kinds = _drift_by_device(list(objects.values()))
    return {key: _summary(known[key], one, kinds.get(key, Counter()), stale_after) for key, one in objects.items()}


def _drift_by_device(objects: Sequence[DeviceObject]) -> dict[str, Counter[DriftKind]]:
    if not objects:
        return {}
    state = state_frame(objects, raw=True, taken_at=min(one.created_at for one in objects))
    drift = drift_frame(state)
    kinds: dict[str, Counter[DriftKind]] = {}
    for device_id, kind in zip(drift["device_id"], drift["kind"], strict=True):
        kinds.setdefault(str(device_id), Counter())[DriftKind(kind)] += 1
    return kinds


def _summary(
    device: Device, mirrored: DeviceObject, kinds: Counter[DriftKind], stale_after: timedelta
) -> DeviceSummary:
    resources = mirrored.resources.values()
    return DeviceSummary(
        device_id=device.id,
        name=device.endpoint_name,
        is_registered=device.state == "registered",
        resources=len(mirrored),
        failed=kinds[DriftKind.FAILED],
        pending=kinds[DriftKind.PENDING],
        drifting=sum(kinds.values()) - kinds[DriftKind.FAILED] - kinds[DriftKind.PENDING],
        stale=sum(_is_stale(resource, mirrored.created_at, stale_after) for resource in resources),
        last_reported_at=mirrored.last_reported_at,
    )


def _is_stale(resource: Resource, now: datetime, stale_after: timedelta) -> bool:
    """Whether a value is older than its device said it holds, or than it may be where the device said nothing."""
    reported = resource.reported
    if reported is None or reported.reported_at is None:
        return False
    return (reported.expires_at or reported.reported_at + stale_after) < now
