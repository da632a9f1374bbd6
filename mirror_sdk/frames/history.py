"""The history table, with one row per event from the history of the service or from a recording."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.typing import NaTType

from mirror_sdk.arrow_tables.columns import concat_columns, documented
from mirror_sdk.arrow_tables.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA
from mirror_sdk.arrow_tables.history import (
    HISTORY_COLUMNS,
    HISTORY_SCHEMA,
    GapInterval,
    HistoryTableBuilder,
    history_of_events,
)
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import EventKind
from mirror_sdk.frames.columns import frame_of, shared_metadata


@documented(HISTORY_COLUMNS)
def history_frame(events: pd.DataFrame, *, raw: bool = False, tz: str | None = None) -> pd.DataFrame:
    """Convert an events table to a history table: one row per event, sorted by device, path and time.

    ``client.history()`` and ``Recording.history()`` return such a table directly. The notification log contains less
    than the history of the service. The result of this function therefore lacks values that other applications read,
    values without a subscription, completed writes, and revisions. ``received_at`` is
    ``logged_at`` or, without it, the time by the client's clock.

    Args:
        events: The result of ``client.notifications.events_frame()`` or ``Recording.events()``.
        raw: Whether to add the columns with payloads. The events table must contain the payloads.
        tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.

    Returns:
        A DataFrame with the columns of :data:`HISTORY_SCHEMA`, even if it has no rows:

        {columns}

        Rows without a device come first. Within a device, rows without a path come before those of its resources.
        ``attrs["mirror"]`` contains ``taken_at``, ``server``, ``devices`` (the number of devices) and ``complete``
        (false if there is a gap).

    Raises:
        InvalidValue: ``events`` lacks a column of an events table, or ``tz`` is not a time zone.

    >>> history_frame(client.notifications.events_frame(after=0, timeout=0))["event"].tolist()
    ['registration', 'registration']
    """
    table = _events_table(events)
    if raw and "value_raw" not in events:
        raise InvalidValue("the table has no value_raw; make it with raw=True")
    builder = HistoryTableBuilder(raw=raw)
    builder.add(history_of_events(table, list(_gap_intervals_in(events)), raw=raw))
    tables, metadata = builder.finish(shared_metadata(events))
    return frame_of(concat_columns(tables), metadata, tz=tz)


_EVENT_COLUMNS = [
    name for name in EVENTS_SCHEMA.names if name in HISTORY_SCHEMA.names and name not in {"status", "category"}
]


def _events_table(events: pd.DataFrame) -> pa.Table:
    """Convert an events table to Arrow, with strings instead of categories."""
    if lacking := [name for name in _EVENT_COLUMNS if name not in events]:
        raise InvalidValue(
            f"the table lacks {lacking[0]}; pass one from client.notifications.events_frame() or Recording.events()"
        )
    names = [name for name in (*_EVENT_COLUMNS, "value_raw") if name in events]
    schema = pa.schema([EVENTS_RAW_SCHEMA.field(name).remove_metadata() for name in names])
    plain = pa.schema([one.with_type(pa.string()) if pa.types.is_dictionary(one.type) else one for one in schema])
    return pa.Table.from_pandas(events[names], preserve_index=False).cast(plain)


def _gap_intervals_in(events: pd.DataFrame) -> Iterator[GapInterval]:
    """Yield the interval of each loss in an events table.

    It extends from the newest entry before the loss to the first later one after the loss. The entries directly next to
    the loss are not always used, because a late entry would make the loss begin too early or end before its start.
    """
    changed = events["changed_at"]
    for row in np.flatnonzero(events["event"] == EventKind.GAP):
        begin, after = changed.iloc[:row].max(), changed.iloc[row + 1 :]
        until = after.min() if pd.isna(begin) else after[after > begin].min()
        yield _instant(begin), _instant(until)


def _instant(at: pd.Timestamp | NaTType) -> datetime | None:
    return None if isinstance(at, NaTType) else at.to_pydatetime()
