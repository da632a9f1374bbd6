"""Damaged files: each damage is detected, and readers continue."""

import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from histories import NOW, PATHS

from mirror_server.extensions.history.columns import concat, in_order, of_rows
from mirror_server.extensions.history.parquet import STORED_SCHEMA, ParquetRows, encoded
from mirror_server.extensions.history.store.history import StoredHistoryRow

ROW = StoredHistoryRow(0, "a", "ep-a", PATHS[0], NOW, NOW, "reported", "observation", b"21.5", "text/plain")
ROWS = in_order(
    of_rows([ROW._replace(revision=number, changed_at=NOW + number, value=b"%d" % number) for number in range(7)])
)


def read(content: bytes) -> pa.RecordBatch:
    with ParquetRows(pa.BufferReader(content)) as file:
        _ = [(file.devices(group), file.paths(group)) for group in file.groups]
        return concat(file.read(group) for group in file.groups)


def footer_of(content: bytes) -> range:
    length = int.from_bytes(content[-8:-4], "little")
    return range(len(content) - 8 - length, len(content) - 8)


def test_every_damage_of_footer_is_detected():
    """Some damage would crash pyarrow, and with it the server."""
    content = encoded(ROWS)
    for position in footer_of(content):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(pa.ArrowInvalid, match="footer is damaged"):
            read(bytes(damaged))


def test_damaged_value_is_not_returned():
    content = encoded(ROWS)
    returned = rejected = 0
    # Not every bit of every byte, because reading the file for all of them takes half a minute.
    for position in range(0, footer_of(content).start, 25):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        try:
            assert read(bytes(damaged)).num_rows == 7
            returned += 1
        except (OSError, pa.ArrowException):
            rejected += 1
    # The description of the pages has no checksum, and most of it is not used.
    assert rejected > returned


@pytest.mark.parametrize("stored", [0, 1, 4, 7, 8, 11, 100, -1, -8, -100])
def test_truncated_file_is_detected(stored):
    with pytest.raises(pa.ArrowInvalid):
        read(encoded(ROWS)[:stored])


def with_checksum(content: bytes) -> bytes:
    begin = footer_of(content).start
    return content[:begin] + b"sum:" + zlib.crc32(content[begin:]).to_bytes(4, "little") + content[begin:]


def test_parquet_file_of_other_program_is_rejected():
    for table in (
        pa.table({"x": [1]}),
        STORED_SCHEMA.empty_table().drop_columns("path"),
        STORED_SCHEMA.empty_table().append_column("more", pa.array([], pa.int8())),
        STORED_SCHEMA.empty_table().set_column(0, "revision", pa.array([], pa.string())),
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, store_schema=False)
        content = sink.getvalue().to_pybytes()
        for written in (content, with_checksum(content)):
            with pytest.raises(pa.ArrowInvalid, match="not a history file"):
                read(written)
