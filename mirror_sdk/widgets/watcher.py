"""The event watcher: earlier and new events, as lines and states over time and as a table."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirror_sdk._client import MirrorClient
from mirror_sdk._formatting import number_text
from mirror_sdk._table_arguments import device_ids, is_table
from mirror_sdk.device_lookup import DevicesLike, known_id
from mirror_sdk.events import utc_now
from mirror_sdk.widgets import static
from mirror_sdk.widgets.feed import feed_of
from mirror_sdk.widgets.models.chart_parts import ChartParts
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.lines import Series, panel_title, short_name
from mirror_sdk.widgets.models.time_window import Interval
from mirror_sdk.widgets.models.watcher_model import MAX_EVENTS, WatcherModel, series_text
from mirror_sdk.widgets.plot_picture import describe, legend, panels_of, picture
from mirror_sdk.widgets.widget import MirrorWidget

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

PLOT_SECONDS, PICTURE_SECONDS = 0.5, 15.0
START_SECONDS = 10.0
PLOT_SHARE = 6
"""The pause before the next drawing, as a multiple of the time of the last one."""
ROWS_IN_COPY = 50
_HEADINGS = {
    "number": "no.",
    "changed_at": "changed at (UTC)",
    "device": "device",
    "resource": "resource",
    "value": "value",
    "event": "event",
    "path": "path",
    "received_at": "received (UTC)",
}


class EventWatcher(MirrorWidget):
    """Shows the events of chosen resources over time and as a table, and can save or record them.

    Values only arrive from resources that your key has subscribed to: ``client.subscribe(device, path)``.

    It starts with earlier events. The oldest come from the recording or, without one, from the last day of the
    service's history. The others come from the notification log, which usually covers a day; their column ``received``
    shows when the widget read them. New events follow without a gap, each of them once. If the user chooses other
    devices or paths, the widget filters the display and reads the earlier events again.

    Numbers are drawn as lines, in one panel for each quantity and unit. The unit is the one that the device reports
    (resource 5701), else the declared one. Booleans and strings are drawn as states over time. A line breaks after a
    loss in the log, after its device left, and after a silence of more than ten times its usual interval. The plot
    marks losses, absences of devices, and writes with their results.

    The plot follows the newest events, or shows a fixed interval after a zoom. A click on a row of the table highlights
    its line. Times are displayed in a zone that the user chooses.

    The page is refreshed at most four times a second, the plot at most twice. While the display is paused, the table
    shows all stored events instead of only the newest.

    Args:
        client: The mirror.
        devices: Devices, their ids or endpoint names, or a table whose rows name them; ``None`` selects all.
        paths: Path patterns (``/3303/*``): only observations of these; ``None`` selects every event.
        recording: A recording to start with, or its folder.
        thresholds: Levels that the plot marks, by path or path pattern: one, or several in a list. The legend shows how
            long each line was above them.
        max_events: The maximum number of stored events from the recording, and of those from the log.
        live: Whether it receives events by itself.
        keep_previous: Whether earlier watchers stay open. By default this one closes those of the previous run of its
            cell. If the notebook does not say which cell is running, it closes all earlier watchers of this client.
        clock: Returns seconds; used for the rate and the refresh of the plot.

    Raises:
        FileNotFoundError: There is no such recording.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`, a threshold is not a number, or a single
            string was passed instead of a list.
        ValueError: A pattern is invalid.

    >>> with EventWatcher(client, paths=["/3303/*"], live=False) as watcher:
    ...     watcher.model.counts_text
    '0.0 events/s · 0 events · no gaps'
    """

    component = "watcher"
    model: WatcherModel

    def __init__(
        self,
        client: MirrorClient,
        devices: DevicesLike | None = None,
        paths: Collection[str] | None = None,
        *,
        recording: str | os.PathLike[str] | Recording | None = None,
        thresholds: Mapping[str, float | Sequence[float]] | None = None,
        max_events: int = MAX_EVENTS,
        live: bool = True,
        keep_previous: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, live=live, keep_previous=keep_previous)
        devices = device_ids(devices, "devices") if is_table(devices) else devices
        names = () if devices is None or isinstance(devices, str) else devices
        # Names are not resolved here, since the device may register later.
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
            now=utc_now if live else None,
            clock=clock,
        )
        self._clock = clock
        self._plot_at = self._draw_at = clock()
        self._plotted = -1
        self._chart = ChartParts((), (), (), ())
        self._interval: Interval | None = None
        self._picture: bytes | None = None
        self._is_drawing = False
        self._saved = ""
        self.start()
        # After the start, so that no event is missed between the read and the live events.
        with self._live.lock:
            self.model.load()
        self._plot_at = clock()
        self.refresh()

    @property
    def frame(self) -> pd.DataFrame:
        """The stored events of the current choice as an events table; see :func:`mirror_sdk.frames.events_frame`.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.frame["event"].unique().tolist()
        ['registration']
        """
        with self._live.lock:
            return self.model.frame

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the stored events of the current choice to a Parquet file, for ``mirror_sdk.frames.read_parquet``.

        Args:
            path: The file.
            overwrite: Whether an existing file is replaced.

        Returns:
            The file.

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
            return self.model.save(path, overwrite=overwrite)

    def close(self) -> None:
        """Close it, end a running recording, and remove it from the page. Closing it again does nothing.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.close()
        >>> watcher.is_running
        False
        """
        model = getattr(self, "model", None)
        if model is not None:
            model.recording.close()
        super().close()

    # The page

    def view(self) -> dict[str, Any]:
        """Return the state of the component: everything but the tables and the lines."""
        model, interval = self.model, self._interval
        staying, length = model.window.staying, model.window.length
        return {
            "devices": ", ".join(model.devices),
            "paths": ", ".join(model.paths),
            "counts": model.counts_text,
            "empty": model.empty_text,
            "isPaused": model.is_paused,
            "isReading": model.is_reading,
            "length": None if length is None else length / timedelta(milliseconds=1),
            "fixed": None if staying is None else _range(staying),
            "range": None if interval is None else _range(interval),
            "selected": None if model.selected is None else series_text(model.selected),
            "drawn": [series_text(key) for key in model.drawn],
            "isRecording": model.recording.is_recording,
            "recording": model.recording.text,
            "saved": self._saved,
        }

    @property
    def intents(self) -> Mapping[str, Callable[..., object]]:
        """The functions that the component calls."""
        model = self.model
        return {
            "choose": self._choose,
            "follow": self._follow,
            "stay": self._stay,
            "draw": self._draw,
            "select": model.select_row,
            "pause": model.pause,
            "resume": model.resume,
            "clear": model.clear,
            "download": self._download,
            "save": self._save,
            "record": self._record,
            "dismiss": model.dismiss,
        }

    def publish(self) -> None:
        """Show the table, and the plot at most twice a second."""
        now = self._clock()
        if now >= self._plot_at and (self.model.version != self._plotted or self._is_late()):
            self._publish_chart()
            # Draw less often on a slow machine, to leave time for other work.
            pause_seconds = max(PLOT_SECONDS, PLOT_SHARE * (self._clock() - now))
            self._plotted, self._plot_at = self.model.version, now + pause_seconds
        if self.is_changed:
            # New rows last, in the order in which the page appends them. The page sorts them.
            self.rows("events").show(self.model.rows[::-1])
            self.rows("names").show([{"key": name} for name in self.model.names])
            self.rows("series").show(self.model.series_rows)

    def _is_late(self) -> bool:
        """Whether the interval has moved on, although nothing has arrived."""
        return self._interval is not None and self._new_interval() != self._interval

    def _new_interval(self) -> Interval | None:
        interval = self.model.interval_of(self._chart)
        if interval is None or self.model.window.staying is not None:
            return interval
        # In steps of about a pixel, since each step draws the plot again.
        step = max(1.0, interval.length.total_seconds() / 1000)
        end = math.ceil(interval.end.timestamp() / step) * step
        return Interval(interval.begin, max(interval.end, datetime.fromtimestamp(end, UTC)))

    def _publish_chart(self) -> None:
        self._chart = self.model.chart
        self._interval = self._new_interval()
        chart = self._chart
        self.series("lines").show({series_text(line.key): line.with_breaks for line in chart.lines})
        self.rows("panels").show([self._panel(lines) for lines in panels_of(chart.lines)])
        self.rows("states").show(
            [
                {
                    "key": series_text(row.key),
                    "name": row.name,
                    "spans": [[_ms(one.begin), _ms(one.end), one.text, one.color] for one in row.spans],
                }
                for row in chart.states
            ]
        )
        shades = [[one.kind, _ms(one.begin), _ms(one.end), one.text] for one in chart.shades]
        markers = [[_ms(one.at), one.text, one.tone.value] for one in chart.markers]
        self.rows("marks").show([{"key": "shades", "marks": shades}, {"key": "markers", "marks": markers}])

    def _panel(self, lines: Sequence[Series]) -> dict[str, Any]:
        unit = lines[0].unit_text
        levels: dict[float, list[str]] = {}
        for threshold in self.model.thresholds:
            for line in lines:
                if threshold.concerns(line.key):
                    levels.setdefault(threshold.level, []).append(series_text(line.key))
        return {
            "key": lines[0].panel,
            "title": panel_title(lines),
            "unit": unit,
            "lines": [[series_text(line.key), short_name(line.name), self.model.color_of(line.key)] for line in lines],
            "thresholds": [
                {"value": level, "text": f"{number_text(level)} {unit}".rstrip(), "keys": keys}
                for level, keys in levels.items()
            ],
        }

    # What the user does

    def _choose(self, devices: str, paths: str) -> None:
        self._attempt("choice", "This cannot be chosen", lambda: self.model.choose(_listed(devices), _listed(paths)))

    def _follow(self, milliseconds: float | None) -> None:
        self.model.follow(None if milliseconds is None else timedelta(milliseconds=milliseconds))
        self._plot_at = self._clock()

    def _stay(self, begin: float, end: float) -> None:
        self.model.stay(Interval(*(datetime.fromtimestamp(at / 1000, UTC) for at in (begin, end))))
        self._plot_at = self._clock()

    def _draw(self, keys: Sequence[str]) -> None:
        self.model.plot_texts(keys)
        self._plot_at = self._clock()

    def _download(self, kind: str) -> None:
        """Send the stored events to the page as a file: ``csv`` or ``parquet``."""
        self._attempt("download", "The download failed", lambda: self._send_file(kind))

    def _send_file(self, kind: str) -> None:
        content = self.model.file_content(kind)
        self.notify("file", {"name": f"events-{utc_now():%Y%m%d-%H%M%S}.{kind}"}, [content])

    def _save(self, file: str, overwrite: bool) -> None:
        self._saved = ""
        self._attempt("save", "Saving", lambda: self._write_file(file.strip(), overwrite=overwrite))

    def _write_file(self, file: str, *, overwrite: bool) -> None:
        written = self.model.save(file, overwrite=overwrite)
        self._saved = f"{format_count(len(self.model.events), 'event')} in {written.resolve()}"
        self.model.changed()

    def _record(self, folder: str) -> None:
        self._attempt("recording", "Recording", lambda: self.model.record(folder.strip()))

    def _attempt(self, subject: str, action: str, call: Callable[[], object]) -> None:
        """Call a function, and replace an earlier failure by its failure."""
        self.model.notices.clear(subject)
        self.model.changed()
        try:
            call()
        except (OSError, TypeError, ValueError) as error:
            self.model.report(subject, action, error)

    # The copy

    def static_html(self) -> str:
        """Return the plot as a picture, the legend, and the newest events as a table."""
        plot = ""
        if self._interval is not None and (panels_of(self._chart.lines) or self._chart.states):
            png = self._picture or self._draw_picture(self._chart, self._interval)
            plot = static.picture(png, describe(self._chart)) + legend(self._chart, self._interval)
        rows = self.model.rows
        cells = [[row.get(name) for name in _HEADINGS] for row in rows[:ROWS_IN_COPY]]
        table = static.table("Events", list(_HEADINGS.values()), cells, total=len(rows))
        return f"{static.paragraph(self.model.counts_text)}{plot}{table}"

    def _draw_picture(self, chart: ChartParts, interval: Interval) -> bytes:
        return picture(chart, interval, self.model.color_of, self.model.thresholds)

    def update_copy(self) -> None:
        """Draw the picture on another thread if the widget is live, so that events and clicks do not wait for it."""
        if not self.is_running or self._interval is None or not self._is_displayed:
            super().update_copy()
        elif not self._is_drawing and self._clock() >= self._draw_at:
            self._is_drawing, self._draw_at = True, self._clock() + PICTURE_SECONDS
            self._live.run(partial(self._draw_picture, self._chart, self._interval), self._drew, self._drawing_failed)

    def _drew(self, png: bytes) -> None:
        self._is_drawing, self._picture = False, png
        super().update_copy()
        # Only for this copy: the next one has newer lines.
        self._picture = None

    def _drawing_failed(self, error: Exception) -> None:
        self._is_drawing = False
        self._failed(error)


def _opened(recording: str | os.PathLike[str] | Recording | None) -> Recording | None:
    if not isinstance(recording, str | os.PathLike):
        return recording
    from mirror_sdk.recording import Recording

    return Recording(recording)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _ms(at: datetime | None) -> float | None:
    return None if at is None else round(at.timestamp() * 1000)


def _range(interval: Interval) -> list[float | None]:
    return [_ms(interval.begin), _ms(interval.end)]
