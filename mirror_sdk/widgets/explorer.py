"""The explorer, which shows a list of devices, and the resources of one device with their earlier values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
import traitlets

from mirror_sdk._client import MirrorClient
from mirror_sdk._table_arguments import DeviceTable, is_table
from mirror_sdk.device_lookup import DeviceLike
from mirror_sdk.errors import InvalidValue
from mirror_sdk.widgets import static
from mirror_sdk.widgets.models.explorer_model import Editor, ExplorerModel
from mirror_sdk.widgets.models.lines import is_stepped
from mirror_sdk.widgets.widget import READ_WITHIN_SECONDS, Host
from mirror_sdk.widgets.write_panel import WriterHost

_COLUMNS = (
    *("group: Object", "name: Resource", "value", "reported_at: Reported (UTC)", "status", "desired"),
    *("subscription", "path"),
)
_ROWS_IN_COPY = 100


class Explorer(WriterHost):
    """A widget to find devices, inspect a device, and send requests to it.

    The explorer shows the current and earlier values, units, drift and subscriptions of a device. It can read,
    subscribe to, write and execute resources.

    The explorer updates when events arrive. It also reads the mirror every ten seconds, because some changes are not
    reported by events. Choosing a device only reads from the mirror. Only buttons send requests to the device. The
    buttons above the table act on the selected resources. The other buttons act on the resource whose details are open.

    Args:
        client: The client of the mirror.
        device: The device to show first: a device object, its id or endpoint name, or a table whose rows identify a
            single device.
        stale_after_seconds: The shortest silence in seconds after which a resource can be stale; see
            :class:`FleetTable`.
        live: Whether the explorer updates on its own. Otherwise, each action blocks until it is done.
        keep_previous: Whether earlier explorers stay open. By default, a new explorer closes the explorers of the
            previous run of its cell. If the notebook does not identify the running cell, it closes all earlier
            explorers of this client.
        host: The widget that contains this one. The explorer is then displayed without the list of devices.

    Attributes:
        writer: The write panel; ``None`` until it is opened.

    Raises:
        AmbiguousName: Several devices have the same name, and ``device`` is that name.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
        UnknownDevice: No device has the name.
        ValueError: ``stale_after_seconds`` is not above 0, or a table does not identify exactly one device.

    >>> with Explorer(client, light, live=False) as explorer:
    ...     explorer.model.title
    'light-01'
    """

    model: ExplorerModel
    _component = traitlets.Unicode("explorer").tag(sync=True)
    _attributes = """
        devices_text is_reading_devices device_id title subtitle is_reading card as_of clock_ahead_ms selected
        empty_text hours past_text
    """
    _intents = """
        load_devices choose select open_resource enter write_entered show_hours read subscribe unsubscribe execute
        acknowledge dismiss
    """

    def __init__(
        self,
        client: MirrorClient,
        device: DeviceLike | DeviceTable | None = None,
        *,
        stale_after_seconds: float | None = None,
        live: bool = True,
        keep_previous: bool = False,
        host: Host | None = None,
    ) -> None:
        super().__init__(client, live=live, keep_previous=keep_previous, host=host)
        self.model = ExplorerModel(client, self._live.run, stale_after_seconds=stale_after_seconds)
        self.model.load_devices()
        if device is not None:
            self.model.choose(self._id_of(device))
        self._start()

    @property
    def selected(self) -> pd.DataFrame:
        """The selected resources as rows of the state table, from the last read of the device.

        If the device is being read for the first time, reading the property waits up to 10 seconds.

        The table has the columns of :meth:`mirror_sdk.MirrorClient.state_frame`, even if nothing is selected. To pass
        it to :meth:`mirror_sdk.MirrorClient.plan`, add a column ``value``.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.select(["/3311/0/5851"])
        >>> explorer.selected["path"].tolist()
        ['/3311/0/5851']
        >>> client.plan(explorer.selected.assign(value=40))
        <Plan: 1 to write; 1 cannot be undone; nothing was sent, apply() sends>
        """
        if self.model.is_reading:
            self._live.wait_until_idle(READ_WITHIN_SECONDS)
        with self._live.lock:
            return self.model.frame(self.model.selected)

    def select(self, paths: Sequence[str]) -> None:
        """Select these resources of the displayed device, and no others.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.select(["/3311/0/5850", "/3311/0/5851"])
        >>> len(explorer.selected)
        2
        """
        self._act(lambda: self.model.select(list(paths)))

    def choose(self, device: DeviceLike | DeviceTable) -> None:
        """Show this device, identified by an object, an id or an endpoint name.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.choose(station)
        >>> explorer.model.title
        'station-01'
        """
        self._act(lambda: self.model.choose(self._id_of(device)))

    def write(self, path: str | None = None) -> None:
        """Open a panel for writes to the displayed device. Opening the panel does not write anything.

        Args:
            path: The path of the resource to write. The default is the first selected resource.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.write("/3311/0/5851")
        >>> explorer.writer.model.value.path
        '/3311/0/5851'
        """
        self._act(lambda: self._do_write(path))

    def _view(self) -> dict[str, Any]:
        editor = self.model.editor
        return {"hasList": self._host is None, "detail": None if editor is None else self._detail(editor)}

    def _detail(self, editor: Editor) -> dict[str, Any]:
        access = self.model.access(editor.path)
        return {
            "path": editor.path,
            "label": self.model.label(editor.path),
            "form": editor.form,
            "text": editor.text,
            "problem": editor.problem,
            "isWritable": not access or "W" in access,
            "isExecutable": access == "E",
            "isStepped": is_stepped(editor.path),
            "states": self.model.past.states(editor.path),
        }

    def _publish(self) -> None:
        model = self.model
        if self._host is None:
            self._rows("devices").show(model.device_rows)
        self._rows("resources").show(model.rows)
        line = None if model.editor is None else model.past.line(model.editor.path)
        self._series("past").show({} if model.editor is None or line is None else {model.editor.path: line})

    def _do_write(self, path: str | None = None) -> None:
        path = path or next(iter(self.model.selected), None)
        if path is not None and self.model.device_id is not None:
            self._open_writer([self.model.device_id], path)

    def _id_of(self, device: DeviceLike | DeviceTable) -> str:
        found = self.client._session.ids_of(device if is_table(device) else [device])
        if len(found) != 1:
            raise InvalidValue(f"device: the table names {len(found)} devices; choose one of its rows")
        return found[0]

    def _static_html(self) -> Iterator[str | Callable[[], str]]:
        model = self.model
        yield static.paragraph(f"{model.title} · {model.subtitle}".removesuffix(" · "))
        if model.card is not None:
            facts = [*model.card.attributes, *model.card.connection]
            yield static.paragraph(" · ".join(f"{name}: {text}" for name, text in facts))
        yield static.table("Resources", _COLUMNS, [row for row in model.rows if not row["is_minor"]], _ROWS_IN_COPY)
