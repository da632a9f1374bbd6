"""The explorer: devices on the left, the resources of one on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from mirror_sdk._client import MirrorClient
from mirror_sdk.events import Event
from mirror_sdk.frames import DriftKind
from mirror_sdk.naming import DeviceLike
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.choices import Choices
from mirror_sdk.widgets.markup import cells, dim, head, heading, status
from mirror_sdk.widgets.models.explorer_model import DEVICES_SHOWN, ExplorerModel, ResourceRow
from mirror_sdk.widgets.pager import Pager

_COLUMNS = ("resource", "reported (UTC)", "desired", "subscribed")
_LINE_PIXELS = 26
_DRIFT_CLASSES = {
    DriftKind.PENDING: "mirror-note",
    DriftKind.FAILED: "mirror-bad",
    DriftKind.REVERTED: "mirror-warn",
    DriftKind.UNCONFIRMED: "",
    DriftKind.NEVER_REPORTED: "mirror-warn",
    DriftKind.TYPE_MISMATCH: "mirror-warn",
}
_FULL = {"width": "auto"}
# Where there is less room the buttons of a row go below it.
_GROWING = {"flex": "1 1 300px", "width": "0", "min_width": "0"}
_WRAPPED = {"flex_flow": "row wrap", "align_items": "center"}
_BUTTONS = {"width": "184px", "flex": "0 0 auto"}
_READ = {"width": "60px"}
_SUBSCRIBE = {"width": "104px"}
_NARROW = {"description_width": "58px"}


class Explorer(MirrorWidget):
    """Search and filter devices, look at one: values, units, times, drift, subscriptions; read and subscribe.

    It changes as events come, and looks at the mirror again every ten seconds for what no event tells. Choosing a
    device reads the mirror; only the buttons of a row ask the device.

    Args:
        client: The mirror.
        device: Which device to show first: the device, its id or its endpoint name.
        live: Whether it changes by itself; without, a button works until it is done.
        keep_earlier: Whether an earlier explorer of this client stays, where the page does not tell which cell runs.

    Raises:
        AmbiguousName: Several devices have this name.
        TypeError: ``client`` is no :class:`MirrorClient`.
        UnknownDevice: No device has this name.

    >>> with Explorer(client, light, live=False) as explorer:
    ...     explorer.model.title
    'light-01'
    """

    def __init__(
        self,
        client: MirrorClient,
        device: DeviceLike | None = None,
        *,
        live: bool = True,
        keep_earlier: bool = False,
    ) -> None:
        super().__init__(client, live=live, keep_earlier=keep_earlier)
        self.model: ExplorerModel = ExplorerModel(client, self._live.run)
        self._rows: list[_Row] = []
        left, right = self._left(), self._right()
        body = widgets.HBox([left, right], layout={"flex_flow": "row wrap", "grid_gap": "8px 20px"})
        self.model.load_devices()
        if device is not None:
            self.model.choose(self._id_of(device))
        self.begin(body)

    def choose(self, device: DeviceLike) -> None:
        """Show this device, given by itself, its id or its endpoint name.

        >>> explorer = Explorer(client, light, live=False)
        >>> explorer.choose(station)
        >>> explorer.model.title
        'station-01'
        """
        self.handler(lambda: self.model.choose(self._id_of(device)))()

    def _id_of(self, device: DeviceLike) -> str:
        (device_id,) = self.client._ids_of_all([device])
        return device_id

    def take(self, events: Sequence[Event], overrun: int) -> None:  # noqa: ARG002 - it looks at devices, not at each event
        """Look again at what the events are about."""
        self.model.take(events)

    def tick(self) -> None:
        """Look again where it is time to."""
        self.model.tick()

    def render(self) -> None:
        """Show the model."""
        if not self.is_changed:
            return
        self._render_devices()
        rows = self.model.rows
        while len(self._rows) < len(rows):
            self._rows.append(_Row(self))
        if len(self.rows_view.children) < len(self._rows):
            self.rows_view.children = [row.view for row in self._rows]
        for number, row in enumerate(self._rows):
            row.show(rows[number] if number < len(rows) else None, self.model.title)
        self.title_view.value = heading(self.model.title, self.model.subtitle)
        self.head_view.layout.display = "flex" if rows else "none"
        self.empty_view.value = dim(self.model.empty_text)
        self.pager.show(self.model.pages)

    @property
    def read_buttons(self) -> list[widgets.Button]:
        """The buttons that read, of the rows that are shown.

        >>> explorer = Explorer(client, station, live=False)
        >>> explorer.read_buttons[0].click()
        >>> explorer.model.rows[0].value
        '21.5'
        """
        return [row.read_button for row in self._rows if row.path]

    @property
    def subscribe_buttons(self) -> list[widgets.Button]:
        """The buttons that subscribe or end that, of the rows that are shown.

        >>> explorer = Explorer(client, station, live=False)
        >>> explorer.subscribe_buttons[0].click()
        >>> client.is_subscribed(station, "/3303/0/5700")
        True
        """
        return [row.subscribe_button for row in self._rows if row.path]

    def _left(self) -> widgets.Widget:
        model = self.model
        self.search = widgets.Text(description="Search", placeholder="name or id", layout=_FULL, style=_NARROW)
        self.type_filter = widgets.Combobox(description="Type", placeholder="any", layout=_FULL, style=_NARROW)
        self.state_filter = Choices("State", lambda state: model.find(state=state), self.handler)
        self.devices = Choices("Device", model.choose, self.handler, is_list=True)
        self.device_pager = Pager("devices", model.turn_device_page, self.handler)
        for button in (self.device_pager.previous, self.device_pager.next):
            button.layout.width = "86px"
        self.count_view = widgets.HTML(layout=_FULL)
        self.reload_button = widgets.Button(description="Read the directory again", layout=_FULL)
        self.search.observe(self.changed(lambda text: model.find(search=text)), "value")
        self.type_filter.observe(self.changed(lambda text: model.find(endpoint_type=text)), "value")
        self.reload_button.on_click(self.handler(lambda _: model.load_devices()))
        filters = [self.search, self.type_filter, self.state_filter]
        parts = [*filters, self.devices, self.device_pager, self.count_view, self.reload_button]
        return widgets.VBox(parts, layout={"flex": "0 1 270px", "min_width": "220px"})

    def _right(self) -> widgets.Widget:
        model = self.model
        self.title_view = widgets.HTML(layout=_FULL)
        self.resource_search = widgets.Text(
            description="Filter", placeholder="path or label", layout={"width": "260px"}, style=_NARROW
        )
        self.only_drift = widgets.Checkbox(description="only what drifts", indent=False, layout=_FULL)
        self.resource_search.observe(self.changed(lambda text: model.find(resource_search=text)), "value")
        self.only_drift.observe(self.changed(lambda wanted: model.find(only_drift=wanted)), "value")
        space = widgets.HTML(layout=_BUTTONS)
        self.head_view = widgets.HBox([widgets.HTML(head(_COLUMNS), layout=_GROWING), space])
        self.head_view.add_class("mirror-line")
        self.rows_view = widgets.VBox(layout={"width": "100%"})
        self.rows_view.add_class("mirror-lines")
        self.empty_view = widgets.HTML(layout=_FULL)
        self.pager = Pager("resources", model.turn_page, self.handler)
        filters = widgets.HBox([self.resource_search, self.only_drift], layout=_WRAPPED)
        table = [self.head_view, self.rows_view, self.empty_view, self.pager]
        return widgets.VBox(
            [self.title_view, filters, *table], layout={"flex": "1 1 560px", "min_width": "0", "width": "0"}
        )

    def _render_devices(self) -> None:
        model = self.model
        self.devices.show(model.choices, [model.device_id])
        # As high as before a search, so that nothing below moves.
        self.devices.layout.min_height = f"{min(DEVICES_SHOWN, model.device_count) * _LINE_PIXELS}px"
        self.device_pager.show(model.device_pages)
        self.type_filter.options = model.values_of("endpoint_type")
        states = [("any", ""), *((state, state) for state in model.values_of("state"))]
        self.state_filter.show(states, [model.state])
        self.count_view.value = status(self.model.devices_text)


class _Row:
    """A line of the list of resources. Lines are used again for other resources, so that the focus stays."""

    def __init__(self, explorer: Explorer) -> None:
        self.path = ""
        self.cells_view = widgets.HTML(layout=_GROWING)
        self.read_button = widgets.Button(description="Read", layout=_READ)
        self.subscribe_button = widgets.Button(layout=_SUBSCRIBE)
        self.read_button.on_click(explorer.handler(lambda _: self._press(explorer.model.read)))
        self.subscribe_button.on_click(explorer.handler(lambda _: self._press(explorer.model.toggle_subscription)))
        buttons = widgets.HBox([self.read_button, self.subscribe_button], layout=_BUTTONS)
        self.view = widgets.HBox([self.cells_view, buttons], layout=_WRAPPED)

    def _press(self, action: Callable[[str], object]) -> None:
        # It may be gone from here before the page has heard of it.
        if self.path:
            action(self.path)

    def show(self, row: ResourceRow | None, device: str) -> None:
        self.path = row.path if row else ""
        self.view.layout.display = "flex" if row else "none"
        if row is None:
            return
        self.cells_view.value = cells(_cells(row))
        self.read_button.tooltip = f"Read {row.path} of {device}"
        verb = "Unsubscribe" if row.is_own else "Subscribe"
        self.subscribe_button.description = verb
        self.subscribe_button.tooltip = f"{verb} {row.path} of {device}"


def _cells(row: ResourceRow) -> list[tuple[str, str, str, str]]:
    drift = f"mirror-mark {_DRIFT_CLASSES[row.drift]}" if row.drift else ""
    reported_at = f"{row.reported_at} · stale" if row.is_stale else row.reported_at
    return [
        ("resource", f"{row.path}\n{row.label}".rstrip(), "", ""),
        (
            "value",
            f"{row.activity or row.value or 'no value yet'}\n{reported_at}",
            "" if row.value else "mirror-dim",
            "",
        ),
        ("drift", row.drift_text, drift, row.drift_hint),
        ("subscription", row.subscription, "", ""),
    ]
