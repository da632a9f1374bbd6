"""The device events table: one row per registration, registration update or deregistration."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from mirror_sdk.arrow_tables.columns import concat_columns, documented
from mirror_sdk.arrow_tables.device_events import DEVICE_EVENTS_COLUMNS, device_events_table
from mirror_sdk.frames.columns import frame_of
from mirror_sdk.wire.device_events import DeviceEvent


@documented(DEVICE_EVENTS_COLUMNS)
def device_events_frame(events: Iterable[DeviceEvent], *, tz: str | None = None, server: str = "") -> pd.DataFrame:
    """Return the table of device events: one row per event, in the order of the events.

    Args:
        events: The result of ``client.devices.events()``.
        tz: The time zone of the time column, such as ``Europe/Berlin``; UTC by default.
        server: The address of the service.

    Returns:
        A DataFrame with the columns of :data:`DEVICE_EVENTS_SCHEMA`, even if it has no rows:

        {columns}

        ``attrs["mirror"]`` contains ``taken_at`` (the time of the newest event), ``devices`` (the number of devices),
        ``complete`` (always true) and ``server``. The operator decides how long the service stores device events.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    tables, metadata = device_events_table(list(events), server=server)
    return frame_of(concat_columns(tables), metadata, tz=tz)
