"""The rows of the device events table, one per event. Source: wire.md 9."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mirror_sdk.tables.columns import CATEGORY, INSTANT, table_metadata, to_table
from mirror_sdk.wire.device_events import DeviceEvent

DEVICE_EVENTS_SCHEMA = pa.schema(
    [
        pa.field("event_id", pa.string()),
        pa.field("device_id", CATEGORY),
        pa.field("endpoint_name", CATEGORY),
        pa.field("event", CATEGORY),
        pa.field("changed_at", INSTANT),
        pa.field("state_change", pa.bool_()),
        pa.field("description", CATEGORY),
    ]
)
"""The device events table."""


def device_events_table(events: Sequence[DeviceEvent], *, server: str) -> tuple[list[pa.Table], dict[str, object]]:
    """The table, and what it is based on; see :func:`mirror_sdk.frames.device_events_frame`."""
    device_ids = [event.device_id for event in events]
    columns: dict[str, Sequence[object]] = {
        "event_id": [event.id for event in events],
        "device_id": device_ids,
        "endpoint_name": [None if event.data is None else event.data.endpoint_name for event in events],
        "event": [event.event_type for event in events],
        "changed_at": [event.date_time for event in events],
        "state_change": [event.state_change for event in events],
        "description": [event.description for event in events],
    }
    taken_at = max((event.date_time for event in events), default=None)
    about = table_metadata(device_ids, taken_at, complete=True, server=server)
    return [to_table(columns, DEVICE_EVENTS_SCHEMA)], about
