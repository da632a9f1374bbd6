"""What the event watcher knows: the newest events, how fast they come, what was lost, and what of it is shown."""

from __future__ import annotations

import os
import tempfile
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mirror_sdk._arguments import closest
from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import shown_names, visible
from mirror_sdk.device import DeviceList
from mirror_sdk.events import Event, EventKind, event_filter
from mirror_sdk.frames import events_frame
from mirror_sdk.frames.legend import label_of, line_names
from mirror_sdk.tables.units import Units, instance_of, is_in_named_unit, names_unit, unitless_of, units_of
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.lines import Point, Series, SeriesKey, broken_by_silence
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.past import Past, read_past
from mirror_sdk.widgets.models.recording_model import RecordingModel
from mirror_sdk.widgets.models.time_window import WINDOWS, Interval, TimeWindow
from mirror_sdk.widgets.models.wording import count_text, value_text
from mirror_sdk.wire.log_entries import count_missing
from mirror_sdk.wire.paths import check_pattern

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

MAX_EVENTS = 10_000
ROWS_SHOWN = 500
SERIES_PLOTTED = 6
SERIES_LISTED = 500
RATE_SECONDS = 10
LARGEST_PLOTTED = 1e100

Row = Mapping[str, Any]

_NUMBERS = frozenset({bool, int, float})
_LEFT = frozenset({EventKind.GAP, EventKind.DEREGISTRATION, EventKind.EXPIRED})
"""What breaks the lines: after it nobody knows what a device would have told."""


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
    """The events of chosen resources, the newest of them kept: what was before, and what comes.

    Pausing holds still what is shown and goes on collecting.

    Args:
        client: The mirror; it is asked for the names of devices, for the log, and for the units that devices name.
        devices: Names or ids of devices; ``None`` takes all.
        paths: Path patterns (``/3303/*``); ``None`` takes every event, not observations alone.
        run: Makes the client calls.
        recording: A recording whose events are shown before those of the log.
        await_live: Returns when live events come: the log is read after that, so that nothing lies between both.
        max_events: How many events are kept at most, of the recording and of the log each.
        clock: Seconds, for the rate.

    Raises:
        TypeError: A single text was given where a list of texts belongs.
        ValueError: A pattern is not one.

    Attributes:
        notices: What went wrong.
        recording: The recording of what is chosen, which may run.
        version: Grows with every change of what is shown.
        window: Which interval the plot shows.
        plotted: The series chosen for the plot; with none, the first that bring numbers.
        selected: The series that stands out in the plot, if any.
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
        recording: Recording | None = None,
        await_live: Callable[[], object] = lambda: None,
        max_events: int = MAX_EVENTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.notices = Notices()
        self.version = 0
        self.recording = RecordingModel(client, run, self.notices, self._has_changed)
        self.window = TimeWindow()
        self.plotted: tuple[SeriesKey, ...] = ()
        self.selected: SeriesKey | None = None
        self._client = client
        self._run = run
        self._shown_recording = recording
        self._await_live = await_live
        self._names: dict[str, str] = {}
        self._shown_names: Mapping[str, str] = {}
        self._has_names = False
        self._pasts_awaited = 0
        self._recorded: tuple[Event, ...] = ()
        self._events: deque[Event] = deque(maxlen=max_events)
        self._known: set[Hashable] = set()
        self._rate = _Rate(clock)
        self._named_units: dict[tuple[str, str], str] = {}
        self._unit_changes: dict[tuple[str, str], list[tuple[datetime, str]]] = {}
        self._in_named_units: set[SeriesKey] = set()
        self._units_requested: set[SeriesKey] = set()
        self._newest: dict[SeriesKey, Event] = {}
        self._rows: dict[int, Row] = {}
        self._frozen: tuple[Sequence[Event], int] | None = None
        self._cleared_seq = 0
        self._is_cleared = False
        self._forget()
        self.devices: tuple[str, ...] = ()
        self.paths: tuple[str, ...] = ()
        self.choose(devices or (), paths or ())

    # What is chosen

    def choose(self, devices: Collection[str], paths: Collection[str]) -> None:
        """Show and take events of these devices and paths; an empty collection takes all. No device is asked.

        Raises:
            TypeError: A single text was given where a list of texts belongs.
            ValueError: A pattern is not one.
        """
        for pattern in () if isinstance(paths, str) else paths:
            check_pattern(pattern)
        event_filter(paths, devices)
        self.devices, self.paths = tuple(devices), tuple(paths)
        self._renew_filter()
        if self._has_names:
            # What the earlier choice left out may still be in the log.
            self.load_past()

    def load(self) -> None:
        """Read the names of the devices from the directory, then what was before."""
        self._run(self._client.devices.list, self._took_names, self._no_names)

    def load_past(self) -> None:
        """Read what the recording holds, or the service's history, and what the log still has."""
        wants, most = self._wants, self._events.maxlen or MAX_EVENTS
        devices, paths = self.devices, self.paths

        def read() -> Past:
            self._await_live()
            return read_past(self._client, self._shown_recording, wants, most, devices=devices, paths=paths)

        self._pasts_awaited += 1
        self._run(read, self._took_past, self._no_past)

    # What comes in

    def take(self, events: Iterable[Event], overrun: int = 0) -> None:
        """Keep the events that are wanted.

        Args:
            events: In the order in which they came.
            overrun: How many more had to be given up before these.
        """
        came = list(events)
        self._learn_names(came)
        self._learn_units(came)
        taken = [event for event in came if self._wants(event) and _identity(event) not in self._known]
        if not taken and not overrun:
            return
        for event in taken:
            if event.kind is EventKind.GAP:
                self._lose(event)
        if overrun and came:
            # So that the table tells of it, and no line leads over it.
            taken.insert(0, Event(kind=EventKind.GAP, received_at=came[0].received_at))
        self._events.extend(taken)
        self._register(taken)
        self._rate.add(len(taken))
        self.total += len(taken)
        self.overrun += overrun
        self._request_units()
        self.version += 1

    # What is done

    @property
    def is_paused(self) -> bool:
        """Whether what is shown stands still."""
        return self._frozen is not None

    def pause(self) -> None:
        """Hold still what is shown; events are still collected."""
        if self._frozen is None:
            self._frozen = self._all(), self.total
            self.version += 1

    def resume(self) -> None:
        """Show the newest again."""
        self._frozen = None
        self.version += 1

    def clear(self) -> None:
        """Forget all events and counts."""
        self._cleared_seq = max((event.seq or 0 for event in self._events), default=self._cleared_seq)
        self._is_cleared = True
        self._events.clear()
        self._recorded, self._shown_recording = (), None
        self._newest.clear()
        self._rows.clear()
        self.plotted, self.selected = (), None
        self._frozen = None if self._frozen is None else ((), 0)
        self._forget()
        self.version += 1

    def plot(self, keys: Iterable[SeriesKey]) -> None:
        """Draw these series, the last ones of too many; with none, the first that bring numbers."""
        self.plotted = tuple(keys)[-SERIES_PLOTTED:]
        self.selected = None
        self._request_units()
        self.version += 1

    def plot_texts(self, texts: Collection[str]) -> None:
        """Draw the series of these texts, see :func:`series_text`: those that are drawn, then the others."""
        wanted = [key for key in self._newest if series_text(key) in set(texts)]
        drawn = [key for key in self.drawn if key in wanted]
        self.plot([*drawn, *(key for key in wanted if key not in drawn)])

    def select(self, key: SeriesKey | None) -> None:
        """Have a series stand out, which is drawn if it was not; ``None`` for none."""
        if key is not None and key not in self.drawn:
            self.plot([*self.drawn[-SERIES_PLOTTED + 1 :], key])
        self.selected = key
        self.version += 1

    def select_row(self, row_key: str) -> None:
        """Have the series of a row of the table stand out, if it brings numbers."""
        row = next((row for row in self._rows.values() if row["key"] == row_key), None)
        if row is not None:
            key = SeriesKey(row["device_id"], row["path"])
            self.select(key if key in self._newest else None)

    def show_last(self, length: str) -> None:
        """Have the plot show the newest of this length, one of ``WINDOWS``, and follow."""
        self.window.follow(WINDOWS[length])
        self.version += 1

    def stay(self, interval: Interval | None) -> None:
        """Have the plot stay at an interval of time; ``None`` to follow again."""
        self.window.staying = interval
        self.version += 1

    def dismiss(self) -> None:
        """The notices were read."""
        self.notices.dismiss()
        self.version += 1

    # What is shown

    @property
    def rows(self) -> list[Row]:
        """The rows of the table, the newest first: a bounded number as long as it changes, all while it is paused.

        Each has ``key``, ``number`` (how many-th event it is), ``changed_at`` and ``received_at`` (aware, or ``None``),
        ``event``, ``device``, ``resource``, ``path``, ``value`` and ``device_id``.
        """
        newest = self._shown_total
        wanted = ((newest - age, event) for age, event in enumerate(reversed(self._shown)) if self._wants(event))
        shown = list(wanted if self.is_paused else islice(wanted, ROWS_SHOWN))
        self._rows = {number: self._rows.get(number) or self._row(number, event) for number, event in shown}
        return list(self._rows.values())

    @property
    def series_rows(self) -> list[Row]:
        """What can be plotted: ``key``, ``name``, ``unit``, ``number`` (the newest), ``changed_at``."""
        names = self._series_names
        return [
            {
                "key": series_text(key),
                "name": names[key],
                "unit": self._unit(event),
                "number": _number(event),
                "changed_at": event.changed_at or event.received_at,
            }
            for key, event in self._newest.items()
        ]

    @property
    def drawn(self) -> tuple[SeriesKey, ...]:
        """The series of the plot: those chosen, or the first that bring numbers."""
        return self.plotted or tuple(islice(self._newest, SERIES_PLOTTED))

    @property
    def series(self) -> list[Series]:
        """The lines of the plot, of numbers and booleans (as 0 and 1), in the order of time.

        A line is broken where the log tells of a loss, where its device left, and where it was silent for more than ten
        times its usual interval.
        """
        drawn = self.drawn
        points: dict[tuple[str | None, str | None], list[Point]] = {key: [] for key in drawn}
        broken = dict.fromkeys(points, False)
        for event in self._shown:
            if event.kind in _LEFT:
                is_about_all = event.kind is EventKind.GAP
                broken |= {key: True for key in points if is_about_all or key[0] == event.device_id}
                continue
            key = event.device_id, event.path
            line = points.get(key)
            number = None if line is None else _number(event)
            if line is not None and number is not None:
                line.append(Point(event.changed_at or event.received_at, number, not broken[key]))
                broken[key] = False
        names = self._series_names
        return [
            Series(key, names[key], self._unit(self._newest.get(key)), broken_by_silence(points[key])) for key in drawn
        ]

    def interval_of(self, series: Iterable[Series]) -> Interval | None:
        """Which interval of these lines is shown; ``None`` where they have no points."""
        ends = [point.at for line in series for point in (*line.points[:1], *line.points[-1:])]
        return self.window.of(Interval(min(ends), max(ends))) if ends else None

    @property
    def rate(self) -> float:
        """Events a second, over the last ten seconds."""
        return self._rate.per_second

    @property
    def new_while_paused(self) -> int:
        """How many events came since the pause began."""
        return self.total - self._frozen[1] if self._frozen else 0

    @property
    def forgotten(self) -> int:
        """How many events had to make room for newer ones."""
        return self.total - len(self._events) - len(self._recorded)

    @property
    def counts_text(self) -> str:
        """Rate and counts in words; what was lost is always told."""
        before = f", {self.before:,} of them from before" if self.before else ""
        parts = [f"{self.rate:,.1f} events/s", count_text(self.total, "event") + before]
        parts.append(f"{count_text(self.gaps, 'gap')}, {self._lost_text}" if self.gaps else "no gaps")
        if self._pasts_awaited:
            parts.append("reading what the log still has …")
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
        if any(map(self._wants, self._shown)):
            return ""
        return "No event yet. Observations come of resources that are subscribed: the Explorer does that from a row."

    @property
    def names(self) -> list[str]:
        """The endpoint names there are, in order."""
        return sorted(set(self._names.values()))

    # What is kept

    @property
    def events(self) -> Sequence[Event]:
        """The events that are kept and chosen, oldest first, also those that came while it is paused."""
        return tuple(filter(self._wants, self._all()))

    @property
    def frame(self) -> pd.DataFrame:
        """The same as an events table, with the units that devices name."""
        events = (replace(event, unit=self._unit_of(event) or None) for event in self.events)
        return events_frame(events, server=self._client.base_url)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the events that are kept to a Parquet file, which ``mirror_sdk.frames.read_parquet`` reads.

        Args:
            path: The file.
            overwrite: Whether a file that is there is replaced; it is whole at every moment.

        Returns:
            The file.

        Raises:
            FileExistsError: There is such a file.
            OSError: It cannot be written.
            ValueError: The path is empty.
        """
        if not os.fspath(path):
            raise ValueError("the file has no name; give one such as events.parquet")
        file = Path(path)
        frame = self.frame
        if not overwrite:
            # Made first and without replacing: two savers cannot both believe the name is free.
            file.open("xb").close()
        try:
            with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
                written = Path(folder) / file.name
                frame.to_parquet(written)
                written.replace(file)
        except BaseException:
            if not overwrite:
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
        self.total = self.before = self.gaps = self.lost = self.overrun = 0
        self._lost_is_known = True

    def _all(self) -> Sequence[Event]:
        return [*self._recorded, *self._events]

    def _renew_filter(self) -> None:
        ids = {identity for identity, name in self._names.items() if name in self.devices} | set(self.devices)
        self._wants = event_filter(self.paths or None, ids if self.devices else None)
        self._newest.clear()
        self._register(filter(self._wants, self._all()))
        self.plotted = tuple(key for key in self.plotted if key in self._newest)
        self.selected = self.selected if self.selected in self.plotted else None
        self._tell_unknown()
        self.version += 1

    def _tell_unknown(self) -> None:
        known = {*self._names, *self._names.values()}
        unknown = [device for device in self.devices if device not in known] if self._has_names else []
        if unknown:
            told = "; ".join(f"{visible(one)} ({closest(one, self._names.values())})" for one in unknown)
            self.notices.tell("devices", f"No device has this name or id: {told}. It is shown once it registers.")
        else:
            self.notices.clear("devices")

    def _took_names(self, devices: DeviceList) -> None:
        self._names |= {device.id: device.endpoint_name for device in devices}
        self.notices.clear("names")
        self._have_names()

    def _no_names(self, error: Exception) -> None:
        self.notices.put("names", "Reading the names of devices", error)
        self._have_names()

    def _have_names(self) -> None:
        self._has_names = "names" not in self.notices
        self._called_anew()
        self.load_past()

    def _learn_names(self, events: Iterable[Event]) -> None:
        """A device that registers tells its name: it may be one that is waited for."""
        told = {event.device_id: event.endpoint_name for event in events if event.device_id and event.endpoint_name}
        if not told.items() <= self._names.items():
            self._names |= told
            self._called_anew()

    def _called_anew(self) -> None:
        self._shown_names = shown_names(self._names)
        self._rows.clear()
        self._renew_filter()

    def _took_past(self, past: Past) -> None:
        """Put what was before in front of what came meanwhile; what is here already stays as it came."""
        self._pasts_awaited -= 1
        self.notices.clear("past")
        here = {_identity(event) for event in self._events}
        logged = [e for e in past.logged if _identity(e) not in here and (e.seq or 0) > self._cleared_seq]
        merged = sorted(chain(_placed(logged), _placed(self._events)), key=itemgetter(0))
        self._events = deque(map(itemgetter(1), merged), self._events.maxlen)
        recorded = () if self._is_cleared else past.recorded
        self.before += len(logged) + len(recorded) - len(self._recorded)
        self.total += len(logged) + len(recorded) - len(self._recorded)
        self._recorded = recorded
        self._known = set(map(_identity, past.logged))
        self._learn_names(logged)
        self._learn_units(logged)
        self._rows.clear()
        self._renew_filter()
        self._request_units()

    def _no_past(self, error: Exception) -> None:
        self._pasts_awaited -= 1
        self.notices.put("past", "Reading what was before", error)
        self.version += 1

    def _register(self, events: Iterable[Event]) -> None:
        """Note which resources bring numbers, the newest of each, and whose unit a device names."""
        for event in events:
            if _number(event) is None:
                continue
            key = SeriesKey(event.device_id or "", event.path or "")
            if key in self._newest or len(self._newest) < SERIES_LISTED:
                self._newest[key] = event
            if is_in_named_unit(key.path):
                self._in_named_units.add(key)
            if event.unit:
                # A row of the history has it, an entry of the log has not.
                self._named_units.setdefault(key, event.unit)

    def _learn_units(self, events: Iterable[Event]) -> None:
        """Note when a device named another unit, whether or not that is chosen to be shown."""
        for event in events:
            if not names_unit(event.path or "") or not event.value or event.value.kind is not ValueKind.TEXT:
                continue
            unit, at = str(event.value.python), event.changed_at or event.received_at
            changes = self._unit_changes.setdefault((event.device_id or "", instance_of(event.path or "")), [])
            place = bisect_right(changes, at, key=itemgetter(0))
            if not place or changes[place - 1][1] != unit:
                changes.insert(place, (at, unit))
                self._rows.clear()

    def _request_units(self) -> None:
        """Read the units that devices name, for resources not requested before; the mirror responds, no device."""
        new = self._in_named_units - self._units_requested
        if not new:
            return
        self._units_requested |= new

        def read() -> Units:
            state = self._client._tables.units_of(unitless_of(new))
            return {} if state is None else units_of(state)

        # Without them the declared units are shown.
        self._run(read, self._took_units, lambda _: None)

    def _took_units(self, units: Units) -> None:
        self._named_units |= units
        self._rows.clear()
        self.version += 1

    def _unit(self, event: Event | None) -> str:
        """The unit as it is shown."""
        return "" if event is None else visible(self._unit_of(event))

    def _unit_of(self, event: Event) -> str:
        """The unit of its own, else the one that its device had named by then."""
        device_id, path = event.device_id or "", event.path or ""
        if event.unit or not is_in_named_unit(path):
            return event.unit or ""
        changes = self._unit_changes.get((device_id, instance_of(path)), [])
        place = bisect_right(changes, event.changed_at or event.received_at, key=itemgetter(0))
        if place:
            return changes[place - 1][1]
        return self._named_units.get((device_id, path), "")

    def _lose(self, gap: Event) -> None:
        self.gaps += 1
        missing = count_missing(gap.first_seq, gap.seq)
        if missing is None:
            self._lost_is_known = False
        else:
            self.lost += missing

    @property
    def _lost_text(self) -> str:
        return f"{'' if self._lost_is_known else 'at least '}{self.lost:,} lost"

    @property
    def _shown(self) -> Sequence[Event]:
        return self._all() if self._frozen is None else self._frozen[0]

    @property
    def _shown_total(self) -> int:
        return self.total if self._frozen is None else self._frozen[1]

    @property
    def _series_names(self) -> dict[tuple[str, str], str]:
        return line_names([*self._newest, *self.drawn], self._shown_names)

    def _row(self, number: int, event: Event) -> Row:
        is_gap = event.kind is EventKind.GAP
        return {
            "key": str(number),
            "number": number,
            "changed_at": event.changed_at,
            "received_at": event.received_at,
            "event": "gap" if is_gap else event.kind.value.replace("_", " "),
            "device": self._shown_names.get(event.device_id, event.device_id) if event.device_id else "",
            "resource": label_of(event.path) if event.path else "",
            "path": event.path or "",
            "value": _told(event, self._unit(event)),
            "device_id": event.device_id or "",
            "tones": {"event": "bad", "value": "bad"} if is_gap else {},
        }


def series_text(key: SeriesKey) -> str:
    """A series in one text, and different for each: device ids have no spaces behind which a path could stand."""
    return f"{key.device_id} {key.path}"


def _identity(event: Event) -> Hashable:
    """The same for an entry of the log however often it is read."""
    return event.uid or (event.kind, event.first_seq, event.seq, event.device_id, event.path)


def _placed(events: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """Each event with its place in the log; one that tells none stands where the one before it does."""
    place = 0
    for event in events:
        place = place if event.seq is None else event.seq
        yield place, event


def _number(event: Event) -> float | None:
    value: Value | None = event.value
    if event.kind is not EventKind.OBSERVATION or value is None:
        return None
    if type(value.python) not in _NUMBERS:
        return None
    number = cast(float, value.python)
    return float(number) if abs(number) <= LARGEST_PLOTTED else None


def _told(event: Event, unit: str) -> str:
    """What an event says, in one text."""
    if event.kind is EventKind.GAP:
        known = count_missing(event.first_seq, event.seq) is not None
        return f"lost: {event.first_seq} to {event.seq}" if known else "lost: an unknown number"
    value = value_text(event.value, unit) if event.value and event.value.kind is not ValueKind.NONE else ""
    if event.kind is not EventKind.ASYNC_RESPONSE:
        return value
    return " ".join(filter(None, [str(event.status), event.category, value, f"of request {event.async_id}"]))
