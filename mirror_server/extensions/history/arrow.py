"""The history, and the fleet at an earlier time, as Arrow IPC streams. Source: wire.md 10.

The stream of the history has one row for each event. The stream of the fleet has the columns of a snapshot.
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
from mirror_server.extensions.arrow_columns import WORD, StreamChunks, to_values
from mirror_server.extensions.history import columns
from mirror_server.extensions.history.columns import position
from mirror_server.extensions.history.selection import Position
from mirror_server.extensions.history.service import OpenQuery
from mirror_server.store.resources import ResourceRow

SCHEMA = pa.schema([columns.SCHEMA.field(name) for name in COLUMNS])
"""The columns of the stream, in the order of the wire format. Strings are dictionary-encoded."""

_MOST_ROWS = 32_768
_MOST_BYTES = 4 * 1024 * 1024
_MOST_BYTES_OF_DEVICES = 16 * 1024 * 1024

_Numbers: TypeAlias = npt.NDArray[np.int32]


class HistoryPage:
    """The rows of one response in batches. After the last batch, its attributes describe the end of the response.

    Args:
        query: The query that returns the rows.
        app_id: The application that reads the rows.
        limit: The maximum number of rows, or ``None`` for all rows.

    Attributes:
        query: The query that returns the rows.
        row_count: The number of rows that have been returned so far.
        position: The position of the last returned row.
        has_more: Whether there are more rows than the limit.
    """

    def __init__(self, query: OpenQuery, app_id: str, limit: int | None) -> None:
        self.query = query
        self.row_count = 0
        self.position: Position | None = None
        self.has_more = False
        self._app_id = app_id
        self._limit = limit

    def batches(self) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Yield batches of the rows as the application may see them, each with the position of its last row."""
        for batch in self.query.batches():
            limited = batch if self._limit is None else batch.slice(0, self._limit - self.row_count)
            indices = np.arange(limited.num_rows, dtype=np.int32)
            for part in _bounded(limited, indices, most_rows=_MOST_ROWS, most_bytes=_MOST_BYTES):
                self.row_count += part.num_rows
                self.position = position(part, part.num_rows - 1)
                yield _visible_to(part, self._app_id), self.position
            self.has_more = limited.num_rows < batch.num_rows
            if self.has_more:
                return


def arrow_stream(
    page: HistoryPage, compression: Compression, cursor: Callable[[Position], str], end: Callable[[], bytes]
) -> Generator[bytes]:
    """Yield the chunks of the stream. The metadata of each batch has the cursor that continues after its rows.

    The last batch has no rows, and its metadata has the end of the response.

    Args:
        page: The rows of the response.
        compression: The compression of the buffers.
        cursor: A function that returns the cursor that continues after a position.
        end: A function that returns the end of the response. It is called after the last row.
    """
    stream = StreamChunks(SCHEMA, compression)
    yield stream.head
    for batch, last in page.batches():
        yield stream.batch(batch, {AFTER_KEY: cursor(last).encode("ascii")})
    yield stream.tail(end())


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield each row as a dictionary from column names to values. Timestamps are integers in milliseconds."""
    for row in zip(*map(to_values, batch.columns), strict=True):
        yield dict(zip(COLUMNS, row, strict=True))


def _bounded(
    rows: pa.RecordBatch, starts: _Numbers, *, most_rows: float = math.inf, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Split rows into small batches, but only at ``starts``, so that the rows between two starts stay together."""
    if not rows.num_rows:
        return
    if len(starts) == 1 or (rows.num_rows <= most_rows and _size(rows) <= most_bytes):
        yield rows
        return
    middle = len(starts) // 2
    half = int(starts[middle])
    yield from _bounded(rows.slice(0, half), starts[:middle], most_rows=most_rows, most_bytes=most_bytes)
    yield from _bounded(rows.slice(half), starts[middle:] - half, most_rows=most_rows, most_bytes=most_bytes)


def _size(rows: pa.RecordBatch) -> int:
    """Return the size of the rows in bytes, without the dictionaries, which a part of the rows has completely."""
    return sum(each.indices.nbytes if pa.types.is_dictionary(each.type) else each.nbytes for each in rows.columns)


