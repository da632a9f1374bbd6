"""The base of all widgets: a model, the thread that refreshes them, and their end when the cell runs again."""

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

    It lives until :meth:`close`, the end of its ``with`` block or of the kernel, until its client is closed, or until
    the cell that made it runs again; then its threads end. A subclass makes ``model`` and its parts and calls
    :meth:`start` at the end of its ``__init__``.

    Args:
        client: The mirror; it has to stay open as long as the widget.
        live: Whether the widget changes by itself. Without, there are no threads: a button works until it is done, and
            ``refresh()`` shows what changed since.
        keep_earlier: Whether an earlier widget of this kind, for the same mirror and key, stays where the page does not
            tell which cell runs.

    Raises:
        TypeError: ``client`` is no :class:`~mirror_sdk.MirrorClient`.
    """

    model: Model

    def __init__(self, client: MirrorClient, *, live: bool, keep_earlier: bool) -> None:
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
        self._slot = None if keep_earlier else _slot_and_run(type(self).__name__, client)
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

    def start(self, *parts: widgets.Widget) -> None:
        """Show the parts, start the thread, and close what an earlier run of the cell made."""
        self.children = [self._head, *parts]
        self._live.start()
        # After the start, so that the poller of both goes on.
        _replace_earlier(self)
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.client!r}>"

    def _ipython_display_(self) -> None:
        """Show the widget, and after it the copy that stays when there is no kernel any more."""
        from IPython import display

        # A page that cannot show a widget shows the copy alone.
        view = dict(self._repr_mimebundle_()) if self.comm is not None else {}
        display.publish_display_data(view | {"text/html": "", "text/plain": repr(self)})
        # A notebook that is run as a whole is saved with what it shows when its cell ends.
        self._live.wait_until_idle(_LOADED_WITHIN_SECONDS)
        self.refresh()
        self._copy_id = self._copy_id or f"mirror-{time.time_ns()}"
        display.publish_display_data(self._copy(), transient={"display_id": self._copy_id})
        _displayed.add(self)

    @abstractmethod
    def static_html(self) -> str:
        """What it shows, as plain HTML without scripts: tables and pictures."""

    def to_html(self, file: str | os.PathLike[str]) -> Path:
        """Write what it shows to an HTML file that opens offline and in any browser. An existing file is replaced.

        Returns:
            The file.

        Raises:
            OSError: It cannot be written.

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
        """Whether it was shown, so that there is a copy after it."""
        return bool(self._copy_id)

    @property
    def is_running(self) -> bool:
        """Whether it changes by itself.

        >>> from mirror_sdk.widgets import Explorer
        >>> Explorer(client, live=False).is_running
        False
        """
        return self._live.is_running

    def refresh(self) -> None:
        """Read what is due, and show what changed; a live widget does that by itself some times a second.

        >>> from mirror_sdk.widgets import EventWatcher
        >>> watcher = EventWatcher(client, live=False)
        >>> watcher.model.pause()
        >>> watcher.refresh()
        >>> watcher.pause_button.description
        'Resume'
        """
        self._live.step()

    def close(self) -> None:
        """End it and remove it from the page. Does nothing when it is closed.

        >>> from mirror_sdk.widgets import FleetTable
        >>> fleet = FleetTable(client, live=False)
        >>> fleet.close()
        >>> print(fleet.comm)
        None
        """
        live = getattr(self, "_live", None)
        if live is not None:
            live.stop()
            self.keep_copy()
            with live.lock:
                _close_parts(self)
        super().close()

    def handler(self, action: Callable[..., object]) -> Callable[..., None]:
        """Make the handler of a button or field: it calls ``action`` under the lock and shows the outcome or error."""

        def handle(*arguments: Any) -> None:
            with self._live.lock:
                # A field that is set from here changes, too, and nobody did that.
                if self._is_rendering:
                    return
                try:
                    action(*arguments)
                except Exception as error:
                    self._failed(error)
                self._live.show()

        return handle

    def changed(self, action: Callable[[Any], object]) -> Callable[..., None]:
        """Make the handler of a field, which calls ``action`` with the new value."""
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
        """Make a button.

        Args:
            description: What stands on it.
            tooltip: What it does, in a sentence.
            action: Called when it is clicked.
            is_primary: Whether it is the main button of the widget, of which there is one at most.
            settles: Whether the action waits a moment: a click may come before the value that was entered ahead of it,
                on another thread.
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

    def keep_copy(self) -> None:
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
            self.model.report("events", "No events come, it is tried again", problem)
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
            self.keep_copy()

    @property
    def is_changed(self) -> bool:
        """Whether the model changed since it was shown."""
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


def _close_parts(widget: Any) -> None:
    for part in getattr(widget, "children", ()):
        _close_parts(part)
        if isinstance(part, MirrorWidget):
            part.close()
        else:
            part.close()
            for look in (part.layout, getattr(part, "style", None)):
                # The layout of a figure of plotly is none of a widget.
                if isinstance(look, widgets.Widget):
                    look.close()


# While there is a live widget the copy is hidden. Without one it replaces the message of the page.
_COPY_STYLE = """<style>
.jp-OutputArea:has(.mirror-widget) .mirror-copy { display: none; }
.mirror-widget-missing { display: none !important; }
.jp-OutputArea:has(.mirror-copy) .jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none; }
</style>"""

_displayed: WeakSet[MirrorWidget] = WeakSet()


@atexit.register
def _keep_copies() -> None:
    for widget in list(_displayed):
        widget.keep_copy()


_Slot = tuple[object, ...]
_open: dict[_Slot, tuple[object, WeakSet[MirrorWidget]]] = {}


def _slot_and_run(kind: str, client: MirrorClient) -> tuple[_Slot, object]:
    """Return the slot of a widget, and an id of the run that makes it: one run may make any number of widgets.

    The slot is the cell, because a cell that runs again may make its client again as well. Where the page does not name
    the cell, it is the kind of widget, the mirror and the key, and each widget is a run.
    """
    cell = running_cell()
    if cell is None:
        return (kind, client.base_url, client._session.key_mark), object()
    return ("cell", cell.cell_id), cell.run_id


def _replace_earlier(widget: MirrorWidget) -> None:
    if widget._slot is None:
        return
    slot, run = widget._slot
    earlier_run, there = _open.get(slot, (run, WeakSet()))
    if earlier_run != run:
        for earlier in list(there):
            earlier.close()
            if earlier.client is not widget.client:
                # IPython keeps the widget, and with it a client that its cell made and that is not used any more.
                carrier = earlier.client._session.sender.carrier
                if isinstance(carrier, Network):
                    carrier.release_idle()
        there = WeakSet()
    there.add(widget)
    _open[slot] = (run, there)
