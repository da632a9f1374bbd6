"""Widgets for notebooks: :class:`Explorer`, :class:`EventWatcher`, :class:`FleetTable` and :class:`WritePanel`.

>>> FleetTable(client)  # drift, stale values and pending writes; .selected is a table; a device opens next to it
<FleetTable of ...>
>>> Explorer(client)  # search devices; select rows, then read, subscribe or write them
<Explorer of ...>
>>> EventWatcher(client, paths=["/3303/*"])  # live table and plot; .frame, .save(file), Record
<EventWatcher of ...>

Widgets show the live state of the fleet. Fields only filter; only buttons send requests to devices.

``to_html(file)`` saves the content of a widget as a page that opens offline. A saved notebook also stores it. Widgets
need the ``notebook`` extra.

Each widget consists of a model in ``mirror_sdk.widgets.models``, which contains all logic and does not use ipywidgets,
and a view that binds it. All widgets of one client share one poller for events.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk.widgets.explorer import Explorer
    from mirror_sdk.widgets.fleet_table import FleetTable
    from mirror_sdk.widgets.watcher import EventWatcher
    from mirror_sdk.widgets.write_panel import WritePanel

__all__ = ["EventWatcher", "Explorer", "FleetTable", "WritePanel"]

_MODULES = {"EventWatcher": "watcher", "Explorer": "explorer", "FleetTable": "fleet_table", "WritePanel": "write_panel"}

if not TYPE_CHECKING:  # else mypy would accept any attribute name

    def __getattr__(name: str) -> object:
        # Views are imported on first use: the models in this package work without ipywidgets.
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
