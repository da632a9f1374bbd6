"""The write panel: previews, sends and undoes a value for a resource of chosen devices."""

from __future__ import annotations

import ipywidgets as widgets
import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk.naming import DeviceLike, DevicesLike
from mirror_sdk.plan import Plan
from mirror_sdk.plan.report import DEFAULT_CANARY, DEFAULT_MAX_FAILURES
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.controls import FULL, CountFilter, Progress, count_text, row
from mirror_sdk.widgets.grid import Grid, GridColumn, SelectionMode
from mirror_sdk.widgets.markup import dim, heading, legend, problem, status_line
from mirror_sdk.widgets.models.value_input import path_text
from mirror_sdk.widgets.models.write_model import Stage, WriteLimits, WriteModel
from mirror_sdk.widgets.models.write_rows import WRITE_STATUSES
from mirror_sdk.widgets.name_field import NameField
from mirror_sdk.widgets.value_field import ValueField

_DEVICE_COLUMNS = (
    GridColumn("device", "Device"),
    GridColumn("type", "Type", width=90),
    GridColumn("state", "State", width=112),
)
_PLAN_COLUMNS = (
    GridColumn("device", "Device"),
    GridColumn("status", "Status", width=125),
    GridColumn("before", "Before", width=95),
    GridColumn("requested", "Requested", width=95),
    GridColumn("waits", "Waits", width=85),
    GridColumn("undo", "Undo", width=80),
    GridColumn("reason", "Why"),
)
_DEVICES_HEIGHT_PX = 240
_PLAN_HEIGHT_PX = 320
_FIELD = {"max_width": "410px", "width": "auto"}
_BELOW_FIELD = {"margin": "0 0 0 80px", "width": "auto"}
_BODY = {"flex_flow": "row wrap", "grid_gap": "12px 24px", "width": "100%"}


