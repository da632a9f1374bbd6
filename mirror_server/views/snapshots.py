"""The fleet snapshot [an extension]. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any

import orjson
from flask import Blueprint, Response, g, request

from mirror_sdk.wire.routes import SNAPSHOT, SNAPSHOT_RANGES, TOTAL_HEADER
from mirror_sdk.wire.snapshot import (
    ARROW,
    DEFAULT_DEVICES_PER_RANGE,
    MAX_DEVICES_PER_RANGE,
    MAX_RANGES,
    NDJSON,
    Compression,
)
from mirror_server.core.errors import Refusal
from mirror_server.service.keys import Scope
from mirror_server.service.long_reads import takes_long
from mirror_server.service.lru_cache import LruCache
from mirror_server.service.snapshots import EncodedPage, Selection, Snapshot
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import RESOURCE_COLUMNS, ResourceRow
from mirror_server.store.session import Row
from mirror_server.views import serialize
from mirror_server.views.answers import when_read
from mirror_server.views.as_of import snapshot_at
from mirror_server.views.download import Download
from mirror_server.views.forms import accepted_form, in_chunks, query_compression
from mirror_server.views.requests import app_id, query_instant, query_integer, requires, services, without_head
from mirror_server.views.selection import query_conditions, query_patterns

_NONE: tuple[None, Iterator[Row]] = (None, iter(()))
_OWN = ("path", "as_of", "changed_after", "compression")
_OWN_OF_RANGES = "devices_per_range"

routes = Blueprint("snapshots", __name__)


@routes.get(SNAPSHOT)
@requires(Scope.READ, query=None)
@without_head
def get_snapshot() -> Response:
    """The fleet as of one instant."""
    form, compression = accepted_form("a snapshot"), query_compression()
    instant = query_instant("as_of")
    if instant is not None:
        if "changed_after" in request.args:
            message = "is of the fleet as it is, and so not to be had with as_of; leave one of them out"
            raise Refusal.of_field("changed_after", message)
        return snapshot_at(instant, query_conditions(_OWN), query_patterns(), form, compression)
    arrow_stream = _arrow_stream() if form == ARROW else None
    snapshots, is_admitted = services().snapshots, g.still_admits

    def answer(snapshot: Snapshot) -> Response:
        if arrow_stream is None:
            chunks = in_chunks(_lines(snapshot))
        else:
            chunks = arrow_stream(snapshot, compression, snapshots.encoded_pages, _end(snapshot))
        headers = {TOTAL_HEADER: str(snapshot.device_count)}
        return Download(chunks, is_admitted=is_admitted, release=snapshot.close, content_type=form, headers=headers)

    return _when_open(_selection(), answer)


@routes.get(SNAPSHOT_RANGES)
@requires(Scope.READ, query=None)
def get_device_ranges() -> Response:
    """Ranges of device ids of about the same size, to take a snapshot part by part."""
    if request.method == "HEAD":
        raise Refusal(405, "ranges have no head to show; use GET")
    size = query_integer(_OWN_OF_RANGES, low=1, high=MAX_DEVICES_PER_RANGE) or DEFAULT_DEVICES_PER_RANGE
    is_admitted = g.still_admits

    def answer(snapshot: Snapshot) -> Response:
        if snapshot.device_count > size * MAX_RANGES:
            snapshot.close()
            least = -(-snapshot.device_count // MAX_RANGES)
            message = f"{snapshot.device_count} devices make more than {MAX_RANGES} ranges; give at least {least}"
            raise Refusal.of_field(_OWN_OF_RANGES, message)
        chunks = _ranges(snapshot, size)
        release = snapshot.close
        return Download(chunks, is_admitted=is_admitted, release=release, content_type="application/json", headers={})

    return _when_open(Selection(conditions=query_conditions((_OWN_OF_RANGES,))), answer)


def _when_open(selection: Selection, answer: Callable[[Snapshot], Response]) -> Response:
    """Answer with a snapshot: to open one counts its devices."""
    parts = services()
    opening = partial(parts.snapshots.open, app_id(), selection)
    is_long = takes_long(selection.conditions, rows=parts.devices.recent_count(), counts=True)
    return when_read(opening, answer, is_long=is_long, discard=Snapshot.close)


def _ranges(snapshot: Snapshot, size: int) -> Generator[bytes]:
    """All of it in one chunk, made apart from the view, which may not wait: every id is passed over."""
    pages = snapshot.pages(size)
    ranges: list[dict[str, Any]] = [{"last": page.last, "device_count": page.device_count} for page in pages]
    ranges = ranges or [{"device_count": 0}]
    for before, this in pairwise(ranges):
        this["after"] = before["last"]
    # What comes later and follows the last device is in the last range.
    ranges[-1].pop("last", None)
    content = {"object": "device-ranges", "device_count": snapshot.device_count, "revision": snapshot.revision}
    yield orjson.dumps(content | {"data": ranges})


def _selection() -> Selection:
    return Selection(
        conditions=query_conditions(_OWN),
        patterns=query_patterns(),
        changed_after=query_integer("changed_after", low=0),
    )


def _arrow_stream() -> Callable[[Snapshot, Compression, LruCache[EncodedPage], bytes], Generator[bytes]]:
    try:
        from mirror_server.arrow.stream import arrow_stream  # noqa: PLC0415 - needs an extra, and takes long to import
    except ImportError:
        raise Refusal(
            406,
            f"this server has no pyarrow, so it sends no {ARROW}; ask for {NDJSON} with the header Accept, or have"
            " pyarrow installed on the server",
        ) from None
    return arrow_stream


def _lines(snapshot: Snapshot) -> Iterator[bytes]:
    """A device object a line; the last line is the end."""
    for device, resources in _devices(snapshot):
        if snapshot.is_changed(device):
            content = serialize.device_content(device, resources, snapshot.app_id)
            yield serialize.device_object(content, snapshot.taken_at)
        else:
            yield orjson.dumps({"object": "device-echo-unchanged", "device_id": device.device_id})
    yield _end(snapshot)


def _devices(snapshot: Snapshot) -> Iterator[tuple[DeviceRow, list[ResourceRow]]]:
    for page in snapshot.pages():
        some = snapshot.devices(page)
        rows = chain.from_iterable(snapshot.resources(some, RESOURCE_COLUMNS))
        by_device = groupby(rows, key=itemgetter(0))
        device_id, own = next(by_device, _NONE)
        for device in some:
            found = []
            if device_id == device.device_id:
                found = [ResourceRow._make(row[1:]) for row in own]
                device_id, own = next(by_device, _NONE)
            yield device, found


def _end(snapshot: Snapshot) -> bytes:
    """How a fleet snapshot ends."""
    return orjson.dumps(
        {
            "object": "snapshot-end",
            "taken_at": serialize.timestamp(snapshot.taken_at),
            "device_count": snapshot.device_count,
            "revision": snapshot.revision,
            "seq": snapshot.seq,
        }
    )
