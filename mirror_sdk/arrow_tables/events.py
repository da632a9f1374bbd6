"""The rows of the events table, with one row per entry of the notification log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import (
    CATEGORY,
    INSTANT,
    NUMBER_MEANING,
    TEXT_MEANING,
    TableColumn,
    Words,
    schema_of,
    table_metadata,
    to_table,
    value_columns,
)
from mirror_sdk.arrow_tables.history import has_gap
from mirror_sdk.arrow_tables.units import NamedUnits, Unitless, names_unit, unitless, with_units
from mirror_sdk.events import Event, EventKind
from mirror_sdk.values import NO_VALUE, ValueKind

EVENTS_COLUMNS = (
    TableColumn("seq", pa.int64(), "number of the entry in the log; for a gap, the last missing number", "seq"),
    TableColumn("first_seq", pa.int64(), "for a gap, the first missing number", "first_seq"),
    TableColumn("uid", pa.string(), "unique id of the entry, the same each time it is read", "uid"),
    TableColumn("event", Words([kind.value for kind in EventKind]), "one of ``EventKind``"),
    TableColumn("device_id", CATEGORY, "the device", "device_id"),
    TableColumn("endpoint_name", CATEGORY, "the endpoint name of the device", "endpoint_name"),
    TableColumn("path", CATEGORY, "the resource path", "path"),
    TableColumn(
        "unit",
        CATEGORY,
        "declared unit of ``value_num``; without one, ``client.notifications.events_frame()`` uses resource 5701",
        "unit",
    ),
    TableColumn("value_num", pa.float64(), NUMBER_MEANING),
    TableColumn("value_text", pa.string(), TEXT_MEANING),
    TableColumn("value_bool", pa.bool_(), "a boolean"),
    TableColumn("value_kind", Words([kind.value for kind in ValueKind]), "what the value is: one of ``ValueKind``"),
    TableColumn(
        "changed_at",
        INSTANT,
        "when the value changed, by the device's clock; for other events, when they happened",
        "changed_at",
    ),
    TableColumn("received_at", INSTANT, "when this client received the event, by its own clock", "received_at"),
    TableColumn("async_id", pa.string(), "id of the device request to which an async response belongs", "async_id"),
    TableColumn("status", pa.int16(), "status of an async response", "status"),
    TableColumn("category", CATEGORY, "why a device request failed", "category"),
    TableColumn(
        "logged_at",
        INSTANT,
        "when the service added the entry to the log, by its clock; NA if it does not send this time",
        "logged_at",
    ),
    TableColumn("value_raw", pa.binary(), "payload (bytes)", is_raw=True),
)
"""The columns of the events table. The source of a column is an attribute of :class:`mirror_sdk.Event`."""

EVENTS_SCHEMA = schema_of(EVENTS_COLUMNS)
"""The schema of the events table without its raw column."""

EVENTS_RAW_SCHEMA = schema_of(EVENTS_COLUMNS, raw=True)
"""The schema of the events table with ``raw=True``."""

EVENTS_AT_A_TIME = 100
"""The number of events that are in memory before they become columns.

It is too small to trigger the garbage collector.
"""
_ROWS_AT_A_TIME = 10_000

_LEAST_STATUS, _MOST_STATUS = -(2**15), 2**15 - 1
_PLAIN = [column.source for column in EVENTS_COLUMNS if column.source]


def build_events(events: Iterable[Event], *, raw: bool) -> EventsTableBuilder:
    """Return a builder that contains all of the events."""
    builder = EventsTableBuilder(raw=raw)
    remaining = iter(events)
    while batch := list(islice(remaining, EVENTS_AT_A_TIME)):
        builder.add(batch)
    return builder


class EventsTableBuilder:
    """A builder of the events table.

    It converts the events in batches and does not store them.

    Args:
        raw: Whether to add the columns with payloads.
    """

    def __init__(self, *, raw: bool) -> None:
        self._schema = EVENTS_RAW_SCHEMA if raw else EVENTS_SCHEMA
        self._columns = event_columns([])
        self._tables: list[pa.Table] = []
        self._naming: list[Event] = []

    def add(self, events: Sequence[Event]) -> None:
        """Append the rows of a batch of events."""
        for name, values in event_columns(events).items():
            self._columns[name] += values
        if len(self._columns["seq"]) >= _ROWS_AT_A_TIME:
            self._end_table()

    def skip(self, event: Event) -> None:
        """Record an event that does not become a row of the table, but may contain the unit of rows."""
        if event.path is not None and names_unit(event.path):
            self._naming.append(event)

    def unitless(self) -> Unitless | None:
        """Return the resources whose units come from their devices. Call it after all events were added."""
        self._end_table()
        # Each table has a separate dictionary, and Arrow cannot group rows by several dictionaries.
        return unitless(pa.concat_tables(self._tables).unify_dictionaries())

    def finish(
        self, *, server: str, position: int | None, state: pa.Table | None = None
    ) -> tuple[list[pa.Table], dict[str, object]]:
        """Return the table of all events and its metadata; see :func:`mirror_sdk.frames.events_frame`.

        Args:
            server: The address of the service.
            position: The position in the log to continue from.
            state: A state table with the units that devices reported.
        """
        self._end_table()
        table = pa.concat_tables(self._tables)
        device_ids = table["device_id"].unique().to_pylist()
        taken_at = pc.max(table["changed_at"]).as_py()
        metadata = table_metadata(device_ids, taken_at, complete=not has_gap(table), server=server)
        if position is not None:
            metadata["position"] = position
        if state is not None:
            naming = to_table(event_columns(self._naming), self._schema)
            table = with_units(table, NamedUnits(state, rows=pa.concat_tables([table, naming])))
        return [table], metadata

    def _end_table(self) -> None:
        self._tables.append(to_table(self._columns, self._schema))
        self._columns = event_columns([])


def event_columns(events: Iterable[Event]) -> dict[str, list[object]]:
    """Return the columns of the events table, including ``value_raw``. The events are read in batches."""
    columns = _columns_of([])
    remaining = iter(events)
    while batch := list(islice(remaining, EVENTS_AT_A_TIME)):
        for name, values in _columns_of(batch).items():
            columns[name] += values
    return columns


def _columns_of(rows: Sequence[Event]) -> dict[str, list[object]]:
    values = [event.value or NO_VALUE for event in rows]
    columns: dict[str, list[object]] = {name: _copied(name, rows) for name in _PLAIN}
    columns |= value_columns("value", values)
    columns["event"] = [event.kind.value for event in rows]
    columns["value_kind"] = [value.kind.value for value in values]
    columns["value_raw"] = [value.raw for value in values]
    return columns


def _copied(name: str, rows: Sequence[Event]) -> list[object]:
    """Copy an attribute to a column.

    If Arrow cannot store a string or number, only that event is affected.
    """
    cells = [getattr(event, name) for event in rows]
    if name == "status":
        return [one if isinstance(one, int) and _LEAST_STATUS <= one <= _MOST_STATUS else None for one in cells]
    return [
        # Lone surrogates are valid in JSON but not in UTF-8.
        one.encode(errors="backslashreplace").decode() if isinstance(one, str) and not one.isascii() else one
        for one in cells
    ]
