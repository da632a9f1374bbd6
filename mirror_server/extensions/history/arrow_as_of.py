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
from mirror_server.extensions.history.service import OpenPast
from mirror_server.extensions.snapshots.arrow import DESIRED, RESOURCE, SCHEMA
from mirror_server.store.resources import ResourceRow

_MOST_BYTES = 16 * 1024 * 1024

_Numbers: TypeAlias = npt.NDArray[np.int32]


class PastFleet:
    """The state of the fleet as flat rows: one for each resource, or one without a path for a device without any.

    Args:
        past: The rows.

    Attributes:
        device_count: How many devices there were so far.
    """

    def __init__(self, past: OpenPast) -> None:
        self._past = past
        self.device_count = 0

    def parts(self) -> Iterator[tuple[pa.RecordBatch, _Numbers]]:
        """Return the rows of some devices at a time, the start of each device in them, and behind these the end."""
        for rows in self._past.batches():
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
    """Return the stream piece by piece, with the columns of a snapshot; its last batch is empty and has the end.

    Args:
        fleet: The rows.
        compression: The compression of the buffers.
        end: Makes the end, after the last row.
    """
    pieces = Pieces(SCHEMA, compression)
    yield pieces.head
    for rows, begins in fleet.parts():
        yield pieces.batch(_nested(rows, begins))
    yield pieces.tail(end())


def devices_of(rows: pa.RecordBatch, begins: _Numbers) -> Iterator[PastDevice]:
    """Return each device of some rows. Facts of a resource that the history does not have are ``None``."""
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
    """Return where the rows of each device start."""
    codes = rows.column("device_id").indices.to_numpy()
    return np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1]).astype(np.int32)


def _bounded(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows into parts of whole devices that are small, unless a single device is large."""
    begins = _begins(rows)
    if rows.nbytes <= _MOST_BYTES or len(begins) == 1:
        yield rows
        return
    half = int(begins[len(begins) // 2])
    yield from _bounded(rows.slice(0, half))
    yield from _bounded(rows.slice(half))


def _nested(rows: pa.RecordBatch, begins: _Numbers) -> pa.RecordBatch:
    """Return a row for each device, with its resources in a list, as in a snapshot."""
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
    """Return how many flags are set before each place, and in total."""
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
