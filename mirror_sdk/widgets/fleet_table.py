"""The overview of a fleet: a row for each device, the worst first. A selected device opens next to the table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk.device_lookup import DeviceLike, DevicesLike
from mirror_sdk.widgets import static
from mirror_sdk.widgets.explorer import Explorer
from mirror_sdk.widgets.models.fleet_model import DEVICE_STATUSES, FleetModel
from mirror_sdk.widgets.models.fleet_view import FleetView, ViewFile
from mirror_sdk.widgets.models.past_values import milliseconds
from mirror_sdk.widgets.widget import READ_WITHIN_SECONDS, Host, MirrorWidget
from mirror_sdk.widgets.write_panel import WritePanel

_STATIC_COLUMNS = {
    "name": "Device",
    "status": "Status",
    "value": "Value",
    "last_contact": "Last contact (UTC)",
    "failed": "Failed",
    "drifting": "Drifting",
    "pending": "Pending",
    "stale": "Stale",
    "type": "Type",
}
_MOST_STATIC_ROWS = 50


class FleetTable(MirrorWidget):
    """Shows which devices of the fleet have failed writes, drift, pending writes or stale values, and opens devices.

    After an event it reads the device of the event again, and every minute the whole fleet. It shows when it last read
    the fleet.

    A value can only be stale if its device sends it by itself: the resource is subscribed or auto-observed. A value
    with a max-age is stale after that time. Without a max-age, silence decides, because a device does not repeat an
    unchanged value. The value is stale if the device has been silent for longer than three times the longest pause
    between two reports of the resource. Constant resources, such as units and serial numbers, are never stale.

    The table also shows one value of each device, and a line of this value over the last 24 hours. By default it is the
    main value: the last number or boolean of a sensor or actuator, preferably its Sensor Value, On/Off or Dimmer. A
    device without sensors shows another number, such as its battery level. The line comes from the history of the
    service. Without a history it has the values that the notification log of this application still contains, and later
    ones.

    A *view* is the arrangement of the table: a dictionary with the members ``columns``, ``group_by``, ``status``,
    ``search``, ``sort_by``, ``descending`` and ``resource``. The *Views* menu saves the current view in a file under
    a name, and shows saved views.

    Args:
        client: The mirror.
        view: The initial view: a dictionary with some of these members, or the name of a saved view.
        views_file: The JSON file with the saved views. Saving the first view creates it.
        stale_after_seconds: The shortest silence after which a resource can be stale. It is an hour by default, and a
            day for a resource with fewer than three observed pauses. This does not affect a value with a max-age.
        live: Whether it updates by itself; otherwise each action blocks until it is done.
        keep_previous: Whether earlier fleet tables stay open. By default this one closes those of the previous run of
            its cell. If the notebook does not say which cell is running, it closes all earlier ones of this client.

    Attributes:
        explorer: The explorer of a device; ``None`` before one was opened.
        writer: The write panel; ``None`` before it was opened.

    Raises:
        InvalidValue: ``view`` is not a view, or no saved view has this name.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
        ValueError: ``stale_after_seconds`` is not above 0.

    >>> with FleetTable(client, view={"group_by": "type", "resource": "/3311/0/5851"}, live=False) as fleet:
    ...     fleet.model.counts_text
    '2 devices · 0 failed writes · 0 drifting values · 0 pending writes · 0 stale values'
    """

    component = "fleet"
    model: FleetModel

    def __init__(
        self,
        client: MirrorClient,
        *,
        view: Mapping[str, Any] | str | None = None,
        views_file: str | os.PathLike[str] = "fleet_views.json",
        stale_after_seconds: float | None = None,
        live: bool = True,
        keep_previous: bool = False,
    ) -> None:
        self._saved_views = ViewFile(views_file)
        self._opened_view = view if isinstance(view, str) else ""
        initial = self._saved_views.find(view) if isinstance(view, str) else FleetView.from_dict(view or {})
        super().__init__(client, live=live, keep_previous=keep_previous)
        self.model = FleetModel(client, self._live.run, stale_after_seconds=stale_after_seconds, view=initial)
        self.explorer: Explorer | None = None
        self.writer: WritePanel | None = None
        self._stale_after_seconds = stale_after_seconds
        self._saved_names = self._read_saved_names()
        self._last_view: dict[str, Any] = {}
        self.model.load()
        self.start()

    @property
    def selected(self) -> pd.DataFrame:
        """The selected devices as a table, in the order in which the fleet was read, without a request.

        If the fleet is being read for the first time, this waits up to 10 seconds.

        Add the columns ``path`` and ``value`` to pass the table to :meth:`mirror_sdk.MirrorClient.plan`.

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
            resources         Int64                how many resources it has
            failed            Int64                how many have a write that failed and was not acknowledged
            drifting          Int64                how many differ from the desired value
            pending           Int64                how many writes are pending
            stale             Int64                how many values are stale
            unconfirmed       Int64                how many have no report since the device accepted another value
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
        if self.model.taken_at is None:
            self._live.wait_until_idle(READ_WITHIN_SECONDS)
        with self._live.lock:
            return self.model.frame(self.model.selected)

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
        found = self.client._session.ids_of(devices)
        with self._live.lock:
            self._select(found)
            self._live.show()

    @property
    def current_view(self) -> dict[str, Any]:
        """The current view as a dictionary, which you can pass as ``view`` or store in a JSON file.

        >>> fleet = FleetTable(client, view={"group_by": "type"}, live=False)
        >>> {name: value for name, value in fleet.current_view.items() if value}
        {'group_by': 'type'}
        """
        with self._live.lock:
            return self.model.view.to_dict()

    def show_device(self, device_id: DeviceLike) -> None:
        """Open a device in the explorer next to the table.

        >>> fleet = FleetTable(client, live=False)
        >>> fleet.show_device(light)
        >>> fleet.explorer.model.title
        'light-01'
        """
        with self._live.lock:
            if self.explorer is None:
                self.explorer = Explorer(
                    self.client,
                    device_id,
                    stale_after_seconds=self._stale_after_seconds,
                    live=self._is_live,
                    host=Host(self, "explorer"),
                )
            else:
                self.explorer.choose(device_id)

    def view(self) -> dict[str, Any]:
        """Return the state of the component."""
        # Counting a large fleet several times a second would take a noticeable part of a processor.
        if self.is_changed or not self._last_view:
            self._last_view = self._new_view()
        return self._last_view

    def _new_view(self) -> dict[str, Any]:
        model = self.model
        counts = model.counts
        resource, taken_at = model.resource, model.taken_at
        resources = [{"path": one.path, "label": one.label, "devices": one.devices} for one in model.resources]
        return {
            "isLoading": model.is_loading,
            "takenAt": None if taken_at is None else milliseconds(taken_at),
            "clockAhead": model.clock_ahead_ms,
            "devices": counts.total(),
            "counts": {status.name.lower(): counts[status] for status in DEVICE_STATUSES},
            "countsText": model.counts_text,
            "view": model.view.to_dict(),
            "viewName": self._opened_view,
            "viewNames": self._saved_names,
            "viewsFile": str(self._saved_views.file),
            "attributes": model.attributes,
            "resource": None if resource is None else resource.label,
            "resources": resources,
            "sparklineText": model.sparkline_text,
            "selected": model.selected,
            "selectedWithValue": len(model.selected_with_value),
            "activity": model.activity,
            "isActing": model.is_acting,
        }

    @property
    def intents(self) -> Mapping[str, Callable[..., object]]:
        """The actions of the user, by name."""
        model = self.model
        return {
            "select": self._select,
            "open": self.show_device,
            "close_explorer": self._close_explorer,
            "write": self._write,
            "close_writer": self._close_writer,
            "read_selected": model.read_selected,
            "subscribe_selected": model.subscribe_selected,
            "load": model.load,
            "dismiss": model.dismiss,
            "change_view": model.change_view,
            "open_view": self._open_view,
            "save_view": self._save_view,
            "delete_view": self._delete_view,
        }

    def publish(self) -> None:
        """Publish the devices."""
        if self.is_changed:
            self.rows("devices").show(self.model.rows)

    def static_html(self) -> str:
        """Return its content as plain HTML."""
        rows = self.model.displayed_rows
        headings = dict(_STATIC_COLUMNS)
        if self.model.resource is not None:
            headings["value"] = self.model.resource.label
        cells = [[row.get(name) for name in headings] for row in rows[:_MOST_STATIC_ROWS]]
        text = static.paragraph(f"{self.model.counts_text} · {self.model.as_of_text}")
        return text + static.table("Fleet", list(headings.values()), cells, total=len(rows))

    def _select(self, device_ids: list[str]) -> None:
        self.model.select(device_ids)
        # Follow the selection if the explorer is open.
        if len(device_ids) == 1 and self.explorer is not None:
            self.explorer.choose(device_ids[0])

    def _close_explorer(self) -> None:
        if self.explorer is not None:
            self.explorer.close()
            self.explorer = None

    def _write(self) -> None:
        if not self.model.selected:
            return
        self._close_writer()
        self.writer = WritePanel(self.client, self.model.selected, live=self._is_live, host=Host(self, "writer"))

    def _close_writer(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def _read_saved_names(self) -> list[str]:
        try:
            return list(self._saved_views.read())
        except (OSError, ValueError) as error:
            self.model.report("views", "Reading the saved views", error)
            return []

    def _open_view(self, name: str) -> None:
        self.model.show_view(self._saved_views.find(name) if name else FleetView())
        self._opened_view = name
        self.model.changed()

    def _save_view(self, name: str) -> None:
        self._saved_views.save(name, self.model.view)
        self._opened_view, self._saved_names = name.strip(), self._read_saved_names()
        self.model.changed()

    def _delete_view(self, name: str) -> None:
        self._saved_views.delete(name)
        self._opened_view, self._saved_names = "", self._read_saved_names()
        self.model.changed()
