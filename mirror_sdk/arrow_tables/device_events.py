"""The rows of the device events table, with one row per event."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import pyarrow as pa

from mirror_sdk.arrow_tables.columns import CATEGORY, INSTANT, TableColumn, schema_of, table_metadata, to_table
from mirror_sdk.wire.device_events import DeviceEvent

DEVICE_EVENTS_COLUMNS = (
    TableColumn("event_id", pa.string(), "the event; later events have greater ids", "id"),
    TableColumn("device_id", CATEGORY, "the device", "device_id"),
    TableColumn("endpoint_name", CATEGORY, "the current endpoint name of the device"),
    TableColumn(
        "event", CATEGORY, "registration, reg_update, deregistration or expired; more may be added", "event_type"
    ),
    TableColumn("changed_at", INSTANT, "when the event happened, by the clock of the service", "date_time"),
    TableColumn(
        "state_change",
        pa.bool_(),
        "whether the device was registered afterwards and not before, or vice versa",
        "state_change",
    ),
    TableColumn("description", CATEGORY, "what happened, in the words of the service", "description"),
)
"""The columns of the device events table.

The source of a column is a member of :class:`mirror_sdk.wire.device_events.DeviceEvent`.
"""

DEVICE_EVENTS_SCHEMA = schema_of(DEVICE_EVENTS_COLUMNS)
"""The schema of the device events table."""


def device_events_table(events: Sequence[DeviceEvent], *, server: str) -> tuple[list[pa.Table], dict[str, object]]:
    """Return the table and its metadata; see :func:`mirror_sdk.frames.device_events_frame`."""
    columns = {one.name: list(map(attrgetter(one.source), events)) for one in DEVICE_EVENTS_COLUMNS if one.source}
    columns["endpoint_name"] = [None if event.data is None else event.data.endpoint_name for event in events]
    taken_at = max((event.date_time for event in events), default=None)
    metadata = table_metadata(columns["device_id"], taken_at, complete=True, server=server)
    return [to_table(columns, DEVICE_EVENTS_SCHEMA)], metadata
