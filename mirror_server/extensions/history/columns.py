"""The rows of the history in memory: their columns, their order, and conversions of columns to numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.wire.history import COLUMNS
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.arrow_columns import INSTANT, TYPES, WORD, to_array
from mirror_server.extensions.history.selection import Position
from mirror_server.extensions.history.store.history import KINDS, PLAIN_TEXT, TAIL_COLUMNS, StoredHistoryRow

Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

SCHEMA = pa.schema([(name, TYPES[COLUMNS.get(name, "word")]) for name in StoredHistoryRow._fields])
"""The columns of a batch, one for each member of :class:`~.store.history.StoredHistoryRow`."""

NO_ROWS = pa.RecordBatch.from_arrays([pa.array([], type=field.type) for field in SCHEMA], schema=SCHEMA)

_KINDS = dict(zip(("what", "origin"), (to_array(words, WORD) for words in zip(*KINDS, strict=True)), strict=True))
"""The words of each kind of row, by column."""

# Sort keys must fit into 64 bits.
_LARGEST_KEY = 2**62


def of_rows(rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Convert rows with the members of :class:`~.store.history.StoredHistoryRow` to a batch."""
    if not rows:
        return NO_ROWS
    columns = zip(*rows, strict=True)
    arrays = [to_array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def tail_batch(rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Convert rows from :func:`mirror_server.extensions.history.store.history.stored_tail` to a batch."""
    if not rows:
        return NO_ROWS
    columns: dict[str, Sequence[Any]] = dict(zip(TAIL_COLUMNS, zip(*rows, strict=True), strict=True))
    columns["content_type"] = [
        PLAIN_TEXT if name is None and value is not None else name
        for name, value in zip(columns["content_type"], columns["value"], strict=True)
    ]
    kinds = to_array(columns["kind"], pa.int32())
    words = {name: words.take(kinds) for name, words in _KINDS.items()}
    arrays = [
        words[field.name] if field.name in words else to_array(columns[field.name], field.type) for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def concat(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches to one batch."""
    some = [batch for batch in batches if batch.num_rows]
    if len(some) < 2:
        return some[0] if some else NO_ROWS
    return pa.Table.from_batches(some).combine_chunks().to_batches()[0]


def numbers(column: pa.Array) -> Integers:
    """Return a column of integers or timestamps as a numpy array. Missing values become arbitrary numbers."""
    buffer = column.buffers()[1]
    return (
        np.frombuffer(buffer, np.int64, len(column), column.offset * 8) if buffer else np.zeros(len(column), np.int64)
    )


def has_value(column: pa.Array) -> Flags:
    """Return a flag for each row: whether the column has a value."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return _flags(column.is_valid())


def is_one_of(column: pa.DictionaryArray, *words: str) -> Flags:
    """Return a flag for each row: whether the column has one of these words."""
    return of_words(column, np.array([word in words for word in column.dictionary.to_pylist()] + [False], np.bool_))


def of_words(column: pa.DictionaryArray, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a value for each row, according to its word. The last of the values is for rows without a word."""
    indices = column.indices.fill_null(len(column.dictionary))
    codes = np.frombuffer(indices.buffers()[1], np.int32, len(indices), indices.offset * 4)
    row_values: npt.NDArray[Any] = values[codes]
    return row_values


def used_words(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the column with a dictionary that contains only the words that some row has."""
    codes = of_words(column, np.arange(len(column.dictionary) + 1, dtype=np.int32))
    is_used = np.zeros(len(column.dictionary) + 1, np.bool_)
    is_used[codes] = True
    if is_used[:-1].all():
        return column
    new_codes = np.cumsum(is_used, dtype=np.int32) - 1
    validity = column.is_valid().buffers()[1] if column.null_count else None
    indices = pa.Array.from_buffers(pa.int32(), len(column), [validity, pa.py_buffer(new_codes[codes])])
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.filter(to_flags(is_used[:-1])))


def with_used_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with dictionaries that contain only the words that some row has."""
    columns = [used_words(each) if pa.types.is_dictionary(each.type) else each for each in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def ranks(column: pa.DictionaryArray) -> Integers:
    """Return the rank of each row's word among the words of the column, or 0 if the row has no word."""
    ranks_of_words = np.zeros(len(column.dictionary) + 1, np.int64)
    if len(column.dictionary):
        dense = pc.rank(column.dictionary, sort_keys="ascending", tiebreaker="dense")
        ranks_of_words[:-1] = np.frombuffer(dense.buffers()[1], np.uint64, len(dense), dense.offset * 8)
    return of_words(column, ranks_of_words)


def in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sort rows by device, path, timestamp and revision. Missing words come first."""
    order = _sort_order(batch)
    return batch if order is None else take_rows(batch, order)


def _sort_order(batch: pa.RecordBatch) -> Integers | None:
    """Return the indices that sort the rows, or ``None`` if the rows are already sorted."""
    series = _series_of(batch)
    changed_at, revision = numbers(batch.column("changed_at")), numbers(batch.column("revision"))
    first = int(changed_at.min(initial=0))
    span = int(changed_at.max(initial=0)) - first + 1
    if not len(series) or (int(series.max()) + 1) * span > _LARGEST_KEY:
        return np.lexsort((revision, changed_at, series))
    key = series * span + (changed_at - first)
    if _is_sorted(key, revision):
        return None
    # The batch consists of sorted runs, which a stable sort merges quickly.
    order = np.argsort(key, kind="stable")
    return order if _is_sorted(key[order], revision[order]) else np.lexsort((revision, key))


def _series_of(batch: pa.RecordBatch) -> Integers:
    """Return a number for each row that identifies its device and path, in the order of devices and paths."""
    paths = ranks(batch.column("path"))
    return ranks(batch.column("device_id")) * (int(paths.max(initial=0)) + 1) + paths


def numbered(batch: pa.RecordBatch, *names: str) -> Integers:
    """Return a number for each row, starting with 0. It increases whenever one of these columns changes its value."""
    differs = np.zeros(batch.num_rows, np.bool_)
    for name in names:
        column = batch.column(name)
        codes = of_words(column, np.arange(len(column.dictionary) + 1))
        differs[1:] |= codes[1:] != codes[:-1]
    return np.cumsum(differs)


def _is_sorted(key: Integers, revision: Integers) -> bool:
    return bool(np.all((key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (revision[1:] > revision[:-1]))))


def position(batch: pa.RecordBatch, index: int) -> Position:
    """Return the position of a row."""
    return Position(
        batch.column("device_id")[index].as_py(),
        batch.column("path")[index].as_py(),
        batch.column("changed_at")[index].value,
        batch.column("revision")[index].as_py(),
    )


def reverse(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Reverse the order of the rows."""
    return take_rows(batch, np.arange(batch.num_rows)[::-1])


def _flags(column: pa.BooleanArray) -> Flags:
    return np.frombuffer(column.cast(pa.uint8()).buffers()[1], np.uint8, len(column)).astype(np.bool_)


def to_flags(flags: Flags) -> pa.BooleanArray:
    """Return a numpy array of flags as an Arrow column."""
    return pa.Array.from_buffers(pa.int8(), len(flags), [None, pa.py_buffer(flags.view(np.int8))]).cast(pa.bool_())


def take_rows(batch: pa.RecordBatch, indices: npt.NDArray[np.intp]) -> pa.RecordBatch:
    """Return the rows with these indices."""
    buffer = pa.py_buffer(np.ascontiguousarray(indices, np.int64))
    return batch.take(pa.Array.from_buffers(pa.int64(), len(indices), [None, buffer]))


def filter_rows(batch: pa.RecordBatch, flags: Flags) -> pa.RecordBatch:
    """Return the rows whose flag is set."""
    return batch if flags.all() else take_rows(batch, np.flatnonzero(flags))


def value_sizes(batch: pa.RecordBatch) -> Integers:
    """Return the size of each row's value in bytes."""
    return numbers(pc.binary_length(batch.column("value")).fill_null(0).cast(pa.int64()))


def not_after(batch: pa.RecordBatch, instant: Instant) -> pa.RecordBatch:
    """Return the rows with every later ``changed_at`` replaced by this time."""
    changed_at = np.minimum(numbers(batch.column("changed_at")), instant)
    index = SCHEMA.get_field_index("changed_at")
    column = pa.Array.from_buffers(INSTANT, batch.num_rows, [None, pa.py_buffer(changed_at)])
    return batch.set_column(index, SCHEMA.field(index), column)
