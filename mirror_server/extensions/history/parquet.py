"""The Parquet format of the history, for the contents of segments and for the files of the archive.

pandas, DuckDB, Dask, Spark and Polars read the files directly, so only common encodings are used. A value is stored in
``value`` if it is a string, and in ``value_binary`` otherwise. Timestamps are in milliseconds and in UTC. ``status`` is
a word.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.extensions.arrow_columns import WORD, to_array
from mirror_server.extensions.history.columns import (
    SCHEMA,
    Flags,
    Integers,
    concat,
    numbers,
    of_words,
    to_flags,
    value_sizes,
    with_used_words,
)
from mirror_server.extensions.history.store.segments import Bounds

_STATUS_WORDS = to_array([status.name.lower() for status in DesiredStatus], pa.string())
_VALUE = SCHEMA.get_field_index("value")
_STATUS = SCHEMA.get_field_index("status") + 1

STORED_SCHEMA = (
    SCHEMA.set(_VALUE, pa.field("value", pa.string()))
    .insert(_VALUE + 1, pa.field("value_binary", pa.binary()))
    .set(_STATUS, pa.field("status", WORD))
)
"""The stored form of the columns of :data:`mirror_server.extensions.history.columns.SCHEMA`."""

_WORDS = [field.name for field in STORED_SCHEMA if field.type == WORD]

_RISING = ("revision", "changed_at", "received_at")
"""The columns whose values differ little from one row to the next."""

_ROWS_OF_A_GROUP = 8_192
_BYTES_OF_A_GROUP = 4 * 1024 * 1024

QUICK, SMALL = 3, 15
"""The compression levels for rows that are soon read again, and for archived rows."""


_MARK = b"sum:"
"""The bytes before the checksum of the footer. Both are after all rows, in a region that other programs do not read."""
_MARK_BYTES = len(_MARK) + 4
_END_BYTES = 8
"""The size of the end of a Parquet file, which consists of the length of the footer and the final word."""


def encoded(batch: pa.RecordBatch, level: int = QUICK) -> bytes:
    """Return a complete Parquet file with these rows.

    The file has checksums of each page and of the footer. So damage causes an error instead of a wrong value.

    Args:
        batch: The sorted rows.
        level: The compression level, :data:`QUICK` or :data:`SMALL`.
    """
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        sink,
        STORED_SCHEMA,
        compression="zstd",
        compression_level=level,
        use_dictionary=[name for name in STORED_SCHEMA.names if name not in _RISING],
        column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
        # Other programs should read strings, because they cannot combine the categories of several files.
        store_schema=False,
    )
    # The size of a row group is limited, because readers load a group completely.
    for group in groups(batch):
        writer.write_batch(_stored(group), row_group_size=group.num_rows)
    writer.close()
    content: bytes = sink.getvalue().to_pybytes()
    footer = content[_footer_at(content[-_END_BYTES:], len(content)) :]
    return b"".join([content[: -len(footer)], _MARK, _sum(footer), footer])


class ParquetRows:
    """The rows of a Parquet file that :func:`encoded` created.

    Args:
        source: The content of the file, or a file that pyarrow can read.

    Raises:
        OSError: The file cannot be read.
        pyarrow.ArrowInvalid: The file is not a file of the history, or it is damaged.
    """

    def __init__(self, source: Any) -> None:
        _check_footer(source)
        try:
            self._file = pq.ParquetFile(source, read_dictionary=_WORDS, page_checksum_verification=True)
        except KeyError as error:
            raise pa.ArrowInvalid(f"the file is not a history file: the column {error} is missing") from error
        if not self._file.schema_arrow.equals(STORED_SCHEMA):
            self._file.close(force=True)
            raise pa.ArrowInvalid("the file is not a history file: its columns are different")
        self.groups = range(self._file.num_row_groups)

    def __enter__(self) -> Self:
        """Return this reader, which closes the file at the end of the ``with`` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close(force=True)

    def devices(self, group: int) -> tuple[str, str]:
        """Return the first and the last device of a group. Both are ``""`` if some rows have no device."""
        found = self._statistics(group, "device_id")
        if found is None or not found.has_min_max:
            return "", ""
        return "" if found.null_count else found.min, found.max

    def paths(self, group: int) -> tuple[str, str] | None:
        """Return the first and the last path of a group, or ``None`` if some rows have no path."""
        found = self._statistics(group, "path")
        return None if found is None or found.null_count or not found.has_min_max else (found.min, found.max)

    def read(self, group: int) -> pa.RecordBatch:
        """Return the rows of a group."""
        return _decoded(self._file.read_row_group(group, use_threads=False))

    def instants(self) -> Iterator[Integers]:
        """Yield the ``changed_at`` column of each group."""
        for group in self.groups:
            table = self._file.read_row_group(group, columns=["changed_at"], use_threads=False)
            yield numbers(_contiguous(table.column(0)))

    def _statistics(self, group: int, name: str) -> Any:
        return self._file.metadata.row_group(group).column(STORED_SCHEMA.get_field_index(name)).statistics


