"""The rows of the history table, one per thing that happened: of the service's history, or of events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.errors import failure_reason
from mirror_sdk.events import EventKind
from mirror_sdk.tables.columns import (
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
from mirror_sdk.tables.payloads import read_payloads
from mirror_sdk.tables.units import NamedUnits, Unitless, declared_units, unitless, with_units
from mirror_sdk.values import ValueKind
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.history import EVENT_KINDS, ORIGINS

HISTORY_EVENTS = tuple("write" if word == "desired" else word for word in EVENT_KINDS)
"""What may have happened; the interface calls the end of a write ``desired``."""

HISTORY_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device; NA in a gap of the service itself", "device_id"),
    TableColumn("endpoint_name", CATEGORY, "the name that device registers with", "endpoint_name"),
    TableColumn("path", CATEGORY, "resource path; NA where it is about the device as a whole"),
    TableColumn("unit", CATEGORY, "of ``value_num``: as resource 5701 named it by then, else declared"),
    TableColumn(
        "changed_at", INSTANT, "when it happened: the device's time, else that of receipt; a gap's begin", "changed_at"
    ),
    TableColumn(
        "received_at", INSTANT, "when the service received it; of a recording the client that recorded", "received_at"
    ),
    TableColumn(
        "event",
        Words(HISTORY_EVENTS, sent=EVENT_KINDS),
        "reported, write (the end of one), registration, reg_update, deregistration, expired or gap",
        "what",
    ),
    TableColumn(
        "origin",
        Words(ORIGINS),
        "by what a value came: read, observation, auto_observation, registration or write",
        "origin",
    ),
    TableColumn("value_num", pa.float64(), NUMBER_MEANING),
    TableColumn("value_text", pa.string(), TEXT_MEANING),
    TableColumn("value_bool", pa.bool_(), "a boolean"),
    TableColumn("value_kind", Words([kind.value for kind in ValueKind]), "what the value is: one of ``ValueKind``"),
    TableColumn(
        "status",
        Words([status.name.lower() for status in DesiredStatus], ordered=True),
        "how a write ended, ordered: pending < success < failure",
        "status",
    ),
    TableColumn("category", CATEGORY, "why a write failed; only for the application that placed it", "category"),
    TableColumn("reason", CATEGORY, "the same in a sentence, with what can be done about it"),
    TableColumn("revision", pa.int64(), "number of the mirror's change: a larger one is later", "revision"),
    TableColumn("requested_at", INSTANT, "when the write was requested", "requested_at"),
    TableColumn("until", INSTANT, "the end of a gap", "until"),
    TableColumn("value_raw", pa.binary(), "payload (bytes)", is_raw=True),
)
"""The history table; a source is a member of :class:`mirror_sdk.wire.history.HistoryRow`."""

HISTORY_SCHEMA = schema_of(HISTORY_COLUMNS)
"""The history table without its raw column."""

HISTORY_RAW_SCHEMA = schema_of(HISTORY_COLUMNS, raw=True)
"""The history table with ``raw=True``."""

_REGISTRATIONS = ["registration", "reg_update", "deregistration", "expired"]

GapInterval: TypeAlias = "tuple[datetime | None, datetime | None]"


def history_of_batch(batch: pa.RecordBatch, *, raw: bool = False) -> pa.Table:
    """The history table of a batch of the service's history.

    Values are typed as their content type or the object table says. A word that this version does not know is missing.

    Args:
        batch: A batch, with the payloads as the bytes they are.
        raw: Whether the payloads are a column too.

    Raises:
        KeyError: The batch lacks a column.
        pyarrow.ArrowInvalid: A column is not what it should be.

    Source: wire.md 10.
    """
    schema = schema_of(HISTORY_COLUMNS, raw=raw)
    path = _words(batch.column("path"))
    typed = read_payloads(batch.column("value"), _words(batch.column("content_type")), _somewhere(path))
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
    """A column of a batch in the type that the table has."""
    if isinstance(column.type, Words):
        if pa.types.is_integer(found.type):
            return fixed_category_array(found, column.field)
        return _known(found, column.field, column.type.sent or column.type.words)
    return _words(found) if column.type == CATEGORY else own(found)


def _reasons(category: pa.DictionaryArray) -> pa.DictionaryArray:
    """Why writes failed, in sentences; of several categories they may be the same."""
    sentences = [failure_reason(word, "PUT") for word in category.dictionary.to_pylist()]
    return words_at(category.indices, pa.array(sentences, pa.string()))


def history_of_events(events: pa.Table, gap_intervals: Sequence[GapInterval] = (), *, raw: bool = False) -> pa.Table:
    """The history table of an events table: of its observations, the values that were read, and registrations.

    What the notification log does not tell is missing: values that others read, values that nobody subscribed, ends of
    writes, the revision of the mirror. ``received_at`` is of the clock of the client that received it.

    Args:
        events: An events table for Arrow with plain texts; each entry once, in the order of the log.
        gap_intervals: The intervals in which nothing could be heard: from when until when.
        raw: Whether the payloads are a column too.
    """
    event = events["event"]
    is_observed = pc.equal(event, EventKind.OBSERVATION.value)
    # The answer to a write or to an execution brings no value.
    has_value = pc.not_equal(pc.fill_null(events["value_kind"], ""), ValueKind.NONE.value)
    is_read = pc.and_(pc.equal(event, EventKind.ASYNC_RESPONSE.value), has_value)
    is_value = pc.or_(is_observed, is_read)
    place = events.schema.get_field_index("event")
    told = events.set_column(place, "event", pc.if_else(is_value, "reported", event)).append_column(
        "origin", pc.if_else(is_observed, "observation", pc.if_else(is_read, "read", pa.scalar(None, pa.string())))
    )
    rows = told.filter(pc.or_(is_value, pc.is_in(event, pa.array(_REGISTRATIONS))))
    schema = schema_of(HISTORY_COLUMNS, raw=raw)
    columns = {name: rows[name].combine_chunks() for name in schema.names if name in rows.column_names}
    # A device may not say when its value changed; then it is when it was received.
    columns["changed_at"] = pc.coalesce(columns["changed_at"], columns["received_at"])
    columns |= {name: pa.nulls(rows.num_rows, pa.string()) for name in ("status", "category")}
    table = pa.concat_tables([_of_texts(columns, schema, rows.num_rows), _of_gap_intervals(gap_intervals, schema)])
    return _in_order(table.unify_dictionaries())


class HistoryTableBuilder:
    """The history table, of parts one after another; see :func:`mirror_sdk.frames.history_frame`.

    Args:
        raw: Whether the payloads are a column too.
    """

    def __init__(self, *, raw: bool) -> None:
        self._tables = [schema_of(HISTORY_COLUMNS, raw=raw).empty_table()]

    def add(self, table: pa.Table) -> None:
        """Take the rows that follow those before."""
        self._tables.append(table)

    def without_rows(self, device_ids: Iterable[str]) -> list[str]:
        """Those of the devices that have none, once all rows were added."""
        heard = set(self._join()["device_id"].unique().to_pylist())
        return [device_id for device_id in device_ids if device_id not in heard]

    def unitless(self) -> Unitless | None:
        """Which resources are in a unit that their devices name, once all rows were added."""
        return unitless(self._join())

    def finish(
        self, metadata: Mapping[str, object], *, units: NamedUnits | None = None
    ) -> tuple[list[pa.Table], dict[str, object]]:
        """The parts of the table of all of them, once, and what it is based on.

        Args:
            metadata: The metadata that do not depend on the rows.
            units: Sources of the units that devices name.
        """
        table = self._join()
        self._tables.clear()
        of_rows = {"devices": len(table["device_id"].unique().drop_null()), "complete": not has_gap(table)}
        return [table if units is None else with_units(table, units)], {**metadata, **of_rows}

    def _join(self) -> pa.Table:
        self._tables = [pa.concat_tables(self._tables).unify_dictionaries()]
        return self._tables[0]


def _words(column: pa.Array) -> pa.DictionaryArray:
    """A category column with the words that occur alone."""
    if pa.types.is_dictionary(column.type):
        return occurring(column)
    return column.cast(pa.string()).dictionary_encode()


def _somewhere(path: pa.DictionaryArray) -> pa.DictionaryArray:
    """The paths for the reading of values, which are those of rows that have one."""
    words = path.dictionary if len(path.dictionary) else pa.array([""])
    return pa.DictionaryArray.from_arrays(path.indices.fill_null(0), words)


def _known(column: pa.Array, field: pa.Field, known: Sequence[str]) -> pa.DictionaryArray:
    """A column with fixed categories, of a column of texts; one that is none of them is missing."""
    words = _words(column)
    places = pc.index_in(words.dictionary, pa.array(known)).cast(field.type.index_type)
    return fixed_category_array(places.take(words.indices), field)


def has_gap(table: pa.Table) -> bool:
    """Return whether a history or events table contains a gap."""
    gap = categories_of(table.schema.field("event")).index("gap")
    return any(pc.any(pc.equal(part.indices, gap)).as_py() for part in table["event"].chunks)


def _of_texts(columns: dict[str, pa.Array], schema: pa.Schema, length: int) -> pa.Table:
    """The table of columns in which categories are plain texts; what is not given is missing."""
    given = {name: columns.get(name, pa.nulls(length, schema.field(name).type)) for name in schema.names}
    for field in schema:
        if pa.types.is_dictionary(field.type):
            column = given[field.name]
            given[field.name] = _known(column, field, known) if (known := categories_of(field)) else _words(column)
    return pa.Table.from_arrays([given[name] for name in schema.names], schema=schema)


def _of_gap_intervals(gap_intervals: Sequence[GapInterval], schema: pa.Schema) -> pa.Table:
    columns = {
        "changed_at": pa.array([begin for begin, _ in gap_intervals], INSTANT),
        "until": pa.array([until for _, until in gap_intervals], INSTANT),
        "event": pa.array(["gap"] * len(gap_intervals), pa.string()),
        "value_kind": pa.array([ValueKind.NONE.value] * len(gap_intervals), pa.string()),
    }
    return _of_texts(columns, schema, len(gap_intervals))


def _in_order(table: pa.Table) -> pa.Table:
    """The rows as the service orders them, what is missing first; those of one instant stay as they came."""
    keys = {name: pc.fill_null(table[name].cast(pa.string()), "") for name in ("device_id", "path")}
    keys["changed_at"] = pc.fill_null(table["changed_at"].cast(pa.int64()), np.iinfo(np.int64).min)
    keys["place"] = pa.array(np.arange(table.num_rows))
    return table.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys]))
