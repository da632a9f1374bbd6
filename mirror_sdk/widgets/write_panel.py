"""The write panel: a value for a resource of some devices, looked at before it is sent, and undone after."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets
import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk.events import Event
from mirror_sdk.plan import Plan
from mirror_sdk.plan.report import DEFAULT_CANARY, DEFAULT_MAX_FAILURES
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.markup import dim, heading, status
from mirror_sdk.widgets.models.device_picker import DEVICES_SHOWN, DeviceChoice, GivenDevices
from mirror_sdk.widgets.models.value_input import path_text
from mirror_sdk.widgets.models.write_model import Limits, Stage, WriteModel
from mirror_sdk.widgets.pager import Pager
from mirror_sdk.widgets.value_field import ValueField
from mirror_sdk.widgets.write_table import TABLE_STYLE, counts_bar, problem, write_table

_LINE_PIXELS = 28
_FULL = {"width": "auto"}
_STYLE = {"description_width": "70px"}
_WRAP = {"flex_flow": "row wrap", "align_items": "center"}


class WritePanel(MirrorWidget):
    """Pick devices, a resource and a value; see what would change, write it, see it happen, and undo it.

    The input fits the type and range of the resource. Picking devices and a preview only read the mirror; nothing is
    sent before *Apply*, and that works on a preview of the present input alone. Running its cell again, or closing it,
    stops what it is writing: no more is sent.

    Args:
        client: The mirror.
        devices: Which devices can be picked, all of them picked at first: ids, endpoint names, devices, or a table with
            a column or an index ``device_id``. Without, any device of the directory can, and none is picked.
        expiry_seconds: For how long each write may wait for its device; by default a minute, and for a device that
            sleeps 3 days, or more if it was silent for long.
        canary: How many devices that are awake are written to first; all of them must succeed before any other is.
            Where none is awake none is first, which the preview tells.
        max_failures: How many failures are borne; after one more nothing is sent any more. ``None`` for no limit.
        include_offline: Whether devices that are not registered are written to as well.
        live: Whether it changes by itself; without, a button works until it is done.
        keep_earlier: Whether an earlier panel of this client stays, where the page does not tell which cell runs.

    Raises:
        AmbiguousName: Several devices have a name that was given.
        TypeError: ``client`` is no :class:`MirrorClient`.
        UnknownDevice: No device has a name that was given.
        ValueRefused: ``devices`` are none, or a limit is too small.

    >>> with WritePanel(client, [light], live=False) as panel:
    ...     panel.model.devices.text
    '1 of 1 device picked'
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: GivenDevices | None = None,
        *,
        expiry_seconds: int | None = None,
        canary: int = DEFAULT_CANARY,
        max_failures: int | None = DEFAULT_MAX_FAILURES,
        include_offline: bool = False,
        live: bool = True,
        keep_earlier: bool = False,
    ) -> None:
        super().__init__(client, live=live, keep_earlier=keep_earlier)
        self._shown: dict[widgets.Widget, object] = {}
        limits = Limits(expiry_seconds, canary, max_failures, include_offline)
        self.model: WriteModel = WriteModel(client, devices, self._live.run, limits=limits)
        left, right = self._devices(), self._input()
        body = widgets.HBox([left, right], layout={"flex_flow": "row wrap", "grid_gap": "8px 24px"})
        self.model.devices.load()
        self.title_view = widgets.HTML(heading("Write", self.model.limits.text), layout=_FULL)
        self.begin(self.title_view, body, self._buttons(), *self._views())

    @property
    def plan(self) -> Plan | None:
        """The plan of the last preview, applied or not; ``None`` before the first.

        >>> panel = WritePanel(client, [light], live=False)
        >>> panel.path.value = "/3311/0/5851"
        >>> panel.field.fields[0].value = 40
        >>> panel.preview_button.click()
        >>> len(panel.plan)
        1
        """
        with self._live.lock:
            return self.model.plan

    @property
    def result(self) -> pd.DataFrame:
        """The requests table of what was written last, as it stands now; without rows before that.

        See :func:`mirror_sdk.frames.requests_frame`.

        >>> panel = WritePanel(client, [light], live=False)
        >>> panel.path.value = "/3311/0/5850"
        >>> panel.field.fields[0].value = True
        >>> panel.preview_button.click()
        >>> panel.apply_button.click()
        >>> panel.result["status"].tolist()
        ['success']
        """
        with self._live.lock:
            return self.model.result

    def close(self) -> None:
        """End it and take it off the page; what it is writing is stopped. Harmless when it is closed.

        >>> panel = WritePanel(client, [light], live=False)
        >>> panel.close()
        >>> panel.is_running
        False
        """
        model = getattr(self, "model", None)
        if model is not None:
            model.stop()
        super().close()

    def take(self, events: Sequence[Event], overrun: int) -> None:  # noqa: ARG002 - what was lost is a gap for it
        """See which devices come and go, and which answers."""
        self.model.take(events)

    def tick(self) -> None:
        """See how far the writing is."""
        self.model.tick()

    def render(self) -> None:
        """Show the model."""
        if self.is_changed:
            self._render_devices()
            self._render_input()
            self._render_buttons()
            self._render_plan()

    @property
    def device_boxes(self) -> list[widgets.Checkbox]:
        """The boxes of the devices that are listed.

        >>> panel = WritePanel(client, live=False)
        >>> panel.device_boxes[0].value = True
        >>> panel.model.devices.text
        '1 of 2 devices picked'
        """
        return [one.box for one in self._boxes if one.device_id]

    def _devices(self) -> widgets.Widget:
        devices = self.model.devices
        self.search = widgets.Text(description="Search", placeholder="name or id", layout=_FULL, style=_STYLE)
        self.search.observe(self.changed(devices.find), "value")
        self._boxes = [_Box(self) for _ in range(DEVICES_SHOWN)]
        self.boxes_view = widgets.VBox([one.box for one in self._boxes])
        self.device_pager = Pager("devices", devices.turn_page, self.handler)
        for button in (self.device_pager.previous, self.device_pager.next):
            button.layout.width = "86px"
        self.all_button = widgets.Button(description="Pick all found", tooltip="Pick all devices that match the search")
        self.none_button = widgets.Button(
            description="Drop all found", tooltip="Drop all devices that match the search"
        )
        self.all_button.on_click(self.handler(lambda _: devices.pick_found(True)))
        self.none_button.on_click(self.handler(lambda _: devices.pick_found(False)))
        self.devices_view = widgets.HTML(layout=_FULL)
        buttons = widgets.HBox([self.all_button, self.none_button])
        parts = [self.search, self.boxes_view, self.device_pager, self.devices_view, buttons]
        return widgets.VBox(parts, layout={"flex": "0 1 320px", "min_width": "240px"})

    def _input(self) -> widgets.Widget:
        value = self.model.value
        self.resource = widgets.Dropdown(
            description="Resource", layout={"width": "auto", "max_width": "520px"}, style=_STYLE
        )
        # By its path as well: JupyterLab takes keys for its own in a list that is folded, not in a text.
        self.path = widgets.Text(
            description="Path",
            placeholder="/3311/0/5851",
            continuous_update=False,
            layout={"width": "340px"},
            style=_STYLE,
        )
        self.paths_view = widgets.HTML(layout={"margin": "0 0 0 80px"})
        self.field = ValueField(value.enter, self.changed)
        self.hint_view = widgets.HTML(layout={"margin": "0 0 0 80px"})
        for field in (self.resource, self.path):
            field.observe(self.changed(value.choose_path), "value")
        parts = [self.resource, self.paths_view, self.path, self.field, self.hint_view]
        return widgets.VBox(parts, layout={"flex": "1 1 420px", "min_width": "0"})

    def _buttons(self) -> widgets.Widget:
        model = self.model
        self.preview_button = _button("Preview", "See what would change; nothing is sent", "120px")
        self.apply_button = _button("Apply", "Write what the preview shows", "190px")
        self.stop_button = _button("Stop", "Send no more; what is on its way stays so", "90px")
        self.undo_button = _button("Undo …", "See the way back from what was written last; nothing is sent", "90px")
        self.preview_button.on_click(self.handler(lambda _: self.settle(model.preview)))
        self.apply_button.on_click(self.handler(lambda _: self.settle(model.apply)))
        self.stop_button.on_click(self.handler(lambda _: model.stop()))
        self.undo_button.on_click(self.handler(lambda _: model.preview_undo()))
        buttons = [self.preview_button, self.apply_button, self.stop_button, self.undo_button]
        return widgets.HBox(buttons, layout=_WRAP | {"margin": "8px 0 0 0"})

    def _views(self) -> list[widgets.Widget]:
        self.status_view = widgets.HTML(layout=_FULL)
        self.bar_view = widgets.HTML(layout={"width": "100%"})
        self.table_view = widgets.HTML(layout={"width": "100%"})
        self.pager = Pager("writes", self.model.turn_page, self.handler)
        style = widgets.HTML(TABLE_STYLE, layout={"display": "none"})
        return [style, self.status_view, self.bar_view, self.table_view, self.pager]

    def _set(self, field: widgets.Widget, value: object) -> None:
        """Have a field show another value than before. Not the same again: what people did may be on its way."""
        if self._shown.get(field) != value:
            self._shown[field] = field.value = value

    def _render_devices(self) -> None:
        devices, choices = self.model.devices, self.model.devices.choices
        for number, box in enumerate(self._boxes):
            box.show(choices[number] if number < len(choices) else None)
        self.boxes_view.layout.min_height = f"{devices.lines * _LINE_PIXELS}px"
        self.device_pager.show(devices.pages)
        self.devices_view.value = status(devices.text)

    def _render_input(self) -> None:
        value = self.model.value
        options = [("choose, or give its path", ""), *value.paths]
        if tuple(options) != tuple(self.resource.options):
            self.resource.options = options
            self._shown.pop(self.resource, None)
        self._set(self.resource, "" if value.path_problem else value.path)
        self._set(self.path, value.path)
        self.paths_view.value = dim(value.paths_text)
        self.field.show(value.form, value.entry, f"Value for {path_text(value.path)}" if value.path else "Value")
        self.field.layout.visibility = "visible" if value.path else "hidden"
        wrong = value.path_problem or value.value_problem
        self.hint_view.value = problem(wrong) if wrong else status(value.text)

    def _render_buttons(self) -> None:
        model = self.model
        is_writing = model.stage is Stage.WRITING
        self.preview_button.disabled = is_writing
        self.apply_button.disabled = not model.can_apply
        self.apply_button.button_style = "primary" if model.can_apply else ""
        verb = "Apply the way back" if model.is_way_back else "Apply"
        self.apply_button.description = f"{verb} ({model.to_write:,})" if model.can_apply else "Apply"
        self.stop_button.disabled = not is_writing
        self.undo_button.disabled = not model.can_undo

    def _render_plan(self) -> None:
        model = self.model
        self.status_view.value = status(model.status_text)
        self.bar_view.value = counts_bar(model.counts, is_old=model.is_old) if model.plan else ""
        self.table_view.value = write_table(model.plan_title, model.rows, is_old=model.is_old)
        self.pager.show(model.pages)


class _Box:
    """A device as a box to tick. Boxes are used again for other devices, so that the focus stays."""

    def __init__(self, panel: WritePanel) -> None:
        self._choice: DeviceChoice | None = None
        self.box = widgets.Checkbox(
            indent=False, layout={"width": "auto", "height": "auto", "min_height": "24px", "display": "none"}
        )
        self.box.observe(panel.changed(lambda ticked: panel.model.devices.pick(self.device_id, ticked)), "value")

    @property
    def device_id(self) -> str:
        return self._choice.device_id if self._choice else ""

    def show(self, choice: DeviceChoice | None) -> None:
        # Not the same again: a tick may be on its way.
        if choice == self._choice:
            return
        self._choice = choice
        self.box.layout.display = "flex" if choice else "none"
        if choice is not None:
            self.box.description = choice.text
            self.box.tooltip = choice.device_id
            self.box.value = choice.is_picked


def _button(description: str, tooltip: str, width: str) -> widgets.Button:
    return widgets.Button(description=description, tooltip=tooltip, layout={"width": width})
