"""Tables of what a client has fetched; pandas is an extra and is imported only when a table is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mirror_sdk._fork import import_whole
from mirror_sdk.device import DeviceObject
from mirror_sdk.events import Event
from mirror_sdk.wire.model import write_timestamp

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from mirror_sdk.frames.events import EventParts
    from mirror_sdk.frames.state import DeviceRows

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
        import_whole("mirror_sdk.frames.state")
        from mirror_sdk.frames.state import StateRows, checked_patterns

        self._rows = StateRows(paths=checked_patterns(paths), raw=raw)
        self._raw = raw
        self._tables: list[pa.Table] = []

    def rows_of(self, device: DeviceObject) -> DeviceRows:
        """The rows of a device, to be added when it is its turn."""
        return self._rows.of(device)

    def add(self, devices: Iterable[DeviceRows]) -> None:
        """Put the rows of devices behind those there are."""
        for rows in devices:
            self._rows.add(rows)
            if len(self._rows) >= _ROWS_AT_A_TIME:
                self._tables.append(self._rows.pop_table())

    def frame(self, *, tz: str | None, server: str) -> pd.DataFrame:
        """The table of all of them, once; see :func:`mirror_sdk.frames.state_frame`.

        Raises:
            ValueRefused: ``tz`` is no time zone.
        """
        import_whole("mirror_sdk.frames.columns", "mirror_sdk.frames.device_batches")
        from mirror_sdk.frames.columns import frame_of
        from mirror_sdk.frames.device_batches import taken_apart

        self._tables.append(self._rows.pop_table())
        about = {
            "taken_at": None if self._rows.taken_at is None else write_timestamp(self._rows.taken_at),
            "devices": self._rows.device_count,
            "complete": True,
            "server": server,
        }
        return frame_of(taken_apart(self._tables, raw=self._raw), about, tz=tz)


def event_parts(events: Iterable[Event], *, raw: bool) -> EventParts:
    """The parts of the events table; see :func:`mirror_sdk.frames.events_frame`.

    Raises:
        ImportError: pandas is not installed.
    """
    import_whole("mirror_sdk.frames")
    from mirror_sdk.frames.events import parts_of

    return parts_of(events, raw=raw)
