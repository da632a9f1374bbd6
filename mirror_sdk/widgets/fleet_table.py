"""The overview of a fleet: a row for each device, the worst first. A selected device opens next to the table."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets
import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk.naming import DeviceLike, DevicesLike
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.controls import FULL, CountFilter, row, side_by_side
from mirror_sdk.widgets.explorer import Explorer
from mirror_sdk.widgets.grid import ColumnKind, Grid, GridColumn, SelectionMode
from mirror_sdk.widgets.markup import heading, legend, status_line
from mirror_sdk.widgets.models.fleet_model import DEVICE_STATUSES, FleetModel
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.write_panel import WritePanel

_COLUMNS = (
    GridColumn("name", "Device", width=160),
    GridColumn("status", "Status", width=140),
    GridColumn("type", "Type", width=130),
    GridColumn("state", "State", width=105),
    GridColumn("last_contact", "Last contact (UTC)", ColumnKind.TIME, width=200),
    GridColumn("failed", "Failed", ColumnKind.NUMBER, width=90),
    GridColumn("drifting", "Drifting", ColumnKind.NUMBER, width=95),
    GridColumn("pending", "Pending", ColumnKind.NUMBER, width=100),
    GridColumn("stale", "Stale", ColumnKind.NUMBER),
)
_HEIGHT_PX = 420


class FleetTable(MirrorWidget):
    """Drift, stale values and pending writes of the whole fleet at a glance; any device opens in an explorer.

    After an event it rereads the event's device, and every minute the whole fleet; it shows when it last read the
    fleet.

    A value can only be stale if its device sends it by itself: the resource is subscribed or auto-observed. It is stale
    when its max-age is over. Without a max-age, an unchanged value is not sent again and is valid while the device has
    contact. It is stale when the device is silent for longer than three times the longest pause between two reports of
    the resource. Constant resources, such as units and serial numbers, are never stale.

    Args:
        client: The mirror.
        stale_after_seconds: A resource that is silent for no longer than this is never stale. It is an hour by default,
            and a day for a resource with fewer than three observed pauses. This does not affect a value with a max-age.
        live: Whether it updates by itself; otherwise buttons block until they are done.
        keep_previous: Whether an earlier fleet table of this client stays open if the notebook does not say which cell
            is running. (Running a cell again normally closes its previous widget.)

    Attributes:
        grid: The table of devices.
        explorer: The explorer of a device, once one was opened.
        writer: The write panel, once it was opened.

    Raises:
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
        ValueError: ``stale_after_seconds`` is not above 0.

    >>> with FleetTable(client, live=False) as fleet:
    ...     fleet.model.counts_text
    '2 devices · 0 failed writes · 0 drifting values · 0 pending writes · 0 stale values'
    """

    def __init__(
        self,
        client: MirrorClient,
        *,
        stale_after_seconds: float | None = None,
        live: bool = True,
        keep_previous: bool = False,
    ) -> None:
        super().__init__(client, live=live, keep_previous=keep_previous)
        self.model: FleetModel = FleetModel(client, self._live.run, stale_after_seconds=stale_after_seconds)
        self.explorer: Explorer | None = None
        self.writer: WritePanel | None = None
        self._stale_after_seconds = stale_after_seconds
        self.grid = Grid(_COLUMNS, label="Fleet", height_px=_HEIGHT_PX, selection=SelectionMode.MANY)
        self.grid.observe(self.changed(self._follow), "selected")
        self.model.load()
        self.start(*self._views())

    @property
    def selected(self) -> pd.DataFrame:
        """The selected devices as a table, in the order in which the fleet was read, without a request.

        With a ``path`` and a ``value`` it is an argument for :meth:`mirror_sdk.MirrorClient.plan`.

        Returns:
            A frame with these columns, even when nothing is selected:

            ================  ===================  ===========================================================
            column            dtype                meaning
            ================  ===================  ===========================================================
            device_id         string               the device
            endpoint_name     string               its endpoint name
            endpoint_type     category             its endpoint type
            state             category             registered or deregistered
            queue_mode        boolean              whether it sleeps between contacts
            created_at        datetime64[ms, UTC]  when it first registered
            updated_at        datetime64[ms, UTC]  its last registration event
            last_contact      datetime64[ms, UTC]  when anything last came from it
            status            category             the worst that applies to it: failed, drifting, pending ...
            resources         Int64                how many resources it has introduced
            failed            Int64                how many have a write that failed and was not acknowledged
            drifting          Int64                how many differ from the desired value
            pending           Int64                how many writes are pending
            stale             Int64                how many values are stale
            unconfirmed       Int64                how many were reported before the device accepted another value
            last_reported_at  datetime64[ms, UTC]  when it last reported anything
            ================  ===================  ===========================================================

            ``attrs["mirror"]`` contains ``taken_at``, ``devices`` (of the fleet), ``complete`` and ``server``.

        >>> fleet = FleetTable(client, live=False)
        >>> fleet.select(["light-01"])
        >>> fleet.selected[["endpoint_name", "state", "status"]].values.tolist()
        [['light-01', 'registered', 'never_reported']]
        >>> client.plan(fleet.selected.assign(path="/3311/0/5851", value=40))
        <Plan: 1 to write; 1 cannot be undone; nothing was sent, apply() sends>
        """
        with self._live.lock:
            return self.model.frame(self.grid.selected)

    def select(self, devices: DevicesLike) -> None:
        """Select these devices and no others: objects, ids, endpoint names, or a table that names them.

        Raises:
            AmbiguousName: Several devices have one of the names.
            UnknownDevice: One of the names belongs to no device.

        >>> fleet = FleetTable(client, live=False)
        >>> fleet.select([light, "station-01"])
        >>> len(fleet.selected)
        2
        """
        self.grid.selected = self.client._session.ids_of(devices)

    def render(self) -> None:
        """Show the model."""
        selected = len(self.grid.selected)
        self.selection_view.value = status_line(
            f"{format_count(selected, 'device')} selected" if selected else "Select devices to open or write them."
        )
        if not self.is_changed:
            return
        self.grid.show(self.model.rows)
        self.grid.empty_text = self.model.empty_text
        self.counts.show(self.model.counts, self.model.status)
        self.title_view.value = heading("Fleet", f"{self.model.counts_text} · {self.model.as_of_text}")

    def static_html(self) -> str:
        """Return its content as plain HTML."""
        return f"{self.title_view.value}{self.grid.static_html()}"

    def show_device(self, device_id: DeviceLike) -> None:
        """Open a device in the explorer next to the table.

        >>> fleet = FleetTable(client, live=False)
        >>> fleet.show_device(light)
        >>> fleet.explorer.model.title
        'light-01'
        """
        if self.explorer is None or self.explorer.comm is None:
            self.explorer = Explorer(
                self.client,
                device_id,
                stale_after_seconds=self._stale_after_seconds,
                live=self._is_live,
                keep_previous=True,
            )
            # Devices are chosen in the table, whose own button is the primary one.
            self.explorer.left.layout.display = "none"
            self.explorer.read_button.button_style = ""
            self.sides.children = [self.table_side, self.explorer]
        else:
            self.explorer.choose(device_id)

    def _views(self) -> list[widgets.Widget]:
        model = self.model
        self.title_view = widgets.HTML(layout=FULL)
        self.counts = CountFilter("devices", DEVICE_STATUSES, model.show_only, self.handler)
        self.selection_view = widgets.HTML()
        self.open_button = self.button(
            "Open", "Show the first selected device next to the table", self._open, is_primary=True, settles=True
        )
        self.write_button = self.button(
            "Write …", "Open a panel that writes to the selected devices", self._write, settles=True
        )
        self.reload_button = self.button("Read again", "Read the whole fleet again", model.load)
        bar = row(self.open_button, self.write_button, self.reload_button, self.selection_view)
        self.table_side = widgets.VBox([bar, self.grid, widgets.HTML(legend(DEVICE_STATUSES), layout=FULL)])
        self.sides, room = side_by_side(self.table_side)
        self.writer_view = widgets.VBox(layout=FULL)
        return [self.title_view, self.counts, room, self.writer_view]

    def _follow(self, device_ids: Sequence[str]) -> None:
        """Show the selected device in the explorer, if that is open and only one is selected."""
        if len(device_ids) == 1 and self.explorer is not None and self.explorer.comm is not None:
            self.show_device(device_ids[0])

    def _open(self) -> None:
        if self.grid.selected:
            self.show_device(self.grid.selected[0])

    def _write(self) -> None:
        if not self.grid.selected:
            return
        if self.writer is not None:
            self.writer.close()
        self.writer = WritePanel(self.client, self.grid.selected, live=self._is_live, keep_previous=True)
        self.writer_view.children = [self.writer]
