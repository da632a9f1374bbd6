"""Tables of what a client has fetched; pandas is an extra and is imported only when a table is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk.device import DeviceObject
from mirror_sdk.events import Event
from mirror_sdk.wire.model import write_timestamp

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_ROWS_AT_A_TIME = 10_000
"""How many rows become a part of the table: to make one of them takes a thread some milliseconds a column."""


class StateParts:
    """The state table of device objects, of some at a time, so that none of them is kept.

    Args:
        paths: Path patterns; ``None`` takes every resource.
        raw: Whether the payloads are columns too.

    Raises:
        ImportError: pandas is not installed.
        ValueRefused: A pattern is not one.
    """

    def __init__(self, *, paths: Sequence[str] | None, raw: bool) -> None:
        from mirror_sdk.frames.state import StateRows, checked_patterns

        self._new_rows = partial(StateRows, paths=checked_patterns(paths), raw=raw)
        self._rows = self._new_rows()
        self._raw = raw
        self._tables: list[pa.Table] = []
        self._device_count = 0
        self._taken_at: datetime | None = None

    def add(self, objects: Iterable[DeviceObject]) -> None:
        """Make the rows of some devices."""
        for device in objects:
            self._device_count += 1
            # The oldest, so that no row is older than the table says it is.
            self._taken_at = min(self._taken_at or device.created_at, device.created_at)
            self._rows.add(device)
            if len(self._rows) >= _ROWS_AT_A_TIME:
                self._tables.append(self._rows.table())
                self._rows = self._new_rows()

    def frame(self, *, tz: str | None, server: str) -> pd.DataFrame:
        """The table of all of them, once; see :func:`mirror_sdk.frames.state_frame`.

        Raises:
            ValueRefused: ``tz`` is no time zone.
        """
        from mirror_sdk.frames.columns import frame_of
        from mirror_sdk.frames.device_batches import taken_apart

        self._tables.append(self._rows.table())
        about = {
            "taken_at": None if self._taken_at is None else write_timestamp(self._taken_at),
            "devices": self._device_count,
            "complete": True,
            "server": server,
        }
        return frame_of(taken_apart(self._tables, raw=self._raw), about, tz=tz)


def events_table(events: Iterable[Event], *, raw: bool, tz: str | None, server: str) -> pd.DataFrame:
    """The events table; see :func:`mirror_sdk.frames.events_frame`.

    Raises:
        ImportError: pandas is not installed.
        ValueRefused: ``tz`` is no time zone.
    """
    from mirror_sdk.frames import events_frame

    return events_frame(events, raw=raw, tz=tz, server=server)
