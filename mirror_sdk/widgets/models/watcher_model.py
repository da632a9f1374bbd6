"""The model of the event watcher.

It contains the newest events, their rate, the losses, and the display.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, count, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from mirror_sdk._arguments import closest
from mirror_sdk._client import MirrorClient
from mirror_sdk._formatting import display_names, visible
from mirror_sdk.arrow_tables.units import names_unit
from mirror_sdk.conditions import Condition
from mirror_sdk.device import DeviceList
from mirror_sdk.events import Event, EventKind, event_filter, utc_now
from mirror_sdk.frames import events_frame
from mirror_sdk.frames.csv_file import write_csv
from mirror_sdk.frames.plot_legend import label_of, line_names
from mirror_sdk.object_definitions import never_changes
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.widgets.models.chart_parts import ChartBuilder, ChartParts
from mirror_sdk.widgets.models.earlier_events import HISTORY_READ, EarlierEvents, read_earlier_events, read_writes
from mirror_sdk.widgets.models.event_units import EventUnits
from mirror_sdk.widgets.models.formatting import format_count, format_value, short_value
from mirror_sdk.widgets.models.lines import Series, SeriesKey, short_name
from mirror_sdk.widgets.models.model import Model, Row, Run, run_now
from mirror_sdk.widgets.models.periodic_read import PeriodicRead
from mirror_sdk.widgets.models.plotted_conditions import plottable_conditions
from mirror_sdk.widgets.models.recording_model import RecordingModel
from mirror_sdk.widgets.models.time_window import Interval, TimeWindow, plotted_instant
from mirror_sdk.widgets.models.timeline import CompletedWrite, Threshold, is_state, number_of
from mirror_sdk.wire.log_entries import count_missing
from mirror_sdk.wire.object_definitions import display_unit
from mirror_sdk.wire.paths import check_pattern

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

MAX_EVENTS = 10_000
MAX_ROWS = 500
SERIES_PLOTTED = 8
SERIES_CHOSEN = 20
"""The number of series that are plotted by default, and the maximum number that the user can choose."""
SERIES_LISTED = 500
WRITES_READ_SECONDS = 10.0
FOLLOWED_BY_DEFAULT = timedelta(hours=1)
RATE_SECONDS = 10


class WatcherModel(Model):
    """The newest events of the chosen resources, both earlier and live ones.

    While the model is paused, the display does not change, but events are still collected.

    Args:
        client: The client of the mirror. It provides the names of devices, the log, and units.
        devices: The names or ids of devices. ``None`` selects all devices.
        paths: Path patterns such as ``/3303/*``. ``None`` selects every event, including events that are not
            observations.
        run: The function that makes the client calls.
        recording: A recording whose events are displayed before the events of the log.
        await_live: A function that returns when live events are being received. The log is read after that, so that no
            event is missed.
        max_events: The maximum number of stored events of the recording, and also of the log.
        thresholds: The levels for the lines of paths or path patterns. A value is a single level or a list of levels.
        conditions: The conditions to show in the plot.
        now: A function that returns the time at which the plot ends. By default, the plot ends at the newest events.
        clock: A function that returns the time in seconds. It is used for the rate.

    Raises:
        TypeError: A single string was passed instead of a list.
        ValueError: A pattern or a condition is invalid.

    Attributes:
        recording: The recording of the chosen events.
        window: The time interval of the plot.
        plotted: The series chosen for the plot. If empty, the first ones are plotted.
        thresholds: The levels to draw.
        selected: The highlighted series, if there is one.
        total: The number of events, including earlier ones.
        before: The number of earlier events.
        gaps: The number of losses that the service reported.
        lost: The number of lost events, as far as it is known.
        overrun: The number of events that were dropped because they arrived too fast to be processed.
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
        thresholds: Mapping[str, float | Sequence[float]] | None = None,
        conditions: Iterable[Condition | str] = (),
        now: Callable[[], datetime] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, run, clock=clock)
        self.thresholds = _thresholds(thresholds or {})
        self._conditions = plottable_conditions(conditions)
        self._now = now
        self.recording = RecordingModel(self)
        self.window = TimeWindow()
        self.plotted: tuple[SeriesKey, ...] = ()
        self.selected: SeriesKey | None = None
        self._opened_with = recording
        self._await_live = await_live
        self._names: dict[str, str] = {}
        self._display_names: Mapping[str, str] = {}
        self._has_names = False
        self._directory = PeriodicRead(self, "names", math.inf)
        self._earlier = PeriodicRead(self, "earlier", math.inf)
        self._write_reads = PeriodicRead(self, "writes", WRITES_READ_SECONDS)
        self._writes: dict[tuple[str, str, datetime], CompletedWrite] = {}
        self._history_until: datetime | None = None
        self._history_read = HISTORY_READ
        self._is_window_chosen = False
        self._colors: dict[SeriesKey, int] = {}
        self._chart = ChartBuilder((), (), max_events)
        self._charted: object = None
        self._charted_total = 0
        self._rebuilds = 0
        self._recorded: tuple[Event, ...] = ()
        self._events: deque[Event] = deque(maxlen=max_events)
        self._read_identities: set[Hashable] = set()
        self._units = EventUnits(self, self._make_rows_again)
        self._newest: dict[SeriesKey, Event] = {}
        self._rows: dict[int, Row] = {}
        self._frozen: tuple[Sequence[Event], int] | None = None
        self._cleared_seq = 0
        self._is_cleared = False
        self._arrivals: deque[tuple[int, int]] = deque()
        self._first_arrival = 0
        self._reset_counts()
        self.devices: tuple[str, ...] = ()
        self.paths: tuple[str, ...] = ()
        self.choose(devices or (), paths or ())

    # Selection

    def choose(self, devices: Collection[str], paths: Collection[str]) -> None:
        """Display and store the events of these devices and paths. An empty collection selects all.

        Raises:
            TypeError: A single string was passed instead of a list.
            ValueError: A pattern is invalid.
        """
        for pattern in () if isinstance(paths, str) else paths:
            check_pattern(pattern)
        # This object is created only to reject invalid arguments before anything changes.
        event_filter(paths, devices)
        self.devices, self.paths = tuple(devices), tuple(paths)
        self._apply_choice()
        if self._has_names:
            # The log may still have events that the earlier choice excluded.
            self.load_earlier()

    def load(self) -> None:
        """Read the names of the devices from the directory, then the earlier events."""
        self._directory.start(
            "Reading the names of devices",
            self.client.devices.list,
            self._accept_names,
            lambda _: None if self._earlier.has_succeeded else self.load_earlier(),
        )

    def load_earlier(self) -> None:
        """Read the earlier events from the recording or the history of the service, and from the log."""
        is_selected, limit = self._is_selected, self._events.maxlen or MAX_EVENTS
        devices, paths, length = self.devices, self.paths, self._history_read

        def read() -> EarlierEvents:
            self._await_live()
            return read_earlier_events(
                self.client, self._opened_with, is_selected, limit, devices=devices, paths=paths, length=length
            )

        self._earlier.start("Reading the earlier events", read, self._accept_earlier)

    # Events

    def receive(self, events: Iterable[Event]) -> None:
        """Store those events that are selected."""
        arrived = list(events)
        self._learn_names(arrived)
        self._units.learn(arrived)
        # Live events start before the log is read, so some events come from both.
        selected_events = [
            event for event in arrived if self._is_selected(event) and _identity(event) not in self._read_identities
        ]
        if not selected_events:
            return
        for event in selected_events:
            if event.kind is EventKind.GAP:
                missing = count_missing(event.first_seq, event.seq)
                self.gaps += 1
                self.lost += missing or 0
                self._lost_is_known &= missing is not None
        self._store(selected_events)
        self._units.request(selected_events)

    def note_overrun(self, count: int) -> None:
        """Count dropped events. Their gap interrupts the lines, and it is a row of the table."""
        self.overrun += count
        self._store([Event(kind=EventKind.GAP, received_at=utc_now())])

    def tick(self) -> None:
        """Update the recording, read new writes, and repeat reads that failed."""
        self.recording.tick()
        if self._directory.is_due:
            self.load()
        elif self._earlier.is_due and not self._directory.is_running:
            self.load_earlier()
        if self._history_until is not None and self._write_reads.is_due:
            self._read_writes(self._history_until)

    def close(self) -> None:
        """End a recording that is in progress."""
        self.recording.close()

    # User input

    @property
    def is_paused(self) -> bool:
        """Whether the display is paused."""
        return self._frozen is not None

    def pause(self) -> None:
        """Pause the display. Events are still collected."""
        if self._frozen is None:
            self._frozen = self._all(), self.total
            self.changed()

    def resume(self) -> None:
        """Display the newest events again."""
        self._frozen = None
        self.changed()

    def clear(self) -> None:
        """Delete all events and counts."""
        # A read of the log that is in progress must not bring back events that were cleared.
        self._cleared_seq = max((event.seq or 0 for event in self._events), default=self._cleared_seq)
        self._is_cleared = True
        self._events.clear()
        self._recorded, self._opened_with = (), None
        self._writes.clear()
        self._newest.clear()
        self._make_rows_again()
        self.plotted, self.selected = (), None
        self._frozen = None if self._frozen is None else ((), 0)
        self._reset_counts()
        self.changed()

    def plot(self, keys: Iterable[SeriesKey]) -> None:
        """Plot these series.

        If there are too many, the last ones are plotted. If there are none, the first series are plotted.
        """
        self.plotted = tuple(keys)[-SERIES_CHOSEN:]
        self.selected = None
        self.changed()

    def plot_texts(self, texts: Collection[str]) -> None:
        """Plot the series with these names; see :func:`series_text`.

        Series that are already plotted come first.
        """
        chosen = [key for key in self._newest if series_text(key) in set(texts)]
        drawn = [key for key in self.drawn if key in chosen]
        self.plot([*drawn, *(key for key in chosen if key not in drawn)])

    def select(self, key: SeriesKey | None) -> None:
        """Highlight a series, and plot it if it was not plotted.

        ``None`` removes the highlighting.
        """
        if key is not None and key not in self.drawn:
            self.plot([*self.drawn[-SERIES_CHOSEN + 1 :], key])
        self.selected = key
        self.changed()

    def select_row(self, row_key: str) -> None:
        """Highlight the series of a row in the table, if the series can be plotted."""
        row = next((row for row in self._rows.values() if row["key"] == row_key), None)
        if row is not None:
            key = SeriesKey(row["device_id"], row["path"])
            self.select(key if key in self._newest else None)

    def follow(self, length: timedelta | None) -> None:
        """Plot the newest events in an interval of this length. ``None`` plots all events."""
        self._is_window_chosen = True
        self.window.follow(length)
        if length is not None:
            self._need_history(length)
        self.changed()

    def stay(self, interval: Interval | None) -> None:
        """Fix the interval of the plot. With ``None``, the plot follows the newest events again."""
        self._is_window_chosen = True
        self.window.staying = interval
        if interval is not None and self._now is not None:
            self._need_history(self._now() - interval.begin)
        self.changed()

    def _need_history(self, length: timedelta) -> None:
        if self._history_until is not None and length > self._history_read:
            self._history_read = length
            self.load_earlier()

    # Display

    @property
    def rows(self) -> list[Row]:
        """The rows of the table, with the newest first.

        Their number is limited, except while the display is paused, when all stored events are included.

        Each row has ``key``, ``number`` (of the event, from 1), ``changed_at`` and ``received_at`` (aware datetimes or
        ``None``), ``event``, ``device``, ``resource``, ``path``, ``value`` and ``device_id``.
        """
        newest = self._displayed_total
        events = (
            (newest - age, event) for age, event in enumerate(reversed(self._displayed)) if self._is_selected(event)
        )
        displayed = list(events if self.is_paused else islice(events, MAX_ROWS))
        self._rows = {number: self._rows.get(number) or self._row(number, event) for number, event in displayed}
        return list(self._rows.values())

    @property
    def series_rows(self) -> list[Row]:
        """The rows of the series that can be plotted.

        Each row has ``key``, ``name``, ``unit``, ``number`` and ``value`` (the newest one).
        """
        names = self._series_names
        rows: list[Row] = []
        for key, event in self._newest.items():
            unit = self._units.unit_of(event)
            newest = short_value(event.value, unit) if event.value is not None else ""
            rows.append(
                {
                    "key": series_text(key),
                    "name": short_name(names[key]),
                    "unit": visible(display_unit(unit)),
                    "number": number_of(event),
                    "value": newest,
                    "changed_at": event.changed_at or event.received_at,
                }
            )
        return rows

    @property
    def drawn(self) -> tuple[SeriesKey, ...]:
        """The series of the plot: the chosen ones, or else the first series with numbers or states.

        Strings that never change, such as a serial number, are plotted only if the user chooses them.
        """
        if self.plotted:
            return self.plotted
        numbers = [key for key, event in self._newest.items() if not is_state(event)]
        states = [key for key, event in self._newest.items() if is_state(event) and not never_changes(key.path)]
        return (*numbers[:SERIES_PLOTTED], *states[:SERIES_PLOTTED])

    @property
    def series(self) -> Sequence[Series]:
        """The lines of the plot, for series of numbers, sorted by time.

        A line is interrupted after a loss in the log, after its device left, and after a silence of more than ten times
        the usual interval.
        """
        return self.chart.lines

    @property
    def chart(self) -> ChartParts:
        """The parts of the plot: the lines, the states, the losses and absences, and the writes."""
        drawn = self.drawn
        states = {key for key in drawn if key in self._newest and is_state(self._newest[key])}
        choice = drawn, states, self._frozen is None, self._rebuilds
        total = self._displayed_total
        unread = total - self._charted_total
        if choice != self._charted or not 0 <= unread <= len(self._events):
            most = max(len(self._displayed), self._events.maxlen or MAX_EVENTS)
            self._charted = choice
            lines = [key for key in drawn if key not in states]
            self._chart = ChartBuilder(lines, states, most, self._conditions)
            events: Iterable[Event] = self._displayed
        else:
            events = reversed(list(islice(reversed(self._events), unread))) if unread else ()
        for event in events:
            self._chart.add(event)
        self._charted_total = total
        series_names = self._series_names
        names = {key: series_names[key] for key in drawn}
        units = {key: self._units.unit_of(self._newest[key]) for key in drawn if key in self._newest}
        now = None if self._now is None or self.is_paused else self._now()
        return self._chart.parts(names, units, self._display_names, list(self._writes.values()), now)

    def color_of(self, key: SeriesKey) -> int:
        """Return the number of the color of a series. The color stays the same while the series is plotted."""
        drawn = set(self.drawn)
        self._colors = {one: color for one, color in self._colors.items() if one in drawn}
        if key not in self._colors:
            used = set(self._colors.values())
            self._colors[key] = next(color for color in count() if color not in used)
        return self._colors[key]

    def interval_of(self, chart: ChartParts) -> Interval | None:
        """Return the displayed interval, or ``None`` if there is nothing to plot."""
        at = [line.at[index] for line in chart.lines for index in (0, -1) if len(line.at)]
        ends = [plotted_instant(one / 1000) for one in at]
        spans = [span for row in chart.states for span in (*row.spans[:1], *row.spans[-1:])]
        ends += [at for span in spans for at in (span.begin, span.end or span.begin)]
        if not ends:
            return self.window.staying
        return self.window.of(Interval(min(ends), self._followed(max(ends))))

    def _followed(self, newest: datetime) -> datetime:
        """Return the end of a window that follows.

        It is the current time, or the time of the newest event if that event is older than the window.
        """
        length = self.window.length
        if self._now is None or self.is_paused or length is None:
            return newest
        now = self._now()
        return max(newest, now) if now - newest < length else newest

    @property
    def rate(self) -> float:
        """The number of events per second, over the last ten seconds."""
        now = int(self.clock())
        recent = sum(count for second, count in self._arrivals if second > now - RATE_SECONDS)
        return recent / min(RATE_SECONDS, now - self._first_arrival + 1)

    @property
    def counts_text(self) -> str:
        """A sentence with the rate of events and their number. If events were lost, it says so."""
        before = f", {self.before:,} of them from before" if self.before else ""
        lost = f"{'' if self._lost_is_known else 'at least '}{self.lost:,} lost"
        phrases = [
            f"{self.rate:,.1f} events/s",
            format_count(self.total, "event") + before,
            f"{format_count(self.gaps, 'gap')}, {lost}" if self.gaps else "no gaps",
        ]
        if self._earlier.is_running:
            phrases.append("reading earlier events …")
        if self.overrun:
            phrases.append(f"{self.overrun:,} arrived too fast and were dropped")
        if self.total > len(self._recorded) + len(self._events):
            phrases.append(f"the newest {len(self._events):,} are stored")
        selected = filter(self._is_selected, reversed(self._displayed))
        if not self.is_paused and next(islice(selected, MAX_ROWS, None), None) is not None:
            phrases.append(f"the table shows the newest {MAX_ROWS}, or all while it is paused")
        if self.total > self._displayed_total:
            phrases.append(f"paused: {self.total - self._displayed_total:,} new")
        return " · ".join(phrases)

    @property
    def is_reading(self) -> bool:
        """Whether a read of earlier events is in progress."""
        return self._directory.is_running or self._earlier.is_running

    @property
    def empty_text(self) -> str:
        """A hint that is displayed if there are no events. It is empty if there are events."""
        if any(map(self._is_selected, self._displayed)):
            return ""
        return "No event yet. Only subscribed resources send observations: subscribe some in the Explorer."

    @property
    def names(self) -> list[str]:
        """The known endpoint names, sorted."""
        return sorted(set(self._names.values()))

    # Stored events

    @property
    def events(self) -> Sequence[Event]:
        """The stored events of the selected devices and paths, with the oldest first.

        They include events that arrived during a pause.
        """
        return tuple(filter(self._is_selected, self._all()))

    @property
    def frame(self) -> pd.DataFrame:
        """The stored events as an events table, with the units that devices reported."""
        events = (replace(event, unit=self._units.unit_of(event) or None) for event in self.events)
        return events_frame(events, server=self.client.base_url)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the stored events to a Parquet file, which ``mirror_sdk.frames.read_parquet`` reads.

        Args:
            path: The path of the file.
            overwrite: Whether to replace an existing file. The replacement is atomic.

        Returns:
            The path of the file.

        Raises:
            FileExistsError: The file exists.
            OSError: The file cannot be written.
            ValueError: The path is empty.
        """
        if not os.fspath(path):
            raise ValueError("the file has no name; enter one such as events.parquet")
        file = Path(path)
        if file.exists() and not overwrite:
            raise FileExistsError(f"{file} exists; choose another name, or overwrite it")
        # The temporary file is in the folder of the file, because a rename is atomic only within one file system.
        with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
            written = Path(folder) / file.name
            self.frame.to_parquet(written)
            if not overwrite:
                # Only one of two concurrent saves can create the file.
                file.touch(exist_ok=False)
            written.replace(file)
        return file

    def file_content(self, kind: str) -> bytes:
        """Return the stored events as the content of a ``csv`` or ``parquet`` file.

        Raises:
            ValueError: This kind of file is not supported.
        """
        if kind not in {"csv", "parquet"}:
            raise ValueError(f"kind must be csv or parquet, got {kind!r}")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"events.{kind}"
            if kind == "csv":
                write_csv(self.frame, file)
            else:
                self.frame.to_parquet(file)
            return file.read_bytes()

    def record(self, folder: str) -> None:
        """Start to record the selected devices and paths in this folder, or end the recording that is in progress.

        Raises:
            ValueError: The name of the folder is empty.
        """
        ids = {name: device_id for device_id, name in self._names.items()}
        devices = [ids.get(device, device) for device in self.devices]
        self.recording.toggle(folder, devices or None, self.paths or None)

    def _read_writes(self, begin: datetime) -> None:
        devices, paths = self.devices, self.paths

        def accept(found: tuple[Sequence[CompletedWrite], datetime]) -> None:
            writes, self._history_until = found
            self._accept_writes(writes)

        self._write_reads.start("Reading the writes", lambda: read_writes(self.client, begin, devices, paths), accept)

    def _accept_writes(self, writes: Iterable[CompletedWrite]) -> None:
        self._writes |= {(one.device_id, one.path, one.at): one for one in writes}

    def _reset_counts(self) -> None:
        self.total = self.before = self.gaps = self.lost = self.overrun = 0
        self._lost_is_known = True

    def _store(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        self._register(events)
        self.total += len(events)
        second = int(self.clock())
        if not self._arrivals:
            self._first_arrival = second
        self._arrivals.append((second, len(events)))
        while self._arrivals[0][0] <= second - RATE_SECONDS:
            self._arrivals.popleft()
        self.changed()

    def _all(self) -> Sequence[Event]:
        return [*self._recorded, *self._events]

    def _apply_choice(self) -> None:
        ids = {device_id for device_id, name in self._names.items() if name in self.devices} | set(self.devices)
        self._is_selected = event_filter(self.paths or None, ids if self.devices else None)
        self._rebuilds += 1
        self._newest.clear()
        self._register(filter(self._is_selected, self._all()))
        self.plotted = tuple(key for key in self.plotted if key in self._newest)
        self.selected = self.selected if self.selected in self.plotted else None
        self._report_unknown_devices()
        self.changed()

    def _report_unknown_devices(self) -> None:
        is_counted = {*self._names, *self._names.values()}
        unknown = [device for device in self.devices if device not in is_counted] if self._has_names else []
        if unknown:
            names = "; ".join(f"{visible(one)} ({closest(one, self._names.values())})" for one in unknown)
            self.notices.add("devices", f"No device has this name or id: {names}. It is shown once it registers.")
        else:
            self.notices.clear("devices")

    def _accept_names(self, devices: DeviceList) -> None:
        self._names |= {device.id: device.endpoint_name for device in devices}
        self._has_names = True
        self._names_changed()
        self.load_earlier()

    def _learn_names(self, events: Iterable[Event]) -> None:
        """Store the names of devices that register. The user may have chosen a device by such a name."""
        names = {event.device_id: event.endpoint_name for event in events if event.device_id and event.endpoint_name}
        if not names.items() <= self._names.items():
            self._names |= names
            self._names_changed()

    def _names_changed(self) -> None:
        self._display_names = display_names(self._names)
        self._make_rows_again()
        self._apply_choice()

    def _accept_earlier(self, earlier: EarlierEvents) -> None:
        """Insert the earlier events before the live ones. Events that are already stored do not change."""
        existing = {_identity(event) for event in self._events}
        # If an event came from both, the live one is kept, because it has the time of its receipt.
        logged = [e for e in earlier.logged if _identity(e) not in existing and (e.seq or 0) > self._cleared_seq]
        merged = sorted(chain(_with_seq(logged), _with_seq(self._events)), key=itemgetter(0))
        self._events = deque(map(itemgetter(1), merged), self._events.maxlen)
        recorded = () if self._is_cleared else earlier.recorded
        added = len(logged) + len(recorded) - len(self._recorded)
        self.before += added
        self.total += added
        self._recorded = recorded
        self._read_identities = set(map(_identity, earlier.logged))
        if not self._is_cleared:
            self._accept_writes(earlier.writes)
        self._history_until = earlier.history_until
        self._choose_window()
        self._write_reads.within(WRITES_READ_SECONDS)
        self._learn_names(logged)
        self._units.learn(chain(recorded, logged))
        self._make_rows_again()
        self._apply_choice()
        self._units.request(self.events)

    def _choose_window(self) -> None:
        """Follow the last hour, unless the user has chosen a window or the widget displays a recording."""
        if not self._is_window_chosen and self._now is not None and self._opened_with is None:
            self.window.follow(FOLLOWED_BY_DEFAULT)

    def _make_rows_again(self) -> None:
        self._rebuilds += 1
        self._rows.clear()
        self.changed()

    def _register(self, events: Iterable[Event]) -> None:
        """Store the newest event of each resource that has numbers or states."""
        for event in events:
            if number_of(event) is not None or (is_state(event) and not names_unit(event.path or "")):
                key = SeriesKey(event.device_id or "", event.path or "")
                if key in self._newest or len(self._newest) < SERIES_LISTED:
                    self._newest[key] = event

    @property
    def _displayed(self) -> Sequence[Event]:
        return self._all() if self._frozen is None else self._frozen[0]

    @property
    def _displayed_total(self) -> int:
        return self.total if self._frozen is None else self._frozen[1]

    @property
    def _series_names(self) -> dict[tuple[str, str], str]:
        return line_names([*self._newest, *self.drawn], self._display_names)

    def _row(self, number: int, event: Event) -> Row:
        is_gap = event.kind is EventKind.GAP
        unit = self._units.unit_of(event)
        value, complete = _value_text(event, unit, short_value), _value_text(event, unit, format_value)
        resource = label_of(event.path) if event.path else ""
        hints = {"resource": f"{resource}\n{event.path}"} if event.path else {}
        return {
            "key": str(number),
            "number": number,
            "changed_at": event.changed_at,
            "received_at": event.received_at,
            "event": event.kind.value.replace("_", " "),
            "device": self._display_names.get(event.device_id, event.device_id) if event.device_id else "",
            "resource": resource,
            "path": event.path or "",
            "value": value,
            "device_id": event.device_id or "",
            "tones": {"event": "bad", "value": "bad"} if is_gap else {},
            "hints": hints if value == complete else {**hints, "value": complete},
        }


def series_text(key: SeriesKey) -> str:
    """Return a string that identifies a series. It is unique, because a device id contains no space."""
    return f"{key.device_id} {key.path}"


def _identity(event: Event) -> Hashable:
    """Return the identity of an entry of the log, which is the same on every read."""
    return event.uid or (event.kind, event.first_seq, event.seq, event.device_id, event.path)


def _with_seq(events: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """Yield each event with its number in the log, or else with the number of the event before it."""
    seq = 0
    for event in events:
        seq = seq if event.seq is None else event.seq
        yield seq, event


def _thresholds(levels: Mapping[str, float | Sequence[float]]) -> tuple[Threshold, ...]:
    found: list[Threshold] = []
    for pattern, value in levels.items():
        check_pattern(pattern)
        several: Sequence[object] = value if isinstance(value, list | tuple) else (value,)
        for level in several:
            if isinstance(level, bool) or not isinstance(level, int | float) or not math.isfinite(level):
                raise TypeError(f"thresholds takes numbers, got {level!r} for {pattern}")
            found.append(Threshold(pattern, float(level)))
    return tuple(found)


def _value_text(event: Event, unit: str, formatted: Callable[[Value, str], str]) -> str:
    if event.kind is EventKind.GAP:
        is_counted = count_missing(event.first_seq, event.seq) is not None
        return f"lost: {event.first_seq} to {event.seq}" if is_counted else "lost: an unknown number"
    value = formatted(event.value, unit) if event.value and event.value.kind is not ValueKind.NONE else ""
    if event.kind is not EventKind.ASYNC_RESPONSE:
        return value
    return " ".join(filter(None, [str(event.status), event.category, value, f"of request {event.async_id}"]))
