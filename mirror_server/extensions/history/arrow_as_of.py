"""The fleet as of an earlier instant, as the Arrow IPC stream of a snapshot. Source: wire.md 10."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.snapshot import Compression
from mirror_server.arrow import Pieces, to_values
from mirror_server.extensions.history.pasts import Past
from mirror_server.extensions.history.service import OpenAsOf
from mirror_server.extensions.snapshots.arrow import DESIRED, RESOURCE, SCHEMA
from mirror_server.store.resources import ResourceRow

_MOST_BYTES = 16 * 1024 * 1024

_Numbers: TypeAlias = npt.NDArray[np.int32]


class PastFleet:
    """Device by device what was known of it, as flat rows: one for each resource, or one without a path.

    Args:
        past: Where the rows are.

    Attributes:
        past: Where the rows are.
        device_count: Of how many devices they were so far.
    """

    def __init__(self, past: Past[OpenAsOf]) -> None:
        self.past = past
        self.device_count = 0

    def parts(self) -> Iterator[tuple[pa.RecordBatch, _Numbers]]:
        """The rows of some devices at a time, and where those of each begin, with the end of the last one behind."""
        for rows in self.past.rows.batches():
            for part in _bounded(rows):
                begins = np.append(_begins(part), np.int32(part.num_rows))
                self.device_count += len(begins) - 1
                yield part, begins


class PastDevice(NamedTuple):
    """What was known of a device."""

    device_id: str
    endpoint_name: str
    resources: list[ResourceRow]


def arrow_stream(fleet: PastFleet, compression: Compression, end: Callable[[], bytes]) -> Generator[bytes]:
    """The whole stream, piece by piece, with the columns of a snapshot; its last batch is empty and has the end.

    Args:
        fleet: The rows.
        compression: That of the buffers.
        end: What is told at the end, when all rows are through.
    """
    pieces = Pieces(SCHEMA, compression)
    yield pieces.head
    for rows, begins in fleet.parts():
        yield pieces.batch(_nested(rows, begins))
    yield pieces.tail(end())


def devices_of(rows: pa.RecordBatch, begins: _Numbers) -> Iterator[PastDevice]:
    """Each device of some rows. What the history does not tell of a resource is ``None``."""
    columns = {name: to_values(rows.column(name)) for name in rows.schema.names}
    columns["desired_updated_at"] = [
        None if status in {None, DesiredStatus.PENDING} else at
        for status, at in zip(columns["desired_status"], columns["desired_at"], strict=True)
    ]
    nothing = [None] * rows.num_rows
    resources = list(map(ResourceRow, *(columns.get(name, nothing) for name in ResourceRow._fields)))
    for begin, end in pairwise(begins.tolist()):
        own = [resources[place] for place in range(begin, end) if columns["path"][place] is not None]
        yield PastDevice(columns["device_id"][begin], columns["endpoint_name"][begin], own)


def _begins(rows: pa.RecordBatch) -> _Numbers:
    """Where the rows of each device begin."""
    codes = rows.column("device_id").indices.to_numpy()
    return np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1]).astype(np.int32)


def _bounded(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in parts that are not too large where one device is not."""
    begins = _begins(rows)
    if rows.nbytes <= _MOST_BYTES or len(begins) == 1:
        yield rows
        return
    half = int(begins[len(begins) // 2])
    yield from _bounded(rows.slice(0, half))
    yield from _bounded(rows.slice(half))


def _nested(rows: pa.RecordBatch, begins: _Numbers) -> pa.RecordBatch:
    """A row a device, its resources in a list, as a snapshot has them."""
    is_resource = rows.column("path").is_valid()
    resources = rows.filter(is_resource)
    borders = _passed(is_resource)[begins]
    is_written = resources.column("desired_status").is_valid()
    # The place of each resource among those of its device.
    places = np.arange(resources.num_rows, dtype=np.int32) - np.repeat(borders[:-1], np.diff(borders))
    written = resources.append_column("resource", _int32(places)).filter(is_written)
    devices = rows.take(_int32(begins[:-1]))
    return pa.RecordBatch.from_arrays(
        [
            devices.column("device_id").cast(pa.string()),
            devices.column("endpoint_name").cast(pa.string()),
            _lists(borders, resources, RESOURCE),
            _lists(_passed(is_written)[borders], written, DESIRED),
        ],
        schema=SCHEMA,
    )


def _passed(flags: pa.BooleanArray) -> _Numbers:
    """How many are set before each place, and altogether."""
    return np.concatenate([[0], np.cumsum(flags.to_numpy(zero_copy_only=False))]).astype(np.int32)


def _lists(borders: _Numbers, rows: pa.RecordBatch, kind: pa.StructType) -> pa.ListArray:
    names = rows.schema.names
    # The history does not tell everything.
    arrays = [rows.column(each.name) if each.name in names else pa.nulls(rows.num_rows, each.type) for each in kind]
    items = pa.StructArray.from_arrays(arrays, fields=list(kind))
    offsets = pa.py_buffer(borders)
    return pa.Array.from_buffers(pa.list_(kind), len(borders) - 1, [None, offsets], 0, children=[items])


def _int32(numbers: _Numbers) -> pa.Int32Array:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
