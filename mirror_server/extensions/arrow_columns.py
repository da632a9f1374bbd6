"""Arrow arrays of database columns, and Arrow IPC streams in chunks.

Import this module only if pyarrow is installed, and as late as possible, because importing pyarrow is slow. Arrays are
built from buffers. ``pyarrow.array`` would import pandas if it is installed, which takes a second and much memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from mirror_sdk.wire.model import Kind
from mirror_sdk.wire.snapshot import END_KEY, Compression

WORD = pa.dictionary(pa.int32(), pa.string())
INSTANT = pa.timestamp("ms", tz="UTC")

TYPES: Mapping[Kind, pa.DataType] = {
    "word": WORD,
    "bytes": pa.binary(),
    "instant": INSTANT,
    "integer": pa.int64(),
    "small integer": pa.int8(),
    "flag": pa.bool_(),
}
"""The Arrow type of each kind of column."""

Column = Sequence[Any]

_END_OF_STREAM_BYTES = 8


def to_array(values: Column, kind: pa.DataType) -> pa.Array:
    """Return an Arrow array of database values, which may include ``None``.

    ``kind`` is one of the types in this module.
    """
    if kind == WORD:
        return to_array(values, pa.string()).dictionary_encode()
    filler, buffers_of = _FORMS[kind]
    try:
        # This first tries the conversion without a search for None, because the search would take as long as the
        # conversion.
        return pa.Array.from_buffers(kind, len(values), [None, *buffers_of(values)])
    except TypeError:
        missing = values.count(None)
    if missing == len(values):
        return pa.nulls(len(values), kind)
    filled = [filler if value is None else value for value in values]
    validity = _bitmap(bytes(value is not None for value in values))
    return pa.Array.from_buffers(kind, len(values), [validity, *buffers_of(filled)], missing)


def to_lists(lengths: Column, items: pa.Array, is_missing: Sequence[bool]) -> pa.ListArray:
    """Return an array of lists with these lengths. A missing list is null, and its length must be 0."""
    validity = _bitmap(bytes(not missing for missing in is_missing)) if any(is_missing) else None
    offsets = pa.py_buffer(array("i", accumulate(lengths, initial=0)))
    kind = pa.list_(items.type)
    return pa.Array.from_buffers(kind, len(lengths), [validity, offsets], sum(is_missing), children=[items])


def to_values(column: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects. Times are in milliseconds, and nulls are ``None``."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.type == INSTANT:
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if column.type == WORD:
        # Converting each word of the dictionary once takes half as long as converting the column.
        words = column.dictionary.to_pylist()
        return [None if index is None else words[index] for index in column.indices.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _bitmap(flags: bytes) -> pa.Buffer:
    """Return a buffer with one bit for each byte. Each byte must be 0 or 1."""
    return pa.Array.from_buffers(pa.int8(), len(flags), [None, pa.py_buffer(flags)]).cast(pa.bool_()).buffers()[1]


def _of_bytes(values: Column) -> list[pa.Buffer]:
    offsets = array("i", accumulate(map(len, values), initial=0))
    return [pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]


def _of_texts(values: Column) -> list[pa.Buffer]:
    joined = "".join(values)
    if not joined.isascii():
        return _of_bytes([text.encode("utf-8") for text in values])
    offsets = array("i", accumulate(map(len, values), initial=0))
    return [pa.py_buffer(offsets), pa.py_buffer(joined.encode("ascii"))]


def _of_numbers(code: str) -> Callable[[Column], list[pa.Buffer]]:
    return lambda values: [pa.py_buffer(array(code, values))]


_FORMS: Mapping[pa.DataType, tuple[object, Callable[[Column], list[pa.Buffer]]]] = {
    pa.binary(): (b"", _of_bytes),
    pa.string(): ("", _of_texts),
    pa.bool_(): (0, lambda values: [_bitmap(bytes(values))]),
    pa.int8(): (0, _of_numbers("b")),
    pa.int32(): (0, _of_numbers("i")),
    pa.int64(): (0, _of_numbers("q")),
    INSTANT: (0, _of_numbers("q")),
}
"""The placeholder for a missing value, and the function that builds the buffers, by Arrow type."""


class StreamChunks:
    """A builder of the chunks of an Arrow IPC stream: the head, any number of batches, and the tail.

    Args:
        schema: The columns of the stream.
        compression: The compression of the buffers.

    Attributes:
        head: The first chunk.
    """

    def __init__(self, schema: pa.Schema, compression: Compression) -> None:
        self._schema = schema
        self._options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self.head = self._stream()[:-_END_OF_STREAM_BYTES]

    def batch(self, batch: pa.RecordBatch, metadata: dict[bytes, bytes] | None = None) -> bytes:
        """Return the chunk that contains a batch and its metadata."""
        return self._stream(batch, metadata)[len(self.head) : -_END_OF_STREAM_BYTES]

    def tail(self, end: bytes) -> bytes:
        """Return the last chunk, which contains a batch without rows and has ``end`` in its metadata."""
        nothing = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in self._schema], schema=self._schema)
        return self._stream(nothing, {END_KEY: end})[len(self.head) :]

    def _stream(self, batch: pa.RecordBatch | None = None, metadata: dict[bytes, bytes] | None = None) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema, options=self._options) as writer:
            if batch is not None:
                writer.write_batch(batch, custom_metadata=metadata)
        return bytes(sink.getvalue())
