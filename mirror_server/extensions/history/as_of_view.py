"""The fleet snapshot as of an earlier instant. Source: wire.md 10."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import orjson
from flask import Response, g

from mirror_sdk.wire.snapshot import ARROW, Compression
from mirror_server.core.instants import Instant
from mirror_server.extensions.history.pasts import Past, PastService
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.service.long_reads import takes_long
from mirror_server.store.conditions import Condition
from mirror_server.views.answers import when_read
from mirror_server.views.requests import app_id, services
from mirror_server.views.serialize import resources_content, timestamp
from mirror_server.views.streamed import Download, in_chunks

if TYPE_CHECKING:
    from mirror_server.extensions.history.arrow_as_of import PastDevice, PastFleet
    from mirror_server.extensions.history.service import OpenAsOf


def snapshot_at(
    instant: Instant,
    conditions: Sequence[Condition],
    patterns: Sequence[str],
    form: str,
    compression: Compression,
) -> Response:
    """The fleet as of an earlier instant, in the forms of a snapshot.

    Args:
        instant: When.
        conditions: Which devices; all that meet every condition.
        patterns: Which of their resources, by path; all without any.
        form: The content type.
        compression: That of the buffers of an Arrow stream.

    Raises:
        Refusal: See :meth:`mirror_server.extensions.history.pasts.PastService.open_as_of`.
    """
    selection = HistorySelection(conditions=tuple(conditions), patterns=tuple(patterns))
    parts, is_admitted = services(), g.still_admits

    def answer(past: Past[OpenAsOf]) -> Response:
        # It loads pyarrow, which is there where a history is kept.
        from mirror_server.extensions.history.arrow_as_of import PastFleet, arrow_stream  # noqa: PLC0415

        fleet = PastFleet(past)

        def end() -> bytes:
            # Nothing goes on from there, so there is neither a revision nor a position in the log.
            told = {"object": "snapshot-end", "taken_at": timestamp(instant), "device_count": fleet.device_count}
            return orjson.dumps(told)

        chunks = arrow_stream(fleet, compression, end) if form == ARROW else in_chunks(_lines(fleet, instant, end))
        return Download(chunks, is_admitted=is_admitted, release=past.close, content_type=form, headers={})

    opening = partial(parts.part(PastService).open_as_of, app_id(), selection, instant)
    is_long = takes_long(selection.conditions, rows=parts.devices.recent_count())
    return when_read(opening, answer, is_long=is_long, discard=lambda past: past.close())


def _lines(fleet: PastFleet, instant: Instant, end: Callable[[], bytes]) -> Iterator[bytes]:
    """A device object a line; the last line is the end."""
    from mirror_server.extensions.history.arrow_as_of import devices_of  # noqa: PLC0415 - it loads pyarrow

    for rows, begins in fleet.parts():
        for device in devices_of(rows, begins):
            yield _device_object(device, fleet.past.app_id, instant)
    yield end()


def _device_object(device: PastDevice, app_id: str, instant: Instant) -> bytes:
    """The body of E1 as of an earlier instant."""
    told = {
        "object": "device-echo",
        "created_at": timestamp(instant),
        "device_id": device.device_id,
        "endpoint_name": device.endpoint_name,
    }
    return orjson.dumps(told | resources_content(device.resources, app_id))
