"""The history as an Arrow IPC stream: one row for each thing that happened. Source: wire.md 10."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.wire.history import AFTER_KEY, COLUMNS
from mirror_sdk.wire.snapshot import Compression
from mirror_server.arrow import WORD, Pieces, to_values
from mirror_server.extensions.history import columns
from mirror_server.extensions.history.columns import position
from mirror_server.extensions.history.selection import Position
from mirror_server.extensions.history.service import OpenPast

SCHEMA = pa.schema([columns.SCHEMA.field(name) for name in COLUMNS])
"""The columns of the stream: those of the wire; a text is a word of a dictionary."""

_MOST_ROWS = 32_768
_MOST_BYTES = 4 * 1024 * 1024


class HistoryPage:
    """The rows of one response in parts, and after the last one the facts for its end.

    Args:
        past: The rows.
        app_id: The application that reads them.
        limit: How many rows there are at most; ``None`` for all.

    Attributes:
        past: The rows.
        row_count: How many there were so far.
        position: The position of the last of them.
        has_more: Whether there are more than the limit.
    """

    def __init__(self, past: OpenPast, app_id: str, limit: int | None) -> None:
        self.past = past
        self.row_count = 0
        self.position: Position | None = None
        self.has_more = False
        self._app_id = app_id
        self._limit = limit

    def parts(self) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Return some rows at a time, as the application may see them, and the position of the last of them."""
        for batch in self.past.batches():
            kept = batch if self._limit is None else batch.slice(0, self._limit - self.row_count)
            for part in _bounded(kept):
                self.row_count += part.num_rows
                self.position = position(part, part.num_rows - 1)
                yield _shown(part, self._app_id), self.position
            self.has_more = kept.num_rows < batch.num_rows
            if self.has_more:
                return


def arrow_stream(
    page: HistoryPage, compression: Compression, cursor: Callable[[Position], str], end: Callable[[], bytes]
) -> Generator[bytes]:
    """Return the stream piece by piece: each batch with the cursor behind its rows, the last one, empty, with the end.

    Args:
        page: The rows.
        compression: The compression of the buffers.
        cursor: Makes the cursor that continues behind a position.
        end: Makes the end, after the last row.
    """
    pieces = Pieces(SCHEMA, compression)
    yield pieces.head
    for batch, last in page.parts():
        yield pieces.batch(batch, {AFTER_KEY: cursor(last).encode("ascii")})
    yield pieces.tail(end())


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Return each row by the names of its columns, with instants in milliseconds."""
    for row in zip(*map(to_values, batch.columns), strict=True):
        yield dict(zip(COLUMNS, row, strict=True))


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into parts that are small, unless a single row is large."""
    count = batch.num_rows
    if count <= 1 or (count <= _MOST_ROWS and batch.nbytes <= _MOST_BYTES):
        if count:
            yield batch
        return
    half = count // 2
    yield from _bounded(batch.slice(0, half))
    yield from _bounded(batch.slice(half))


def _shown(batch: pa.RecordBatch, app_id: str) -> pa.RecordBatch:
    """Hide why a write failed from all applications but the one that placed it. Source: specification 3.1, 7."""
    own = {"category": _of_issuer(batch.column("category"), batch.column("app_id"), app_id)}
    return pa.RecordBatch.from_arrays([own.get(name, batch.column(name)) for name in COLUMNS], schema=SCHEMA)


def _of_issuer(categories: pa.DictionaryArray, app_ids: pa.DictionaryArray, app_id: str) -> pa.DictionaryArray:
    own = pc.index(app_ids.dictionary, pa.scalar(app_id, pa.string())).as_py()
    if own < 0:
        return pa.nulls(len(categories), WORD)
    is_own = pc.equal(app_ids.indices, pa.scalar(own, app_ids.indices.type))
    indices = pc.if_else(is_own, categories.indices, pa.scalar(None, categories.indices.type))
    return pa.DictionaryArray.from_arrays(indices, categories.dictionary)
