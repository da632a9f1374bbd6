"""The event watcher: what came and what comes, as lines over time and as a table."""

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
from mirror_sdk.events import Event
from mirror_sdk.naming import DevicesLike, known_id
from mirror_sdk.widgets import static
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.feed import feed_of
from mirror_sdk.widgets.grid import ColumnKind, Grid, GridColumn, SelectionMode
from mirror_sdk.widgets.markup import dim, heading, pictured, status
from mirror_sdk.widgets.models.lines import Series
from mirror_sdk.widgets.models.time_window import WINDOWS, Interval
from mirror_sdk.widgets.models.watcher_model import MAX_EVENTS, WatcherModel, series_text
from mirror_sdk.widgets.models.wording import count_text
from mirror_sdk.widgets.name_field import NameField
from mirror_sdk.widgets.parts import FULL, LABELLED, button, row
from mirror_sdk.widgets.time_plot import TimePlot, picture, told

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

PLOT_SECONDS, PICTURE_SECONDS = 0.5, 15.0
BEGIN_SECONDS = 10.0
PLOT_SHARE = 6
"""How many times as long as drawing took nothing is drawn again."""
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
    """The events of chosen resources as lines over time and as a table; as a frame, in a file, or recorded.

    It opens with what was: what the notification log still has, a day as a rule; before that the events of a recording,
    where one is given, else a day of the history that the service keeps. ``received`` of what stood in the log is when
    it was read. What comes follows, without a hole and each event once. Changing what is chosen filters what is shown
    as well, and reads it again.

    The plot has an axis for each unit: the one the device names (resource 5701), else that of the object table. A line
    is broken where the log tells of a loss, where its device left, and where it was silent for more than ten times its
    usual interval. The interval follows the newest events, or stays where somebody zoomed or panned to. A cell
    of the table has its line stand out.

    However fast events come, the page is refreshed at most four times a second, the plot twice, with a bounded number
    of rows and points: while it is paused, the table has all that is kept.

    Args:
        client: The mirror.
        devices: Devices, their ids or endpoint names, or a table whose rows name them; ``None`` takes all.
        paths: Path patterns (``/3303/*``): only observations of these; ``None`` takes every event.
        recording: A recording to begin with, or its folder.
        max_events: How many events are kept at most, of the recording and of the log each.
        live: Whether it takes events by itself.
        keep_earlier: Whether an earlier watcher of this client stays, where the page does not tell which cell runs.
        clock: Seconds, for the rate and the refresh of the plot.

    Raises:
        FileNotFoundError: There is no such recording.
        TypeError: ``client`` is no :class:`~mirror_sdk.MirrorClient`, or a single text was given where a list belongs.
        ValueError: A pattern is not one.

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
        keep_earlier: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, live=live, keep_earlier=keep_earlier)
        devices = device_ids(devices, "devices") if is_table(devices) else devices
        given = () if devices is None or isinstance(devices, str) else devices
        # A name stays one: the device that has it may come later.
        chosen = [known_id("each of devices", one) or str(one) for one in given]
        self.model: WatcherModel = WatcherModel(
            client,
            devices if isinstance(devices, str) else chosen,
            paths,
            self._live.run,
            recording=_opened(recording),
            await_live=partial(feed_of(client).await_begin, BEGIN_SECONDS) if live else lambda: None,
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
        self.begin(self._choice(), self._buttons(), self._plot(), self._table(), self._files())
        # After the beginning: what is read then and what comes have no hole between them.
        with self._live.lock:
            self.model.load()
        self._plot_at = clock()
        self.refresh()

    @property
    def frame(self) -> pd.DataFrame:
        """The events that are kept and chosen as an events table; see :func:`mirror_sdk.frames.events_frame`.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.frame["event"].unique().tolist()
        ['registration']
        """
        with self._live.lock:
            return self.model.frame

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the events that are kept and chosen to a Parquet file, for ``mirror_sdk.frames.read_parquet``.

        Args:
            path: The file.
            overwrite: Whether a file that is there is replaced.

        Returns:
            The file.

        Raises:
            FileExistsError: There is such a file, and ``overwrite`` is false.
            OSError: It cannot be written.
            ValueError: The path is empty.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.save(folder / "seen.parquet").name
        'seen.parquet'
        >>> watcher.save(folder / "seen.parquet", overwrite=True).name
        'seen.parquet'
        """
        with self._live.lock:
            return self.model.save(path, overwrite=overwrite)

    def take(self, events: Sequence[Event], overrun: int) -> None:
        """Keep the events."""
        self.model.take(events, overrun)

    def tick(self) -> None:
        """Notice what became of the recording."""
        self.model.recording.tick()

    def close(self) -> None:
        """End it, with a recording that runs, and take it off the page. Harmless when it is closed.

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
        """Show the model; the rate changes also when nothing comes."""
        # No status role: a screen reader would tell the rate for ever.
        self.counts_view.value = dim(self.model.counts_text)
        self.recording_view.value = dim(self.model.recording.text)
        self.record_button.description = "Stop" if self.model.recording.is_recording else "Record"
        now = self._clock()
        if self.model.version != self._plotted and (now >= self._plot_at or self.model.total == 0):
            self._render_plot()
            # A slow machine draws less often: what else is to be done takes its turn.
            pause_seconds = max(PLOT_SECONDS, PLOT_SHARE * (self._clock() - now))
            self._plotted, self._plot_at = self.model.version, now + pause_seconds
        if self.is_changed:
            self._render_table()

    def static_html(self) -> str:
        """The plot as a picture, and the newest events as a table."""
        plot = ""
        if self._interval is not None:
            plot = static.picture(self._picture or picture(self._series, self._interval), told(self._series))
        return f"{dim(self.model.counts_text)}{plot}{self.grid.static_html()}"

    def keep_copy(self) -> None:
        """Have the picture drawn beside, where the widget is alive: events and clicks do not wait for it."""
        if not self.is_running or self._interval is None or not self._is_displayed:
            super().keep_copy()
        elif not self._is_drawing and self._clock() >= self._draw_at:
            self._is_drawing, self._draw_at = True, self._clock() + PICTURE_SECONDS
            self._live.run(partial(picture, self._series, self._interval), self._drew, self._could_not_draw)

    def _drew(self, png: bytes) -> None:
        self._is_drawing, self._picture = False, png
        super().keep_copy()
        self._picture = None

    def _could_not_draw(self, error: Exception) -> None:
        self._is_drawing = False
        self._fell(error)

    # Its parts

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
        self.pause_button = widgets.ToggleButton(description="Pause", tooltip="Hold still; events are still collected")
        self.clear_button = self._button("Clear", "Forget all events that are kept", model.clear)
        self.pause_button.observe(self.changed(lambda on: model.pause() if on else model.resume()), "value")
        self.counts_view = widgets.HTML(layout=FULL)
        choice = row(self.devices, self.paths, self.pause_button, self.clear_button)
        return widgets.VBox([self.title_view, choice, self.counts_view])

    def _buttons(self) -> widgets.Widget:
        self.window = widgets.ToggleButtons(
            options=list(WINDOWS),
            value="All",
            description="Show",
            tooltips=[f"The newest: {name}, as they come" for name in WINDOWS],
            style={"button_width": "64px", **LABELLED},
            layout={"width": "max-content"},
        )
        self.follow_button = widgets.ToggleButton(
            value=True, description="✓ Follow", tooltip="Go on with the newest events"
        )
        self.window.observe(self.changed(self._show_last), "value")
        self.follow_button.observe(self.changed(self._follow), "value")
        moves = {
            "Earlier": ("Half a window earlier, and stay", lambda one: one.shifted(-0.5)),
            "Later": ("Half a window later, and stay", lambda one: one.shifted(0.5)),
            "Zoom in": ("Half as much time, and stay", lambda one: one.zoomed(0.5)),
            "Zoom out": ("Twice as much time, and stay", lambda one: one.zoomed(2)),
        }
        self.move_buttons = {
            name: self._button(name, tooltip, partial(self._move, move)) for name, (tooltip, move) in moves.items()
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
        self.save_button = self._button("Save", "Write the events to this file", partial(self.settle, self._save))
        self.saved_view = widgets.HTML(layout=FULL)
        self.overwrite_button = self._button("Overwrite", "Replace the file", partial(self._save, overwrite=True))
        self.new_name_button = self._button("Save beside it", "Save under a new name", self._save_beside)
        self.keep_button = self._button("Cancel", "Leave the file as it is", lambda: self._ask(None))
        self.question_view = widgets.HTML(layout=FULL)
        self.question = row(self.question_view, self.overwrite_button, self.new_name_button, self.keep_button)
        self.folder = _text("recording.parquet", "Folder", "")
        self.record_button = self._button(
            "Record", "Record what is chosen into this folder", partial(self.settle, self._record)
        )
        self.recording_view = widgets.HTML(layout=FULL)
        self._ask(None)
        recording = row(self.folder, self.record_button, self.recording_view)
        return widgets.VBox([row(self.file, self.save_button, self.saved_view), self.question, recording])

    def _button(self, description: str, tooltip: str, action: Callable[[], object]) -> widgets.Button:
        return button(description, tooltip, self.handler(lambda _: action()))

    # What people do

    def _choose(self) -> None:
        self._attempt(
            "choice",
            "This cannot be chosen",
            lambda: self.model.choose(_listed(self.devices.value), _listed(self.paths.value)),
        )

    def _show_last(self, length: str) -> None:
        self.model.show_last(length)
        self.plot.reset()
        self._plot_at = self._clock()

    def _follow(self, wanted: bool) -> None:
        self.model.stay(None if wanted else self._interval)
        self.plot.reset()
        self._plot_at = self._clock()

    def _move(self, moved: Callable[[Interval], Interval]) -> None:
        if self._interval is not None:
            self.model.stay(moved(self._interval))
            self._plot_at = self._clock()

    def _zoomed(self, interval: Interval | None) -> None:
        if interval is None:
            self.model.show_last("All")
        else:
            self.model.stay(interval)

    def _draw(self, selected: Sequence[str]) -> None:
        self.model.plot_texts(selected)
        self._plot_at = self._clock()

    def _save(self, *, overwrite: bool = False) -> None:
        self._ask(None)
        name = self.file.value.strip()
        if name and not overwrite and Path(name).exists():
            self._ask(name)
        else:
            self._attempt("save", "Saving", lambda: self._saved(self.model.save(name, overwrite=overwrite)))

    def _save_beside(self) -> None:
        self.file.value = str(_free(Path(self.file.value.strip())))
        self._save()

    def _ask(self, name: str | None) -> None:
        self.question.layout.display = "none" if name is None else "flex"
        self.saved_view.value = ""
        self.question_view.value = "" if name is None else status(f"{name} is there already.")

    def _saved(self, file: Path) -> None:
        self.saved_view.value = status(f"{count_text(len(self.model.events), 'event')} in {file.resolve()}")

    def _record(self) -> None:
        self._attempt("recording", "Recording", lambda: self.model.record(self.folder.value.strip()))

    def _attempt(self, subject: str, what: str, action: Callable[[], object]) -> None:
        """Do it; what went wrong with it before is told no more."""
        self.model.notices.clear(subject)
        try:
            action()
        except (OSError, TypeError, ValueError) as error:
            self.model.notices.put(subject, what, error)
        self.model.version += 1

    # What is shown

    def _render_plot(self) -> None:
        self._series = self.model.series
        self._interval = self.model.interval_of(self._series)
        self.plot.show(self._series, self._interval, self.model.selected)
        self.plot_text.value = pictured(told(self._series)) + dim("" if self._interval else "No numbers to draw yet.")
        self.series_grid.show(self.model.series_rows)
        self.series_grid.selected = [series_text(key) for key in self.model.drawn]

    def _render_table(self) -> None:
        model = self.model
        # What is new behind the rest, as the page puts it; it sorts them itself.
        self.grid.show(model.rows[::-1])
        self.empty_view.value = dim(model.empty_text)
        self.pause_button.value = model.is_paused
        self.pause_button.description = "Resume" if model.is_paused else "Pause"
        is_following = model.window.staying is None
        self.follow_button.value = is_following
        self.follow_button.description = "✓ Follow" if is_following else "Follow"
        # None of them where it stays, so that each is a way back.
        shown = next(name for name, length in WINDOWS.items() if length == model.window.length)
        self.window.value = shown if is_following else None
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
        style=LABELLED,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _free(file: Path) -> Path:
    """A name beside this one that is not taken."""
    number = 2
    while (free := file.with_name(f"{file.stem}-{number}{file.suffix}")).exists():
        number += 1
    return free