def _visible_to(batch: pa.RecordBatch, app_id: str) -> pa.RecordBatch:
    """Return the columns of the stream. Only the application that submitted a write sees why the write failed.

    Source: specification 3.1, 7.
    """
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
    """The state of the fleet as flat rows, one for each resource.

    A device without resources has one row without a path.

    Args:
        query: The query that returns the rows.

    Attributes:
        device_count: The number of devices that have been returned so far.
    """

    def __init__(self, query: OpenQuery) -> None:
        self._query = query
        self.device_count = 0

    def batches(self) -> Iterator[tuple[pa.RecordBatch, _Numbers]]:
        """Yield batches of rows, each with the index of the first row of each device.

        The last index is the number of rows in the batch.
        """
        for rows in self._query.batches():
            for part in _bounded(rows, _starts(rows), most_bytes=_MOST_BYTES_OF_DEVICES):
                starts = np.append(_starts(part), np.int32(part.num_rows))
                self.device_count += len(starts) - 1
                yield part, starts


def fleet_stream(fleet: FleetState, compression: Compression, end: Callable[[], bytes]) -> Generator[bytes]:
    """Yield the chunks of a stream with the columns of a snapshot.

    The last batch has no rows, and its metadata has the end of the response.

    Args:
        fleet: The state of the fleet.
        compression: The compression of the buffers.
        end: A function that returns the end of the response. It is called after the last row.
    """
    # The snapshots extension may be left out of the server. In that case nothing calls this function.
    from mirror_server.extensions.snapshots.arrow import SCHEMA as SNAPSHOT  # noqa: PLC0415

    stream = StreamChunks(SNAPSHOT, compression)
    yield stream.head
    for rows, starts in fleet.batches():
        yield stream.batch(_nested(rows, starts, SNAPSHOT))
    yield stream.tail(end())


def devices_of(rows: pa.RecordBatch, starts: _Numbers) -> Iterator[tuple[str, str, list[ResourceRow]]]:
    """Yield the id, endpoint name and resources of each device. Fields that the history does not have are ``None``."""
    columns = {name: to_values(rows.column(name)) for name in rows.schema.names}
    columns["desired_updated_at"] = [
        None if status in {None, DesiredStatus.PENDING} else at
        for status, at in zip(columns["desired_status"], columns["desired_at"], strict=True)
    ]
    nothing = [None] * rows.num_rows
    resources = list(map(ResourceRow, *(columns.get(name, nothing) for name in ResourceRow._fields)))
    for begin, end in pairwise(starts.tolist()):
        own = [resources[index] for index in range(begin, end) if columns["path"][index] is not None]
        yield columns["device_id"][begin], columns["endpoint_name"][begin], own


def _starts(rows: pa.RecordBatch) -> _Numbers:
    """Return the indices at which the rows of each device start."""
    codes = rows.column("device_id").indices.to_numpy()
    return np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1]).astype(np.int32)


def _nested(rows: pa.RecordBatch, starts: _Numbers, schema: pa.Schema) -> pa.RecordBatch:
    """Return one row for each device, with its resources in a list, as in a snapshot."""
    is_resource = rows.column("path").is_valid()
    resources = rows.filter(is_resource)
    boundaries = _counts_before(is_resource)[starts]
    is_written = resources.column("desired_status").is_valid()
    # The index of each resource among the resources of its device.
    indices = np.arange(resources.num_rows, dtype=np.int32) - np.repeat(boundaries[:-1], np.diff(boundaries))
    written = resources.append_column("resource", _int32(indices)).filter(is_written)
    devices = rows.take(_int32(starts[:-1]))
    return pa.RecordBatch.from_arrays(
        [
            devices.column("device_id").cast(pa.string()),
            devices.column("endpoint_name").cast(pa.string()),
            _lists(boundaries, resources, schema.field("resources").type),
            _lists(_counts_before(is_written)[boundaries], written, schema.field("desired").type),
        ],
        schema=schema,
    )


def _counts_before(flags: pa.BooleanArray) -> _Numbers:
    """Return the number of set flags before each index, followed by the total number."""
    return np.concatenate([[0], np.cumsum(flags.to_numpy(zero_copy_only=False))]).astype(np.int32)


def _lists(boundaries: _Numbers, rows: pa.RecordBatch, kind: pa.ListType) -> pa.ListArray:
    names, members = rows.schema.names, list(kind.value_type)
    # Some of these columns are not in the history.
    arrays = [rows.column(each.name) if each.name in names else pa.nulls(rows.num_rows, each.type) for each in members]
    items = pa.StructArray.from_arrays(arrays, fields=members)
    offsets = pa.py_buffer(boundaries)
    return pa.Array.from_buffers(kind, len(boundaries) - 1, [None, offsets], 0, children=[items])


def _int32(numbers: _Numbers) -> pa.Int32Array:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
