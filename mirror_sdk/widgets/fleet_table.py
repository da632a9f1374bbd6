"""An overview of a fleet, with a row for each device. The devices with the worst status come first.

If a user opens a device, it appears next to the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
import traitlets

from mirror_sdk._client import MirrorClient
from mirror_sdk.device_lookup import DeviceLike, DevicesLike
from mirror_sdk.widgets import static
from mirror_sdk.widgets.explorer import Explorer
from mirror_sdk.widgets.models.fleet_model import DEVICE_STATUSES, FleetModel
from mirror_sdk.widgets.models.fleet_view import FleetView, ViewFile
from mirror_sdk.widgets.widget import READ_WITHIN_SECONDS, Host
from mirror_sdk.widgets.write_panel import WriterHost

_COLUMNS = ("last_contact: Last contact (UTC)", "failed", "drifting", "pending", "stale", "type")
_ROWS_IN_COPY = 50


class FleetTable(WriterHost):
    """A table of the fleet that shows which devices need attention, and opens devices.

    The table shows devices with failed writes, drift, pending writes or stale values. After an event, it reads the
    device of the event again. Every minute, it reads the entire fleet. It shows the time of the last read of the fleet.

    A value can be stale only if its device sends it on its own, which means that the resource is subscribed or
    auto-observed. A value with a max-age is stale after that time. Without a max-age, the silence of the device
    decides, because a device does not repeat an unchanged value. The value is stale if the device has been silent for
    more than three times the longest pause between two reports of the resource. Constant resources, such as units and
    serial numbers, are never stale.

    The table also shows one value of each device, and a line of this value over the last 24 hours. By default, it is
    the main value: the last number or boolean of a sensor or actuator, preferably its Sensor Value, On/Off or Dimmer. A
    device without sensors shows another number, such as its battery level. The line comes from the history of the
    service. Without a history, the line has the values that the notification log of this application still contains,
    and later values.

    A *view* is the arrangement of the table. It is a dictionary with the members ``columns``, ``group_by``, ``status``,
    ``search``, ``sort_by``, ``descending`` and ``resource``. The *Views* menu saves the current view under a name in a
    file, and shows saved views.

    Args:
        client: The client of the mirror.
        view: The initial view. It is a dictionary with some of these members, or the name of a saved view.
        views_file: The path of the JSON file with the saved views. Saving the first view creates the file.
        stale_after_seconds: The shortest silence in seconds after which a resource can be stale. The default is an
            hour, or a day for a resource with fewer than three observed pauses. It does not apply to a value with a
            max-age.
        live: Whether the table updates on its own. Otherwise, each action blocks until it is done.
        keep_previous: Whether earlier fleet tables stay open. By default, a new table closes the tables of the previous
            run of its cell. If the notebook does not identify the running cell, it closes all earlier tables of this
            client.

    Attributes:
        writer: The write panel; ``None`` until it is opened.

    Raises:
        InvalidValue: ``view`` is not a valid view, or no saved view has this name.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`.
        ValueError: ``stale_after_seconds`` is not above 0.

    >>> with FleetTable(client, view={"group_by": "type", "resource": "/3311/0/5851"}, live=False) as fleet:
    ...     fleet.model.counts_text
    '2 devices · 0 failed writes · 0 drifting values · 0 pending writes · 0 stale values'
    """

    model: FleetModel
    _component = traitlets.Unicode("fleet").tag(sync=True)
    _attributes = """
        is_loading taken_at counts_text attributes resources sparkline_text selected activity is_acting
    """
    _intents = "load change_view read_selected subscribe_selected dismiss"

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
        initial = self._saved_views.find(view) if isinstance(view, str) else FleetView.from_dict(view or {})
        super().__init__(client, live=live, keep_previous=keep_previous)
        self.model = FleetModel(client, self._live.run, stale_after_seconds=stale_after_seconds, view=initial)
        self._stale_after_seconds = stale_after_seconds
        self._opened(view if isinstance(view, str) else "")
        self.model.load()
        self._start()

    @property
    def selected(self) -> pd.DataFrame:
        """The selected devices as a table, in the order in which the fleet was read.

        Reading the property does not send a request.

        If the fleet is being read for the first time, reading the property waits up to 10 seconds.

        To pass the table to :meth:`mirror_sdk.MirrorClient.plan`, add the columns ``path`` and ``value``.

        Returns:
            A DataFrame with these columns, even if nothing is selected:

            ================  ===================  ===========================================================
            column            dtype                meaning
            ================  ===================  ===========================================================
            device_id         string               the id of the device
            endpoint_name     string               the endpoint name of the device
            endpoint_type     category             the endpoint type of the device
            state             category             registered or deregistered
            queue_mode        boolean              whether the device sleeps between contacts
            created_at        datetime64[ms, UTC]  the time of the first registration
            updated_at        datetime64[ms, UTC]  the time of the last registration event
            last_contact      datetime64[ms, UTC]  the time of the last contact
            status            category             the worst status of the device, such as failed
            resources         Int64                the number of resources
            failed            Int64                the number of failed writes that were not acknowledged
            drifting          Int64                the number of resources that differ from the desired value
            pending           Int64                the number of pending writes
            stale             Int64                the number of stale values
            unconfirmed       Int64                the number of accepted writes that no report has confirmed
            last_reported_at  datetime64[ms, UTC]  the time of the last report of any value
            ================  ===================  ===========================================================

            ``attrs["mirror"]`` contains ``taken_at``, ``devices`` (the number of devices of the fleet), ``complete``
            and ``server``.

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
        """Select these devices, and no others.

        The devices are objects, ids, endpoint names, or a table that identifies them.

        Raises:
            AmbiguousName: Several devices have the same name, and ``devices`` contains that name.
            UnknownDevice: A name in ``devices`` does not belong to any device.

        >>> fleet = FleetTable(client, live=False)
        >>> fleet.select([light, "station-01"])
        >>> len(fleet.selected)
        2
        """
        found = self.client._session.ids_of(devices)
        with self._live.lock:
            self._do_select(found)
            self._live.show()

    @property
    def current_view(self) -> dict[str, Any]:
        """The current view as a dictionary. You can pass it as ``view`` or store it in a JSON file.

        >>> fleet = FleetTable(client, view={"group_by": "type"}, live=False)
        >>> {name: value for name, value in fleet.current_view.items() if value}
        {'group_by': 'type'}
        """
        with self._live.lock:
            return self.model.view.to_dict()

    @property
    def explorer(self) -> Explorer | None:
        """The explorer of a device; ``None`` until a device is opened.

        >>> FleetTable(client, live=False).explorer is None
        True
        """
        part = self._parts.get("explorer")
        return part if isinstance(part, Explorer) else None

    def show_device(self, device_id: DeviceLike) -> None:
        """Open a device in the explorer next to the table.

        >>> fleet = FleetTable(client, live=False)
        >>> fleet.show_device(light)
        >>> fleet.explorer.model.title
        'light-01'
        """
        with self._live.lock:
            if self.explorer is None:
                after, host = self._stale_after_seconds, Host(self, "explorer")
                Explorer(self.client, device_id, stale_after_seconds=after, live=self._is_live, host=host)
            else:
                self.explorer.choose(device_id)

    def _view(self) -> dict[str, Any]:
        model, counts = self.model, self.model.counts
        return {
            "clockAhead": model.clock_ahead_ms,
            "devices": counts.total(),
            "counts": {status.name.lower(): counts[status] for status in DEVICE_STATUSES},
            "view": model.view.to_dict(),
            "viewName": self._opened_view,
            "viewNames": self._saved_names,
            "viewsFile": str(self._saved_views.file),
            "resource": model.resource and model.resource.label,
            "selectedWithValue": len(model.selected_with_value),
        }

    def _publish(self) -> None:
        self._rows("devices").show(self.model.rows)

    def _do_select(self, device_ids: list[str]) -> None:
        self.model.select(device_ids)
        # If the explorer is open, it follows the selection.
        if len(device_ids) == 1 and self.explorer is not None:
            self.explorer.choose(device_ids[0])

    _do_open = show_device

    def _do_close_explorer(self) -> None:
        self._close_part("explorer")

    def _do_write(self) -> None:
        if self.model.selected:
            self._open_writer(self.model.selected)

    def _do_open_view(self, name: str) -> None:
        self.model.show_view(self._saved_views.find(name) if name else FleetView())
        self._opened(name)

    def _do_save_view(self, name: str) -> None:
        self._saved_views.save(name, self.model.view)
        self._opened(name.strip())

    def _do_delete_view(self, name: str) -> None:
        self._saved_views.delete(name)
        self._opened("")

    def _opened(self, name: str) -> None:
        """Store the name of the opened view, and read the names of all saved views."""
        self._opened_view, self._saved_names = name, []
        try:
            self._saved_names = list(self._saved_views.read())
        except (OSError, ValueError) as error:
            self.model.report("views", "Reading the saved views", error)
        self.model.changed()

    def _static_html(self) -> Iterator[str | Callable[[], str]]:
        model = self.model
        yield static.paragraph(f"{model.counts_text} · {model.as_of_text}")
        columns = ("name: Device", "status", f"value: {model.resource.label if model.resource else ''}", *_COLUMNS)
        yield static.table("Fleet", columns, model.displayed_rows, _ROWS_IN_COPY)
