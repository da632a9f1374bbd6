"""The event watcher: earlier and new events, as lines over time and as a table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import ipywidgets as widgets

from mirror_sdk._client import MirrorClient
from mirror_sdk._table_keys import device_ids, is_table
from mirror_sdk.naming import DevicesLike, known_id
from mirror_sdk.widgets import static
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.controls import FULL, LABELED, row
from mirror_sdk.widgets.feed import feed_of
from mirror_sdk.widgets.grid import ColumnKind, Grid, GridColumn, SelectionMode
from mirror_sdk.widgets.markup import dim, heading, image_text, status_line
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.lines import Series
from mirror_sdk.widgets.models.time_window import WINDOWS, Interval
from mirror_sdk.widgets.models.watcher_model import MAX_EVENTS, WatcherModel, series_text
from mirror_sdk.widgets.name_field import NameField
from mirror_sdk.widgets.time_plot import TimePlot, describe, picture

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

PLOT_SECONDS, PICTURE_SECONDS = 0.5, 15.0
START_SECONDS = 10.0
PLOT_SHARE = 6
"""The pause before the next drawing, as a multiple of the time of the last one."""
_EVENT_COLUMNS = (
    GridColumn("number", "no.", ColumnKind.NUMBER, width=95, sort="desc"),
    GridColumn("changed_at", "changed at (UTC)", ColumnKind.TIME, width=205),
    GridColumn("device", "device"),
    GridColumn("resource", "resource"),
    GridColumn("value", "value"),
    GridColumn("event", "event", width=115),
    GridColumn("path", "path", width=120),
    GridColumn("received_at", "received (UTC)", ColumnKind.TIME, width=205),
)
_SERIES_COLUMNS = (
    GridColumn("name", "line"),
    GridColumn("number", "newest", ColumnKind.NUMBER, width=105),
    GridColumn("unit", "unit", width=85),
)
_FIELD = {"width": "340px", "flex": "0 0 auto"}


class EventWatcher(MirrorWidget):
    """Shows the events of chosen resources as lines over time and as a table, and can save or record them.

    It starts with earlier events: those of the notification log, usually of a day, and before them the events of a
    recording, or else a day of the service's history. ``received`` of an event from the log is the time when it was
    read. New events follow without a gap, each of them once. Another choice of devices or paths filters the display and
    reads the earlier events again.

    The plot has an axis for each unit: the unit that the device names (resource 5701), else that of the object table. A
    line has a break after a loss in the log, after its device left, and after a silence of more than ten times its
    usual interval. The interval follows the newest events, or stays fixed after a zoom or pan. A click on a row of the
    table highlights its line.

    The page is refreshed at most four times a second, the plot twice, with a bounded number of rows and points. While
    it is paused, the table has all stored events.

    Args:
        client: The mirror.
        devices: Devices, their ids or endpoint names, or a table whose rows name them; ``None`` selects all.
        paths: Path patterns (``/3303/*``): only observations of these; ``None`` selects every event.
        recording: A recording to start with, or its folder.
        max_events: The maximum number of stored events from the recording, and of those from the log.
        live: Whether it receives events by itself.
        keep_previous: Whether an earlier watcher of this client stays open if the notebook does not say which cell is
            running. (Running a cell again normally closes its previous widget.)
        clock: Returns seconds; used for the rate and the refresh of the plot.

    Raises:
        FileNotFoundError: There is no such recording.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`, or a single string was passed instead of a
            list.
        ValueError: A pattern is invalid.

    >>> with EventWatcher(client, paths=["/3303/*"], live=False) as watcher:
    ...     watcher.model.counts_text
    '0.0 events/s · 0 events · no gaps'
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: DevicesLike | None = None,
        paths: Collection[str] | None = None,
        *,
        recording: str | os.PathLike[str] | Recording | None = None,
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
        self.model: WatcherModel = WatcherModel(
            client,
            devices if isinstance(devices, str) else chosen,
            paths,
            self._live.run,
            recording=_opened(recording),
            await_live=partial(feed_of(client).await_start, START_SECONDS) if live else lambda: None,
            max_events=max_events,
            clock=clock,
        )
        self._clock = clock
        self._plot_at = self._draw_at = clock()
        self._plotted = -1
        self._series: Sequence[Series] = ()
        self._interval: Interval | None = None
        self._picture: bytes | None = None
        self._is_drawing = False
        self.start(self._choice(), self._buttons(), self._plot(), self._table(), self._files())
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

    def render(self) -> None:
        """Show the model. The rate also changes without new events."""
        # No status role: a screen reader would read the rate again and again.
        self.counts_view.value = dim(self.model.counts_text)
        self.recording_view.value = dim(self.model.recording.text)
        self.record_button.description = "Stop" if self.model.recording.is_recording else "Record"
        now = self._clock()
        if self.model.version != self._plotted and (now >= self._plot_at or self.model.total == 0):
            self._render_plot()
            # Draw less often on a slow machine, to leave time for other work.
            pause_seconds = max(PLOT_SECONDS, PLOT_SHARE * (self._clock() - now))
            self._plotted, self._plot_at = self.model.version, now + pause_seconds
        if self.is_changed:
            self._render_table()

    def static_html(self) -> str:
        """Return the plot as a picture, and the newest events as a table."""
        plot = ""
        if self._interval is not None:
            plot = static.picture(self._picture or picture(self._series, self._interval), describe(self._series))
        return f"{dim(self.model.counts_text)}{plot}{self.grid.static_html()}"

    def update_copy(self) -> None:
        """Draw the picture on another thread if the widget is live, so that events and clicks do not wait for it."""
        if not self.is_running or self._interval is None or not self._is_displayed:
            super().update_copy()
        elif not self._is_drawing and self._clock() >= self._draw_at:
            self._is_drawing, self._draw_at = True, self._clock() + PICTURE_SECONDS
            self._live.run(partial(picture, self._series, self._interval), self._drew, self._drawing_failed)

    def _drew(self, png: bytes) -> None:
        self._is_drawing, self._picture = False, png
        super().update_copy()
        # Only for this copy: the next one has newer lines.
        self._picture = None

    def _drawing_failed(self, error: Exception) -> None:
        self._is_drawing = False
        self._failed(error)

    # Views

    def _choice(self) -> widgets.Widget:
        model = self.model
        self.title_view = widgets.HTML(heading("Events"), layout=FULL)
        self.devices = NameField(
            value=", ".join(model.devices),
            description="Devices",
            placeholder="all; names or ids, with commas",
            layout=_FIELD,
        )
        self.paths = _text(", ".join(model.paths), "Paths", "all; such as /3303/*, /3311/0/5850")
        for field in (self.devices, self.paths):
            field.observe(self.changed(lambda _: self._choose()), "value")
        self.pause_button = widgets.ToggleButton(
            description="Pause", tooltip="Pause the display; events are still collected"
        )
        self.clear_button = self.button("Clear", "Delete all stored events", model.clear)
        self.pause_button.observe(self.changed(lambda on: model.pause() if on else model.resume()), "value")
        self.counts_view = widgets.HTML(layout=FULL)
        choice = row(self.devices, self.paths, self.pause_button, self.clear_button)
        return widgets.VBox([self.title_view, choice, self.counts_view])

    def _buttons(self) -> widgets.Widget:
        self.window = widgets.ToggleButtons(
            options=list(WINDOWS),
            value="All",
            description="Show",
            tooltips=[f"The newest: {name}" for name in WINDOWS],
            style={"button_width": "64px", **LABELED},
            layout={"width": "max-content"},
        )
        self.follow_button = widgets.ToggleButton(
            value=True, description="✓ Follow", tooltip="Follow the newest events"
        )
        self.window.observe(self.changed(self._follow_last), "value")
        self.follow_button.observe(self.changed(self._follow), "value")
        moves = {
            "Earlier": ("Half a window earlier", lambda one: one.shifted(-0.5)),
            "Later": ("Half a window later", lambda one: one.shifted(0.5)),
            "Zoom in": ("Half the time span", lambda one: one.zoomed(0.5)),
            "Zoom out": ("Twice the time span", lambda one: one.zoomed(2)),
        }
        self.move_buttons = {
            name: self.button(name, tooltip, partial(self._move, move)) for name, (tooltip, move) in moves.items()
        }
        return row(self.window, self.follow_button, *self.move_buttons.values())

    def _plot(self) -> widgets.Widget:
        self.plot = TimePlot(self.handler(self._zoomed), self._live.lock)
        self.plot_text = widgets.HTML(layout=FULL)
        self.series_grid = Grid(_SERIES_COLUMNS, label="Lines", height_px=250, selection=SelectionMode.MANY)
        self.series_grid.observe(self.changed(self._draw), "selected")
        plot = widgets.VBox([self.plot.figure, self.plot_text], layout={"flex": "3 1 560px", "min_width": "0"})
        lines = widgets.VBox([self.series_grid], layout={"flex": "2 1 380px", "min_width": "0"})
        both = row(plot, lines)
        both.layout.align_items = "flex-start"
        return both

    def _table(self) -> widgets.Widget:
        self.empty_view = widgets.HTML(layout=FULL)
        self.grid = Grid(_EVENT_COLUMNS, label="Events", height_px=320)
        self.grid.observe(self.changed(lambda active: self.model.select_row(active.get("key", ""))), "active")
        return widgets.VBox([self.empty_view, self.grid])

    def _files(self) -> widgets.Widget:
        self.file = _text("events.parquet", "File", "")
        self.overwrite = widgets.Checkbox(description="Overwrite", indent=False, layout={"width": "auto"})
        self.save_button = self.button("Save", "Write the events to this file", self._save, settles=True)
        self.saved_view = widgets.HTML(layout=FULL)
        self.folder = _text("recording.parquet", "Folder", "")
        self.record_button = self.button(
            "Record", "Record the current choice in this folder", self._record, settles=True
        )
        self.recording_view = widgets.HTML(layout=FULL)
        saving = row(self.file, self.save_button, self.overwrite, self.saved_view)
        return widgets.VBox([saving, row(self.folder, self.record_button, self.recording_view)])

    # User input

    def _choose(self) -> None:
        self._attempt(
            "choice",
            "This cannot be chosen",
            lambda: self.model.choose(_listed(self.devices.value), _listed(self.paths.value)),
        )

    def _follow_last(self, length: str) -> None:
        self.model.follow(length)
        self.plot.reset()
        self._plot_at = self._clock()

    def _follow(self, is_following: bool) -> None:
        self.model.stay(None if is_following else self._interval)
        self.plot.reset()
        self._plot_at = self._clock()

    def _move(self, moved: Callable[[Interval], Interval]) -> None:
        if self._interval is not None:
            self.model.stay(moved(self._interval))
            self._plot_at = self._clock()

    def _zoomed(self, interval: Interval | None) -> None:
        if interval is None:
            self.model.follow("All")
        else:
            self.model.stay(interval)

    def _draw(self, selected: Sequence[str]) -> None:
        self.model.plot_texts(selected)
        self._plot_at = self._clock()

    def _save(self) -> None:
        self.saved_view.value = ""
        self._attempt("save", "Saving", self._write_file)

    def _write_file(self) -> None:
        file = self.model.save(self.file.value.strip(), overwrite=self.overwrite.value)
        self.overwrite.value = False
        text = f"{format_count(len(self.model.events), 'event')} in {file.resolve()}"
        self.saved_view.value = status_line(text)

    def _record(self) -> None:
        self._attempt("recording", "Recording", lambda: self.model.record(self.folder.value.strip()))

    def _attempt(self, subject: str, action: str, call: Callable[[], object]) -> None:
        """Call a function, and replace an earlier failure by its failure."""
        self.model.notices.clear(subject)
        self.model.changed()
        try:
            call()
        except (OSError, TypeError, ValueError) as error:
            self.model.report(subject, action, error)

    # Display

    def _render_plot(self) -> None:
        self._series = self.model.series
        self._interval = self.model.interval_of(self._series)
        self.plot.show(self._series, self._interval, self.model.selected)
        self.plot_text.value = image_text(describe(self._series)) + dim(
            "" if self._interval else "No numbers to draw yet."
        )
        self.series_grid.show(self.model.series_rows)
        self.series_grid.selected = [series_text(key) for key in self.model.drawn]

    def _render_table(self) -> None:
        model = self.model
        # New rows last, in the order in which the page appends them. The page sorts them.
        self.grid.show(model.rows[::-1])
        self.empty_view.value = dim(model.empty_text)
        self.pause_button.value = model.is_paused
        self.pause_button.description = "Resume" if model.is_paused else "Pause"
        is_following = model.window.staying is None
        self.follow_button.value = is_following
        self.follow_button.description = "✓ Follow" if is_following else "Follow"
        # None is pressed while the interval is fixed, so that each can be chosen.
        length_name = next(name for name, length in WINDOWS.items() if length == model.window.length)
        self.window.value = length_name if is_following else None
        self.devices.names = model.names


def _opened(recording: str | os.PathLike[str] | Recording | None) -> Recording | None:
    if not isinstance(recording, str | os.PathLike):
        return recording
    from mirror_sdk.recording import Recording

    return Recording(recording)


def _text(value: str, description: str, placeholder: str) -> widgets.Text:
    return widgets.Text(
        value,
        description=description,
        placeholder=placeholder,
        continuous_update=False,
        layout=_FIELD,
        style=LABELED,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
