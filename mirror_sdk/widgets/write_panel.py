"""The write panel: previews, sends and undoes a value for a resource of chosen devices."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk.device_lookup import DeviceLike, DevicesLike
from mirror_sdk.plan import Plan
from mirror_sdk.plan.report import DEFAULT_CANARY, DEFAULT_MAX_FAILURES
from mirror_sdk.widgets import static
from mirror_sdk.widgets.models.status import Status
from mirror_sdk.widgets.models.value_input import path_text
from mirror_sdk.widgets.models.write_model import Stage, WriteLimits, WriteModel
from mirror_sdk.widgets.published import PublishedRows
from mirror_sdk.widgets.widget import Host, MirrorWidget

_COPY_COLUMNS = {
    "device": "Device",
    "status": "Status",
    "before": "Before",
    "requested": "After",
    "waits": "Waits",
    "undo": "Undo",
    "reason": "Why",
}
_COPIED_ROWS = 50
_BY_WORD = {status.word: status for status in Status}


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
        max_failures: The number of tolerated failures; after one more nothing else is sent. ``None`` for no limit.
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

    component = "write_panel"
    model: WriteModel

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
        self.start()

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

    def view(self) -> dict[str, Any]:
        """Return the state of the panel."""
        return write_view(self.model)

    @property
    def intents(self) -> Mapping[str, Callable[..., object]]:
        """The actions of the panel."""
        return write_intents(self.model)

    def publish(self) -> None:
        """Show the devices and the writes."""
        if self.is_changed:
            publish_writes(self.model, self.rows)

    def static_html(self) -> str:
        """Return the progress, the problems and the writes as plain HTML, first the writes that are sent.

        >>> panel = WritePanel(client, [light], path="/3311/0/5851", live=False)
        >>> panel.model.value.enter("40")
        >>> panel.model.preview()
        >>> "→ 1 to write" in panel.static_html()
        True
        """
        model = self.model
        counts = ", ".join(
            f"{status.sign} {count:,} {status.word.lower()}" for status, count in model.counts.items() if count
        )
        problems = [
            f"{one.status.text}: {one.reason} ({len(one.devices):,}: {', '.join(one.devices[:5])})"
            for one in model.problems
        ]
        lines = [model.devices.text, model.limits.text, model.plan_title, model.status_text, counts, *problems]
        html = "".join(f"<div>{escape(line)}</div>" for line in lines if line)
        if model.plan is None:
            return html
        rows = model.rows
        cells = [[row[name] for name in _COPY_COLUMNS] for row in rows[:_COPIED_ROWS]]
        return html + static.table("Writes of the plan", [*_COPY_COLUMNS.values()], cells, total=len(rows))


def write_view(model: WriteModel) -> dict[str, Any]:
    """Return the state of the component ``WritePanel``, alone or within another widget."""
    devices, value = model.devices, model.value
    done, total, tone = model.progress
    form = value.form
    return {
        "notices": model.notices.texts,
        "target": devices.name(devices.picked[0]) if devices.is_one and devices.picked else None,
        "limits": model.limits.text,
        "limitsMeaning": model.limits.meaning,
        "devices": devices.text,
        "picked": devices.picked,
        "path": path_text(value.path),
        "paths": value.paths,
        "pathsText": value.paths_text,
        "pathProblem": value.path_problem,
        "form": {
            "type": form.type.value,
            "unit": form.unit,
            "range": form.range,
            "placeholder": form.placeholder,
        },
        "entry": "" if isinstance(value.entry, bytes) else value.entry,
        "fileBytes": len(value.entry) if isinstance(value.entry, bytes) else None,
        "valueProblem": value.value_problem if value.entry else "",
        "hint": "" if value.path_problem else value.text,
        "stage": model.stage.value,
        "isUndo": model.is_undo,
        "isOutdated": model.is_outdated,
        "canApply": model.can_apply,
        "canUndo": model.can_undo,
        "toWrite": model.to_write,
        "status": model.status_text,
        "progress": {"done": done, "total": total, "tone": tone.value},
        "title": model.plan_title,
        "counts": [[status.word, count] for status, count in model.counts.items() if count],
        "shown": model.status.word if model.status else None,
        "problems": [
            {"status": one.status.word, "reason": one.reason, "devices": list(one.devices)} for one in model.problems
        ],
    }


def write_intents(model: WriteModel) -> dict[str, Callable[..., object]]:
    """Return the actions of the component ``WritePanel``."""
    return {
        "dismiss": model.dismiss,
        "pick": model.devices.pick,
        "path": model.value.choose_path,
        "enter": model.value.enter,
        "file": lambda content: model.value.enter(base64.b64decode(content, validate=True)),
        "preview": model.preview,
        "apply": model.apply,
        "stop": model.stop,
        "undo": model.preview_undo,
        "show": lambda word: model.show_only(_BY_WORD[word] if word else None),
    }


def publish_writes(model: WriteModel, rows: Callable[[str], PublishedRows]) -> None:
    """Show the rows of the component ``WritePanel``: its devices, and the writes of its plan."""
    rows("devices").show(model.devices.rows)
    # Keep the earlier plan until the new one is there, so that the layout does not jump.
    if model.stage is not Stage.CHECKING:
        rows("writes").show(model.rows)
