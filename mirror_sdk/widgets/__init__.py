"""Widgets for notebooks: :class:`Explorer`, :class:`EventWatcher`, :class:`FleetTable` and :class:`WritePanel`.

They show the fleet as it changes. Changing a field of a widget only filters; only buttons send requests to devices.

>>> FleetTable(client)  # drift, stale values and pending writes; .selected is a table, a device opens next to it
<FleetTable of ...>
>>> Explorer(client)  # search devices; select rows, then read, subscribe or write them
<Explorer of ...>
>>> EventWatcher(client, paths=["/3303/*"])  # live table and plot; .frame, .save(file), Record
<EventWatcher of ...>

Each widget has a model (in ``mirror_sdk.widgets.models``) with all its logic, which does not import ipywidgets, and a
view that shows the model. All widgets of one client read its events through one poller. They need the ``notebook``
extra. ``to_html(file)`` writes what a widget shows as a page that opens offline; a saved notebook has that, too.
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

if not TYPE_CHECKING:  # a type checker would accept any name

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
