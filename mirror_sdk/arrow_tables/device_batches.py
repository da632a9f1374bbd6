"""Construction of the state table from the batches of a fleet snapshot, column by column.

A batch has one row per device, with a list of the resources and the bytes of each payload. The result equals the result
of :func:`mirror_sdk.frames.state_frame` for the same devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import (
    TableColumn,
    Words,
    at,
    fixed_category_array,
    nulls,
    occurring,
    own,
    words_at,
)
from mirror_sdk.arrow_tables.payload_columns import TypedColumns, read_payloads
from mirror_sdk.arrow_tables.state import STATE_COLUMNS, STATE_RAW_SCHEMA, STATE_SCHEMA, path_numbers, state_table
from mirror_sdk.arrow_tables.units import declared_units, instance_of, is_in_named_unit, names_unit
from mirror_sdk.object_definitions import lookup
from mirror_sdk.values import ValueKind
from mirror_sdk.wire.paths import matches_any
from mirror_sdk.wire.snapshot import COLUMNS

_TEXT = list(ValueKind).index(ValueKind.TEXT)


def state_of_batch(batch: pa.RecordBatch, *, paths: Sequence[str] | None, raw: bool = False) -> pa.Table:
    """Build the state table of the devices of a batch.

    Args:
        batch: A batch of a fleet snapshot.
        paths: The path patterns. The table has a row for each resource that matches any pattern.
        raw: Whether to add the columns with payloads.

    Raises:
        KeyError: The batch lacks a column.
        pyarrow.ArrowInvalid: A column is invalid.
    """
    resources = _Resources(batch)
    reported = read_payloads(resources["reported_value"], resources["reported_content_type"], resources.path)
    desired = _Desired(batch, resources)
    schema = STATE_RAW_SCHEMA if raw else STATE_SCHEMA
    columns = {
        **dict(_copies(resources, desired, STATE_COLUMNS[: len(schema)])),
        **resources.of_devices(batch),
        **_of_paths(resources.path),
        "unit": _units(resources, reported),
        "reported_num": reported.num,
        "reported_text": reported.text,
        "reported_bool": reported.bool,
        "value_kind": fixed_category_array(reported.kind, schema.field("value_kind")),
        "desired_num": desired.scatter(desired.typed.num),
        "desired_text": desired.scatter(desired.typed.text),
        "desired_bool": desired.scatter(desired.typed.bool),
    }
    if raw:
        columns |= {
            "reported_raw": resources["reported_value"],
            "desired_raw": desired.scatter(desired["desired_value"]),
        }
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    return table if paths is None else _only(table, resources.path, paths)


def concatenated(tables: Sequence[pa.Table], *, raw: bool = False) -> pa.Table:
    """Concatenate tables. The categories are in the order in which they occur."""
    return pa.concat_tables(tables).unify_dictionaries() if tables else state_table([], paths=None, raw=raw)[0]


class _Resources:
    """All resources of the devices in a batch. They are stored in one array, in the order of the devices."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        lists = batch.column("resources")
        self._counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        self.begins = np.cumsum(self._counts) - self._counts
        """The index of the first resource of each device in that array."""
        self.struct = lists.flatten()
        self.path = occurring(self["path"])

    def __getitem__(self, name: str) -> pa.Array:
        return self.struct.field(name)

    def devices(self) -> npt.NDArray[np.int64]:
        """Return the index of the device of each resource."""
        return np.repeat(np.arange(len(self._counts)), self._counts)

    def of_devices(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns that describe the device.

        Devices without resources do not become categories.
        """
        has_resources = self._counts > 0
        counts = self._counts[has_resources]
        index = pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
        return {
            name: words_at(index, batch.column(name).filter(pa.array(has_resources)))
            for name in ("device_id", "endpoint_name")
        }


class _Desired:
    """All desired values of a batch, with the index of the resource of each value."""

    def __init__(self, batch: pa.RecordBatch, resources: _Resources) -> None:
        lists = batch.column("desired")
        self.struct = lists.flatten()
        self._row_count = len(resources.path)
        if len(self.struct):
            begins = np.repeat(resources.begins, lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
            # In a batch, the resources of each device are numbered from 0.
            rows = begins + self["resource"].to_numpy(zero_copy_only=False)
            index = np.full(self._row_count, -1)
            index[rows] = np.arange(len(rows))
            self._indices = pa.array(index, mask=index < 0)
            paths = resources.path.take(pa.array(rows))
        else:
            paths = resources.path[:0]
        self.typed = read_payloads(self["desired_value"], self["desired_content_type"], paths)

    def __getitem__(self, name: str) -> pa.Array:
        return self.struct.field(name)

    def scatter(self, column: pa.Array) -> pa.Array:
        """Return a column with one row for each resource, with nulls for resources without a desired value."""
        if column.null_count == len(column):
            return nulls(self._row_count, column.type)
        return column.take(self._indices)


_STREAMED = {column.source: column.name for column in COLUMNS if column.is_in_stream}
"""The name of the column for each streamed member of the interface."""


def _copies(resources: _Resources, desired: _Desired, columns: Sequence[TableColumn]) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns that are copied from columns of a batch."""
    for column in columns:
        if (name := _STREAMED.get(column.source)) is None:
            continue
        if column.source.startswith("desired."):
            found = desired.scatter(_typed(desired.struct, name, column.field))
        else:
            found = _copied(_typed(resources.struct, name, column.field))
        is_code = isinstance(column.type, Words)
        yield column.name, fixed_category_array(found, column.field) if is_code else found


def _typed(struct: pa.StructArray, name: str, field: pa.Field) -> pa.Array:
    """Convert a column of a batch to the type of the table.

    The result has only nulls if the service does not send the column.
    """
    kind = field.type.index_type if pa.types.is_dictionary(field.type) else field.type
    if struct.type.get_field_index(name) < 0:
        return nulls(len(struct), kind)
    found = struct.field(name)
    # Strings are dictionary-encoded in a batch.
    return found if found.type == kind else found.cast(kind)


def _copied(column: pa.Array) -> pa.Array:
    return nulls(len(column), column.type) if column.null_count == len(column) else own(column)


def _of_paths(path: pa.DictionaryArray) -> dict[str, pa.Array]:
    """Return the columns that depend only on the path. Each path is parsed once."""
    paths = path.dictionary.to_pylist()
    ids = list(map(path_numbers, paths))
    definitions = list(map(lookup, paths))
    labels = pa.array([definition.label if definition else None for definition in definitions], pa.string())
    numbers = {
        name: at(path.indices, pa.array([one[index] for one in ids], pa.int32()))
        for index, name in enumerate(("object_id", "instance_id", "resource_id"))
    }
    return {"path": path, **numbers, "label": words_at(path.indices, labels)}


def _units(resources: _Resources, reported: TypedColumns) -> pa.DictionaryArray:
    """Return the unit of each resource.

    It is the value of resource 5701 of the same object instance, or else the declared unit.
    """
    paths = resources.path.dictionary.to_pylist()
    declared = declared_units(paths)
    index = resources.path.indices.to_numpy(zero_copy_only=False)
    is_naming, is_in_unit = (np.array([*map(test, paths)], np.bool_)[index] for test in (names_unit, is_in_named_unit))
    naming = np.flatnonzero(is_naming & (reported.kind.to_numpy() == _TEXT))
    if not len(naming):
        return words_at(resources.path.indices, declared)
    instances = pa.array(map(instance_of, paths), pa.string()).dictionary_encode()
    # The device and the object instance are combined into one number, so one search finds the unit resource of every
    # row.
    keys = resources.devices() * len(instances.dictionary) + instances.indices.to_numpy()[index]
    named = np.flatnonzero(is_in_unit)
    found = pc.index_in(pa.array(keys[named]), pa.array(keys[naming])).fill_null(-1).to_numpy()
    units = reported.text.take(pa.array(naming))
    words = pa.concat_arrays([declared, pc.if_else(pc.equal(units, ""), None, units)])
    chosen = index.astype(np.int64)
    chosen[named[found >= 0]] = len(declared) + found[found >= 0]
    return words.take(pa.array(chosen)).dictionary_encode()


def _only(table: pa.Table, path: pa.DictionaryArray, patterns: Sequence[str]) -> pa.Table:
    """Select the rows whose path matches a pattern, and the categories that still occur."""
    is_selected = pa.array([matches_any(patterns, one) for one in path.dictionary.to_pylist()], pa.bool_())
    rows = is_selected.take(path.indices)
    return table if pc.all(rows).as_py() else reencoded(table.filter(rows))


def reencoded(table: pa.Table) -> pa.Table:
    """Return the table with only the categories that occur, in the order of their first occurrence."""
    if not table.num_rows:
        # Arrow drops the categories of a column without chunks.
        return state_table([], paths=None, raw="reported_raw" in table.column_names)[0]
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and not field.metadata:
            words = table.column(index).cast(pa.string()).combine_chunks()
            table = table.set_column(index, field, words.dictionary_encode())
    return table
