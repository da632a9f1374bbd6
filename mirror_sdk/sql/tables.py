"""The columns of the views, and the tables that are not fetched in the form of a view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from mirror_sdk.arrow_tables.columns import to_table
from mirror_sdk.arrow_tables.device_events import DEVICE_EVENTS_SCHEMA
from mirror_sdk.arrow_tables.events import EVENTS_SCHEMA
from mirror_sdk.arrow_tables.history import HISTORY_SCHEMA
from mirror_sdk.arrow_tables.state import DIRECTORY_COLUMNS, DIRECTORY_SCHEMA, STATE_SCHEMA
from mirror_sdk.frames.drift import DRIFT_SCHEMA, drift_frame
from mirror_sdk.frames.requests import REQUESTS_SCHEMA
from mirror_sdk.table_formats import to_pandas
from mirror_sdk.wire.directory import Device

if TYPE_CHECKING:
    import pandas as pd

DEVICES_SCHEMA = DIRECTORY_SCHEMA.append(pa.field("attributes", pa.map_(pa.string(), pa.string())))
"""The columns of the table of devices, and all custom attributes as a map."""

SERVICE_VIEWS: Mapping[str, pa.Schema] = {
    "devices": DEVICES_SCHEMA,
    "state": STATE_SCHEMA,
    "drift": DRIFT_SCHEMA,
    "requests": REQUESTS_SCHEMA,
    "events": EVENTS_SCHEMA,
    "history": HISTORY_SCHEMA,
    "device_events": DEVICE_EVENTS_SCHEMA,
}
"""The views of a service."""


def devices_table(devices: Iterable[Device]) -> pa.Table:
    """Return the rows of the view ``devices``."""
    rows = list(devices)
    columns = {column.name: list(map(attrgetter(column.source), rows)) for column in DIRECTORY_COLUMNS}
    columns["attributes"] = [
        [(name, str(value)) for name, value in sorted(device.custom_attributes.items())] for device in rows
    ]
    return to_table(columns, DEVICES_SCHEMA)


def drift_table(tables: list[pa.Table], metadata: Mapping[str, object]) -> pa.Table:
    """Return the rows of the view ``drift`` for a state table."""
    return table_of_frame(drift_frame(to_pandas(tables, metadata)), "drift")


def table_of_frame(frame: pd.DataFrame, view: str) -> pa.Table:
    """Return the rows of a pandas table with the columns of a view."""
    return pa.Table.from_pandas(frame, schema=SERVICE_VIEWS[view], preserve_index=False).replace_schema_metadata(None)
