"""The event watcher: what comes in, as a table and as lines over time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import ipywidgets as widgets

from mirror_sdk._client import MirrorClient
from mirror_sdk.events import Event, EventKind
from mirror_sdk.naming import DeviceLike, known_id
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.choices import Choices
from mirror_sdk.widgets.markup import dim, heading, status, table
from mirror_sdk.widgets.models.watcher_model import EVENTS_KEPT, ROWS_SHOWN, EventRow, WatcherModel
from mirror_sdk.widgets.pager import Pager
from mirror_sdk.widgets.plot import plot

if TYPE_CHECKING:
    import pandas as pd

PLOT_SECONDS = 0.5
_COLUMNS = (
    ("received (UTC)", "15%"),
    ("event", "14%"),
    ("device", "19%"),
    ("resource", "28%"),
    ("value", "24%"),
)
_FULL = {"width": "auto"}
_FIELD = {"width": "340px", "flex": "0 0 auto"}
_BUTTON = {"width": "92px", "flex": "0 0 auto"}
_STYLE = {"description_width": "62px"}
_GAP_SIGN = "⚠ gap"


class EventWatcher(MirrorWidget):
    """A live table and a live plot of events; the newest ones are kept, and given as a frame or written to a file.

    Pausing holds still what is shown and goes on collecting; without following, only the table stays where it is.
    However fast events come, the page is refreshed at most four times a second, the plot twice, with a bounded number
    of rows and points. What is kept here can be saved; a recording goes on until it is ended, however much comes.

    Args:
        client: The mirror.
        devices: Devices, their ids or endpoint names; ``None`` takes all.
        paths: Path patterns (``/3303/*``): only observations of these; ``None`` takes every event.
        events_kept: How many events are kept at most.
        live: Whether it takes events by itself.
        keep_earlier: Whether an earlier watcher of this client stays, where the page does not tell which cell runs.
        clock: Seconds, for the rate and the refresh of the plot.

    Raises:
        TypeError: ``client`` is no :class:`MirrorClient`, or a single text was given where a list belongs.
        ValueError: A pattern is not one.

    >>> with EventWatcher(client, paths=["/3303/*"], live=False) as watcher:
    ...     watcher.model.counts_text
    '0.0 events/s · 0 events · no gaps'
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: Collection[DeviceLike] | None = None,
        paths: Collection[str] | None = None,
        *,
        events_kept: int = EVENTS_KEPT,
        live: bool = True,
        keep_earlier: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, live=live, keep_earlier=keep_earlier)
        given = () if devices is None or isinstance(devices, str) else devices
        # A name stays one: the device that has it may come later.
        chosen = [known_id("each of devices", one) or str(one) for one in given]
        self.model: WatcherModel = WatcherModel(
            client,
            devices if isinstance(devices, str) else chosen,
            paths,
            self._live.run,
            events_kept=events_kept,
            clock=clock,
        )
        self._clock = clock
        self._plot_at = clock()
        self._plotted = -1
        self.model.load_names()
        self.begin(self._choice(), self._buttons(), *self._views(), self._file())

    @property
    def frame(self) -> pd.DataFrame:
        """The events that are kept as an events table; see :func:`mirror_sdk.frames.events_frame`.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.model.take(client.events(after=0, timeout=0))
        >>> watcher.frame["event"].unique().tolist()
        ['registration']
        """
        with self._live.lock:
            return self.model.frame

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the events that are kept to a Parquet file, which ``mirror_sdk.frames.read_parquet`` reads.

        Returns:
            The file.

        Raises:
            FileExistsError: There is such a file; nothing is overwritten.
            OSError: It cannot be written.
            ValueError: The path is empty.

        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.save(folder / "seen.parquet").name
        'seen.parquet'
        """
        with self._live.lock:
            return self.model.save(path)

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
            self.plot_view.value = plot(self.model.series)
            self._plotted, self._plot_at = self.model.version, now + PLOT_SECONDS
        if self.is_changed:
            self._render_table()

    def _choice(self) -> widgets.Widget:
        model = self.model
        self.title_view = widgets.HTML(heading("Events"), layout=_FULL)
        self.devices = self._field("Devices", ", ".join(model.devices), "all; names or ids, with commas")
        self.paths = self._field("Paths", ", ".join(model.paths), "all; such as /3303/*, /3311/0/5850")
        for field in (self.devices, self.paths):
            field.observe(self.changed(lambda _: self._choose()), "value")
        row = widgets.HBox([self.devices, self.paths], layout={"flex_flow": "row wrap"})
        return widgets.VBox([self.title_view, row])

    def _field(self, description: str, value: str, placeholder: str) -> widgets.Text:
        return widgets.Text(
            value,
            description=description,
            placeholder=placeholder,
            continuous_update=False,
            layout=_FIELD,
            style=_STYLE,
        )

    def _choose(self) -> None:
        self.model.choose(_listed(self.devices.value), _listed(self.paths.value))

    def _buttons(self) -> widgets.Widget:
        model = self.model
        self.pause_button = widgets.ToggleButton(description="Pause", tooltip="Hold still; events are still collected")
        self.follow_button = widgets.ToggleButton(
            True, description="Follow", tooltip="Keep the newest events in the table"
        )
        self.older_button = widgets.Button(description="Older", tooltip="Older events")
        self.newer_button = widgets.Button(description="Newer", tooltip="Newer events")
        self.clear_button = widgets.Button(description="Clear", tooltip="Forget all events that are kept")
        self.pause_button.observe(self.changed(lambda on: model.pause() if on else model.resume()), "value")
        self.follow_button.observe(self.changed(model.follow), "value")
        self.older_button.on_click(self.handler(lambda _: model.move(ROWS_SHOWN)))
        self.newer_button.on_click(self.handler(lambda _: model.move(-ROWS_SHOWN)))
        self.clear_button.on_click(self.handler(lambda _: model.clear()))
        buttons = (self.pause_button, self.follow_button, self.older_button, self.newer_button, self.clear_button)
        for button in buttons:
            button.layout.width = "92px"
        self.counts_view = widgets.HTML(layout={"margin": "0 0 0 10px"})
        return widgets.HBox([*buttons, self.counts_view], layout={"flex_flow": "row wrap", "align_items": "center"})

    def _views(self) -> list[widgets.Widget]:
        self.table_view = widgets.HTML(layout={"width": "100%"})
        self.empty_view = widgets.HTML(layout=_FULL)
        self.plot_view = widgets.HTML(layout={"flex": "1 1 480px", "min_width": "0", "width": "0"})
        self.plotted = Choices("Plot", self.model.toggle_plotted, self.handler, signs=("☑", "☐"), is_list=True)
        self.series_pager = Pager("series", self.model.turn_series_page, self.handler)
        for button in (self.series_pager.previous, self.series_pager.next):
            button.layout.width = "86px"
        choice = widgets.VBox([self.plotted, self.series_pager], layout={"flex": "0 1 320px", "width": "320px"})
        row = widgets.HBox([self.plot_view, choice], layout={"flex_flow": "row wrap", "grid_gap": "0 12px"})
        return [self.empty_view, self.table_view, row]

    def _file(self) -> widgets.Widget:
        self.file = widgets.Text("events.parquet", description="File", layout=_FIELD, style=_STYLE)
        self.save_button = widgets.Button(
            description="Save", tooltip="Write the events that are kept to this file", layout=_BUTTON
        )
        self.saved_view = widgets.HTML(layout=_FULL)
        self.save_button.on_click(self.handler(lambda _: self.settle(self._save)))
        self.folder = widgets.Text("recording.parquet", description="Folder", layout=_FIELD, style=_STYLE)
        self.record_button = widgets.Button(
            description="Record", tooltip="Record what is chosen into this folder", layout=_BUTTON
        )
        self.recording_view = widgets.HTML(layout=_FULL)
        self.record_button.on_click(self.handler(lambda _: self.settle(self._record)))
        return widgets.VBox(
            [
                widgets.HBox([self.file, self.save_button, self.saved_view]),
                widgets.HBox([self.folder, self.record_button, self.recording_view]),
            ]
        )

    def _save(self) -> None:
        count = len(self.model.events)
        file = self.model.save(self.file.value.strip())
        self.saved_view.value = status(f"{count:,} events in {file.resolve()}")

    def _record(self) -> None:
        self.model.record(self.folder.value.strip())

    def _render_table(self) -> None:
        model = self.model
        rows = [_cells(row) for row in model.rows]
        # As many lines as ever, so that nothing below moves.
        rows += [("",) * len(_COLUMNS)] * (ROWS_SHOWN - len(rows))
        self.table_view.value = table("The events, the newest first", _COLUMNS, rows)
        self.empty_view.value = dim(model.empty_text)
        self.pause_button.value = model.is_paused
        self.pause_button.description = "Resume" if model.is_paused else "Pause"
        self.follow_button.value = model.is_following
        self.follow_button.description = "✓ Follow" if model.is_following else "Follow"
        self.plotted.show(model.series_choices, model.drawn)
        self.series_pager.show(model.series_pages)


def _cells(row: EventRow) -> tuple[str, ...]:
    kind = _GAP_SIGN if row.kind is EventKind.GAP else row.kind.value.replace("_", " ")
    return row.received_at, kind, row.device, f"{row.path} {row.label}".rstrip(), row.value


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
