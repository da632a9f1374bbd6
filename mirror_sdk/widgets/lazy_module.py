"""Widgets whose JavaScript module is loaded once per page and is not stored in the notebook.

anywidget drops all messages to a widget that is not ready within two seconds. Loading some megabytes takes longer on a
slow page. So a small module is ready at once and loads the large one. If even that takes too long, the small module
receives the messages itself.

The page that runs the cell receives the module together with the state of the widget, because a busy kernel would not
respond to a request for the module. The page then clears that part of the state, because the notebook would store it.
Any other page requests the module.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from mirror_sdk.widgets.cells import running_cell

MODULE = (files(__package__) / "ui" / "ui.js").read_text(encoding="utf-8")


class LazyModule(anywidget.AnyWidget):
    """A widget with the module that all widgets share. The first line of the module identifies it."""

    _esm = (files(__package__) / "lazy_module.js").read_text(encoding="utf-8")
    _module_id = traitlets.Unicode(MODULE.partition("\n")[0]).tag(sync=True)
    _module_text = traitlets.Unicode().tag(sync=True)

    def __init__(self, **state: Any) -> None:
        super().__init__(_module_text=MODULE if running_cell() else "", **state)
        self.on_msg(self._send_module)

    def _send_module(self, _: object, content: Any, __: object) -> None:
        if content == {"request": "module"}:
            self.send({"module": MODULE})
