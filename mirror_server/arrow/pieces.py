"""An Arrow IPC stream in pieces, each made when its turn comes."""

from __future__ import annotations

import pyarrow as pa

from mirror_sdk.wire.snapshot import END_KEY, Compression

_END_OF_STREAM_BYTES = 8


class Pieces:
    """Makes pieces that, put together, are one stream: the head, then any number of batches, then the tail.

    Args:
        schema: The columns.
        compression: That of the buffers.

    Attributes:
        head: The first piece.
    """

    def __init__(self, schema: pa.Schema, compression: Compression) -> None:
        self._schema = schema
        self._options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self.head = self._stream()[:-_END_OF_STREAM_BYTES]

    def batch(self, batch: pa.RecordBatch, metadata: dict[bytes, bytes] | None = None) -> bytes:
        """The piece of a batch, and of what is told with it."""
        return self._stream(batch, metadata)[len(self.head) : -_END_OF_STREAM_BYTES]

    def tail(self, end: bytes) -> bytes:
        """The last piece: a batch without rows, which has ``end`` in its metadata."""
        nothing = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in self._schema], schema=self._schema)
        return self._stream(nothing, {END_KEY: end})[len(self.head) :]

    def _stream(self, batch: pa.RecordBatch | None = None, metadata: dict[bytes, bytes] | None = None) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema, options=self._options) as writer:
            if batch is not None:
                writer.write_batch(batch, custom_metadata=metadata)
        return bytes(sink.getvalue())
