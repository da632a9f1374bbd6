"""The events table, one row per entry of the notification log."""

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
    """Return the events table: one row per event, in their order. A loss of events is a row with the event ``gap``.

    Args:
        events: Events, such as those of ``client.events()``. The function reads the iterable to its end.
        raw: Whether to add the payloads, as ``value_raw``.
        tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
        server: Address of the service.

    Returns:
        A frame with the columns of :data:`EVENTS_SCHEMA`, even if it has no rows:

        {columns}

        ``attrs["mirror"]`` has ``taken_at`` (the newest ``changed_at``), ``devices`` (their number), ``complete``
        (false if events were lost) and ``server``. For events of ``client.events()`` it also has ``position``, the
        position to continue from.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    tables, metadata = build_events(events, raw=raw).finish(server=server, position=getattr(events, "position", None))
    return frame_of(concat_columns(tables), metadata, tz=tz)
