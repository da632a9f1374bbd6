"""A table that can be sorted, filtered, searched, copied and selected from: AG Grid with changing rows.

Its module is ``grid.js``, which ``.ci/make_grid.py`` builds; nothing is loaded from elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files
from operator import itemgetter
from typing import Any

import traitlets

from mirror_sdk._visible import TimePrecision, time_precision, time_text
from mirror_sdk.widgets import static
from mirror_sdk.widgets.lazy_module import LazyModule
from mirror_sdk.widgets.models.model import Row
from mirror_sdk.widgets.theme import CSS


class ColumnKind(StrEnum):
    """The type of the cells of a column, which decides how they are aligned, sorted and filtered."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"


class SelectionMode(StrEnum):
    """The number of rows that can be selected."""

    NONE = "none"
    ONE = "one"
    MANY = "many"


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column of a grid.

    Args:
        name: The key of its cells in the rows.
        heading: Its heading, with the unit.
        kind: The type of its cells.
        width: Its width in pixels; by default a share of the remaining width.
        sort: ``"asc"`` or ``"desc"`` if the rows are initially sorted by it.
    """

    name: str
    heading: str
    kind: ColumnKind = ColumnKind.TEXT
    width: int | None = None
    sort: str | None = None


class Grid(LazyModule):
    """A table on the page.

    Args:
        columns: Its columns.
        label: Its title, for screen readers: "Devices".
        height_px: Its height in pixels.
        selection: The number of rows that can be selected.
        empty_text: The text of a table without rows.

    Attributes:
        selected: The keys of the selected rows. It can be set.
        active: ``{"key": ..., "column": ...}`` of the cell with the focus; empty before the first focus.
        search: The search text for all columns.
    """

    _css = CSS
    module_text = (files(__package__) / "grid.js").read_text(encoding="utf-8")

    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    height_px = traitlets.Int().tag(sync=True)
    selection = traitlets.Unicode().tag(sync=True)
    empty_text = traitlets.Unicode().tag(sync=True)
    search = traitlets.Unicode().tag(sync=True)
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
    active = traitlets.Dict().tag(sync=True)
    # All rows, for a page that opens later. Modified in place, so that only the changes are sent to open pages.
    table = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        columns: Sequence[GridColumn],
        *,
        label: str,
        height_px: int = 320,
        selection: SelectionMode = SelectionMode.NONE,
        empty_text: str = "",
    ) -> None:
        self._columns = tuple(columns)
        self._times = [column.name for column in columns if column.kind is ColumnKind.TIME]
        self._rows: dict[str, Row] = {}
        self._precisions: dict[str, TimePrecision] = {}
        self._on_page: dict[str, dict[str, Any]] = {}
        self._table_lock = threading.Lock()
        self._has_page = False
        super().__init__(
            columns=[asdict(column) for column in columns],
            label=label,
            height_px=height_px,
            selection=selection.value,
            empty_text=empty_text,
            table={"version": 0, "rows": []},
            layout={"width": "100%"},
        )
        self.on_msg(self._on_message)

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows. Only rows that changed are sent to the page.

        Args:
            rows: The rows, in their order unless the user sorts them. Each has a unique ``key``, and for each column a
                text, number, boolean or ``None``, or an aware time for a column of times. ``tones`` may have one of
                ``bad``, ``warn``, ``note``, ``good`` and ``dim`` for a column, and ``hints`` the tooltip of its cell.
        """
        current = {str(row["key"]): row for row in rows}
        # Messages of a page arrive on another thread, without the lock of the widget.
        with self._table_lock:
            before, self._rows = self._rows, current
            precisions = {name: time_precision(row.get(name) for row in rows) for name in self._times}
            are_same_precisions = precisions == self._precisions
            self._precisions = precisions
            changed = [row for key, row in current.items() if not are_same_precisions or before.get(key) != row]
            removed = [key for key in before if key not in current]
            # A page appends new rows.
            is_moved = [*(key for key in before if key in current), *(key for key in current if key not in before)] != [
                *current
            ]
            if not changed and not removed and not is_moved:
                return
            self._on_page = {key: self._on_page.get(key, {}) for key in current}
            self._on_page |= {str(row["key"]): _for_page(row, precisions) for row in changed}
            self._send_changes([str(row["key"]) for row in changed], removed, all_of_them=is_moved)
        if removed and self.selected:
            self.selected = [key for key in self.selected if key in current]

    @property
    def rows(self) -> list[Row]:
        """The current rows."""
        return list(self._rows.values())

    @property
    def selected_rows(self) -> list[Row]:
        """The selected rows, in the order of :attr:`rows`."""
        selected = set(self.selected)
        return [row for key, row in self._rows.items() if key in selected]

    def static_html(self, most_rows: int = 50) -> str:
        """Return the table as plain HTML, for a page without a kernel."""
        rows = self._sorted()
        cells = [[row.get(column.name) for column in self._columns] for row in rows[:most_rows]]
        return static.table(self.label, [column.heading for column in self._columns], cells, total=len(rows))

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply the state of a page except its selection, which was sent before and may have changed since."""
        if "selected" in sync_data:
            # The reply still brings the selection to all pages.
            sync_data = sync_data | {"selected": self.selected}
        super().set_state(sync_data)

    def _sorted(self) -> list[Row]:
        """Return the rows in their initial order. Rows without a value are last."""
        rows = self.rows
        for column in self._columns:
            if column.sort is not None:
                filled = [row for row in rows if row.get(column.name) is not None]
                filled.sort(key=itemgetter(column.name), reverse=column.sort == "desc")
                rows = filled + [row for row in rows if row.get(column.name) is None]
        return rows

    def _send_changes(self, changed: Sequence[str], removed: Sequence[str], *, all_of_them: bool) -> None:
        rows = list(self._on_page.values())
        self.table.update(version=self.table["version"] + 1, rows=rows)
        if not self._has_page:
            # A page requests them when it opens. The kernel may receive that request only after the cell has ended, and
            # messages sent before the page has loaded its module would be lost.
            self.send_state("table")
        elif all_of_them or len(changed) == len(rows):
            self.send({**self.table, "all": True})
        else:
            changes = [self._on_page[key] for key in changed]
            self.send({"version": self.table["version"], "rows": changes, "gone": list(removed)})

    def _on_message(self, _: object, content: Any, __: object) -> None:
        """Apply the selection of a page, or send all rows to a page that opens or has missed a version."""
        if not isinstance(content, dict) or "request" in content:
            return
        if "selected" in content:
            self._select(content["selected"])
            return
        with self._table_lock:
            self._has_page = True
            if content.get("have") != self.table["version"]:
                self.send({**self.table, "all": True})

    def _select(self, keys: Any) -> None:
        # Do not send it back, since that could undo a newer selection of the page.
        with self._lock_property(selected=keys):
            self.selected = keys


def _for_page(row: Row, precisions: Mapping[str, TimePrecision]) -> dict[str, Any]:
    return {
        name: time_text(value.astimezone(UTC), precisions.get(name)) if isinstance(value, datetime) else value
        for name, value in row.items()
    }
