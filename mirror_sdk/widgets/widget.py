"""The base of all widgets, which consist of a model in Python and a component on the page.

A subclass declares three names: its component in ``mirror_sdk/widgets/ui/src``, the attributes of its model that the
component displays, and the methods of its model that the component calls:

    class Clock(MirrorWidget):
        _component = traitlets.Unicode("clock").tag(sync=True)
        _attributes = "text zone"
        _intents = "start stop"

        def _do_reset(self) -> None:
            self.model.set_to(0)

The component reads ``state.text`` and calls ``bridge.intent("stop")``. It can also call ``bridge.intent("reset")``,
which the widget itself handles. The state is small, and all of it is sent when it changes. Tables and lines are large,
so only their changes are sent: :meth:`MirrorWidget._publish` displays them with ``_rows`` and ``_series``.
"""

from __future__ import annotations

import atexit
import inspect
import json
import math
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from html import escape
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar
from weakref import WeakSet

import traitlets

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.network import Network
from mirror_sdk.events import Event, utc_now
from mirror_sdk.widgets import static
from mirror_sdk.widgets.cells import forget_output, running_cell
from mirror_sdk.widgets.lazy_module import LazyModule
from mirror_sdk.widgets.live import Live
from mirror_sdk.widgets.models.model import Model
from mirror_sdk.widgets.published import Published, PublishedRows, PublishedSeries, as_json, camel

S = TypeVar("S", bound=Published)

_LOADED_WITHIN_SECONDS = 3.0
READ_WITHIN_SECONDS = 10.0


class Host(NamedTuple):
    """A widget that contains another widget, and the name of the contained widget in its component."""

    widget: MirrorWidget
    name: str


