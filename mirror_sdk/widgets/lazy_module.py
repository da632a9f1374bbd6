"""Widgets whose JavaScript module is loaded once per page, and is not stored in the notebook.

anywidget drops all messages to a widget that is not ready within two seconds. Loading some megabytes takes longer on a
slow page, so a small module is ready at once and loads the large one. If even that takes too long, it receives the
messages itself.

The page that runs the cell receives the module together with the widget's state, because a busy kernel would not
respond to a request for it. It then clears that state, which the notebook would store. Any other page requests the
module.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, ClassVar

import anywidget
import traitlets

from mirror_sdk.widgets.cells import running_cell


class LazyModule(anywidget.AnyWidget):
    """A widget with the module ``module_text``, whose first line identifies it."""

    _esm = (files(__package__) / "lazy_module.js").read_text(encoding="utf-8")
    _module_id = traitlets.Unicode().tag(sync=True)
    _module_text = traitlets.Unicode().tag(sync=True)
    module_text: ClassVar[str]

    def __init__(self, *arguments: Any, **state: Any) -> None:
        super().__init__(*arguments, **state)
        self.on_msg(self._send_module)

    @traitlets.default("_module_id")
    def _first_line(self) -> str:
        return self.module_text.partition("\n")[0]

    @traitlets.default("_module_text")
    def _text_for_a_page(self) -> str:
        return self.module_text if running_cell() is not None else ""

    def _send_module(self, _: object, content: Any, __: object) -> None:
        if content == {"request": "module"}:
            self.send({"module": self.module_text})
