"""The state table of devices that are read one by one, so that none of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from mirror_sdk._arguments import path_patterns
from mirror_sdk.tables.state import DeviceRows, DeviceState, StateRows
from mirror_sdk.wire.model import write_timestamp

_ROWS_AT_A_TIME = 10_000
"""How many rows become a part of the table: to make one of them takes a thread some milliseconds a column."""


class StateParts:
    """Makes the state table of device objects in parts, so that no device object stays in memory.

    Args:
        keep: Accepts the parts, in order; there is at least one.
        paths: Path patterns; ``None`` takes every resource.
        raw: Whether the payloads are columns too.

    Raises:
        InvalidValue: A pattern is not one.
    """

    def __init__(self, keep: Callable[[pa.Table], object], *, paths: Sequence[str] | None, raw: bool) -> None:
        self._keep = keep
        self._rows = StateRows(paths=path_patterns(paths), raw=raw)

    def rows_of(self, device: DeviceState) -> DeviceRows:
        """The rows of a device, to be added when it is its turn."""
        return self._rows.of(device)

    def add(self, devices: Iterable[DeviceRows]) -> None:
        """Put the rows of devices behind those there are."""
        for rows in devices:
            self._rows.add(rows)
            if len(self._rows) >= _ROWS_AT_A_TIME:
                self._keep(self._rows.pop_table())

    def finish(self) -> tuple[str | None, int]:
        """Return when the first device was read, by the service's clock, and the number of devices."""
        self._keep(self._rows.pop_table())
        taken_at = None if self._rows.taken_at is None else write_timestamp(self._rows.taken_at)
        return taken_at, self._rows.device_count
