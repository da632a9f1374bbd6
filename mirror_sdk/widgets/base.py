"""The base of all widgets: it has a model, refreshes on a thread, and closes when its cell runs again."""

from __future__ import annotations

import atexit
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

import ipywidgets as widgets

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.network import Network
from mirror_sdk.events import Event, utc_now
from mirror_sdk.widgets import static
from mirror_sdk.widgets.cells import running_cell
from mirror_sdk.widgets.live import Live
from mirror_sdk.widgets.markup import STYLE, notices
from mirror_sdk.widgets.models.model import Model

SETTLE_SECONDS = 0.1
COPY_SECONDS = 5.0
_LOADED_WITHIN_SECONDS = 3.0
_WIDE = {"width": "100%"}


class MirrorWidget(widgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """A widget of a client.

    Its threads run until :meth:`close`, the end of its ``with`` block or of the kernel, or until its client is closed.
    They also end if the cell that created it runs again. A subclass creates ``model`` and its views, and calls
    :meth:`start` at the end of its ``__init__``.

    Args:
        client: The mirror. It has to stay open as long as the widget.
        live: Whether the widget updates by itself. Otherwise there are no threads: buttons block until they are done,
            and ``refresh()`` shows changes.
        keep_previous: Whether an earlier widget of this kind, for the same mirror and key, stays open if the notebook
            does not say which cell is running. (Running a cell again normally closes its previous widget.)

    Raises:
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
    """

    model: Model

    def __init__(self, client: MirrorClient, *, live: bool, keep_previous: bool) -> None:
        if not isinstance(client, MirrorClient):
            raise TypeError(f"a widget takes a MirrorClient, not {type(client).__name__}")
        self.client = client
        self._is_live = live
        self._clicked: tuple[float, Callable[[], object]] | None = None
        self._is_rendering = False
        self._rendered = -1
        self._copied = -1
        self._copy_at = 0.0
        self._copy_id = ""
        self._slot = None if keep_previous else _slot_and_run(type(self).__name__, client)
        self._live = Live(
            client, receive=self._receive, tick=self._tick, show=self._show, failed=self._failed, is_live=live
        )
        super().__init__(layout=_WIDE)
        self.add_class("mirror-widget")
        self.notices_view = widgets.HTML(layout=_WIDE)
        self.dismiss_button = self.button("Dismiss", "Remove these notices", self._dismiss)
        self._notices_row = widgets.HBox([self.notices_view, self.dismiss_button])
        style = widgets.HTML(STYLE, layout={"display": "none"})
        self._head = widgets.VBox([style, self._notices_row], layout=_WIDE)

    def start(self, *views: widgets.Widget) -> None:
        """Show the views, start the thread, and close the widgets of an earlier run of the cell."""
        self.children = [self._head, *views]
        self._live.start()
        # After the start, so that the poller they share keeps running.
        _replace_earlier(self)
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.client!r}>"

    def _ipython_display_(self) -> None:
        """Show the widget, followed by the copy that remains without a kernel."""
        from IPython import display

        # A page that cannot show widgets shows only the copy.
        view = dict(self._repr_mimebundle_()) if self.comm is not None else {}
        display.publish_display_data(view | {"text/html": "", "text/plain": repr(self)})
        # An executed notebook is saved with the content at the end of the cell.
        self._live.wait_until_idle(_LOADED_WITHIN_SECONDS)
        self.refresh()
        self._copy_id = self._copy_id or f"mirror-{time.time_ns()}"
        display.publish_display_data(self._copy(), transient={"display_id": self._copy_id})
        _displayed.add(self)

    @abstractmethod
    def static_html(self) -> str:
        """Return its content as plain HTML without scripts: tables and pictures."""

    def to_html(self, file: str | os.PathLike[str]) -> Path:
        """Write its content to an HTML file that opens offline and in any browser. An existing file is replaced.

        Returns:
            The file.

        Raises:
            OSError: The file cannot be written.

        >>> from mirror_sdk.widgets import FleetTable
        >>> FleetTable(client, live=False).to_html(folder / "fleet.html").name
        'fleet.html'
        """
        with self._live.lock:
            content = static.page(type(self).__name__, self._static_body())
        written = Path(file)
        written.write_text(content, encoding="utf-8")
        return written

    @property
    def _is_displayed(self) -> bool:
        """Whether it was displayed, so that there is a copy after it."""
        return bool(self._copy_id)

    @property
    def is_running(self) -> bool:
        """Whether it updates by itself.

        >>> from mirror_sdk.widgets import Explorer
        >>> Explorer(client, live=False).is_running
        False
        """
        return self._live.is_running

    def refresh(self) -> None:
        """Do pending reads, and show changes. A live widget does so by itself several times a second.

        >>> from mirror_sdk.widgets import EventWatcher
        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.model.pause()
        >>> watcher.refresh()
        >>> watcher.pause_button.description
        'Resume'
        """
        self._live.step()

    def close(self) -> None:
        """Close it and remove it from the page. Closing it again does nothing.

        >>> from mirror_sdk.widgets import FleetTable
        >>> fleet = FleetTable(client, live=False)
        >>> fleet.close()
        >>> print(fleet.comm)
        None
        """
        # ipywidgets also closes a widget that is garbage collected, even if its __init__ failed.
        live = getattr(self, "_live", None)
        if live is not None:
            live.stop()
            # Before the views are closed, from which the copy takes its content.
            self.update_copy()
            with live.lock:
                _close_children(self)
        super().close()

    def handler(self, action: Callable[..., object]) -> Callable[..., None]:
        """Return the handler of a control, which calls ``action`` under the lock and shows the outcome or error."""

        def handle(*arguments: Any) -> None:
            with self._live.lock:
                # Fields also report changes that the program makes.
                if self._is_rendering:
                    return
                try:
                    action(*arguments)
                except Exception as error:
                    self._failed(error)
                self._live.show()

        return handle

    def changed(self, action: Callable[[Any], object]) -> Callable[..., None]:
        """Return the handler of a field, which calls ``action`` with the new value."""
        return self.handler(lambda change: action(change["new"]))

    def button(
        self,
        description: str,
        tooltip: str,
        action: Callable[[], object],
        *,
        is_primary: bool = False,
        settles: bool = False,
    ) -> widgets.Button:
        """Return a button.

        Args:
            description: Its label.
            tooltip: A sentence about its effect.
            action: Called on a click.
            is_primary: Whether it is the main button of the widget, of which there is at most one.
            settles: Whether the action waits a moment: on another thread, a click may arrive before a value that was
                entered earlier.
        """
        made = widgets.Button(description=description, tooltip=tooltip, button_style="primary" if is_primary else "")
        made.on_click(self.handler(lambda _: self._settle(action) if settles else action()))
        return made

    def _settle(self, action: Callable[[], object]) -> None:
        if self._is_live:
            self._clicked = time.monotonic() + SETTLE_SECONDS, action
        else:
            action()

    @abstractmethod
    def render(self) -> None:
        """Show the model."""

    def update_copy(self) -> None:
        """Update the copy in the notebook, if the widget is displayed and its model changed."""
        if not self._copy_id:
            return
        from IPython import display

        with self._live.lock:
            if self.model.version == self._copied:
                return
            display.publish_display_data(self._copy(), transient={"display_id": self._copy_id}, update=True)

    def _copy(self) -> dict[str, str]:
        self._copied, self._copy_at = self.model.version, time.monotonic() + COPY_SECONDS
        return {"text/html": f'{_COPY_STYLE}<div class="mirror-copy">{self._static_body()}</div>', "text/plain": ""}

    def _static_body(self) -> str:
        title = f"{type(self).__name__}, as of {utc_now():%Y-%m-%d %H:%M:%S} UTC"
        return f"<p><b>{escape(title)}</b></p>{self.static_html()}"

    def _receive(self, events: Sequence[Event], overrun: int) -> None:
        if overrun:
            self.model.note_overrun(overrun)
        self.model.receive(events)
        problem = self._live.problem
        if problem is not None:
            self.model.report("events", "No events are received; retrying", problem)
        elif "events" in self.model.notices:
            self.model.notices.clear("events")
            self.model.changed()

    def _tick(self) -> None:
        if self._clicked is not None and time.monotonic() >= self._clicked[0]:
            (_, action), self._clicked = self._clicked, None
            action()
        self.model.tick()

    def _show(self) -> None:
        self._is_rendering = True
        try:
            self.render()
            if self.model.version != self._rendered:
                self._render_notices()
                self._rendered = self.model.version
        finally:
            self._is_rendering = False
        if not self._is_live or time.monotonic() >= self._copy_at:
            self.update_copy()

    @property
    def is_changed(self) -> bool:
        """Whether the model changed since it was rendered."""
        return self.model.version != self._rendered

    def _render_notices(self) -> None:
        texts = self.model.notices.texts
        self.notices_view.value = notices(texts)
        self._notices_row.layout.display = "flex" if texts else "none"

    def _dismiss(self) -> None:
        self.model.dismiss()

    def _failed(self, error: Exception) -> None:
        self.model.report("widget", "That failed", error)
        self._render_notices()


