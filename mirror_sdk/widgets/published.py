"""The rows and series that a widget shows. Each sends only its changes to the pages that are open.

A page that opens, or that missed a version, requests everything.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mirror_sdk.widgets.models.model import Row

_LARGEST_EXACT = 2**53

Send: TypeAlias = Callable[[dict[str, Any], list[memoryview]], object]
"""Sends a message with buffers to the open pages."""

Numbers: TypeAlias = npt.NDArray[np.float64]
Points: TypeAlias = tuple[Numbers, Numbers]
"""Milliseconds since 1970 in order, and a number for each. ``NaN`` interrupts the line."""


class PublishedRows:
    """The rows of a table.

    Args:
        name: Its name on the page.
        send: Sends a message to the pages.
    """

    def __init__(self, name: str, send: Send) -> None:
        self._name = name
        self._send = send
        self._rows: dict[str, Row] = {}
        self._on_page: dict[str, dict[str, Any]] = {}
        self._version = 0
        # Requests of a page arrive on another thread, without the lock of the widget.
        self._lock = threading.Lock()

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows.

        Args:
            rows: The rows, in their order unless the user sorts them. Each has a unique ``key``, and for each column
                JSON or an aware time. ``tones`` may have a tone for a column, and ``hints`` the tooltip of its cell.
        """
        current = {str(row["key"]): row for row in rows}
        with self._lock:
            before, self._rows = self._rows, current
            changed = [key for key, row in current.items() if before.get(key) is not row and before.get(key) != row]
            removed = [key for key in before if key not in current]
            # A page appends new rows.
            expected = [*(key for key in before if key in current), *(key for key in current if key not in before)]
            is_moved = expected != [*current]
            if not changed and not removed and not is_moved:
                return
            self._on_page = {key: self._on_page.get(key, {}) for key in current}
            self._on_page |= {key: _for_page(current[key]) for key in changed}
            self._version += 1
            if is_moved or len(changed) == len(current):
                self._send_all()
            else:
                rows_sent = [self._on_page[key] for key in changed]
                self._send(self._message(rows=rows_sent, gone=removed), [])

    @property
    def rows(self) -> list[Row]:
        """The current rows."""
        return list(self._rows.values())

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def send_all(self) -> None:
        """Send all rows, to a page that opens."""
        with self._lock:
            self._send_all()

    @property
    def state(self) -> dict[str, Any]:
        """All rows, as the page gets them with the state of the widget."""
        with self._lock:
            return {"version": self._version, "rows": list(self._on_page.values())}

    def _send_all(self) -> None:
        self._send(self._message(rows=list(self._on_page.values()), all=True), [])

    def _message(self, **content: Any) -> dict[str, Any]:
        return {"tell": "rows", "name": self._name, "version": self._version, **content}


class PublishedSeries:
    """The points of several lines.

    Args:
        name: Its name on the page.
        send: Sends a message to the pages.
    """

    def __init__(self, name: str, send: Send) -> None:
        self._name = name
        self._send = send
        self._lines: dict[str, Points] = {}
        self._version = 0
        self._lock = threading.Lock()

    def show(self, lines: Mapping[str, Points]) -> None:
        """Show these lines. Of a line that only became longer, only the new points are sent."""
        with self._lock:
            before, self._lines = self._lines, dict(lines)
            heads: list[dict[str, Any]] = []
            buffers: list[memoryview] = []
            for key, points in lines.items():
                dropped = _dropped(before.get(key), points)
                if dropped is None:
                    heads.append({"key": key})
                    added = points
                else:
                    shared = len(before[key][0]) - dropped
                    if not dropped and shared == len(points[0]):
                        continue
                    heads.append({"key": key, "dropped": dropped})
                    added = points[0][shared:], points[1][shared:]
                buffers += map(_bytes, added)
            removed = [key for key in before if key not in lines]
            if heads or removed:
                self._version += 1
                self._send(self._message(lines=heads, gone=removed), buffers)

    def send_all(self) -> None:
        """Send all points, to a page that opens."""
        with self._lock:
            heads = [{"key": key} for key in self._lines]
            buffers = [_bytes(one) for points in self._lines.values() for one in points]
            self._send(self._message(lines=heads, all=True), buffers)

    @property
    def state(self) -> dict[str, Any]:
        """All points, as the page gets them with the state of the widget."""
        with self._lock:
            lines = [{"key": key} for key in self._lines]
            buffers = [_bytes(one) for points in self._lines.values() for one in points]
            return {"version": self._version, "lines": lines, "buffers": buffers}

    def _message(self, **content: Any) -> dict[str, Any]:
        return {"tell": "series", "name": self._name, "version": self._version, **content}


def _dropped(before: Points | None, points: Points) -> int | None:
    """Return how many points the line lost at its beginning, if it otherwise only got new ones at its end."""
    if before is None or not len(before[0]) or not len(points[0]):
        return None
    dropped = int(np.searchsorted(before[0], points[0][0]))
    shared = len(before[0]) - dropped
    if not 0 < shared <= len(points[0]):
        return None
    is_same = all(
        np.array_equal(old[dropped:], new[:shared], equal_nan=True) for old, new in zip(before, points, strict=True)
    )
    return dropped if is_same else None


def _bytes(numbers: Numbers) -> memoryview:
    return memoryview(np.asarray(numbers, dtype="<f8").tobytes())


def _for_page(row: Row) -> dict[str, Any]:
    return {name: _json(value) for name, value in row.items()}


def _json(value: Any) -> Any:
    match value:
        case datetime():
            return round(value.timestamp() * 1000)
        # JSON has no such numbers, and JavaScript would round others.
        case float() if not math.isfinite(value):
            return str(value)
        case int() if abs(value) > _LARGEST_EXACT:
            return str(value)
    return value
