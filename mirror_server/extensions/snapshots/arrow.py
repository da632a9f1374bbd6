"""Device objects as an Arrow IPC stream. Each row is a device with the list of its resources. Source: wire.md 7.

Payloads are raw bytes with their content types. The reader decodes them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from mirror_sdk.wire.snapshot import Compression, streamed_columns
from mirror_server.extensions.arrow_columns import TYPES, StreamChunks, to_array, to_lists
from mirror_server.extensions.snapshots.service import EncodedPage, Snapshot
from mirror_server.extensions.snapshots.store import STREAMED_REPORTED_COLUMNS, SnapshotPage
from mirror_server.service.devices import LruCache
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import Row

RESOURCE = pa.struct([(each.name, TYPES[each.kind]) for each in streamed_columns("resource", "reported")])
"""The type of a resource with its reported value."""
DESIRED = pa.struct(
    [("resource", pa.int32()), *((each.name, TYPES[each.kind]) for each in streamed_columns("desired"))]
)
"""The type of a desired value. ``resource`` is the index of its resource in the list of resources."""
SCHEMA = pa.schema(
    [
        pa.field("device_id", pa.string()),
        pa.field("endpoint_name", pa.string()),
        pa.field("resources", pa.list_(RESOURCE)),
        pa.field("desired", pa.list_(DESIRED)),
    ]
)
"""The columns of the stream."""

_DEVICE_ID, *_OFRESOURCE, _DESIRED_BYTES = range(len(RESOURCE) + 2)
_PAYLOAD = _OFRESOURCE[RESOURCE.get_field_index("reported_value")]
_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 50_000
_MAX_CACHED_PAGE_BYTES = 16 * 1024 * 1024

_Columns = list[list[Any]]
"""The columns of resources: the device id, and :data:`STREAMED_REPORTED_COLUMNS`."""


def arrow_stream(
    snapshot: Snapshot, compression: Compression, cache: LruCache[EncodedPage], end: bytes
) -> Generator[bytes]:
    """Yield the stream in chunks. The last batch is empty and has ``end`` in its metadata."""
    stream = StreamChunks(SCHEMA, compression)
    yield stream.head
    for page in snapshot.pages():
        # The key does not contain the revision of the page, so that a changed page replaces its older version in the
        # cache.
        key = (compression, snapshot.selection, page.after)
        encoded, size = cache.get(key), 0
        if encoded is not None and encoded.page == page:
            yield encoded.content
            continue
        content = b""
        for chunk in _chunks(stream, snapshot, page):
            yield chunk
            size += len(chunk)
            content = content + chunk if size <= _MAX_CACHED_PAGE_BYTES else b""
        # Changes since a revision are not cached, because each client requests them only once. A page is also not
        # cached if changes up to its revision may still be missing. Such a change may be stored later and would not
        # change the key.
        if content and snapshot.selection.changed_after is None and page.revision <= snapshot.revision:
            cache.put(key, EncodedPage(page, content))
    yield stream.tail(end)


def _chunks(stream: StreamChunks, snapshot: Snapshot, page: SnapshotPage) -> Iterator[bytes]:
    devices = snapshot.devices(page)
    for batch, columns in _batches(devices, snapshot.resources(devices, STREAMED_REPORTED_COLUMNS)):
        written = [index for index, size in enumerate(columns[_DESIRED_BYTES]) if size is not None]
        desired: _Columns = [[] for _ in DESIRED]
        for rows in snapshot.desired(list(dict.fromkeys(columns[_DEVICE_ID][index] for index in written))):
            _add(rows, desired)
        is_unchanged = [not snapshot.is_changed(device) for device in batch]
        yield stream.batch(_batch(batch, columns, _DesiredColumns(written, desired), is_unchanged))


class _DesiredColumns(NamedTuple):
    """The columns of desired values.

    Attributes:
        resources: The indexes of the resources of the values.
        columns: The device id, and :data:`STREAMED_DESIRED_COLUMNS`.
    """

    resources: Sequence[int]
    columns: _Columns


def _batches(page: Sequence[DeviceRow], rows: Iterator[list[Row]]) -> Iterator[tuple[Sequence[DeviceRow], _Columns]]:
    """Yield devices and their resources in batches of limited size. The resources of one device are not split."""
    columns, size = _no_rows(), 0
    for batch in rows:
        chunk = _add(batch, columns)
        size += sum(map(len, filter(None, chunk[_PAYLOAD]))) + sum(filter(None, chunk[_DESIRED_BYTES]))
        ids = columns[_DEVICE_ID]
        is_large = size > _BATCH_BYTES or len(ids) > _BATCH_ROWS
        # The rows of the last device may continue in the next batch, so this device is not complete yet.
        if is_large and (complete := ids.index(last := ids[-1])):
            count = next(index for index, device in enumerate(page) if device.device_id == last)
            yield page[:count], [column[:complete] for column in columns]
            page, columns, size = page[count:], [column[complete:] for column in columns], 0
    yield page, columns


def _add(rows: list[Row], columns: _Columns) -> list[Row]:
    """Append rows to the columns. Return only the columns of these rows."""
    chunk = list(zip(*rows, strict=True))
    for column, values in zip(columns, chunk, strict=True):
        column.extend(values)
    return chunk


def _no_rows() -> _Columns:
    return [[] for _ in range(_DESIRED_BYTES + 1)]


def _batch(
    page: Sequence[DeviceRow], columns: _Columns, desired: _DesiredColumns, is_unchanged: Sequence[bool]
) -> pa.RecordBatch:
    """Return these devices and their resources as a batch, ordered by device and path.

    The list of an unchanged device is null.
    """
    counts = Counter(columns[_DEVICE_ID])
    lengths = [counts[device.device_id] for device in page]
    return pa.RecordBatch.from_arrays(
        [
            to_array([device.device_id for device in page], pa.string()),
            to_array([device.endpoint_name for device in page], pa.string()),
            to_lists(lengths, _structs(RESOURCE, [columns[index] for index in _OFRESOURCE]), is_unchanged),
            _desired(desired, lengths),
        ],
        schema=SCHEMA,
    )


def _desired(desired: _DesiredColumns, lengths: Sequence[int]) -> pa.Array:
    """Return the desired values of each device. Each has the index of its resource in the list of the device."""
    begins = list(accumulate(lengths, initial=0))
    owners = [bisect_right(begins, index) - 1 for index in desired.resources]
    positions = [index - begins[owner] for index, owner in zip(desired.resources, owners, strict=True)]
    counts = Counter(owners)
    own = [counts[number] for number in range(len(lengths))]
    return to_lists(own, _structs(DESIRED, [positions, *desired.columns[1:]]), [False] * len(own))


def _structs(kind: pa.StructType, columns: _Columns) -> pa.StructArray:
    arrays = [to_array(column, field.type) for column, field in zip(columns, kind, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))
