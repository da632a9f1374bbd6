"""What the event watcher knows: the newest events, how fast they come, what was lost, and what of it is shown."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import shown_names
from mirror_sdk.device import DeviceList
from mirror_sdk.events import Event, EventKind, event_filter
from mirror_sdk.frames import events_frame
from mirror_sdk.frames.legend import line_names
from mirror_sdk.object_table import lookup
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.pages import Pages
from mirror_sdk.widgets.models.recording_model import RecordingModel
from mirror_sdk.widgets.models.wording import count_text, value_text
from mirror_sdk.wire.paths import check_pattern

if TYPE_CHECKING:
    import pandas as pd

EVENTS_KEPT = 10_000
ROWS_SHOWN = 12
SERIES_PLOTTED = 4
SERIES_LISTED = 100
SERIES_SHOWN = 6
RATE_SECONDS = 10
LARGEST_PLOTTED = 1e100


class SeriesKey(NamedTuple):
    """A resource of a device."""

    device_id: str
    path: str


class Point(NamedTuple):
    """A number at a time."""

    at: datetime
    number: float


@dataclass(frozen=True, slots=True)
class Series:
    """A line of the plot; ``name`` may hold anything a device says."""

    name: str
    unit: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as it is shown; texts may hold anything a device says."""

    received_at: str
    kind: EventKind
    device: str
    path: str
    label: str
    value: str


