"""The history, and the fleet as of an earlier instant, as Arrow IPC streams. Source: wire.md 10.

The rows of the history are one for each thing that happened. The fleet has the columns of a snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.history import AFTER_KEY, COLUMNS
from mirror_sdk.wire.snapshot import Compression
from mirror_server.extensions.arrow import WORD, Pieces, to_values
from mirror_server.extensions.history import columns
from mirror_server.extensions.history.columns import position
from mirror_server.extensions.history.selection import Position
from mirror_server.extensions.history.service import OpenQuery
from mirror_server.store.resources import ResourceRow

SCHEMA = pa.schema([columns.SCHEMA.field(name) for name in COLUMNS])
"""The columns of the stream: those of the wire; a text is a word of a dictionary."""

_MOST_ROWS = 32_768
_MOST_BYTES = 4 * 1024 * 1024
_MOST_BYTES_OF_DEVICES = 16 * 1024 * 1024

_Numbers: TypeAlias = npt.NDArray[np.int32]


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

    def __init__(self, query: OpenQuery, app_id: str, limit: int | None) -> None:
        self.query = query
        self.row_count = 0
        self.position: Position | None = None
        self.has_more = False
        self._app_id = app_id
        self._limit = limit

    def parts(self) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Return some rows at a time, as the application may see them, and the position of the last of them."""
        for batch in self.query.batches():
            kept = batch if self._limit is None else batch.slice(0, self._limit - self.row_count)
            places = np.arange(kept.num_rows, dtype=np.int32)
            for part in _bounded(kept, places, most_rows=_MOST_ROWS, most_bytes=_MOST_BYTES):
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


def _bounded(
    rows: pa.RecordBatch, begins: _Numbers, *, most_rows: float = math.inf, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Split rows into parts that are small, unless what is between two of ``begins`` is large."""
    if not rows.num_rows:
        return
    if len(begins) == 1 or (rows.num_rows <= most_rows and rows.nbytes <= most_bytes):
        yield rows
        return
    middle = len(begins) // 2
    half = int(begins[middle])
    yield from _bounded(rows.slice(0, half), begins[:middle], most_rows=most_rows, most_bytes=most_bytes)
    yield from _bounded(rows.slice(half), begins[middle:] - half, most_rows=most_rows, most_bytes=most_bytes)


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


class FleetState:
    """The state of the fleet as flat rows: one for each resource, or one without a path for a device without any.

    Args:
        past: The rows.

    Attributes:
        device_count: How many devices there were so far.
    """

    def __init__(self, query: OpenQuery) -> None:
        self._query = query
        self.device_count = 0

    def parts(self) -> Iterator[tuple[pa.RecordBatch, _Numbers]]:
        """Return the rows of some devices at a time, the start of each device in them, and behind these the end."""
        for rows in self._query.batches():
            for part in _bounded(rows, _begins(rows), most_bytes=_MOST_BYTES_OF_DEVICES):
                begins = np.append(_begins(part), np.int32(part.num_rows))
                self.device_count += len(begins) - 1
                yield part, begins


def fleet_stream(fleet: FleetState, compression: Compression, end: Callable[[], bytes]) -> Generator[bytes]:
    """Return the stream piece by piece, with the columns of a snapshot; its last batch is empty and has the end.

    Args:
        fleet: The rows.
        compression: The compression of the buffers.
        end: Makes the end, after the last row.
    """
    # It may be left out of the server; then nobody requests this.
    from mirror_server.extensions.snapshots.arrow import SCHEMA as SNAPSHOT  # noqa: PLC0415

    pieces = Pieces(SNAPSHOT, compression)
    yield pieces.head
    for rows, begins in fleet.parts():
        yield pieces.batch(_nested(rows, begins, SNAPSHOT))
    yield pieces.tail(end())


def devices_of(rows: pa.RecordBatch, begins: _Numbers) -> Iterator[tuple[str, str, list[ResourceRow]]]:
    """Return id, endpoint name and resources of each device. Facts that the history does not have are ``None``."""
    columns = {name: to_values(rows.column(name)) for name in rows.schema.names}
    columns["desired_updated_at"] = [
        None if status in {None, DesiredStatus.PENDING} else at
        for status, at in zip(columns["desired_status"], columns["desired_at"], strict=True)
    ]
    nothing = [None] * rows.num_rows
    resources = list(map(ResourceRow, *(columns.get(name, nothing) for name in ResourceRow._fields)))
    for begin, end in pairwise(begins.tolist()):
        own = [resources[place] for place in range(begin, end) if columns["path"][place] is not None]
        yield columns["device_id"][begin], columns["endpoint_name"][begin], own


def _begins(rows: pa.RecordBatch) -> _Numbers:
    """Return where the rows of each device start."""
    codes = rows.column("device_id").indices.to_numpy()
    return np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1]).astype(np.int32)


def _nested(rows: pa.RecordBatch, begins: _Numbers, schema: pa.Schema) -> pa.RecordBatch:
    """Return a row for each device, with its resources in a list, as in a snapshot."""
    is_resource = rows.column("path").is_valid()
    resources = rows.filter(is_resource)
    boundaries = _passed(is_resource)[begins]
    is_written = resources.column("desired_status").is_valid()
    # The place of each resource among those of its device.
    places = np.arange(resources.num_rows, dtype=np.int32) - np.repeat(boundaries[:-1], np.diff(boundaries))
    written = resources.append_column("resource", _int32(places)).filter(is_written)
    devices = rows.take(_int32(begins[:-1]))
    return pa.RecordBatch.from_arrays(
        [
            devices.column("device_id").cast(pa.string()),
            devices.column("endpoint_name").cast(pa.string()),
            _lists(boundaries, resources, schema.field("resources").type),
            _lists(_passed(is_written)[boundaries], written, schema.field("desired").type),
        ],
        schema=schema,
    )


def _passed(flags: pa.BooleanArray) -> _Numbers:
    """Return how many flags are set before each place, and in total."""
    return np.concatenate([[0], np.cumsum(flags.to_numpy(zero_copy_only=False))]).astype(np.int32)


def _lists(boundaries: _Numbers, rows: pa.RecordBatch, kind: pa.ListType) -> pa.ListArray:
    names, members = rows.schema.names, list(kind.value_type)
    # The history does not tell everything.
    arrays = [rows.column(each.name) if each.name in names else pa.nulls(rows.num_rows, each.type) for each in members]
    items = pa.StructArray.from_arrays(arrays, fields=members)
    offsets = pa.py_buffer(boundaries)
    return pa.Array.from_buffers(kind, len(boundaries) - 1, [None, offsets], 0, children=[items])


def _int32(numbers: _Numbers) -> pa.Int32Array:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
