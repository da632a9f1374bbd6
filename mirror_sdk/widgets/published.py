"""The rows and series that a widget displays.

Each sends only its changes to the pages that are open. A page that opens, or that missed a version, requests the entire
content.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias

import numpy as np

from mirror_sdk.widgets.models.lines import Numbers
from mirror_sdk.widgets.models.model import Row
from mirror_sdk.widgets.models.past_values import milliseconds
from mirror_sdk.widgets.models.status import Status

_LARGEST_EXACT = 2**53
_PLAIN = frozenset({str, bool, type(None)})

Send: TypeAlias = Callable[[dict[str, Any], list[memoryview]], object]
"""A function that sends a message with buffers to the open pages."""

Points: TypeAlias = tuple[Numbers, Numbers]
"""Sorted times in milliseconds since 1970, and a number for each time.

``NaN`` interrupts the line.
"""


class Published(ABC):
    """Content with a version, which increases with each change.

    Args:
        name: The name of the content on the page.
        send: A function that sends a message to the pages.
    """

    _kind: ClassVar[str]

    def __init__(self, name: str, send: Send) -> None:
        self._name = name
        self._send = send
        self._version = 0
        self._content: Mapping[str, Any] = {}
        # Requests of a page arrive on another thread, without the lock of the widget.
        self._lock = threading.RLock()

    @property
    def state(self) -> dict[str, Any]:
        """The entire content, in the form in which it is a part of the widget's state."""
        with self._lock:
            return self._message(all=True, **self._everything())

    def send_all(self) -> None:
        """Send the entire content to the pages, for example because a page was opened."""
        with self._lock:
            message = self.state
            self._send(message, message.pop("buffers", []))

    @abstractmethod
    def _everything(self) -> dict[str, Any]:
        """Return the message with the entire content."""

    def _message(self, **content: Any) -> dict[str, Any]:
        return {"kind": self._kind, "name": self._name, "version": self._version, **content}


class PublishedRows(Published):
    """The rows of a table."""

    _kind = "rows"

    def show(self, rows: Sequence[Row]) -> None:
        """Display these rows.

        Args:
            rows: The rows, in the order in which they are displayed unless the user sorts them. Each row has a unique
                ``key``, and for each column a value for :func:`as_json`. ``tones`` may contain a tone for a column, and
                ``hints`` the tooltip of the cell.
        """
        current = {str(row["key"]): row for row in rows}
        with self._lock:
            before, self._content = self._content, current
            changed = [row for key, row in current.items() if before.get(key) is not row and before.get(key) != row]
            removed = [key for key in before if key not in current]
            # The page appends new rows.
            is_moved = [*({key: before[key] for key in before if key in current} | current)] != [*current]
            if changed or removed or is_moved:
                self._version += 1
                if is_moved or len(changed) == len(current):
                    self.send_all()
                else:
                    self._send(self._message(rows=[*map(_for_page, changed)], gone=removed), [])

    @property
    def rows(self) -> list[Row]:
        """The current rows."""
        return list(self._content.values())

    def _everything(self) -> dict[str, Any]:
        return {"rows": [*map(_for_page, self._content.values())]}


class PublishedSeries(Published):
    """The points of several lines."""

    _kind = "series"

    def show(self, lines: Mapping[str, Points]) -> None:
        """Display these lines. If a line only became longer, only its new points are sent."""
        with self._lock:
            before, self._content = self._content, dict(lines)
            heads: list[dict[str, Any]] = []
            buffers: list[memoryview] = []
            for key, points in lines.items():
                dropped, shared = _overlap(before.get(key), points)
                if not shared:
                    heads.append({"key": key})
                elif dropped or shared < len(points[0]):
                    heads.append({"key": key, "dropped": dropped})
                else:
                    continue
                buffers += [_bytes(numbers[shared:]) for numbers in points]
            removed = [key for key in before if key not in lines]
            if heads or removed:
                self._version += 1
                self._send(self._message(lines=heads, gone=removed), buffers)

    def _everything(self) -> dict[str, Any]:
        buffers = [_bytes(numbers) for points in self._content.values() for numbers in points]
        return {"lines": [{"key": key} for key in self._content], "buffers": buffers}


def as_json(value: Any) -> Any:
    """Convert a value to JSON that JavaScript reads exactly. Times and durations are in milliseconds."""
    if type(value) in _PLAIN:
        # Most cells of large tables have such values.
        return value
    if is_dataclass(value):
        value = {camel(field.name): getattr(value, field.name) for field in fields(value)}
    match value:
        case dict():
            value = {name: as_json(one) for name, one in value.items()}
        case list() | tuple():
            value = [as_json(one) for one in value]
        case datetime():
            value = milliseconds(value)
        case timedelta():
            value /= timedelta(milliseconds=1)
        case Status():
            value = value.word
        # JSON does not support such numbers, and JavaScript would round other ones.
        case float() if not math.isfinite(value):
            value = str(value)
        case int() if abs(value) > _LARGEST_EXACT:
            value = str(value)
    return value


def camel(name: str) -> str:
    """Return the name of an attribute in the style of TypeScript, such as ``devicesText`` for ``devices.text``."""
    first, *others = name.replace(".", "_").split("_")
    return first + "".join(map(str.capitalize, others))


def _for_page(row: Row) -> dict[str, Any]:
    # Sparklines, tones and hints are already JSON.
    return {name: value if isinstance(value, dict) else as_json(value) for name, value in row.items()}


def _overlap(before: Points | None, points: Points) -> tuple[int, int]:
    """Return the number of points that a line lost at its start, and the number of points that it kept after them.

    Both numbers are 0 if the line changed in another way.
    """
    if before is None or not len(before[0]) or not len(points[0]):
        return 0, 0
    dropped = int(np.searchsorted(before[0], points[0][0]))
    shared = len(before[0]) - dropped
    is_same = 0 < shared <= len(points[0]) and all(
        np.array_equal(old[dropped:], new[:shared], equal_nan=True) for old, new in zip(before, points, strict=True)
    )
    return (dropped, shared) if is_same else (0, 0)


def _bytes(numbers: Numbers) -> memoryview:
    return memoryview(np.asarray(numbers, dtype="<f8").tobytes())
