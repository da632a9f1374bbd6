"""The fleet snapshot [an extension]. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import cast

from flask import Blueprint, Response, request

from mirror_sdk.wire.paths import check_pattern
from mirror_sdk.wire.routes import SNAPSHOT, SNAPSHOT_RANGES, TOTAL_HEADER
from mirror_sdk.wire.snapshot import (
    ARROW,
    COMPRESSIONS,
    DEFAULT_DEVICES_PER_RANGE,
    MAX_DEVICES_PER_RANGE,
    MAX_PATTERNS,
    MAX_RANGES,
    NDJSON,
    Compression,
)
from mirror_server.core.errors import Refusal
from mirror_server.service.keys import Scope
from mirror_server.service.lru_cache import LruCache
from mirror_server.service.snapshots import EncodedPage, Selection, Snapshot
from mirror_server.store.devices import Condition, DeviceRow
from mirror_server.store.resources import RESOURCE_COLUMNS, ResourceRow
from mirror_server.store.session import Row
from mirror_server.views import serialize
from mirror_server.views.download import Download
from mirror_server.views.filters import read_filters
from mirror_server.views.requests import app_id, query_choice, query_integer, requires, services, without_head

_CHUNK_BYTES = 256 * 1024
_NONE: tuple[None, Iterator[Row]] = (None, iter(()))
_OWN = {"path", "compression", "changed_after"}
_OWN_OF_RANGES = "devices_per_range"

routes = Blueprint("snapshots", __name__)


@routes.get(SNAPSHOT)
@requires(Scope.READ, query=None)
@without_head
def get_snapshot() -> Response:
    """The fleet as of one instant."""
    form = request.accept_mimetypes.best_match([NDJSON, ARROW]) if request.accept_mimetypes else NDJSON
    if form is None:
        raise Refusal(406, f"a snapshot comes as {ARROW} or as {NDJSON}; ask for one of them with the header Accept")
    compression = cast("Compression", query_choice("compression", COMPRESSIONS) or "none")
    arrow_stream = _arrow_stream() if form == ARROW else None
    snapshots = services().snapshots
    snapshot = snapshots.open(app_id(), _selection())
    if arrow_stream is None:
        chunks = _ndjson(snapshot)
    else:
        chunks = arrow_stream(snapshot, compression, snapshots.encoded_pages, serialize.snapshot_end(snapshot))
    headers = {TOTAL_HEADER: str(snapshot.device_count)}
    return Download(chunks, release=snapshot.close, content_type=form, headers=headers)


@routes.get(SNAPSHOT_RANGES)
@requires(Scope.READ, query=None)
def get_device_ranges() -> Response:
    """Ranges of device ids of about the same size, to take a snapshot part by part."""
    if request.method == "HEAD":
        raise Refusal(405, "ranges have no head to show; use GET")
    size = query_integer(_OWN_OF_RANGES, low=1, high=MAX_DEVICES_PER_RANGE) or DEFAULT_DEVICES_PER_RANGE
    snapshot = services().snapshots.open(app_id(), Selection(conditions=_conditions({_OWN_OF_RANGES})))
    if snapshot.device_count > size * MAX_RANGES:
        snapshot.close()
        least = -(-snapshot.device_count // MAX_RANGES)
        message = f"{snapshot.device_count} devices make more than {MAX_RANGES} ranges; give at least {least}"
        raise Refusal.of_field(_OWN_OF_RANGES, message)
    return Download(_ranges(snapshot, size), release=snapshot.close, content_type="application/json", headers={})


def _conditions(own: Collection[str]) -> tuple[Condition, ...]:
    return tuple(read_filters((name, value) for name, value in request.args.items(multi=True) if name not in own))


def _ranges(snapshot: Snapshot, size: int) -> Generator[bytes]:
    """All of it in one chunk, made apart from the view, which may not wait: every id is passed over."""
    yield serialize.device_ranges(snapshot, list(snapshot.pages(size)))


def _selection() -> Selection:
    return Selection(
        conditions=_conditions(_OWN),
        patterns=_read_patterns(request.args.getlist("path")),
        changed_after=query_integer("changed_after", low=0),
    )


def _read_patterns(patterns: list[str]) -> tuple[str, ...]:
    if len(patterns) > MAX_PATTERNS:
        raise Refusal.of_field("path", f"given {len(patterns)} times; {MAX_PATTERNS} is the limit")
    try:
        return tuple(map(check_pattern, patterns))
    except ValueError as error:
        raise Refusal.of_field("path", str(error)) from None


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


def _ndjson(snapshot: Snapshot) -> Generator[bytes]:
    """A device object a line; the last line is the end."""
    text = bytearray()
    for device, resources in _devices(snapshot):
        is_changed = snapshot.is_changed(device)
        text += (
            serialize.device_object(serialize.device_content(device, resources, snapshot.app_id), snapshot.taken_at)
            if is_changed
            else serialize.unchanged_device(device)
        )
        text += b"\n"
        if len(text) > _CHUNK_BYTES:
            yield bytes(text)
            text.clear()
    yield bytes(text) + serialize.snapshot_end(snapshot) + b"\n"


def _devices(snapshot: Snapshot) -> Iterator[tuple[DeviceRow, list[ResourceRow]]]:
    for page in snapshot.pages():
        some = snapshot.devices(page)
        rows = chain.from_iterable(snapshot.resources(some, RESOURCE_COLUMNS))
        by_device = groupby(rows, key=itemgetter(0))
        device_id, own = next(by_device, _NONE)
        for device in some:
            found = []
            if device_id == device.device_id:
                found = [ResourceRow(*row[1:]) for row in own]
                device_id, own = next(by_device, _NONE)
            yield device, found
