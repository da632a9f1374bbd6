"""The rows of the history table, with one row per event.

The events come from the history of the service or from the notification log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import (
    CATEGORY,
    INSTANT,
    NUMBER_MEANING,
    TEXT_MEANING,
    TableColumn,
    Words,
    categories_of,
    fixed_category_array,
    occurring,
    own,
    schema_of,
    words_at,
)
from mirror_sdk.arrow_tables.payload_columns import read_payloads
from mirror_sdk.arrow_tables.units import NamedUnits, Unitless, declared_units, unitless, with_units
from mirror_sdk.errors import failure_reason
from mirror_sdk.events import EventKind
from mirror_sdk.values import ValueKind
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.history import EVENT_KINDS, ORIGINS

HISTORY_EVENTS = tuple("write" if word == "desired" else word for word in EVENT_KINDS)
"""The kinds of events in the table. The interface calls the completion of a write ``desired``."""

HISTORY_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device; NA in a gap of the service itself", "device_id"),
    TableColumn("endpoint_name", CATEGORY, "the endpoint name of the device", "endpoint_name"),
    TableColumn("path", CATEGORY, "resource path; NA for events of the device itself"),
    TableColumn(
        "unit",
        CATEGORY,
        "unit of ``value_num``: the declared one, or the one that the device reported in resource 5701 up to then",
    ),
    TableColumn(
        "changed_at",
        INSTANT,
        "when the event happened, by the device's clock if it sent a time; for a gap, its start",
        "changed_at",
    ),
    TableColumn(
        "received_at",
        INSTANT,
        "when the service received the event; in a recording of a service that does not send it, when the client did",
        "received_at",
    ),
    TableColumn(
        "event",
        Words(HISTORY_EVENTS, sent=EVENT_KINDS),
        "reported, write (a completed one), registration, reg_update, deregistration, expired or gap",
        "what",
    ),
    TableColumn(
        "origin",
        Words(ORIGINS),
        "the origin of a value: read, observation, auto_observation, registration or write",
        "origin",
    ),
    TableColumn("value_num", pa.float64(), NUMBER_MEANING),
    TableColumn("value_text", pa.string(), TEXT_MEANING),
    TableColumn("value_bool", pa.bool_(), "a boolean"),
    TableColumn("value_kind", Words([kind.value for kind in ValueKind]), "what the value is: one of ``ValueKind``"),
    TableColumn(
        "status",
        Words([status.name.lower() for status in DesiredStatus], ordered=True),
        "how the write ended; the category order is pending < success < failure",
        "status",
    ),
    TableColumn("category", CATEGORY, "why a write failed; only for the application that submitted it", "category"),
    TableColumn("reason", CATEGORY, "the category as a sentence, with the next step"),
    TableColumn(
        "revision", pa.int64(), "revision of the mirror at this change; a larger revision is later", "revision"
    ),
    TableColumn("requested_at", INSTANT, "when the write was requested", "requested_at"),
    TableColumn("until", INSTANT, "the end of a gap", "until"),
    TableColumn("value_raw", pa.binary(), "payload (bytes)", is_raw=True),
)
"""The columns of the history table.

