"""The explorer: a list of devices, and one of them with its resources and their past."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._table_arguments import DeviceTable, is_table
from mirror_sdk.device_lookup import DeviceLike
from mirror_sdk.errors import InvalidValue
from mirror_sdk.widgets import static
from mirror_sdk.widgets.models.explorer_model import Card, Editor, ExplorerModel
from mirror_sdk.widgets.models.lines import is_stepped
from mirror_sdk.widgets.models.past_values import milliseconds
from mirror_sdk.widgets.models.write_inputs import InputForm
from mirror_sdk.widgets.widget import READ_WITHIN_SECONDS, Host, MirrorWidget
from mirror_sdk.widgets.write_panel import WritePanel

_STATIC_COLUMNS = {
    "group": "Object",
    "name": "Resource",
    "value": "Value",
    "reported_at": "Reported (UTC)",
    "status": "Status",
    "desired": "Desired",
    "subscription": "Subscription",
    "path": "Path",
}
_MOST_STATIC_ROWS = 100


class Explorer(MirrorWidget):
    """Find devices, inspect one (values, units, past, drift, subscriptions), and read, subscribe, write and execute.

    It updates with events, and reads the mirror again every ten seconds for changes that no event reports. Choosing a
    device reads the mirror. Only buttons send requests to the device. Those above the table act on the selected
    resources, the others on the resource that is displayed in detail.

    Args:
        client: The mirror.
        device: The device to show first: the device, its id or its endpoint name, or a table whose rows name one.
        stale_after_seconds: The shortest silence after which a resource can be stale; see :class:`FleetTable`.
        live: Whether it updates by itself; otherwise each action blocks until it is done.
        keep_previous: Whether earlier explorers stay open. By default this one closes those of the previous run of its
            cell. If the notebook does not say which cell is running, it closes all earlier explorers of this client.
        host: For widgets that display this one as a part of themselves, without the list of devices.

    Attributes:
        writer: The write panel; ``None`` before it was opened.

    Raises:
        AmbiguousName: Several devices have this name.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
        UnknownDevice: No device has this name.
        ValueError: ``stale_after_seconds`` is not above 0, or a table does not name one device.

    >>> with Explorer(client, light, live=False) as explorer:
    ...     explorer.model.title
    'light-01'
    """

    component = "explorer"
    model: ExplorerModel

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
        self.writer: WritePanel | None = None
        self._last_view: dict[str, Any] = {}
        self.model.load_devices()
        if device is not None:
            self.model.choose(self._id_of(device))
        self.start()

    @property
    def selected(self) -> pd.DataFrame:
        """The selected resources: their rows of the state table, from the last read of the device.

        If the device is being read for the first time, this waits up to 10 seconds.

        The table has the columns of :meth:`mirror_sdk.MirrorClient.state_frame`, even when nothing is selected. Add a
        column ``value`` to pass it to :meth:`mirror_sdk.MirrorClient.plan`.

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
        """Show this device: an object, its id or its endpoint name.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.choose(station)
        >>> explorer.model.title
        'station-01'
        """
        self._act(lambda: self.model.choose(self._id_of(device)))

    def write(self, path: str | None = None) -> None:
        """Open a panel for writes to the displayed device. This writes nothing.

        Args:
            path: The resource to write; by default the first selected one.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.write("/3311/0/5851")
        >>> explorer.writer.model.value.path
        '/3311/0/5851'
        """
        self._act(lambda: self._open_writer(path))

    def view(self) -> dict[str, Any]:
        """Return the state of the component."""
        if self.is_changed or not self._last_view:
            self._last_view = self._new_view()
        return self._last_view

    def _new_view(self) -> dict[str, Any]:
        model, as_of = self.model, self.model.as_of
        return {
            "hasList": self._host is None,
            "devicesText": model.devices_text,
            "isReadingDevices": model.is_reading_devices,
            "deviceId": model.device_id,
            "title": model.title,
            "subtitle": model.subtitle,
            "isReading": model.is_reading,
            "card": None if model.card is None else _card(model.card),
            "takenAt": None if as_of is None else milliseconds(as_of),
            "clockAhead": model.clock_ahead_ms,
            "selected": model.selected,
            "empty": model.empty_text,
            "detail": None if model.editor is None else self._detail(model.editor),
            "hours": model.hours,
            "pastText": model.past_text,
        }

    @property
    def intents(self) -> Mapping[str, Callable[..., object]]:
        """The actions of the user, by name."""
        model = self.model
        return {
            "choose": model.choose,
            "select": model.select,
            "open_resource": model.open_resource,
            "enter": model.enter,
            "show_hours": model.show_hours,
            "read": model.read,
            "write_value": model.write_entered,
            "execute": model.execute,
            "acknowledge": model.acknowledge,
            "read_selected": lambda: self._for_selected(model.read),
            "subscribe_selected": lambda: self._for_selected(model.subscribe),
            "unsubscribe_selected": lambda: self._for_selected(model.unsubscribe),
            "write_selected": self._open_writer,
            "close_writer": self._close_writer,
            "load_devices": model.load_devices,
            "dismiss": model.dismiss,
        }

    def publish(self) -> None:
        """Publish the devices, the resources, and the past of the resource in detail."""
        if not self.is_changed:
            return
        model = self.model
        if self._host is None:
            self.rows("devices").show(model.device_rows)
        self.rows("resources").show(model.rows)
        line = None if model.editor is None else model.past.line(model.editor.path)
        self.series("past").show({} if model.editor is None or line is None else {model.editor.path: line})

    def static_html(self) -> str:
        """Return its content as plain HTML."""
        model = self.model
        rows = [row for row in model.rows if not row["is_minor"]]
        cells = [[row.get(name) for name in _STATIC_COLUMNS] for row in rows[:_MOST_STATIC_ROWS]]
        html = static.paragraph(f"{model.title} · {model.subtitle}".removesuffix(" · "))
        if model.card is not None:
            facts = [*model.card.attributes, *model.card.connection]
            html += static.paragraph(" · ".join(f"{name}: {text}" for name, text in facts))
        return html + static.table("Resources", list(_STATIC_COLUMNS.values()), cells, total=len(rows))

    def _act(self, action: Callable[[], object]) -> None:
        """Do what a program requested, and show the outcome or the error."""
        with self._live.lock:
            try:
                action()
            except Exception as error:
                self._failed(error)
            self._live.show()

    def _id_of(self, device: DeviceLike | DeviceTable) -> str:
        found = self.client._session.ids_of(device if is_table(device) else [device])
        if len(found) != 1:
            raise InvalidValue(f"device: the table names {len(found)} devices; choose one of its rows")
        return found[0]

    def _for_selected(self, action: Callable[[str], object]) -> None:
        for path in self.model.selected:
            action(path)

    def _open_writer(self, path: str | None = None) -> None:
        path = path or next(iter(self.model.selected), None)
        if path is None or self.model.device_id is None:
            return
        self._close_writer()
        self.writer = WritePanel(
            self.client, [self.model.device_id], path=path, live=self._is_live, host=Host(self, "writer")
        )

    def _close_writer(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def _detail(self, editor: Editor) -> dict[str, Any]:
        access, states = self.model.access(editor.path), self.model.past.states(editor.path)
        return {
            "path": editor.path,
            "label": self.model.label(editor.path),
            "form": _form(editor.form),
            "text": editor.text,
            "problem": editor.problem,
            "isWritable": not access or "W" in access,
            "isExecutable": access == "E",
            "unit": editor.form.unit,
            "isStepped": is_stepped(editor.path),
            "states": [span._asdict() for span in states],
        }


def _form(form: InputForm) -> dict[str, Any]:
    range_ = None if form.range is None else list(form.range)
    return {"type": form.type, "unit": form.unit, "range": range_, "hint": form.hint, "placeholder": form.placeholder}


def _card(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "id": card.device_id,
        "type": card.type,
        "description": card.description,
        "state": card.state,
        "attributes": [list(one) for one in card.attributes],
        "connection": [list(one) for one in card.connection],
        "isReachable": card.is_reachable,
        "lastContact": None if card.last_contact is None else milliseconds(card.last_contact),
        "lastReported": None if card.last_reported is None else milliseconds(card.last_reported),
    }