def _check_footer(source: Any) -> None:
    """Raise an error if the footer is damaged, because reading a damaged footer could crash the process."""
    size = source.size()
    begin = _footer_at(source.read_at(_END_BYTES, max(0, size - _END_BYTES)), size)
    mark = source.read_at(_MARK_BYTES, max(0, begin - _MARK_BYTES))
    if mark != _MARK + _sum(source.read_at(size - begin, begin)):
        raise pa.ArrowInvalid("the file is not a history file, or its footer is damaged")


def _footer_at(end: bytes, size: int) -> int:
    """Return the position at which the footer of a file starts, from the last bytes and the size of the file.

    Raises:
        pyarrow.ArrowInvalid: The file is not a Parquet file, or it is truncated.
    """
    begin = size - _END_BYTES - int.from_bytes(end[:4], "little")
    if not end.endswith(b"PAR1") or begin < 0:
        raise pa.ArrowInvalid("the file is not a Parquet file, or is truncated")
    return begin


def _sum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little")


def groups(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows into groups with a limited number of rows and bytes."""
    sizes = np.concatenate([[0], np.cumsum(value_sizes(batch))])
    begin = 0
    while begin < batch.num_rows:
        end = int(np.searchsorted(sizes, sizes[begin] + _BYTES_OF_A_GROUP, "right")) - 1
        end = min(max(end, begin + 1), begin + _ROWS_OF_A_GROUP, batch.num_rows)
        yield batch.slice(begin, end - begin)
        begin = end


def regroup(batches: Iterable[pa.RecordBatch], rows: int, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Regroup rows into batches of about this many rows, or fewer rows if they are large."""
    pending: list[pa.RecordBatch] = []
    row_count = byte_count = 0
    for group in chain.from_iterable(map(groups, batches)):
        pending.append(group)
        row_count += group.num_rows
        byte_count += int(value_sizes(group).sum())
        if row_count >= rows or byte_count >= size_bytes:
            yield concat(pending)
            pending, row_count, byte_count = [], 0, 0
    if pending:
        yield concat(pending)


def bounds(batch: pa.RecordBatch) -> Bounds:
    """Return the bounds of sorted rows."""
    if not batch.num_rows:
        return Bounds("", "", 0, 0, 0, 0, 0, 0, None, 0)
    device_ids = batch.column("device_id")
    columns = (numbers(batch.column(name)) for name in ("revision", "changed_at", "received_at"))
    least_and_greatest = chain.from_iterable((int(each.min()), int(each.max())) for each in columns)
    devices = device_ids[0].as_py() or "", device_ids[-1].as_py() or ""
    return Bounds._make([*devices, *least_and_greatest, pc.min(batch.column("requested_at")).value, batch.num_rows])


def _stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert rows to the columns of :data:`STORED_SCHEMA`."""
    value = batch.column("value")
    is_text = to_flags(_is_text(batch))
    nothing = pa.scalar(None, pa.binary())
    texts = pc.if_else(is_text, value, nothing).cast(pa.string())
    columns = with_used_words(batch).columns
    columns[_VALUE : _VALUE + 1] = [texts, pc.if_else(is_text, nothing, value)]
    columns[_STATUS] = pa.DictionaryArray.from_arrays(columns[_STATUS].cast(pa.int32()), _STATUS_WORDS)
    return pa.RecordBatch.from_arrays(columns, schema=STORED_SCHEMA)


def _is_text(batch: pa.RecordBatch) -> Flags:
    """Return a flag for each value: whether it is a string by its content type, and valid UTF-8."""
    content_type, value = batch.column("content_type"), batch.column("value")
    names = content_type.dictionary.to_pylist()
    named = of_words(content_type, np.array([*map(_is_of_texts, names), False]))
    try:
        # Usually all values are valid. The cast checks them much faster than Python.
        pc.if_else(to_flags(named), value, pa.scalar(None, pa.binary())).cast(pa.string())
    except pa.ArrowInvalid:
        distinct = value.dictionary_encode()
        named &= of_words(distinct, np.array([*map(_is_utf8, distinct.dictionary.to_pylist()), True]))
    return named


def _is_of_texts(content_type: str) -> bool:
    return content_type.startswith("text/") or content_type.endswith("json")


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoded(table: pa.Table) -> pa.RecordBatch:
    """Convert stored rows to the columns of :data:`.columns.SCHEMA`."""
    columns = {name: _contiguous(table.column(name)) for name in STORED_SCHEMA.names}
    texts, others = columns["value"].cast(pa.binary()), columns.pop("value_binary")
    columns["value"] = texts if others.null_count == len(others) else pc.coalesce(texts, others)
    status = columns["status"]
    codes = {word: number for number, word in enumerate(_STATUS_WORDS.to_pylist())}
    numbers_of = to_array([codes[word] for word in status.dictionary.to_pylist()], pa.int8())
    columns["status"] = numbers_of.take(status.indices)
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
