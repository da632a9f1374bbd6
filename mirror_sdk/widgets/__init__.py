"""Widgets for notebooks: :class:`Explorer`, :class:`EventWatcher`, :class:`FleetTable` and :class:`WritePanel`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk.widgets.explorer import Explorer
    from mirror_sdk.widgets.fleet_table import FleetTable
    from mirror_sdk.widgets.watcher import EventWatcher
    from mirror_sdk.widgets.widget import report
    from mirror_sdk.widgets.write_panel import WritePanel

__all__ = ["EventWatcher", "Explorer", "FleetTable", "WritePanel", "report"]

_MODULES = {
    "EventWatcher": "watcher",
    "Explorer": "explorer",
    "FleetTable": "fleet_table",
    "WritePanel": "write_panel",
    "report": "widget",
}

if not TYPE_CHECKING:  # else mypy would accept any attribute name

    def __getattr__(name: str) -> object:
        # Views are imported on first use, because the models in this package work without ipywidgets.
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        try:
            return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        except ModuleNotFoundError as exc:
            if (exc.name or "").startswith("mirror_sdk"):
                raise
            raise ImportError(f'widgets need {exc.name}: pip install "device-state-mirror[notebook]"') from exc


def __dir__() -> list[str]:
    return __all__
