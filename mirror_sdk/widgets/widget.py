"""The base of all widgets: a model in Python, and one component on the page.

A subclass names its component in ``mirror_sdk/widgets/ui/src``, provides its state, and lists what its user can do:

    class Clock(MirrorWidget):
        component = "clock"

        def view(self) -> dict[str, Any]:
            return {"text": self.model.text}

        @property
        def intents(self) -> Mapping[str, Callable[..., object]]:
            return {"reset": self.model.reset}

The state is small and is sent as a whole when it changes. Tables and lines are large, so only their changes are sent:
:meth:`MirrorWidget.publish` shows them with :meth:`MirrorWidget.rows` and :meth:`MirrorWidget.series`.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakSet

import traitlets

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.network import Network
from mirror_sdk.events import Event, utc_now
from mirror_sdk.widgets import static
from mirror_sdk.widgets.cells import running_cell
from mirror_sdk.widgets.lazy_module import LazyModule
from mirror_sdk.widgets.live import Live
from mirror_sdk.widgets.models.model import Model
from mirror_sdk.widgets.published import PublishedRows, PublishedSeries

COPY_SECONDS = 5.0
_LOADED_WITHIN_SECONDS = 3.0
READ_WITHIN_SECONDS = 10.0
_FOR_SUBCLASSES = frozenset(
    {
        *("component", "intents", "is_changed", "module_text", "notify", "open", "publish"),
        *("rows", "series", "start", "static_html", "update_copy", "view"),
    }
)
"""Public members that the users of a widget do not need."""


class Host(NamedTuple):
    """The widget that displays another one as a part of itself, and the name of the part in its component."""

    widget: MirrorWidget
    name: str


class MirrorWidget(LazyModule):
    """A widget of a client.

    Its threads run until :meth:`close`, the end of its ``with`` block or of the kernel, or until its client is closed.
    They also end if the cell that created it runs again. A subclass creates ``model``, and calls :meth:`start` at the
    end of its ``__init__``.

    Args:
        client: The mirror. It has to stay open as long as the widget.
        live: Whether the widget updates by itself. Otherwise there are no threads: each action blocks until it is done,
            and ``refresh()`` shows changes.
        keep_previous: Whether earlier widgets stay open. By default this one closes those of the previous run of its
            cell. If the notebook does not say which cell is running, it closes those of its kind for the same mirror
            and key.
        host: The widget that displays this one as a part of itself: ``bridge.part(name)`` there. The part uses the
            thread and the connection of its host. By default a widget is displayed by itself.

    Raises:
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
    """

    component: ClassVar[str]
    module_text = (files(__package__) / "ui" / "ui.js").read_text(encoding="utf-8")
    model: Model

    _component = traitlets.Unicode().tag(sync=True)
    _state = traitlets.Dict().tag(sync=True)
    # Everything that was published, for a page that opens while the kernel is busy.
    _published = traitlets.Dict().tag(sync=True, to_json=lambda _, widget: widget._everything())

    def __init__(self, client: MirrorClient, *, live: bool, keep_previous: bool, host: Host | None = None) -> None:
        if not isinstance(client, MirrorClient):
            raise TypeError(f"a widget takes a MirrorClient, not {type(client).__name__}")
        self.client = client
        self._host = host
        self._parts: dict[str, MirrorWidget] = {}
        self._is_live = live
        self._rendered = -1
        self._copied = -1
        self._copy_at = 0.0
        self._copy_id = ""
        self._has_page = False
        self._rows: dict[str, PublishedRows] = {}
        self._series: dict[str, PublishedSeries] = {}
        self._slot = None if keep_previous or host else _slot_and_run(type(self).__name__, client)
        self._live: Live = (
            host.widget._live
            if host
            else Live(
                client, receive=self._receive, tick=self._tick, show=self._show, failed=self._failed, is_live=live
            )
        )
        # A slow page could miss a class that is added later.
        super().__init__(_component=self.component, _dom_classes=("mirror-widget",), layout={"width": "100%"})
        self.on_msg(self._on_message)

    def start(self) -> None:
        """Start the thread, show the model, and close the widgets of an earlier run of the cell."""
        if self._host is not None:
            self._host.widget._parts[self._host.name] = self
            self._live.show()
            return
        self._live.start()
        # After the start, so that the poller they share keeps running.
        _replace_earlier(self)
        self.refresh()

    # What a subclass provides

    @abstractmethod
    def view(self) -> dict[str, Any]:
        """Return the state of the component, as JSON. It is called several times a second."""

    @property
    @abstractmethod
    def intents(self) -> Mapping[str, Callable[..., object]]:
        """The functions that the component calls, by name. Their arguments are JSON."""

    def publish(self) -> None:
        """Show tables and lines with :meth:`rows` and :meth:`series`. See :attr:`is_changed`."""

    @abstractmethod
    def static_html(self) -> str:
        """Return its content as plain HTML without scripts: tables and pictures."""

    # What a subclass uses

    def rows(self, name: str) -> PublishedRows:
        """Return the rows of a table of the component: ``bridge.rows(name)`` there."""
        if self._host is not None:
            return self._host.widget.rows(f"{self._host.name}.{name}")
        return self._rows.setdefault(name, PublishedRows(name, self._send_published))

    def series(self, name: str) -> PublishedSeries:
        """Return the lines of a chart of the component: ``bridge.series(name)`` there."""
        if self._host is not None:
            return self._host.widget.series(f"{self._host.name}.{name}")
        return self._series.setdefault(name, PublishedSeries(name, self._send_published))

    def notify(self, name: str, content: Any, buffers: Sequence[bytes] = ()) -> None:
        """Send a message to the open pages, such as a file to download: ``bridge.listen(name, ...)`` there."""
        if self._host is not None:
            self._host.widget.notify(f"{self._host.name}.{name}", content, buffers)
            return
        self.send({"tell": "message", "name": name, "content": content}, list(buffers))

    @property
    def is_changed(self) -> bool:
        """Whether the model changed since it was shown."""
        return self.model.version != self._rendered

    # Its life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.client!r}>"

    def __dir__(self) -> Iterable[str]:
        """List the members for users, without those of ipywidgets and those that only a subclass uses."""
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, MirrorWidget)]
        names = set(vars(self)).union(*map(vars, kinds)) - _FOR_SUBCLASSES
        return [name for name in names if not name.startswith("_")]

    @property
    def is_running(self) -> bool:
        """Whether it updates by itself.

        >>> from mirror_sdk.widgets import Explorer
        >>> Explorer(client, live=False).is_running
        False
        """
        is_part = self._host is None or self._host.widget._parts.get(self._host.name) is self
        return is_part and self._live.is_running

    def refresh(self) -> None:
        """Do pending reads, and show changes. A live widget does so by itself several times a second.

        >>> from mirror_sdk.widgets import FleetTable
        >>> FleetTable(client, live=False).refresh()
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
            with live.lock:
                for part in list(self._parts.values()):
                    part.close()
            if self._host is None:
                live.stop()
                self.update_copy()
            elif self._host.widget._parts.get(self._host.name) is self:
                del self._host.widget._parts[self._host.name]
            with live.lock:
                self.layout.close()
        super().close()

    def open(self) -> None:
        """Connect to the page, unless another widget displays this one."""
        if self._host is None:
            super().open()

    # The page

    def _on_message(self, _: object, content: Any, __: object) -> None:
        match content:
            case {"intent": str(name), "args": list(arguments)}:
                self._do(name, arguments)
            case {"request": "all"}:
                self._has_page = True
                for rows in list(self._rows.values()):
                    rows.send_all()
                for series in list(self._series.values()):
                    series.send_all()
            case {"request": "rows", "name": str(name)} if name in self._rows:
                self._rows[name].send_all()
            case {"request": "series", "name": str(name)} if name in self._series:
                self._series[name].send_all()

    def _do(self, name: str, arguments: Sequence[Any]) -> None:
        """Call an intent of the widget or of one of its parts under the lock, and show the outcome or the error."""
        part, _, rest = name.partition(".")
        if rest and part in self._parts:
            self._parts[part]._do(rest, arguments)
            return
        with self._live.lock:
            try:
                action = self._action(name, arguments)
                action(*arguments)
            except Exception as error:
                self._failed(error)
            self._live.show()

    def _action(self, name: str, arguments: Sequence[Any]) -> Callable[..., object]:
        """Return the function of an intent.

        Raises:
            LookupError: There is no such intent.
            TypeError: It has other parameters.
        """
        action = self.intents.get(name)
        if action is None:
            reload = "Reload the page, and run the cell again."
            raise LookupError(f"{type(self).__name__} cannot do {name!r}. {reload}")
        try:
            inspect.signature(action).bind(*arguments)
        except TypeError as error:
            raise TypeError(f"{name!r} cannot be called with {len(arguments)} arguments: {error}") from error
        return action

    def _send(self, msg: Any, buffers: Any = None) -> None:
        # All messages of ipywidgets are sent here.
        try:
            super()._send(msg, buffers)
        except UnicodeEncodeError:
            # A page, JSON and Python can have lone surrogates, which UTF-8 cannot hold.
            super()._send(json.loads(_without_surrogates(json.dumps(msg, ensure_ascii=False))), buffers)

    def _send_published(self, content: dict[str, Any], buffers: list[memoryview]) -> None:
        # The kernel receives the request of a page only after the cell has ended. Until then the state has everything.
        if self._has_page:
            self.send(content, buffers)

    def _everything(self) -> dict[str, Any]:
        return {
            "rows": {name: rows.state for name, rows in list(self._rows.items())},
            "series": {name: series.state for name, series in list(self._series.items())},
        }

    def _show(self) -> None:
        is_changed = any(widget.is_changed for widget in self._with_parts())
        self._state = self._content()
        if not self._has_page and is_changed and self.comm is not None:
            self.send_state("_published")
        if not self._is_live or time.monotonic() >= self._copy_at:
            self.update_copy()

    def _content(self) -> dict[str, Any]:
        """Publish tables and lines, and return the state of the component with its parts."""
        self.publish()
        notices = {"notices": self.model.notices.texts, "isLive": self.is_running}
        content = notices | self.view() | {name: part._content() for name, part in self._parts.items()}
        self._rendered = self.model.version
        return content

    def _with_parts(self) -> list[MirrorWidget]:
        return [self, *(widget for part in self._parts.values() for widget in part._with_parts())]

    def _receive(self, events: Sequence[Event], overrun: int) -> None:
        for part in list(self._parts.values()):
            part._receive(events, overrun)
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
        for widget in self._with_parts():
            widget.model.tick()

    def _failed(self, error: Exception) -> None:
        self.model.report("widget", "That failed", error)
        self._state = self._state | {"notices": self.model.notices.texts}

    # The copy

    def _ipython_display_(self) -> None:
        """Show the widget, followed by the copy that remains without a kernel."""
        from IPython import display

        # A page that cannot show widgets shows only the copy.
        bundle = self._repr_mimebundle_() if self.comm is not None else None
        view = bundle[0] if bundle else {}
        display.publish_display_data(view | {"text/html": "", "text/plain": repr(self)})
        # An executed notebook is saved with the content at the end of the cell.
        self._live.wait_until_idle(_LOADED_WITHIN_SECONDS)
        self.refresh()
        self._copy_id = self._copy_id or f"mirror-{time.time_ns()}"
        display.publish_display_data(self._copy(), transient={"display_id": self._copy_id})
        _displayed.add(self)

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
        return _without_surrogates(f"<p><b>{escape(title)}</b></p>{self.static_html()}")


def _without_surrogates(text: str) -> str:
    return text.encode(errors="replace").decode()


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
