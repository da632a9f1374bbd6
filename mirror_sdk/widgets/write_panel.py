"""The write panel, which previews, writes and undoes a value for a resource of the selected devices."""

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
    """A widget to write a value to a resource of several devices.

    The user picks devices, a resource and a value, previews the changes, writes them, follows the progress, and can
    undo them.

    The input field matches the type and range of the resource. Picking devices and making a preview only reads from the
    mirror. Only *Apply* sends writes, and it needs a preview of the current input. If the cell runs again or the panel
    is closed, no more writes are sent.

    Args:
        client: The client of the mirror.
        devices: The devices to pick from, which are all picked initially. They are ids, endpoint names, devices, or a
            table with a column or an index ``device_id``. By default, these are all devices of the directory, and none
            of them is picked.
        path: The path of the initial resource. If it is invalid or cannot be written, the panel shows a message.
        expiry_seconds: The time for which each write may wait for its device, in seconds. The default is a minute. For
            a sleeping device, it is 3 days, or more if the device was silent for a long time.
        canary: The number of awake devices that are written first. All of these writes must succeed before any other
            write is sent. If no device is awake in the preview, there is no canary.
        max_failures: The number of failed writes that is tolerated. If more writes fail, no further writes are sent.
            ``None`` means no limit.
        include_offline: Whether to write to devices that are not registered, too.
        live: Whether the panel updates on its own. Otherwise, each action blocks until it is done.
        keep_previous: Whether earlier panels stay open. By default, a new panel closes the panels of the previous run
            of its cell. If the notebook does not identify the running cell, it closes all earlier panels of this
            client.
        host: The widget that contains this one.

    Raises:
        AmbiguousName: Several devices have the same name, and ``devices`` contains that name.
        TypeError: ``client`` is not a :class:`~mirror_sdk.MirrorClient`, an item of ``devices`` is not a device, or
            ``path`` is not a string.
        UnknownDevice: A name in ``devices`` does not belong to any device.
        InvalidValue: A table does not contain devices, or a limit is too small.

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
        """The plan of the last preview, even if it has not been applied. It is ``None`` before the first preview.

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
        """The last writes and their current results, as a requests table. It has no rows before the first write.

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
        # The earlier plan is kept until the new one is available, so that the layout does not jump.
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
    """A widget that can contain a write panel."""

    @property
    def writer(self) -> WritePanel | None:
        """The write panel; ``None`` until it is opened."""
        part = self._parts.get("writer")
        return part if isinstance(part, WritePanel) else None

    def _open_writer(self, devices: Sequence[str], path: str = "") -> None:
        self._do_close_writer()
        WritePanel(self.client, devices, path=path, live=self._is_live, host=Host(self, "writer"))

    def _do_close_writer(self) -> None:
        self._close_part("writer")
