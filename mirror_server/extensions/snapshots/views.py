"""The views of the fleet snapshot. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any

import orjson
from flask import Blueprint, Response, g, request

from mirror_sdk.wire.history import NO_HISTORY
from mirror_sdk.wire.routes import SNAPSHOT, SNAPSHOT_RANGES, TOTAL_HEADER
from mirror_sdk.wire.snapshot import (
    ARROW,
    DEFAULT_DEVICES_PER_RANGE,
    MAX_DEVICES_PER_RANGE,
    MAX_RANGES,
    NDJSON,
    Compression,
    DeviceRanges,
)
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.downloads import (
    COMPRESSION,
    PATTERNS,
    Download,
    accepted_format,
    in_chunks,
    query_compression,
    query_patterns,
)
from mirror_server.extensions.snapshots.openapi_examples import FORMS
from mirror_server.extensions.snapshots.service import EncodedPage, Snapshot, SnapshotSelection, SnapshotService
from mirror_server.extensions.time_parameters import query_instant
from mirror_server.service.devices import LruCache
from mirror_server.service.keys import Scope
from mirror_server.service.slow_reads import is_slow_read
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import RESOURCE_COLUMNS, ResourceRow
from mirror_server.store.session import Row
from mirror_server.views import serialize
from mirror_server.views.description import INSTANT, Parameter, ResponseSpec, described, header, integer, json_of
from mirror_server.views.requests import (
    app_id,
    query_conditions,
    query_integer,
    requires,
    services,
    without_head,
)
from mirror_server.views.responses import when_read

_NONE: tuple[None, Iterator[Row]] = (None, iter(()))
_AS_OF = Parameter(
    "as_of",
    "The fleet as it was at this time, from the history. Reported values count from the time of the device's own clock,"
    " so that values that arrived late are included. Cannot be combined with `changed_after`.",
    INSTANT,
)
_CHANGED_AFTER = Parameter(
    "changed_after",
    "The `revision` of an earlier snapshot. For a device that has not changed since then, only its id is returned.",
    integer(0),
)
_PARAMETERS = (PATTERNS, _AS_OF, _CHANGED_AFTER, COMPRESSION)
_OWN = tuple(one.name for one in _PARAMETERS)
_OWN_OF_RANGES = "devices_per_range"
_DEVICES_PER_RANGE = Parameter(
    _OWN_OF_RANGES,
    f"Number of devices per range. The limit is {MAX_RANGES} ranges.",
    integer(1, MAX_DEVICES_PER_RANGE, DEFAULT_DEVICES_PER_RANGE),
)
_TOTAL = header(TOTAL_HEADER, "Number of devices in the response.", integer(0))

routes = Blueprint("snapshots", __name__)


@routes.get(SNAPSHOT)
@requires(Scope.READ, query=None)
@without_head
@described(
    "Mirror",
    ResponseSpec(200, "The device objects, as a stream.", *FORMS, headers=(_TOTAL,)),
    parameters=_PARAMETERS,
    selects_devices=True,
    errors=(404, 406),
    is_extension=True,
)
def get_snapshot() -> Response:
    """Get all device objects of a selection, all as of the same instant.

    The response is NDJSON with one device object per line, or an Arrow IPC stream. That stream has one row per device,
    with the resources in a list. The header ``Accept`` selects the format; NDJSON is the default. The last line, or the
    metadata ``mirror.end`` of the last batch, contains the number of devices; a response without it is incomplete.
    Devices are selected as in ``GET /v3/devices``: every other parameter is a filter.

    With ``as_of`` the data comes from the history. The response is 404 if the server stores no history, and 400 with
    ``oldest_at`` if the time is before its start. There is no ``Mirror-Total``. Members that the history does not
    contain are null or absent: whether a resource was subscribed, how long its value was fresh, and whether a failed
    write was acknowledged. ``reported_at`` is the time of the change by the device's clock (``changed_at`` of the
    history), so it is never after ``as_of``.
    """
    form, compression = accepted_format("a snapshot"), query_compression()
    instant = query_instant("as_of")
    if instant is not None:
        if "changed_after" in request.args:
            message = "cannot be combined with as_of; remove one of the two"
            raise ApiError.of_field("changed_after", message)
        return _snapshot_at(instant, form, compression)
    arrow_stream = _arrow_stream() if form == ARROW else None
    snapshots, is_admitted = services().part(SnapshotService), g.still_admits

    def response(snapshot: Snapshot) -> Response:
        if arrow_stream is None:
            chunks = in_chunks(_lines(snapshot))
        else:
            chunks = arrow_stream(snapshot, compression, snapshots.encoded_pages, _end(snapshot))
        headers = {TOTAL_HEADER: str(snapshot.device_count)}
        return Download(chunks, is_admitted=is_admitted, release=snapshot.close, content_type=form, headers=headers)

    return _when_open(_selection(), response)


@routes.get(SNAPSHOT_RANGES)
@requires(Scope.READ, query=None)
@described(
    "Mirror",
    ResponseSpec(200, "The ranges, by id.", json_of(DeviceRanges, "a fleet in three ranges")),
    parameters=(_DEVICES_PER_RANGE,),
    selects_devices=True,
    is_extension=True,
)
def get_device_ranges() -> Response:
    """Divide the ids of a selection into ranges, to read its snapshot in parts.

    Read a part with ``id__gt`` and ``id__lte``. The ranges cover all ids, so a device that registers later is in one of
    them too. Each part is a snapshot at a different instant. Devices are selected as in ``GET /v3/devices``: every
    other parameter is a filter.
    """
    if request.method == "HEAD":
        raise ApiError(405, "HEAD is not supported for ranges; use GET")
    size = query_integer(_OWN_OF_RANGES, low=1, high=MAX_DEVICES_PER_RANGE) or DEFAULT_DEVICES_PER_RANGE
    is_admitted = g.still_admits

    def response(snapshot: Snapshot) -> Response:
        if snapshot.device_count > size * MAX_RANGES:
            snapshot.close()
            least = -(-snapshot.device_count // MAX_RANGES)
            message = f"{snapshot.device_count} devices make more than {MAX_RANGES} ranges; use at least {least}"
            raise ApiError.of_field(_OWN_OF_RANGES, message)
        chunks = _ranges(snapshot, size)
        release = snapshot.close
        return Download(chunks, is_admitted=is_admitted, release=release, content_type="application/json", headers={})

    return _when_open(SnapshotSelection(conditions=query_conditions((_OWN_OF_RANGES,))), response)


def _when_open(selection: SnapshotSelection, response: Callable[[Snapshot], Response]) -> Response:
    """Open a snapshot and respond with it. Opening a snapshot counts its devices, which can take long."""
    server = services()
    opening = partial(server.part(SnapshotService).open, app_id(), selection)
    is_long = is_slow_read(selection.conditions, rows=server.devices.estimated_count(), counts=True)
    return when_read(opening, response, is_long=is_long, discard=Snapshot.close)


def _ranges(snapshot: Snapshot, size: int) -> Generator[bytes]:
    """Yield the response as one chunk. It is created outside the view, because this reads every id."""
    pages = snapshot.pages(size)
    ranges: list[dict[str, Any]] = [{"last": page.last, "device_count": page.device_count} for page in pages]
    ranges = ranges or [{"device_count": 0}]
    for previous, this in pairwise(ranges):
        this["after"] = previous["last"]
    # The last range has no upper end, so that it includes devices that register later.
    ranges[-1].pop("last", None)
    content = {"object": "device-ranges", "device_count": snapshot.device_count, "revision": snapshot.revision}
    yield orjson.dumps(content | {"data": ranges})


def _snapshot_at(instant: Instant, form: str, compression: Compression) -> Response:
    selected = {"conditions": query_conditions(_OWN), "patterns": query_patterns()}
    response: Response | None = services().extensions.hook.snapshot_at(
        instant=instant, content_type=form, compression=compression, **selected
    )
    if response is None:
        message = "this server stores no history; its operator can enable it with --keep-history"
        raise ApiError(404, message, reason=NO_HISTORY)
    return response


def _selection() -> SnapshotSelection:
    return SnapshotSelection(
        conditions=query_conditions(_OWN),
        patterns=query_patterns(),
        changed_after=query_integer("changed_after", low=0),
    )


def _arrow_stream() -> Callable[[Snapshot, Compression, LruCache[EncodedPage], bytes], Generator[bytes]]:
    try:
        # pyarrow is optional, and importing it takes long.
        from mirror_server.extensions.snapshots.arrow import arrow_stream  # noqa: PLC0415
    except ImportError:
        raise ApiError(
            406,
            f"this server has no pyarrow, so it cannot send {ARROW}; request {NDJSON} with the header Accept, or have"
            " pyarrow installed on the server",
        ) from None
    return arrow_stream


def _lines(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield one line per device object, and the end of the snapshot as the last line."""
    for device, resources in _devices(snapshot):
        if snapshot.is_changed(device):
            content = serialize.device_content(device, resources, snapshot.app_id)
            yield serialize.device_object(content, snapshot.taken_at)
        else:
            yield orjson.dumps({"object": "device-echo-unchanged", "device_id": device.device_id})
    yield _end(snapshot)


def _devices(snapshot: Snapshot) -> Iterator[tuple[DeviceRow, list[ResourceRow]]]:
    for page in snapshot.pages():
        devices = snapshot.devices(page)
        rows = chain.from_iterable(snapshot.resources(devices, RESOURCE_COLUMNS))
        by_device = groupby(rows, key=itemgetter(0))
        device_id, own = next(by_device, _NONE)
        for device in devices:
            found = []
            if device_id == device.device_id:
                # Read before the next group, because ``groupby`` reads all groups from one iterator.
                found = [ResourceRow._make(row[1:]) for row in own]
                device_id, own = next(by_device, _NONE)
            yield device, found


def _end(snapshot: Snapshot) -> bytes:
    return orjson.dumps(
        {
            "object": "snapshot-end",
            "taken_at": serialize.timestamp(snapshot.taken_at),
            "device_count": snapshot.device_count,
            "revision": snapshot.revision,
            "seq": snapshot.seq,
        }
    )
