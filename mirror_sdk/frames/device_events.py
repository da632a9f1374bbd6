"""The device events table: one row per registration, update or end of one. Source: wire.md 9."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from mirror_sdk.frames.columns import frame_of
from mirror_sdk.tables.columns import concat_columns, documented
from mirror_sdk.tables.device_events import DEVICE_EVENTS_COLUMNS, device_events_table
from mirror_sdk.wire.device_events import DeviceEvent


@documented(DEVICE_EVENTS_COLUMNS)
def device_events_frame(events: Iterable[DeviceEvent], *, tz: str | None = None, server: str = "") -> pd.DataFrame:
    """The table of device events, one row per event, in their order.

    Args:
        events: What ``client.devices.events()`` gave.
        tz: Time zone of the time column, such as ``Europe/Berlin``; UTC by default.
        server: Where they came from.

    Returns:
        A frame with these columns, those of :data:`DEVICE_EVENTS_SCHEMA`, also when it has no rows:

        {columns}

        ``attrs["mirror"]`` holds ``taken_at``, the newest of these instants, ``devices``, how many occur, ``complete``,
        which is true, and ``server``. How far back the list goes is the operator's choice.

    Raises:
        InvalidValue: ``tz`` is not a time zone.

    Source: wire.md 9.
    """
    tables, metadata = device_events_table(list(events), server=server)
    return frame_of(concat_columns(tables), metadata, tz=tz)
