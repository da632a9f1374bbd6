"""The state table of devices that are read one by one, so that none of them is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from mirror_sdk._arguments import path_patterns
from mirror_sdk.tables.state import DeviceRows, DeviceState, StateRows
from mirror_sdk.wire.model import write_timestamp

_ROWS_AT_A_TIME = 10_000
"""How many rows become a part of the table: to make one of them takes a thread some milliseconds a column."""


class StateParts:
    """The state table of device objects, of some at a time, so that none of them is kept.

    Args:
        paths: Path patterns; ``None`` takes every resource.
        raw: Whether the payloads are columns too.

    Raises:
        InvalidValue: A pattern is not one.
    """

    def __init__(self, *, paths: Sequence[str] | None, raw: bool) -> None:
        self._rows = StateRows(paths=path_patterns(paths), raw=raw)
        self._tables: list[pa.Table] = []

    def rows_of(self, device: DeviceState) -> DeviceRows:
        """The rows of a device, to be added when it is its turn."""
        return self._rows.of(device)

    def add(self, devices: Iterable[DeviceRows]) -> None:
        """Put the rows of devices behind those there are."""
        for rows in devices:
            self._rows.add(rows)
            if len(self._rows) >= _ROWS_AT_A_TIME:
                self._tables.append(self._rows.pop_table())

    def finish(self, *, server: str) -> tuple[list[pa.Table], dict[str, object]]:
        """The parts of the table of all of them, and what it is based on; see :func:`mirror_sdk.frames.state_frame`."""
        self._tables.append(self._rows.pop_table())
        about: dict[str, object] = {
            "taken_at": None if self._rows.taken_at is None else write_timestamp(self._rows.taken_at),
            "devices": self._rows.device_count,
            "complete": True,
            "server": server,
        }
        return self._tables, about