The source of a column is a member of :class:`mirror_sdk.wire.history.HistoryRow`.
"""

HISTORY_SCHEMA = schema_of(HISTORY_COLUMNS)
"""The schema of the history table without its raw column."""

HISTORY_RAW_SCHEMA = schema_of(HISTORY_COLUMNS, raw=True)
"""The schema of the history table with ``raw=True``."""

_REGISTRATIONS = ["registration", "reg_update", "deregistration", "expired"]

GapInterval: TypeAlias = "tuple[datetime | None, datetime | None]"


def history_of_batch(batch: pa.RecordBatch, *, raw: bool = False) -> pa.Table:
    """Return the history table for a batch of the history of the service.

    The types of values come from their content type or from the object definitions. Category words that are unknown to
    this version become missing values.

    Args:
        batch: A batch that includes the bytes of the payloads.
        raw: Whether to add the columns with payloads.

    Raises:
        KeyError: The batch lacks a column.
        pyarrow.ArrowInvalid: A column is invalid.
    """
    schema = schema_of(HISTORY_COLUMNS, raw=raw)
    path = _words(batch.column("path"))
    typed = read_payloads(batch.column("value"), _words(batch.column("content_type")), _without_nulls(path))
    columns = {one.name: _copied(batch.column(one.source), one) for one in HISTORY_COLUMNS if one.source}
    columns |= {
        "path": path,
        "reason": _reasons(columns["category"]),
        "unit": words_at(path.indices, declared_units(path.dictionary.to_pylist())),
        "value_num": typed.num,
        "value_text": typed.text,
        "value_bool": typed.bool,
        "value_kind": fixed_category_array(typed.kind, schema.field("value_kind")),
        "value_raw": batch.column("value"),
    }
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _copied(found: pa.Array, column: TableColumn) -> pa.Array:
    """Convert a column of a batch to the type of the table."""
    if isinstance(column.type, Words):
        if pa.types.is_integer(found.type):
            return fixed_category_array(found, column.field)
        return _fixed_categories(found, column.field, column.type.sent or column.type.words)
    return _words(found) if column.type == CATEGORY else own(found)


def _reasons(category: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the reasons of failed writes as sentences. Several error categories may have the same sentence."""
    sentences = [failure_reason(word, "PUT") for word in category.dictionary.to_pylist()]
    return words_at(category.indices, pa.array(sentences, pa.string()))


def history_of_events(events: pa.Table, gap_intervals: Sequence[GapInterval] = (), *, raw: bool = False) -> pa.Table:
    """Return the history table for an events table: its observations, read values, and registrations.

    :func:`mirror_sdk.frames.history_frame` lists what such a table lacks, because the notification log does not contain
    it.

    Args:
        events: An Arrow events table with strings instead of categories. It has each entry once, in the order of the
            log.
        gap_intervals: The start and end of each interval in which no events could be received.
        raw: Whether to add the columns with payloads.
    """
    event = events["event"]
    is_observed = pc.equal(event, EventKind.OBSERVATION.value)
    # The response to a write or to an execute operation has no value.
    has_value = pc.not_equal(pc.fill_null(events["value_kind"], ""), ValueKind.NONE.value)
    is_read = pc.and_(pc.equal(event, EventKind.ASYNC_RESPONSE.value), has_value)
    is_value = pc.or_(is_observed, is_read)
    index = events.schema.get_field_index("event")
    typed = events.set_column(index, "event", pc.if_else(is_value, "reported", event)).append_column(
        "origin", pc.if_else(is_observed, "observation", pc.if_else(is_read, "read", pa.scalar(None, pa.string())))
    )
    rows = typed.filter(pc.or_(is_value, pc.is_in(event, pa.array(_REGISTRATIONS))))
    schema = schema_of(HISTORY_COLUMNS, raw=raw)
    columns = {name: rows[name].combine_chunks() for name in schema.names if name in rows.column_names}
    if "logged_at" in rows.column_names:
        columns["received_at"] = pc.coalesce(rows["logged_at"].combine_chunks(), columns["received_at"])
    # If a device does not send the time of a change, the time of receipt is used.
    columns["changed_at"] = pc.coalesce(columns["changed_at"], columns["received_at"])
    columns |= {name: pa.nulls(rows.num_rows, pa.string()) for name in ("status", "category")}
    table = pa.concat_tables([_of_texts(columns, schema, rows.num_rows), _of_gap_intervals(gap_intervals, schema)])
    return _in_order(table.unify_dictionaries())