class WritePanel(MirrorWidget):
    """Pick devices, a resource and a value; preview the changes, write them, follow the progress, and undo them.

    The input fits the type and range of the resource. Picking devices and previews only read the mirror. Only *Apply*
    sends writes, and needs a preview of the current input. Running its cell again, or closing it, stops the
    writes: no more are sent.

    Args:
        client: The mirror.
        devices: The devices to pick from, all initially picked: ids, endpoint names, devices, or a table with a column
            or an index ``device_id``. By default all devices of the directory, none of them picked.
        path: The initial resource. The panel says so if it is invalid or cannot be written.
        expiry_seconds: The time that each write may wait for its device. By default a minute, and for a device that
            sleeps 3 days, or more if it was silent for long.
        canary: The number of awake devices to write to first. All of them must succeed before any other write is sent.
            If no device is awake, there is no canary, as the preview shows.
        max_failures: The number of tolerated failures; after one more nothing else is sent. ``None`` for no limit.
        include_offline: Whether to write to devices that are not registered, too.
        live: Whether it updates by itself; otherwise buttons block until they are done.
        keep_previous: Whether an earlier panel of this client stays open if the notebook does not say which cell is
            running. (Running a cell again normally closes its previous widget.)

    Raises:
        AmbiguousName: One of the names belongs to several devices.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`, an item of ``devices`` is not a device, or
            ``path`` is not a string.
        UnknownDevice: One of the names belongs to no device.
        InvalidValue: A table does not name devices, or a limit is too small.

    >>> with WritePanel(client, [light], live=False) as panel:
    ...     panel.model.devices.text
    '1 of 1 device picked'
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: DeviceLike | DevicesLike | None = None,
        *,
        path: str = "",
        expiry_seconds: int | None = None,
        canary: int = DEFAULT_CANARY,
        max_failures: int | None = DEFAULT_MAX_FAILURES,
        include_offline: bool = False,
        live: bool = True,
        keep_previous: bool = False,
    ) -> None:
        super().__init__(client, live=live, keep_previous=keep_previous)
        limits = WriteLimits(expiry_seconds, canary, max_failures, include_offline)
        self.model: WriteModel = WriteModel(client, devices, self._live.run, path=path, limits=limits)
        self.title_view = widgets.HTML(layout=FULL)
        body = widgets.HBox([self._devices(), self._input()], layout=_BODY)
        self.model.devices.load()
        self.start(self.title_view, body, *self._views())

    @property
    def plan(self) -> Plan | None:
        """The plan of the last preview, applied or not; ``None`` before the first.

        >>> panel = WritePanel(client, [light], path="/3311/0/5851", live=False)
        >>> panel.field.fields[0].value = "40"
        >>> panel.preview_button.click()
        >>> len(panel.plan)
        1
        """
        with self._live.lock:
            return self.model.plan

    @property
    def result(self) -> pd.DataFrame:
        """The current requests table of the last writes; without rows before the first.

        See :func:`mirror_sdk.frames.requests_frame`.

        >>> panel = WritePanel(client, [light], path="/3311/0/5850", live=False)
        >>> panel.field.fields[0].value = True
        >>> panel.preview_button.click()
        >>> panel.apply_button.click()
        >>> panel.result["status"].tolist()
        ['success']
        """
        with self._live.lock:
            return self.model.result

    def close(self) -> None:
        """Stop the writes, close the panel and remove it from the page. Closing it again does nothing.

        >>> panel = WritePanel(client, [light], live=False)
        >>> panel.close()
        >>> panel.is_running
        False
        """
        model = getattr(self, "model", None)
        if model is not None:
            model.stop()
        super().close()

    def render(self) -> None:
        """Show the model."""
        if self.is_changed:
            self._render_devices()
            self._render_input()
            self._render_buttons()
            self._render_plan()

    def static_html(self) -> str:
        """Return the progress and the writes as plain HTML, first the writes that are sent.

        >>> panel = WritePanel(client, [light], path="/3311/0/5851", live=False)
        >>> panel.field.fields[0].value = "40"
        >>> panel.preview_button.click()
        >>> "→ 1 to write" in panel.static_html()
        True
        """
        model = self.model
        counts = ", ".join(count_text(status, count) for status, count in model.counts.items() if count)
        lines = "".join(map(dim, [model.devices.text, model.plan_title, model.status_text, counts]))
        return lines + self.plan_grid.static_html() if model.plan else lines

    def _devices(self) -> widgets.Widget:
        self.device_grid = Grid(_DEVICE_COLUMNS, label="Devices to write to", selection=SelectionMode.MANY)
        self.device_grid.observe(self.changed(self.model.devices.pick), "selected")
        self.devices_view = widgets.HTML(layout=FULL)
        layout = {"flex": "1 1 380px", "min_width": "0", "grid_gap": "4px"}
        self.devices_box = widgets.VBox([self.device_grid, self.devices_view], layout=layout)
        return self.devices_box

    def _input(self) -> widgets.Widget:
        value = self.model.value
        self.path = NameField(
            value=path_text(value.path),
            is_list=False,
            description="Resource",
            placeholder="a path, such as /3311/0/5851",
            layout=_FIELD,
        )
        self.path.observe(self.changed(value.choose_path), "value")
        self.paths_view = widgets.HTML(layout=_BELOW_FIELD)
        self.field = ValueField(value.enter, self.changed)
        self.hint_view = widgets.HTML(layout=_BELOW_FIELD)
        self.problem_view = widgets.HTML(layout=_BELOW_FIELD)
        views = [self.path, self.paths_view, self.field, self.problem_view, self.hint_view, self._buttons()]
        return widgets.VBox(views, layout={"flex": "1 1 380px", "min_width": "0", "grid_gap": "4px"})

    def _buttons(self) -> widgets.Widget:
        model = self.model
        self.preview_button = self.button(
            "Preview", "Preview the changes; nothing is sent", model.preview, settles=True
        )
        self.apply_button = self.button(
            "Apply", "Send the writes of the preview", model.apply, is_primary=True, settles=True
        )
        self.stop_button = self.button("Stop", "Send no more writes; those in flight continue", model.stop)
        self.undo_button = self.button(
            "Undo …", "Preview the undo of the last writes; nothing is sent", model.preview_undo
        )
        return row(self.preview_button, self.apply_button, self.stop_button, self.undo_button)

    def _views(self) -> list[widgets.Widget]:
        self.progress = Progress()
        self.plan_title_view = widgets.HTML(layout=FULL)
        self.counts = CountFilter("writes", WRITE_STATUSES, self.model.show_only, self.handler)
        self.plan_grid = Grid(_PLAN_COLUMNS, label="Writes of the plan", height_px=_PLAN_HEIGHT_PX)
        self.plan_grid.observe(self.handler(lambda _: self._render_reason()), "active")
        self.reason_view = widgets.HTML(layout=FULL)
        legend_view = widgets.HTML(legend(WRITE_STATUSES), layout=FULL)
        views = [self.plan_title_view, self.counts, self.plan_grid, self.reason_view, legend_view]
        self.plan_view = widgets.VBox(views, layout={"grid_gap": "6px", "width": "100%"})
        return [self.progress, self.plan_view]

    def _render_devices(self) -> None:
        devices = self.model.devices
        title = f"Write to {devices.name(devices.picked[0])}" if devices.is_one and devices.picked else "Write"
        self.title_view.value = heading(title, self.model.limits.text)
        self.devices_box.layout.display = "none" if devices.is_one else "flex"
        self.device_grid.height_px = _height_px(len(devices.rows), _DEVICES_HEIGHT_PX)
        self.device_grid.show(devices.rows)
        # A selection in another order is the same, and need not be sent to the page.
        if set(self.device_grid.selected) != set(devices.picked):
            self.device_grid.selected = devices.picked
        self.devices_view.value = status_line(devices.text)

    def _render_input(self) -> None:
        value = self.model.value
        self.path.names = value.paths
        self.paths_view.value = dim(value.paths_text)
        self.field.show(value.form, value.entry, f"Value for {path_text(value.path)}" if value.path else "Value")
        self.field.layout.visibility = "visible" if value.path else "hidden"
        self.problem_view.value = problem(value.problem)
        self.hint_view.value = status_line("" if value.path_problem else value.text)

    def _render_buttons(self) -> None:
        model = self.model
        is_writing = model.stage is Stage.WRITING
        self.preview_button.disabled = is_writing
        self.apply_button.disabled = not model.can_apply
        verb = "Apply the undo" if model.is_undo else "Apply"
        self.apply_button.description = f"{verb} ({model.to_write:,})" if model.can_apply else "Apply"
        self.stop_button.disabled = not is_writing
        self.undo_button.disabled = not model.can_undo

    def _render_plan(self) -> None:
        model = self.model
        done, total, tone = model.progress
        self.progress.show(model.status_text, done, total, tone)
        if model.stage is Stage.CHECKING:
            # Keep the earlier plan until then, so that the layout does not jump.
            return
        self.plan_view.layout.display = "flex" if model.plan else "none"
        self.plan_title_view.value = dim(model.plan_title)
        self.counts.show(model.counts, model.status)
        self.plan_grid.height_px = _height_px(sum(model.counts.values()), _PLAN_HEIGHT_PX)
        self.plan_grid.show(model.rows)
        self._render_reason()

    def _render_reason(self) -> None:
        """Show the full reason of the focused write: its cell may be narrow, and a tooltip needs a mouse."""
        key = self.plan_grid.active.get("key")
        write = next((one for one in self.model.rows if one["key"] == key), None)
        text = f"{write['device']}: {write['status']}. {write['reason']}" if write else ""
        self.reason_view.value = status_line(text) if text else ""


def _height_px(rows: int, most_px: int) -> int:
    """Return the height of a grid that fits all its rows, up to a maximum."""
    return min(most_px, 60 + 32 * max(rows, 2))
