"""The explorer: devices on the left, the resources of one on the right. A narrow page stacks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets as widgets
import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._table_keys import DeviceTable, is_table
from mirror_sdk.errors import InvalidValue
from mirror_sdk.naming import DeviceLike
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.controls import FULL, row, side_by_side
from mirror_sdk.widgets.grid import ColumnKind, Grid, GridColumn, SelectionMode
from mirror_sdk.widgets.markup import dim, heading, legend, status_line
from mirror_sdk.widgets.models.explorer_model import ExplorerModel
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.status import DRIFT_STATUS, Status
from mirror_sdk.widgets.write_panel import WritePanel

_DEVICES = (
    GridColumn("name", "Device", width=160),
    GridColumn("state", "State", width=105),
    GridColumn("type", "Type", width=130),
    GridColumn("last_contact", "Last contact (UTC)", ColumnKind.TIME, width=200),
)
_RESOURCES = (
    GridColumn("path", "Resource", width=115),
    GridColumn("value", "Value", width=100),
    GridColumn("status", "Status", width=135),
    GridColumn("activity", "In progress", width=125),
    GridColumn("label", "Label", width=190),
    GridColumn("desired", "Desired", width=110),
    GridColumn("reported_at", "Reported (UTC)", ColumnKind.TIME, width=200),
    GridColumn("subscription", "Subscription"),
)
_HEIGHT_PX = 360


class Explorer(MirrorWidget):
    """Find devices, inspect one (values, units, times, drift, subscriptions), and read, subscribe and write.

    It updates with events, and reads the mirror again every ten seconds for changes that no event reports. Choosing a
    device reads the mirror; only the buttons send requests to the device. They act on the selected resources.

    Args:
        client: The mirror.
        device: The device to show first: the device, its id or its endpoint name, or a table whose rows name one.
        stale_after_seconds: A resource that is silent for no longer than this is never stale; see :class:`FleetTable`.
        live: Whether it updates by itself; otherwise buttons block until they are done.
        keep_previous: Whether an earlier explorer of this client stays open if the notebook does not say which cell is
            running. (Running a cell again normally closes its previous widget.)

    Attributes:
        devices: The table of devices.
        resources: The table of the resources of one.
        writer: The write panel, once it was opened.

    Raises:
        AmbiguousName: Several devices have this name.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
        UnknownDevice: No device has this name.
        ValueError: ``stale_after_seconds`` is not above 0, or a table does not name one device.

    >>> with Explorer(client, light, live=False) as explorer:
    ...     explorer.model.title
    'light-01'
    """

    def __init__(
        self,
        client: MirrorClient,
        device: DeviceLike | DeviceTable | None = None,
        *,
        stale_after_seconds: float | None = None,
        live: bool = True,
        keep_previous: bool = False,
    ) -> None:
        super().__init__(client, live=live, keep_previous=keep_previous)
        self.model: ExplorerModel = ExplorerModel(client, self._live.run, stale_after_seconds=stale_after_seconds)
        self.writer: WritePanel | None = None
        self._displayed_id: str | None = None
        self.devices = Grid(_DEVICES, label="Devices", height_px=_HEIGHT_PX, selection=SelectionMode.ONE)
        self.resources = Grid(_RESOURCES, label="Resources", height_px=_HEIGHT_PX, selection=SelectionMode.MANY)
        self.devices.observe(self.changed(lambda ids: self.model.choose(ids[0] if ids else None)), "selected")
        # The handler shows the number of selected resources.
        self.resources.observe(self.handler(lambda _: None), "selected")
        self.left = self._left()
        sides, room = side_by_side(self.left)
        sides.children = [self.left, self._right()]
        self.writer_view = widgets.VBox(layout=FULL)
        self.model.load_devices()
        if device is not None:
            self.model.choose(self._id_of(device))
        self.start(room, self.writer_view)

    @property
    def selected(self) -> pd.DataFrame:
        """The selected resources: their rows of the state table, from the last read of the device.

        It is the table of :meth:`mirror_sdk.MirrorClient.state_frame`, with its columns also when nothing is selected.
        With a ``value`` it is an argument for :meth:`mirror_sdk.MirrorClient.plan`.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.select(["/3311/0/5851"])
        >>> explorer.selected["path"].tolist()
        ['/3311/0/5851']
        >>> client.plan(explorer.selected.assign(value=40))
        <Plan: 1 to write; 1 cannot be undone; nothing was sent, apply() sends>
        """
        with self._live.lock:
            return self.model.frame(self.resources.selected)

    def select(self, paths: Sequence[str]) -> None:
        """Select these resources of the displayed device, and no others.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.select(["/3311/0/5850", "/3311/0/5851"])
        >>> len(explorer.selected)
        2
        """
        self.resources.selected = list(paths)

    def choose(self, device: DeviceLike | DeviceTable) -> None:
        """Show this device: an object, its id or its endpoint name.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.choose(station)
        >>> explorer.model.title
        'station-01'
        """
        self.handler(lambda: self.model.choose(self._id_of(device)))()

    def write(self, path: str | None = None) -> None:
        """Open a panel for writes to the displayed device. This writes nothing.

        Args:
            path: The resource to write; by default the first selected one.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.write("/3311/0/5851")
        >>> explorer.writer.model.value.path
        '/3311/0/5851'
        """
        self.handler(lambda: self._write(path))()

    def render(self) -> None:
        """Show the model."""
        selected = len(self.resources.selected)
        self.selection_view.value = status_line(
            f"{format_count(selected, 'resource')} selected"
            if selected
            else "Select resources to read, subscribe or write them."
        )
        if not self.is_changed:
            return
        model, rows = self.model, self.model.device_rows
        self.devices.show(rows)
        self.devices.selected = [row["key"] for row in rows if row["key"] == model.device_id]
        if self._displayed_id != model.device_id:
            self._displayed_id, self.resources.selected = model.device_id, []
        self.resources.show(model.rows)
        self.resources.empty_text = model.empty_text
        self.title_view.value = heading(model.title, model.subtitle) + dim(model.connection_text)
        self.count_view.value = status_line(model.devices_text)

    def static_html(self) -> str:
        """Return its content as plain HTML."""
        return f"{self.title_view.value}{self.resources.static_html()}{self.devices.static_html()}"

    def _id_of(self, device: DeviceLike | DeviceTable) -> str:
        found = self.client._session.ids_of(device if is_table(device) else [device])
        if len(found) != 1:
            raise InvalidValue(f"device: the table names {len(found)} devices; choose one of its rows")
        return found[0]

    def _left(self) -> widgets.Widget:
        self.count_view = widgets.HTML()
        self.reload_button = self.button("Read again", "Read the directory again", self.model.load_devices)
        return widgets.VBox([row(self.count_view, self.reload_button), self.devices])

    def _right(self) -> widgets.Widget:
        model = self.model
        self.title_view = widgets.HTML(layout=FULL)
        self.selection_view = widgets.HTML()
        self.read_button = self._selection_button(
            "Read", "Read the selected resources from the device", model.read, is_primary=True
        )
        self.subscribe_button = self._selection_button("Subscribe", "Subscribe the selected resources", model.subscribe)
        self.unsubscribe_button = self._selection_button(
            "Unsubscribe", "End the subscriptions of the selected resources", model.unsubscribe
        )
        self.write_button = self.button(
            "Write …", "Open a panel that writes the first selected resource", self._write, settles=True
        )
        buttons = (self.read_button, self.subscribe_button, self.unsubscribe_button, self.write_button)
        signs = widgets.HTML(legend(dict.fromkeys([*DRIFT_STATUS.values(), Status.STALE])), layout=FULL)
        return widgets.VBox([self.title_view, row(*buttons, self.selection_view), self.resources, signs])

    def _selection_button(
        self, description: str, tooltip: str, action: Callable[[str], object], *, is_primary: bool = False
    ) -> widgets.Button:
        """Return a button that calls ``action`` with each selected resource."""
        return self.button(
            description,
            tooltip,
            lambda: [action(path) for path in self.resources.selected],
            is_primary=is_primary,
            settles=True,
        )

    def _write(self, path: str | None = None) -> None:
        path = path or next(iter(self.resources.selected), None)
        if path is None or self.model.device_id is None:
            return
        if self.writer is not None:
            self.writer.close()
        self.writer = WritePanel(self.client, [self.model.device_id], path=path, live=self._is_live, keep_previous=True)
        self.writer_view.children = [self.writer]