class HistoryTableBuilder:
    """A builder of the history table from consecutive tables; see :func:`mirror_sdk.frames.history_frame`.

    Args:
        raw: Whether to add the columns with payloads.
    """

    def __init__(self, *, raw: bool) -> None:
        self._tables = [schema_of(HISTORY_COLUMNS, raw=raw).empty_table()]

    def add(self, table: pa.Table) -> None:
        """Append the rows of a table."""
        self._tables.append(table)

    def without_rows(self, device_ids: Iterable[str]) -> list[str]:
        """Return the devices that have no rows. Call it after all rows were added."""
        present = set(self._join()["device_id"].unique().to_pylist())
        return [device_id for device_id in device_ids if device_id not in present]

    def unitless(self) -> Unitless | None:
        """Return the resources whose units come from their devices. Call it after all rows were added."""
        return unitless(self._join())

    def finish(
        self, metadata: Mapping[str, object], *, units: NamedUnits | None = None
    ) -> tuple[list[pa.Table], dict[str, object]]:
        """Return the table of all rows and its metadata. It can be called only once.

        Args:
            metadata: The metadata that do not depend on the rows.
            units: The sources of the units that devices reported.
        """
        table = self._join()
        self._tables.clear()
        of_rows = {"devices": len(table["device_id"].unique().drop_null()), "complete": not has_gap(table)}
        return [table if units is None else with_units(table, units)], {**metadata, **of_rows}

    def _join(self) -> pa.Table:
        # The result replaces the tables, because several methods need it and each copy would take as much memory again.
        self._tables = [pa.concat_tables(self._tables).unify_dictionaries()]
        return self._tables[0]


def _words(column: pa.Array) -> pa.DictionaryArray:
    """Return a categorical column with only the words that occur."""
    if pa.types.is_dictionary(column.type):
        return occurring(column)
    return column.cast(pa.string()).dictionary_encode()


def _without_nulls(path: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the paths with a filler instead of nulls.

    Rows without a path have no value, so the filler is never used.
    """
    words = path.dictionary if len(path.dictionary) else pa.array([""])
    return pa.DictionaryArray.from_arrays(path.indices.fill_null(0), words)


def _fixed_categories(column: pa.Array, field: pa.Field, categories: Sequence[str]) -> pa.DictionaryArray:
    """Convert a column of strings to fixed categories. Any other string becomes a missing value."""
    words = _words(column)
    codes = pc.index_in(words.dictionary, pa.array(categories)).cast(field.type.index_type)
    return fixed_category_array(codes.take(words.indices), field)


def has_gap(table: pa.Table) -> bool:
    """Return whether a history or events table contains a gap."""
    gap = categories_of(table.schema.field("event")).index("gap")
    return any(pc.any(pc.equal(chunk.indices, gap)).as_py() for chunk in table["event"].chunks)


def _of_texts(columns: dict[str, pa.Array], schema: pa.Schema, length: int) -> pa.Table:
    """Build a table from columns in which categories are strings.

    Columns that are not in ``columns`` have only nulls.
    """
    cells = {name: columns.get(name, pa.nulls(length, schema.field(name).type)) for name in schema.names}
    for field in schema:
        if pa.types.is_dictionary(field.type):
            column, words = cells[field.name], categories_of(field)
            cells[field.name] = _fixed_categories(column, field, words) if words else _words(column)
    return pa.Table.from_arrays([cells[name] for name in schema.names], schema=schema)


def _of_gap_intervals(gap_intervals: Sequence[GapInterval], schema: pa.Schema) -> pa.Table:
    columns = {
        "changed_at": pa.array([begin for begin, _ in gap_intervals], INSTANT),
        "until": pa.array([until for _, until in gap_intervals], INSTANT),
        "event": pa.array(["gap"] * len(gap_intervals), pa.string()),
        "value_kind": pa.array([ValueKind.NONE.value] * len(gap_intervals), pa.string()),
    }
    return _of_texts(columns, schema, len(gap_intervals))


def _in_order(table: pa.Table) -> pa.Table:
    """Sort rows in the same way as the service, with missing values first.

    The sort is stable for rows with the same time.
    """
    keys = {name: pc.fill_null(table[name].cast(pa.string()), "") for name in ("device_id", "path")}
    keys["changed_at"] = pc.fill_null(table["changed_at"].cast(pa.int64()), np.iinfo(np.int64).min)
    keys["position"] = pa.array(np.arange(table.num_rows))
    return table.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys]))
