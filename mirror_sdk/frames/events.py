"""The events table, one row per entry of the notification log. Source: specification 6; wire.md 5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice

import pandas as pd
import pyarrow as pa

from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames.columns import (
    CATEGORY,
    INSTANT,
    based_on,
    fixed_category,
    to_frame,
    to_table,
    value_columns,
    value_fields,
)
from mirror_sdk.frames.units import Unitless, unitless, units_of, with_units
from mirror_sdk.values import NO_VALUE, ValueKind

EVENTS_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64()),
        pa.field("first_seq", pa.int64()),
        pa.field("uid", pa.string()),
        fixed_category("event", [kind.value for kind in EventKind]),
        pa.field("device_id", CATEGORY),
        pa.field("endpoint_name", CATEGORY),
        pa.field("path", CATEGORY),
        pa.field("unit", CATEGORY),
        *value_fields("value"),
        fixed_category("value_kind", [kind.value for kind in ValueKind]),
        pa.field("changed_at", INSTANT),
        pa.field("received_at", INSTANT),
        pa.field("async_id", pa.string()),
        pa.field("status", pa.int16()),
        pa.field("category", CATEGORY),
    ]
)
"""The events table without its raw column."""

EVENTS_RAW_SCHEMA = pa.schema([*EVENTS_SCHEMA, pa.field("value_raw", pa.binary())])
"""The events table with ``raw=True``."""

EVENTS_AT_A_TIME = 100
"""How many events are kept until their values stand in the columns: so few that the garbage collector sees none."""
_ROWS_AT_A_TIME = 10_000

_STATUSES = range(-(2**15), 2**15)
_PLAIN = (
    "seq",
    "first_seq",
    "uid",
    "device_id",
    "endpoint_name",
    "path",
    "unit",
    "changed_at",
    "received_at",
    "async_id",
    "status",
    "category",
)


def events_frame(
    events: Iterable[Event], *, raw: bool = False, tz: str | None = None, server: str = ""
) -> pd.DataFrame:
    """The events table: one row per event, in their order. A loss is a row too, with ``event`` ``gap``.

    Args:
        events: Events, such as ``client.events()`` gives; all are taken.
        raw: Whether the payloads stand in ``value_raw``.
        tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
        server: Where the events came from.

    Returns:
        A frame with these columns, also when it has no rows:

        ==============  ===================  ===========================================================
        column          dtype                meaning
        ==============  ===================  ===========================================================
        seq             Int64                number of the entry in the log; of a gap, the last missing one
        first_seq       Int64                of a gap, the first missing number
        uid             string               the entry's identity, the same however often it is read
        event           category             one of ``EventKind``
        device_id       category             the device it is about
        endpoint_name   category             the name that device registers with
        path            category             the resource path it is about
        unit            category             of ``value_num``, as declared; ``client.events_frame`` adds resource 5701
        value_num       Float64              a number, rounded to the nearest float past 2**53
        value_text      string               a text, an object link, or a time in RFC 3339
        value_bool      boolean              a boolean
        value_kind      category             what the value is: one of ``ValueKind``
        changed_at      datetime64[ms, UTC]  when the value changed, as the device tells it, or it happened
        received_at     datetime64[ms, UTC]  when this client received it, by its own clock
        async_id        string               the device request an async response belongs to
        status          Int16                status of an async response
        category        category             why a device request failed
        value_raw       object               payload (bytes), with ``raw=True`` only
        ==============  ===================  ===========================================================

        ``attrs["mirror"]`` holds ``taken_at``, the newest ``changed_at``, ``devices``, how many they are about,
        ``complete``, false when something was lost, ``server``, and of what ``client.events()`` gave ``position``, the
        number to go on behind.

    Raises:
        ValueRefused: ``tz`` is no time zone.

    Source: specification 6; wire.md 5.
    """
    return parts_of(events, raw=raw).frame(tz=tz, server=server, position=getattr(events, "position", None))


def parts_of(events: Iterable[Event], *, raw: bool) -> EventParts:
    """All of some events."""
    parts = EventParts(raw=raw)
    each_event = iter(events)
    while some := list(islice(each_event, EVENTS_AT_A_TIME)):
        parts.add(some)
    return parts


class EventParts:
    """The events table, of some events at a time, so that none of them is kept.

    Args:
        raw: Whether the payloads are a column too.
    """

    def __init__(self, *, raw: bool) -> None:
        self._schema = EVENTS_RAW_SCHEMA if raw else EVENTS_SCHEMA
        self._columns = event_columns([])
        self._tables: list[pa.Table] = []
        self._complete = True
        self._taken_at: datetime | None = None

    def add(self, events: Sequence[Event]) -> None:
        """Make the rows of some events, which follow those before."""
        for name, values in event_columns(events).items():
            self._columns[name] += values
        self._complete = self._complete and all(event.kind is not EventKind.GAP for event in events)
        changes = filter(None, [self._taken_at, *(event.changed_at for event in events)])
        self._taken_at = max(changes, default=None)
        if len(self._columns["seq"]) >= _ROWS_AT_A_TIME:
            self._end_table()

    def unitless(self) -> Unitless | None:
        """Which resources are in a unit that their devices name, once all events were added."""
        self._end_table()
        return unitless(pa.concat_tables(self._tables))

    def frame(
        self, *, tz: str | None, server: str, position: int | None, state: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """The table of all of them, once; see :func:`events_frame`.

        Args:
            tz: Time zone of the time columns.
            server: Where the events came from.
            position: The number to go on behind.
            state: A state table that tells the units which devices name.

        Raises:
            ValueRefused: ``tz`` is no time zone.
        """
        self._end_table()
        table = pa.concat_tables(self._tables)
        device_ids = table["device_id"].unique().to_pylist()
        about = based_on(device_ids, self._taken_at, complete=self._complete, server=server)
        frame = to_frame(table, about if position is None else {**about, "position": position}, tz=tz)
        if state is not None:
            with_units(frame, units_of(state))
        return frame

    def _end_table(self) -> None:
        self._tables.append(to_table(self._columns, self._schema))
        self._columns = event_columns([])


def event_columns(events: Iterable[Event]) -> dict[str, list[object]]:
    """The columns of the events table, ``value_raw`` among them; of many events only a few are kept at a time."""
    columns = _columns_of([])
    each_event = iter(events)
    while some := list(islice(each_event, EVENTS_AT_A_TIME)):
        for name, values in _columns_of(some).items():
            columns[name] += values
    return columns


def _columns_of(rows: Sequence[Event]) -> dict[str, list[object]]:
    values = [event.value or NO_VALUE for event in rows]
    columns: dict[str, list[object]] = {name: _told(name, rows) for name in _PLAIN}
    columns |= value_columns("value", values)
    columns["event"] = [event.kind.value for event in rows]
    columns["value_kind"] = [value.kind.value for value in values]
    columns["value_raw"] = [value.raw for value in values]
    return columns


def _told(name: str, rows: Sequence[Event]) -> list[object]:
    """A plain column. A service may tell texts and numbers that no table takes, which must keep no other event out."""
    told = [getattr(event, name) for event in rows]
    if name == "status":
        return [one if one in _STATUSES else None for one in told]
    return [
        one.encode(errors="backslashreplace").decode() if isinstance(one, str) and not one.isascii() else one
        for one in told
    ]
