"""The events table, with one row per entry of the notification log."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from mirror_sdk.arrow_tables.columns import concat_columns, documented
from mirror_sdk.arrow_tables.events import EVENTS_COLUMNS, build_events
from mirror_sdk.events import Event
from mirror_sdk.frames.columns import frame_of


@documented(EVENTS_COLUMNS)
def events_frame(
    events: Iterable[Event], *, raw: bool = False, tz: str | None = None, server: str = ""
) -> pd.DataFrame:
    """Return the events table: one row per event, in the order of the events.

    A loss of events is a row with the event ``gap``.

    Args:
        events: The events, such as those of ``client.events()``. The function reads the iterable to its end.
        raw: Whether to add the column ``value_raw`` with the payloads.
        tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
        server: The address of the service.

    Returns:
        A DataFrame with the columns of :data:`EVENTS_SCHEMA`, even if it has no rows:

        {columns}

        ``attrs["mirror"]`` contains ``taken_at`` (the newest ``changed_at``), ``devices`` (the number of devices),
        ``complete`` (false if events were lost) and ``server``. For events of ``client.events()``, it also contains
        ``position``, which is the position in the log to continue from.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    tables, metadata = build_events(events, raw=raw).finish(server=server, position=getattr(events, "position", None))
    return frame_of(concat_columns(tables), metadata, tz=tz)