class MirrorWidget(LazyModule):
    """The base class of widgets that use a client.

    The threads of a widget run until :meth:`close` is called, until its ``with`` block or the kernel ends, or until its
    client is closed. They also end if the cell that created the widget runs again. A subclass creates ``model``, and
    calls ``_start`` at the end of its ``__init__``.

    Args:
        client: The client of the mirror. It must stay open as long as the widget.
        live: Whether the widget updates on its own. Otherwise there are no threads: each action blocks until it is
            done, and ``refresh()`` displays changes.
        keep_previous: Whether earlier widgets stay open. By default, a new widget closes the widgets of the previous
            run of its cell. If the notebook does not identify the running cell, it closes the widgets of the same kind
            for the same mirror and key.
        host: The widget that contains this one. Its component displays this widget with ``bridge.part(name)``. The part
            uses the thread and the connection of its host. By default, a widget is displayed separately.

    Raises:
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
    """

    model: Model

    _attributes: ClassVar[str] = ""
    """The names of the model's attributes that are part of the component's state.

    :func:`camel` defines their names in the state.
    """
    _intents: ClassVar[str] = ""
    """The names of the model's methods that the component can call.

    The component can also call ``name`` if the widget has a method ``_do_name``.
    """
    _copy_seconds: ClassVar[float] = 5.0

    _component = traitlets.Unicode().tag(sync=True)
    _state = traitlets.Dict().tag(sync=True)
    # All published content is here, for a page that opens while the kernel is busy.
    _published = traitlets.Dict().tag(
        sync=True, to_json=lambda _, widget: {name: one.state for name, one in list(widget._sources.items())}
    )

    def __init__(self, client: MirrorClient, *, live: bool, keep_previous: bool, host: Host | None = None) -> None:
        if not isinstance(client, MirrorClient):
            raise TypeError(f"a widget takes a MirrorClient, not {type(client).__name__}")
        self.client = client
        self._host = host
        self._root: MirrorWidget = host.widget._root if host else self
        self._prefix: str = f"{host.widget._prefix}{host.name}." if host else ""
        self._parts: dict[str, MirrorWidget] = {}
        self._is_live, self._keeps_previous = live, keep_previous
        self._is_closed = self._has_page = False
        self._content: dict[str, Any] = {}
        self._rendered = self._copied = -1
        self._copy_id = ""
        self._copy_at = 0.0
        self._sources: dict[str, Any] = {}
        outputs: Any = {"receive": self._receive, "tick": self._tick, "show": self._show, "failed": self._failed}
        self._live: Live = host.widget._live if host else Live(client, is_live=live, **outputs)
        # A slow page could miss a class that is added later.
        super().__init__(_dom_classes=("mirror-widget",), layout={"width": "100%"})
        self.on_msg(self._on_message)

    def _start(self) -> None:
        """Start the thread, display the model, and close the widgets of an earlier run of the cell."""
        if self._host is not None:
            self._host.widget._parts[self._host.name] = self
            self._live.show()
            return
        self._live.start()
        # This follows the start, so that the poller that the widgets share keeps running.
        if not self._keeps_previous:
            _replace_earlier(self)
        self.refresh()

    # Members that a subclass provides

    def _view(self) -> dict[str, Any]:
        """Return the part of the component's state that does not consist of attributes of the model."""
        return {}

    def _publish(self) -> None:
        """Display tables and lines with :meth:`_rows` and :meth:`_series`."""

    @abstractmethod
    def _static_html(self) -> Iterator[str | Callable[[], str]]:
        """Yield the content as plain HTML without scripts.

        If a part takes long and does not need the lock, a function that returns it is yielded.
        """

    @property
    def _is_changed(self) -> bool:
        """Whether the page does not display the current state of the model."""
        return self.model.version != self._rendered

    # Members that a subclass uses

    def _rows(self, name: str) -> PublishedRows:
        """Return the rows of a table of the component, which reads them with ``bridge.rows(name)``."""
        return self._source(PublishedRows, name)

    def _series(self, name: str) -> PublishedSeries:
        """Return the lines of a chart of the component, which reads them with ``bridge.series(name)``."""
        return self._source(PublishedSeries, name)

    def _notify(self, name: str, content: Any, buffers: Sequence[bytes] = ()) -> None:
        """Send a message to the open pages, such as a file to download.

        The component receives it with ``bridge.listen(name, ...)``.
        """
        self._root.send({"kind": "message", "name": self._prefix + name, "content": content}, list(buffers))

    def _act(self, action: Callable[[], object], subject: str = "widget", text: str = "That failed") -> None:
        """Perform an action that the user requested, and display the outcome or the error."""
        with self._live.lock:
            try:
                action()
            except Exception as error:
                self._failed(error, subject, text)
            self._live.show()

    def _close_part(self, name: str) -> None:
        if name in self._parts:
            self._parts[name].close()

    # Life cycle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.client!r}>"

    def __dir__(self) -> Iterable[str]:
        """Return the members for users, without the members of ipywidgets."""
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, MirrorWidget)]
        names = set(vars(self)).union(*map(vars, kinds)) - {"open"}
        return [name for name in names if not name.startswith("_")]

    @property
    def is_running(self) -> bool:
        """Whether the widget updates on its own.

        >>> from mirror_sdk.widgets import Explorer
        >>> Explorer(client, live=False).is_running
        False
        """
        return self._live.is_running and not self._is_closed

    def refresh(self) -> None:
        """Start the reads that are due, and display changes. A live widget does this on its own several times a second.

        >>> from mirror_sdk.widgets import FleetTable
        >>> FleetTable(client, live=False).refresh()
        """
        self._live.step()

    def close(self) -> None:
        """Close the widget and remove it from the page. Further calls do nothing.

        If a recording is running, it ends. If writes are running, no more writes are sent.

        >>> from mirror_sdk.widgets import FleetTable
        >>> fleet = FleetTable(client, live=False)
        >>> fleet.close()
        >>> print(fleet.comm)
        None
        """
        # ipywidgets also closes a widget that is garbage collected, even if the __init__ of the widget failed.
        if getattr(self, "_is_closed", True) is False:
            self._is_closed = True
            if hasattr(self, "model"):
                self.model.close()
            with self._live.lock:
                for part in list(self._parts.values()):
                    part.close()
                # Python may collect a part that another part has already replaced.
                if self._host is not None and self._host.widget._parts.get(self._host.name) is self:
                    del self._host.widget._parts[self._host.name]
                self.layout.close()
            if self._host is None:
                self._live.stop()
                self._update_copy()
        super().close()

    def open(self) -> None:
        """Connect to the page, unless another widget displays this one."""
        if self._host is None:
            super().open()

    # Messages from and to the page

    def _on_message(self, _: object, content: Any, __: object) -> None:
        match content:
            case {"intent": str(name), "args": list(arguments)}:
                self._do(name, arguments)
            case {"request": "all"}:
                self._has_page = True
                for source in list(self._sources.values()):
                    source.send_all()
            case {"request": "source", "name": str(name)} if name in self._sources:
                self._sources[name].send_all()

    def _do(self, name: str, arguments: Sequence[Any]) -> None:
        """Call an intent of the widget or of one of its parts."""
        part, _, rest = name.partition(".")
        if part in self._parts:
            self._parts[part]._do(rest, arguments)
        else:
            self._act(lambda: self._intent(name, arguments)(*arguments))

    def _intent(self, name: str, arguments: Sequence[Any]) -> Callable[..., object]:
        """Return the function that performs an intent.

        Raises:
            LookupError: The widget has no such intent.
            TypeError: The intent has other parameters.
        """
        action: Callable[..., object] | None = getattr(self, f"_do_{name}", None)
        if action is None and name in self._intents.split():
            action = attrgetter(name)(self.model)
        if action is None:
            reload = "Reload the page, and run the cell again."
            raise LookupError(f"{type(self).__name__} cannot do {name!r}. {reload}")
        try:
            inspect.signature(action).bind(*arguments)
        except TypeError as error:
            raise TypeError(f"{name!r} cannot be called with {len(arguments)} arguments: {error}") from error
        return action

    def _source(self, kind: type[S], name: str) -> S:
        name = self._prefix + name
        source: S = self._root._sources.setdefault(name, kind(name, self._root._send_published))
        return source

    def _send(self, msg: Any, buffers: Any = None) -> None:
        # All messages of ipywidgets are sent by this method.
        try:
            super()._send(msg, buffers)
        except UnicodeEncodeError:
            # A page, JSON and Python can contain lone surrogates, which UTF-8 cannot store.
            super()._send(json.loads(_without_surrogates(json.dumps(msg, ensure_ascii=False))), buffers)

    def _send_published(self, content: dict[str, Any], buffers: list[memoryview]) -> None:
        # While a cell runs, the kernel does not receive the request of a page. Until then, the state contains all
        # content.
        if self._has_page:
            self.send(content, buffers)

    def _show(self) -> None:
        is_changed = any(widget._is_changed for widget in self._with_parts())
        self._state = self._render()
        if not self._has_page and is_changed and self.comm is not None:
            self.send_state("_published")
        if not self._is_live:
            self._update_copy()
        elif self._copy_id and self._copied != self.model.version and time.monotonic() >= self._copy_at:
            # Pictures are made one at a time on another thread, so that events and clicks do not wait for them.
            self._copy_at = math.inf
            replace = partial(self._replace_copy, self.model.version)
            self._live.run(self._static_body(), replace, self._copy_failed)

    def _render(self) -> dict[str, Any]:
        """Publish tables and lines, and return the state of the component including its parts."""
        if self._is_changed or not self._content:
            self._publish()
            state = {camel(name): attrgetter(name)(self.model) for name in self._attributes.split()}
            self._content = as_json(state | self._view())
            self._rendered = self.model.version
        common = {"notices": self.model.notices.texts, "isLive": self.is_running}
        return common | self._content | {name: part._render() for name, part in self._parts.items()}

    def _with_parts(self) -> list[MirrorWidget]:
        return [self, *(widget for part in self._parts.values() for widget in part._with_parts())]

    def _receive(self, events: Sequence[Event], overrun: int) -> None:
        for widget in self._with_parts():
            if overrun:
                widget.model.note_overrun(overrun)
            widget.model.receive(events)
        problem = self._live.problem
        if problem is not None:
            self.model.report("events", "No events are received; retrying", problem)
        elif "events" in self.model.notices:
            self.model.notices.clear("events")
            self.model.changed()

    def _tick(self) -> None:
        for widget in self._with_parts():
            widget.model.tick()

    def _failed(self, error: Exception, subject: str = "widget", text: str = "That failed") -> None:
        self.model.report(subject, text, error)
        self._state = self._state | {"notices": self.model.notices.texts}

    # The static copy in the notebook

    def _ipython_display_(self) -> None:
        """Display the widget, followed by a static copy, which remains visible when there is no kernel."""
        from IPython import display

        # A page that cannot display widgets shows only the copy.
        bundle = self._repr_mimebundle_() if self.comm is not None else None
        view = bundle[0] if bundle else {}
        display.publish_display_data(view | {"text/html": "", "text/plain": repr(self)})
        # An executed notebook is saved with the content that the widget has at the end of the cell.
        self._live.wait_until_idle(_LOADED_WITHIN_SECONDS)
        self.refresh()
        self._copy_id = self._copy_id or f"mirror-{time.time_ns()}"
        self._copied = -1
        self._update_copy(update=False)
        _displayed.add(self)

    def to_html(self, file: str | os.PathLike[str]) -> Path:
        """Write the content to an HTML file, which any browser can open offline. An existing file is replaced.

        Returns:
            The path of the file.

        Raises:
            OSError: The file cannot be written.

        >>> from mirror_sdk.widgets import FleetTable
        >>> FleetTable(client, live=False).to_html(folder / "fleet.html").name
        'fleet.html'
        """
        return report(file, self, title=type(self).__name__)

    def _update_copy(self, *, update: bool = True) -> None:
        """Update the copy in the notebook, if the widget is displayed and its model has changed."""
        with self._live.lock:
            if self._copy_id and self.model.version != self._copied:
                self._replace_copy(self.model.version, self._static_body()(), update=update)

    def _copy_failed(self, error: Exception) -> None:
        self._copy_at = time.monotonic() + self._copy_seconds
        self._failed(error)

    def _replace_copy(self, version: int, body: str, *, update: bool = True) -> None:
        from IPython import display

        self._copy_at = time.monotonic() + self._copy_seconds
        if version < self._copied:
            return
        self._copied = version
        content = {"text/html": f'{_COPY_STYLE}<div class="mirror-copy">{body}</div>', "text/plain": ""}
        display.publish_display_data(content, transient={"display_id": self._copy_id}, update=update)

    def _static_body(self) -> Callable[[], str]:
        """Return a function that makes the HTML of the current content. The function does not need the lock."""
        title = f"<p><b>{escape(f'{type(self).__name__}, as of {utc_now():%Y-%m-%d %H:%M:%S} UTC')}</b></p>"
        parts = [title, *self._static_html()]
        return lambda: _without_surrogates("".join(part if isinstance(part, str) else part() for part in parts))


