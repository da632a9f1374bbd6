"""The event watcher, which shows earlier and new events in a plot over time and in a table."""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from mirror_sdk._client import MirrorClient
from mirror_sdk._formatting import number_text
from mirror_sdk._table_arguments import device_ids, is_table
from mirror_sdk.conditions import Condition
from mirror_sdk.device_lookup import DevicesLike, known_id
from mirror_sdk.events import utc_now
from mirror_sdk.widgets import static
from mirror_sdk.widgets.feed import feed_of
from mirror_sdk.widgets.models.chart_parts import ChartParts
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.lines import Series, is_stepped, panel_title, short_name
from mirror_sdk.widgets.models.time_window import Interval, plotted_instant
from mirror_sdk.widgets.models.watcher_model import MAX_EVENTS, WatcherModel, series_text
from mirror_sdk.widgets.plot_picture import panels_of, plot_html
from mirror_sdk.widgets.widget import MirrorWidget

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

PLOT_SECONDS = 0.5
PLOT_SHARE = 6
"""The pause before the next drawing, as a multiple of the duration of the last drawing."""
START_SECONDS = 10.0
_COLUMNS = (
    *("number: No.", "changed_at: Changed at (UTC)", "device", "resource", "value", "event", "path"),
    "received_at: Received (UTC)",
)
_ROWS_IN_COPY = 50