class _Rate:
    """How many came in a second, over the last ten."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: Counter[int] = Counter()
        self._first: int | None = None

    def add(self, count: int) -> None:
        second = int(self._clock())
        self._counts[second] += count
        self._first = second if self._first is None else self._first
        for old in [one for one in self._counts if one <= second - RATE_SECONDS]:
            del self._counts[old]

    @property
    def per_second(self) -> float:
        second = int(self._clock())
        if self._first is None:
            return 0.0
        counted = sum(count for at, count in self._counts.items() if at > second - RATE_SECONDS)
        return counted / min(RATE_SECONDS, second - self._first + 1)


class WatcherModel:
    """The events of chosen resources, the newest of them kept.

    Pausing holds still what is shown and goes on collecting. Without following, the table stays where it is while plot
    and numbers go on.

    Args:
        client: The mirror; it is asked for the names of devices.
        devices: Names or ids of devices; ``None`` takes all.
        paths: Path patterns (``/3303/*``); ``None`` takes every event, not observations alone.
        run: Makes the client calls.
        events_kept: How many events are kept at most.
        clock: Seconds, for the rate.

    Raises:
        TypeError: A single text was given where a list of texts belongs.
        ValueError: A pattern is not one.

    Attributes:
        notices: What went wrong.
        recording: The recording of what is chosen.
        version: Grows with every change of what is shown.
        plotted: The series chosen for the plot; with none, the first that bring numbers.
        series_pages: Which part of what can be plotted is listed.
        total: How many events came since the beginning or since they were cleared.
        gaps: How many losses the service told of.
        lost: How many events those losses hold, as far as their number is known.
        overrun: How many events came faster than they could be taken, and are not here.
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: Collection[str] | None = None,
        paths: Collection[str] | None = None,
        run: Run = run_now,
        *,
        events_kept: int = EVENTS_KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.notices = Notices()
        self.version = 0
        self.recording = RecordingModel(client, run, self.notices, self._has_changed)
        self._client = client
        self._run = run
        self._names: Mapping[str, str] = {}
        self._shown_names: Mapping[str, str] = {}
        self._events: deque[Event] = deque(maxlen=events_kept)
        self._rate = _Rate(clock)
        self._units: dict[SeriesKey, str] = {}
        self.plotted: tuple[SeriesKey, ...] = ()
        self.series_pages = Pages(SERIES_SHOWN)
        self._frozen: tuple[Event, ...] | None = None
        self._total_at_pause = 0
        self._anchor: int | None = None
        self._forget()
        self.devices: tuple[str, ...] = ()
        self.paths: tuple[str, ...] = ()
        self.choose(devices or (), paths or ())

    # What is chosen

    def choose(self, devices: Collection[str], paths: Collection[str]) -> None:
        """Take events of these devices and paths from now on; an empty collection takes all. Nothing is sent.

        Raises:
            TypeError: A single text was given where a list of texts belongs.
            ValueError: A pattern is not one.
        """
        for pattern in () if isinstance(paths, str) else paths:
            check_pattern(pattern)
        event_filter(paths, devices)
        self.devices, self.paths = tuple(devices), tuple(paths)
        self._renew_filter()
        self.version += 1

    def load_names(self) -> None:
        """Read the names of the devices from the directory."""
        self._run(self._client.list_devices, self._took_names, self._no_names)

    # What comes in

    def take(self, events: Iterable[Event], overrun: int = 0) -> None:
        """Keep the events that are wanted.

        Args:
            events: In the order in which they came.
            overrun: How many more had to be given up before these.
        """
        taken = [event for event in events if self._wants(event)]
        if not taken and not overrun:
            return
        for event in taken:
            if event.kind is EventKind.GAP:
                self._lose(event)
            elif _number(event) is not None and len(self._units) < SERIES_LISTED:
                key = SeriesKey(event.device_id or "", event.path or "")
                self._units.setdefault(key, _unit(event.path))
        self._events.extend(taken)
        self._rate.add(len(taken))
        self.total += len(taken)
        self.overrun += overrun
        self.version += 1

    # What is done

    @property
    def is_paused(self) -> bool:
        """Whether what is shown stands still."""
        return self._frozen is not None

    def pause(self) -> None:
        """Hold still what is shown; events are still collected."""
        if self._frozen is None:
            self._frozen = tuple(self._events)
            self._total_at_pause = self.total
            self.version += 1

    def resume(self) -> None:
        """Show the newest again."""
        self._frozen = None
        self.version += 1

    @property
    def is_following(self) -> bool:
        """Whether the table shows the newest events."""
        return self._anchor is None

    def follow(self, wanted: bool) -> None:
        """Have the table show the newest events, or stay where it is."""
        self._anchor = None if wanted else self._shown_total
        self.version += 1

    def move(self, rows: int) -> None:
        """Go to older events by so many rows, to newer ones with less than 0; the table then stays there."""
        total = self._shown_total
        oldest = total - len(self._shown) + min(ROWS_SHOWN, len(self._shown))
        anchor = total if self._anchor is None else self._anchor
        self._anchor = min(max(anchor - rows, oldest), total)
        self.version += 1

    def clear(self) -> None:
        """Forget all events and counts."""
        self._events.clear()
        self._units.clear()
        self.plotted = ()
        self._frozen = None if self._frozen is None else ()
        self._anchor = None if self._anchor is None else 0
        self._forget()
        self.version += 1

    def plot(self, keys: Iterable[SeriesKey]) -> None:
        """Draw these series; with none, the first that bring numbers."""
        self.plotted = tuple(keys)[:SERIES_PLOTTED]
        self.version += 1

    def toggle_plotted(self, key: SeriesKey) -> None:
        """Draw this series too, in place of the first where there are as many as can be; or no longer."""
        drawn = [one for one in self.drawn if one != key]
        self.plot(drawn if key in self.drawn else [*drawn, key][-SERIES_PLOTTED:])

    def turn_series_page(self, step: int) -> None:
        """Go on by so many pages of series, or back."""
        self.series_pages.index += step
        self.version += 1

    def dismiss(self) -> None:
        """The notices were read."""
        self.notices.dismiss()
        self.version += 1

    # What is shown

    @property
    def rows(self) -> list[EventRow]:
        """The rows of the table, the newest first: a bounded number, however many events there are."""
        shown = self._shown
        newer = self._shown_total - (self._shown_total if self._anchor is None else self._anchor)
        # What the table stood at may be gone from memory: then it shows the oldest there is.
        end = max(len(shown) - newer, min(ROWS_SHOWN, len(shown)))
        return [self._row(event) for event in reversed(shown[max(0, end - ROWS_SHOWN) : end])]

    @property
    def series_listed(self) -> list[tuple[str, SeriesKey]]:
        """What can be plotted, as (name, key): a bounded number."""
        names = self._series_names
        return [(names[key], key) for key in self._units]

    @property
    def series_choices(self) -> Sequence[tuple[str, SeriesKey]]:
        """Those of the page."""
        return self.series_pages.cut(self.series_listed)

    @property
    def drawn(self) -> tuple[SeriesKey, ...]:
        """The series of the plot: those chosen, or the first that bring numbers."""
        return self.plotted or tuple(self._units)[:SERIES_PLOTTED]

    @property
    def series(self) -> list[Series]:
        """The lines of the plot, of numbers and booleans (as 0 and 1), in the order of time."""
        points: dict[SeriesKey, list[Point]] = {key: [] for key in self.drawn}
        for event in self._shown:
            number = _number(event)
            line = points.get(SeriesKey(event.device_id or "", event.path or ""))
            if number is not None and line is not None:
                line.append(Point(event.changed_at or event.received_at, number))
        names = self._series_names
        return [Series(names[key], self._units.get(key, ""), sorted(line)) for key, line in points.items()]

    @property
    def rate(self) -> float:
        """Events a second, over the last ten seconds."""
        return self._rate.per_second

    @property
    def new_while_paused(self) -> int:
        """How many events came since the pause began."""
        return self.total - self._total_at_pause if self.is_paused else 0

    @property
    def forgotten(self) -> int:
        """How many events had to make room for newer ones."""
        return self.total - len(self._events)

    @property
    def counts_text(self) -> str:
        """Rate and counts in words; what was lost is always told."""
        parts = [f"{self.rate:,.1f} events/s", count_text(self.total, "event")]
        parts.append(f"{count_text(self.gaps, 'gap')}, {self._lost_text}" if self.gaps else "no gaps")
        if self.overrun:
            parts.append(f"{self.overrun:,} came too fast and are missing here")
        if self.forgotten:
            parts.append(f"the newest {len(self._events):,} are kept")
        if self.new_while_paused:
            parts.append(f"paused: {self.new_while_paused:,} new")
        return " · ".join(parts)

    @property
    def empty_text(self) -> str:
        """What to do when there is nothing to see."""
        if self.total:
            return ""
        return "No event yet. Observations come of resources that are subscribed: the Explorer does that from a row."

    # What is kept

    @property
    def events(self) -> Sequence[Event]:
        """The events that are kept, oldest first."""
        return tuple(self._events)

    @property
    def frame(self) -> pd.DataFrame:
        """The events that are kept as an events table, also those that came while it is paused."""
        return events_frame(self._events, server=self._client.base_url)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the events that are kept to a Parquet file, which ``mirror_sdk.frames.read_parquet`` reads.

        Returns:
            The file.

        Raises:
            FileExistsError: There is such a file; nothing is overwritten.
            OSError: It cannot be written.
            ValueError: The path is empty.
        """
        if not os.fspath(path):
            raise ValueError("the file has no name; give one such as events.parquet")
        file = Path(path)
        frame = self.frame
        # Made first and without replacing: two savers cannot both believe the name is free.
        file.open("xb").close()
        try:
            frame.to_parquet(file)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return file

    def record(self, folder: str) -> None:
        """Begin to record what is chosen now into this folder, or end the recording that runs.

        Raises:
            ValueError: The folder has no name.
        """
        ids = {name: identity for identity, name in self._names.items()}
        devices = [ids.get(device, device) for device in self.devices]
        self.recording.toggle(folder, devices or None, self.paths or None)

    def _has_changed(self) -> None:
        self.version += 1

    def _forget(self) -> None:
        self.total = self.gaps = self.lost = self.overrun = self._total_at_pause = 0
        self._lost_is_known = True

    def _renew_filter(self) -> None:
        ids = {identity for identity, name in self._names.items() if name in self.devices} | set(self.devices)
        self._wants = event_filter(self.paths or None, ids if self.devices else None)

    def _took_names(self, devices: DeviceList) -> None:
        self._names = {device.id: device.endpoint_name for device in devices}
        self._shown_names = shown_names(self._names)
        self._renew_filter()
        self.notices.clear("names")
        self.version += 1

    def _no_names(self, error: Exception) -> None:
        self.notices.put("names", "Reading the names of devices", error)
        self.version += 1

    def _lose(self, gap: Event) -> None:
        self.gaps += 1
        if gap.seq is None or gap.first_seq is None:
            self._lost_is_known = False
        else:
            self.lost += gap.seq - gap.first_seq + 1

    @property
    def _lost_text(self) -> str:
        return f"{'' if self._lost_is_known else 'at least '}{self.lost:,} lost"

    @property
    def _shown(self) -> Sequence[Event]:
        return tuple(self._events) if self._frozen is None else self._frozen

    @property
    def _shown_total(self) -> int:
        return self.total if self._frozen is None else self._total_at_pause

    @property
    def _series_names(self) -> dict[tuple[str, str], str]:
        return line_names([*self._units, *self.drawn], self._shown_names)

    def _row(self, event: Event) -> EventRow:
        definition = lookup(event.path) if event.path else None
        return EventRow(
            received_at=f"{event.received_at:%H:%M:%S}.{event.received_at.microsecond // 1000:03d}",
            kind=event.kind,
            device=self._shown_names.get(event.device_id, event.device_id) if event.device_id else "",
            path=event.path or "",
            label=definition.label if definition else "",
            value=_told(event),
        )


def _number(event: Event) -> float | None:
    value: Value | None = event.value
    if event.kind is not EventKind.OBSERVATION or value is None:
        return None
    if not isinstance(value.python, bool | int | float):
        return None
    return float(value.python) if abs(value.python) <= LARGEST_PLOTTED else None


def _unit(path: str | None) -> str:
    definition = lookup(path) if path else None
    return definition.unit if definition else ""


def _told(event: Event) -> str:
    """What an event says, in one text."""
    if event.kind is EventKind.GAP:
        known = event.first_seq is not None and event.seq is not None
        return f"lost: {event.first_seq} to {event.seq}" if known else "lost: an unknown number"
    value = value_text(event.value, _unit(event.path)) if event.value and event.value.kind is not ValueKind.NONE else ""
    if event.kind is not EventKind.ASYNC_RESPONSE:
        return value
    return " ".join(filter(None, [str(event.status), event.category, value, f"of request {event.async_id}"]))