def report(file: str | os.PathLike[str], *widgets: MirrorWidget, title: str = "Report") -> Path:
    """Write the content of widgets to one HTML file, which any browser can open offline.

    An existing file is replaced.

    Args:
        file: The file.
        widgets: The widgets, in the order in which they appear on the page.
        title: The title of the page.

    Returns:
        The file.

    Raises:
        OSError: The file cannot be written.
        TypeError: One of ``widgets`` is not a widget of this package.

    >>> from mirror_sdk.widgets import EventWatcher, FleetTable, report
    >>> report(folder / "day.html", FleetTable(client, live=False), EventWatcher(client, live=False)).name
    'day.html'
    """
    bodies = []
    for widget in widgets:
        if not isinstance(widget, MirrorWidget):
            raise TypeError(f"report() takes widgets after the file, got {widget!r}")
        with widget._live.lock:
            bodies.append(widget._static_body()())
    written = Path(file)
    written.write_text(_without_surrogates(static.page(title, "".join(bodies))), encoding="utf-8")
    return written


def _without_surrogates(text: str) -> str:
    return text.encode(errors="replace").decode()


# The copy is hidden while there is a live widget. Without one, it replaces the message of the page.
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
        widget._update_copy()


_open: dict[object, tuple[object, WeakSet[MirrorWidget]]] = {}
"""The last run that created widgets, and the widgets of that run.

They are stored by cell, because a cell that runs again may also create its client again. If the page does not identify
the cell, they are stored by kind of widget, mirror and key, and each widget counts as a run.
"""


def _replace_earlier(widget: MirrorWidget) -> None:
    cell, client = running_cell(), widget.client
    slot = cell.cell_id if cell else (type(widget).__name__, client.base_url, client._session.key_mark)
    run = cell.run_id if cell else object()
    earlier_run, opened = _open.get(slot, (run, WeakSet()))
    if earlier_run != run:
        for earlier in list(opened):
            earlier.close()
            forget_output(earlier)
            if earlier.client is not client:
                # IPython stores the last three outputs in variables such as ``_``, and so may keep a client that is no
                # longer used.
                carrier = earlier.client._session.sender.carrier
                if isinstance(carrier, Network):
                    carrier.release_idle()
        opened = WeakSet()
    opened.add(widget)
    _open[slot] = (run, opened)