class EventWatcher(MirrorWidget):
    """A widget that shows the events of selected resources in a plot over time and in a table.

    It can also save or record the events.

    Values arrive only from resources to which your key has subscribed: ``client.subscribe(device, path)``.

    The watcher starts with earlier events. The oldest ones come from the recording or, without a recording, from the
    last day of the history of the service. The others come from the notification log, which usually covers a day. Their
    column ``received`` shows when the widget read them. New events follow without a gap, and each event appears once.
    If the user chooses other devices or paths, the widget filters the display and reads the earlier events again.

    Numbers are drawn as lines, in one panel for each quantity and unit. The unit is the one that the device reports
    (resource 5701), or else the declared unit. The lines of set points and integers have steps, because each value
    lasts until the next one. Booleans and strings are drawn as states over time. A line is interrupted after a loss of
    events and after the device has deregistered. It is also interrupted after a silence of more than ten times the
    usual interval, unless it is a set point. The plot marks losses, absences of devices, and writes with their results.

    The plot follows the newest events, or shows a fixed interval after a zoom. A click on a row of the table highlights
    the line of the resource. Times are displayed in a time zone that the user chooses.

    The page is refreshed at most four times a second, and the plot at most twice. While the display is paused, the
    table shows all stored events instead of only the newest ones.

    Args:
        client: The client of the mirror.
        devices: Devices, their ids or endpoint names, or a table whose rows identify them. ``None`` selects all
            devices.
        paths: Path patterns such as ``/3303/*``, which select only observations of these paths. ``None`` selects every
            event.
        recording: A recording to start with, or the folder of a recording.
        thresholds: The levels that the plot marks, as a mapping from paths or path patterns to one level or a list of
            levels. The legend shows how long each line was above each level.
        conditions: The conditions to show: :class:`mirror_sdk.Condition` objects, or texts such as ``/3303/0/5700 > 25
            for 10min``. The limits of a condition are lines in the panels of its resources. The intervals in which it
            is met are shaded there, by the time at which the values changed. The parts in which its state is unknown,
            such as a gap, are hatched. The legend shows how long each condition was met.
        max_events: The maximum number of events that the widget stores from the recording. The same limit applies
            separately to events from the log.
        live: Whether the watcher receives events on its own.
        keep_previous: Whether earlier watchers stay open. By default, a new watcher closes the watchers of the previous
            run of its cell. If the notebook does not identify the running cell, it closes all earlier watchers of this
            client.
        clock: A function that returns the time in seconds, from which the rate of events and the refresh of the plot
            are determined.

    Raises:
        FileNotFoundError: The recording does not exist.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`, a threshold is not a number, or a single
            string or condition was passed instead of a list.
        ValueError: A pattern or a condition is invalid, or a condition needs desired values.

    >>> with EventWatcher(client, paths=["/3303/*"], live=False) as watcher:
    ...     watcher.model.counts_text
    '0.0 events/s · 0 events · no gaps'
    """

    model: WatcherModel
    _component = traitlets.Unicode("watcher").tag(sync=True)
    _attributes = "is_paused is_reading"
    _intents = "pause resume clear dismiss"
    _copy_seconds = 15.0

    def __init__(
        self,
        client: MirrorClient,
        devices: DevicesLike | None = None,
        paths: Collection[str] | None = None,
        *,
        recording: str | os.PathLike[str] | Recording | None = None,
        thresholds: Mapping[str, float | Sequence[float]] | None = None,
        conditions: Iterable[Condition | str] = (),
        max_events: int = MAX_EVENTS,
        live: bool = True,
        keep_previous: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, live=live, keep_previous=keep_previous)
        devices = device_ids(devices, "devices") if is_table(devices) else devices
        names = () if devices is None or isinstance(devices, str) else devices
        # Names are not resolved here, because a device may register later.
        chosen = [known_id("each of devices", one) or str(one) for one in names]
        self.model = WatcherModel(
            client,
            devices if isinstance(devices, str) else chosen,
            paths,
            self._live.run,
            recording=_opened(recording),
            await_live=partial(feed_of(client).await_start, START_SECONDS) if live else lambda: None,
            max_events=max_events,
            thresholds=thresholds,
            conditions=conditions,
            now=utc_now if live else None,
            clock=clock,
        )
        self._clock = clock
        self._plot_at = clock()
        self._plotted: object = None
        self._choice: object = None
        self._chart = ChartParts((), (), (), ())
        self._interval: Interval | None = None
        self._counts = self._saved = ""
        self._start()
        # This follows the start, so that no event is missed between the read and the live events.
        with self._live.lock:
            self.model.load()
        self._plot_at = clock()
        self.refresh()

    @property
    def frame(self) -> pd.DataFrame:
        """The stored events of the selected devices and paths as a table; see :func:`mirror_sdk.frames.events_frame`.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.frame["event"].unique().tolist()
        ['registration']
        """
        with self._live.lock:
            return self.model.frame

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the stored events of the selected devices and paths to a Parquet file.

        ``mirror_sdk.frames.read_parquet`` can read the file.

        Args:
            path: The path of the file.
            overwrite: Whether to replace an existing file.

        Returns:
            The path of the file.

        Raises:
            FileExistsError: The file exists, and ``overwrite`` is false.
            OSError: The file cannot be written.
            ValueError: The path is empty.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.save(folder / "seen.parquet").name
        'seen.parquet'
        >>> watcher.save(folder / "seen.parquet", overwrite=True).name
        'seen.parquet'
        """
        with self._live.lock:
            written = self.model.save(path, overwrite=overwrite)
            self._saved = f"{format_count(len(self.model.events), 'event')} in {written.resolve()}"
            self.model.changed()
            return written

    def _view(self) -> dict[str, Any]:
        model = self.model
        return {
            "devices": ", ".join(model.devices),
            "paths": ", ".join(model.paths),
            "counts": self._counts,
            "empty": model.empty_text,
            "length": model.window.length,
            "fixed": model.window.staying,
            "range": self._interval,
            "selected": model.selected and series_text(model.selected),
            "drawn": [series_text(key) for key in model.drawn],
            "isRecording": model.recording.is_recording,
            "recording": model.recording.text,
            "saved": self._saved,
        }

    @property
    def _is_changed(self) -> bool:
        return super()._is_changed or self._is_plot_due or self._counts != self.model.counts_text

    @property
    def _is_plot_due(self) -> bool:
        """Return whether to draw the plot.

        The plot is drawn immediately after the user has changed what it shows, and otherwise at most twice a second.
        """
        is_time = self._clock() >= self._plot_at or self._choice != self._new_choice()
        return is_time and self._plotted != (self.model.version, self._new_interval())

    def _new_choice(self) -> object:
        return self.model.window.staying, self.model.window.length, self.model.plotted

    def _new_interval(self) -> Interval | None:
        interval = self.model.interval_of(self._chart)
        if interval is None or self.model.window.staying is not None:
            return interval
        # The interval moves in steps of about a pixel, because each step draws the plot again.
        step = max(1.0, interval.length.total_seconds() / 1000)
        end = math.ceil(interval.end.timestamp() / step) * step
        return Interval(interval.begin, max(interval.end, plotted_instant(end)))

    def _publish(self) -> None:
        self._counts = self.model.counts_text
        if self._is_plot_due:
            now = self._clock()
            self._publish_plot()
            self._plotted, self._choice = (self.model.version, self._interval), self._new_choice()
            # Draw less often on a slow machine, to leave time for other work.
            self._plot_at = now + max(PLOT_SECONDS, PLOT_SHARE * (self._clock() - now))
        if super()._is_changed:
            # New rows come last, because the page appends them in this order. The page sorts them itself.
            self._rows("events").show(self.model.rows[::-1])
            self._rows("names").show([{"key": name} for name in self.model.names])
            self._rows("series").show(self.model.series_rows)

    def _publish_plot(self) -> None:
        self._chart = chart = self.model.chart
        self._interval = self._new_interval()
        self._series("lines").show({series_text(line.key): line.with_breaks for line in chart.lines})
        self._rows("panels").show([self._panel(lines) for lines in panels_of(chart.lines)])
        states = [{"key": series_text(row.key), "name": row.name, "spans": row.spans} for row in chart.states]
        self._rows("states").show(states)
        self._rows("conditions").show(
            [
                {
                    "key": f"{one.number} {series_text(next(iter(one.limits)))}",
                    "condition": one.condition,
                    "name": one.name,
                    "keys": list(map(series_text, one.limits)),
                    "spans": one.spans,
                }
                for one in chart.conditions
            ]
        )
        marks = {"shades": chart.shades, "markers": chart.markers}
        self._rows("marks").show([{"key": key, "marks": found} for key, found in marks.items()])

    def _panel(self, lines: Sequence[Series]) -> dict[str, Any]:
        unit = lines[0].unit_text
        levels: defaultdict[float, list[str]] = defaultdict(list)
        for threshold in self.model.thresholds:
            for line in lines:
                if threshold.concerns(line.key):
                    levels[threshold.level].append(series_text(line.key))
        for line in lines:
            for level in chain.from_iterable(one.limits.get(line.key, ()) for one in self._chart.conditions):
                # The legend shows how long the condition was met, and not how long the line was above its limit.
                levels.setdefault(level, [])
        return {
            "key": lines[0].panel,
            "title": panel_title(lines),
            "unit": unit,
            "lines": [
                [series_text(line.key), short_name(line.name), self.model.color_of(line.key), is_stepped(line.key.path)]
                for line in lines
            ],
            "thresholds": [
                {"value": level, "text": f"{number_text(level)} {unit}".rstrip(), "keys": keys}
                for level, keys in levels.items()
            ],
        }

    def _do_choose(self, devices: str, paths: str) -> None:
        self._attempt("choice", "This cannot be chosen", self.model.choose, _listed(devices), _listed(paths))

    def _do_follow(self, milliseconds: float | None) -> None:
        self.model.follow(None if milliseconds is None else timedelta(milliseconds=milliseconds))

    def _do_stay(self, begin: float, end: float) -> None:
        self.model.stay(Interval(*(datetime.fromtimestamp(at / 1000, UTC) for at in (begin, end))))

    def _do_draw(self, keys: Sequence[str]) -> None:
        self.model.plot_texts(keys)

    def _do_select(self, key: str) -> None:
        self.model.select_row(key)

    def _do_download(self, kind: str) -> None:
        self._attempt("download", "The download failed", self._send_file, kind)

    def _send_file(self, kind: str) -> None:
        """Send the stored events to the page as a ``csv`` or ``parquet`` file."""
        content = self.model.file_content(kind)
        self._notify("file", {"name": f"events-{utc_now():%Y%m%d-%H%M%S}.{kind}"}, [content])

    def _do_save(self, file: str, overwrite: bool) -> None:
        self._saved = ""
        self._attempt("save", "Saving", partial(self.save, overwrite=overwrite), file.strip())

    def _do_record(self, folder: str) -> None:
        self._attempt("recording", "Recording", self.model.record, folder.strip())

    def _attempt(self, subject: str, text: str, call: Callable[..., object], *arguments: object) -> None:
        """Call a function. If it fails, display the failure instead of an earlier failure with the same subject."""
        self.model.notices.clear(subject)
        self.model.changed()
        self._act(partial(call, *arguments), subject, text)

    def _static_html(self) -> Iterator[str | Callable[[], str]]:
        """Yield the plot as a picture, the legend, and the newest events as a table."""
        chart, interval = self._chart, self._interval
        yield static.paragraph(self.model.counts_text)
        if interval is not None and (panels_of(chart.lines) or chart.states):
            colors = {line.key: self.model.color_of(line.key) for line in chart.lines}
            yield partial(plot_html, chart, interval, colors, self.model.thresholds)
        yield static.table("Events", _COLUMNS, self.model.rows, _ROWS_IN_COPY)


def _opened(recording: str | os.PathLike[str] | Recording | None) -> Recording | None:
    if not isinstance(recording, str | os.PathLike):
        return recording
    from mirror_sdk.recording import Recording

    return Recording(recording)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