def _close_children(widget: Any) -> None:
    for child in getattr(widget, "children", ()):
        _close_children(child)
        if isinstance(child, MirrorWidget):
            child.close()
        else:
            child.close()
            for style in (child.layout, getattr(child, "style", None)):
                # The layout of a plotly figure is not a widget.
                if isinstance(style, widgets.Widget):
                    style.close()


# The copy is hidden while there is a live widget. Without one it replaces the message of the page.
_COPY_STYLE = """<style>
.jp-OutputArea:has(.mirror-widget) .mirror-copy { display: none; }
.mirror-widget-missing { display: none !important; }
.jp-OutputArea:has(.mirror-copy) .jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none; }
</style>"""

_displayed: WeakSet[MirrorWidget] = WeakSet()


@atexit.register
def _update_copies() -> None:
    # The copies remain in the notebook when the kernel ends.
    for widget in list(_displayed):
        widget.update_copy()


_Slot = tuple[object, ...]
_open: dict[_Slot, tuple[object, WeakSet[MirrorWidget]]] = {}


def _slot_and_run(kind: str, client: MirrorClient) -> tuple[_Slot, object]:
    """Return the slot of a widget, and an id of the run that creates it. One run may create any number of widgets.

    The slot is the cell, because a cell that runs again may also create its client again. If the page does not name the
    cell, the slot is the kind of widget, the mirror and the key, and each widget is a run.
    """
    cell = running_cell()
    if cell is None:
        return (kind, client.base_url, client._session.key_mark), object()
    return ("cell", cell.cell_id), cell.run_id


def _replace_earlier(widget: MirrorWidget) -> None:
    if widget._slot is None:
        return
    slot, run = widget._slot
    earlier_run, opened = _open.get(slot, (run, WeakSet()))
    if earlier_run != run:
        for earlier in list(opened):
            earlier.close()
            if earlier.client is not widget.client:
                # IPython keeps a reference to the widget, and so to a client that is no longer used.
                carrier = earlier.client._session.sender.carrier
                if isinstance(carrier, Network):
                    carrier.release_idle()
        opened = WeakSet()
    opened.add(widget)
    _open[slot] = (run, opened)
