"""The write panel: previews, sends and undoes a value for a resource of chosen devices."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

import pandas as pd
import traitlets

from mirror_sdk._client import MirrorClient
from mirror_sdk.device_lookup import DeviceLike, DevicesLike
from mirror_sdk.plan import Plan
from mirror_sdk.plan.report import DEFAULT_CANARY, DEFAULT_MAX_FAILURES
from mirror_sdk.widgets import static
from mirror_sdk.widgets.models.status import Status
from mirror_sdk.widgets.models.value_input import path_text
from mirror_sdk.widgets.models.write_model import Stage, WriteLimits, WriteModel
from mirror_sdk.widgets.widget import Host, MirrorWidget

_COLUMNS = ("device", "status", "before", "requested: After", "waits", "undo", "reason: Why")
_ROWS_IN_COPY = 50


class WritePanel(MirrorWidget):
    """Pick devices, a resource and a value; preview the changes, write them, follow the progress, and undo them.

    The input field matches the type and range of the resource. Picking devices and making a preview only read the
    mirror. Only *Apply* sends writes, and needs a preview of the current input. Running its cell again, or closing it,
    stops the writes: no more are sent.

    Args:
        client: The mirror.
        devices: The devices to pick from, all initially picked: ids, endpoint names, devices, or a table with a column
            or an index ``device_id``. By default all devices of the directory, none of them picked.
        path: The initial resource. The panel says so if it is invalid or cannot be written.
        expiry_seconds: The time that each write may wait for its device. By default a minute; for a sleeping device,
            3 days, or more if it was silent for a long time.
        canary: The number of awake devices to write to first. All of them must succeed before any other write is sent.
            If no device is awake, there is no canary, as the preview shows.
        max_failures: The number of tolerated failures. If more writes fail, nothing else is sent. ``None`` for no
            limit.
        include_offline: Whether to write to devices that are not registered, too.
        live: Whether it updates by itself; otherwise each action blocks until it is done.
        keep_previous: Whether earlier panels stay open. By default this one closes those of the previous run of its
            cell. If the notebook does not say which cell is running, it closes all earlier panels of this client.
        host: For widgets that display this one as a part of themselves.

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

    model: WriteModel
    _component = traitlets.Unicode("write_panel").tag(sync=True)
    _attributes = """
        limits.text limits.meaning devices.text devices.picked value.paths value.paths_text value.path_problem
        value.form stage is_undo is_outdated can_apply can_undo to_write status_text plan_title progress problems
    """
    _intents = """
        devices.pick value.choose_path value.enter preview preview_undo apply stop dismiss
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
        host: Host | None = None,
    ) -> None:
        super().__init__(client, live=live, keep_previous=keep_previous, host=host)
        limits = WriteLimits(expiry_seconds, canary, max_failures, include_offline)
        self.model = WriteModel(client, devices, self._live.run, path=path, limits=limits)
        self.model.devices.load()
        self._start()

    @property
    def plan(self) -> Plan | None:
        """The plan of the last preview, applied or not; ``None`` before the first.

        >>> panel = WritePanel(client, [light], path="/3311/0/5851", live=False)
        >>> panel.model.value.enter("40")
        >>> panel.model.preview()
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
        >>> panel.model.value.enter(True)
        >>> panel.model.preview()
        >>> panel.model.apply()
        >>> panel.result["status"].tolist()
        ['success']
        """
        with self._live.lock:
            return self.model.result

    def _view(self) -> dict[str, Any]:
        model, devices, value = self.model, self.model.devices, self.model.value
        is_file = isinstance(value.entry, bytes)
        return {
            "target": devices.name(devices.picked[0]) if devices.is_one and devices.picked else None,
            "path": path_text(value.path),
            "entry": "" if is_file else value.entry,
            "fileBytes": len(value.entry) if isinstance(value.entry, bytes) else None,
            "valueProblem": value.value_problem if value.entry else "",
            "hint": "" if value.path_problem else value.text,
            "counts": [[status.word, count] for status, count in model.counts.items() if count],
            "shown": model.status and model.status.word,
        }

    def _publish(self) -> None:
        self._rows("devices").show(self.model.devices.rows)
        # Keep the earlier plan until the new one is there, so that the layout does not jump.
        if self.model.stage is not Stage.CHECKING:
            self._rows("writes").show(self.model.rows)

    def _do_enter_file(self, content: str) -> None:
        self.model.value.enter(base64.b64decode(content, validate=True))

    def _do_show_only(self, word: str | None) -> None:
        self.model.show_only(next((status for status in Status if status.word == word), None))

    def _static_html(self) -> Iterator[str | Callable[[], str]]:
        model = self.model
        counts = (f"{one.sign} {count:,} {one.word.lower()}" for one, count in model.counts.items() if count)
        problems = (
            f"{one.status.text}: {one.reason} ({len(one.devices):,}: {', '.join(one.devices[:5])})"
            for one in model.problems
        )
        lines = [model.devices.text, model.limits.text, model.plan_title, model.status_text, ", ".join(counts)]
        yield from (f"<div>{escape(line)}</div>" for line in (*lines, *problems) if line)
        if model.plan is not None:
            yield static.table("Writes of the plan", _COLUMNS, model.rows, _ROWS_IN_COPY)


class WriterHost(MirrorWidget):
    """A widget that can display a write panel as a part of itself."""

    @property
    def writer(self) -> WritePanel | None:
        """The write panel; ``None`` before it was opened."""
        part = self._parts.get("writer")
        return part if isinstance(part, WritePanel) else None

    def _open_writer(self, devices: Sequence[str], path: str = "") -> None:
        self._do_close_writer()
        WritePanel(self.client, devices, path=path, live=self._is_live, host=Host(self, "writer"))

    def _do_close_writer(self) -> None:
        self._close_part("writer")
