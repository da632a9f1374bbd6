"""The history, and the snapshot of the fleet at an earlier time [an extension]. Source: wire.md 10.

pyarrow may not be installed if there is no history. So the modules that need it are imported only where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
from flask import Blueprint, Response, g, request

from mirror_sdk.wire.history import MAX_DEVICES, MAX_ROWS
from mirror_sdk.wire.routes import HISTORY
from mirror_sdk.wire.snapshot import ARROW, NDJSON, Compression
from mirror_server.core.errors import ApiError
from mirror_server.core.messages import encode
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
from mirror_server.extensions.history.history_queries import HistoryQueries
from mirror_server.extensions.history.selection import (
    HistorySelection,
    PagedRequest,
    Position,
    read_cursor,
    request_of,
    write_cursor,
)
from mirror_server.extensions.time_parameters import query_instant
from mirror_server.service.keys import Scope
from mirror_server.service.slow_reads import is_slow_read
from mirror_server.store.conditions import Condition
from mirror_server.views.description import (
    INSTANT,
    TEXT,
    Parameter,
    ResponseSpec,
    described,
    integer,
    text_of,
    words,
)
from mirror_server.views.requests import (
    app_id,
    query_choice,
    query_conditions,
    query_integer,
    query_text,
    requires,
    services,
    without_head,
)
from mirror_server.views.responses import when_read
from mirror_server.views.serialize import resources_content, timestamp

if TYPE_CHECKING:
    from mirror_server.extensions.history.arrow import FleetState, HistoryPage
    from mirror_server.extensions.history.service import OpenQuery

_INSTANTS = {"changed_at", "received_at", "requested_at", "until"}
_ORDERS = ("ASC", "DESC")
_PARAMETERS = (
    Parameter("from", "Only events at this instant or later, and gaps that ended later. All if absent.", INSTANT),
    Parameter("to", "Only earlier events. Must not be before `from`.", INSTANT),
    PATTERNS,
    Parameter(
        "device_id",
        "Only this device; may be repeated. The filters of the directory select devices too.",
        {"type": "array", "items": TEXT, "maxItems": MAX_DEVICES},
        is_repeated=True,
    ),
    Parameter(
        "order",
        "The order of the rows, by device, path, `changed_at` and `revision`. Rows without a device or path come first,"
        " with `DESC` last.",
        words(*_ORDERS, default="ASC"),
    ),
    Parameter("limit", "The maximum number of rows. All if absent.", integer(1, MAX_ROWS)),
    Parameter(
        "after", "The cursor `after` of the previous response, with the same other parameters except `limit`.", TEXT
    ),
    COMPRESSION,
)
_OWN = tuple(one.name for one in _PARAMETERS)

_LINES = (
    '{"object":"history-row","device_id":"015f2ab4c6d80000000000010010003f","endpoint_name":"sensor-1",'
    '"path":"/3303/0/5700","changed_at":"2026-11-20T12:37:50.001Z","received_at":"2026-11-20T12:37:50.214Z",'
    '"what":"reported","origin":"observation","value":"MjEuNQ==","content_type":"text/plain","revision":482109}\n'
    '{"object":"history-cursor","after":"WyJlODZlZDhhMjA3NTczZDFmIiwxLDJd"}\n'
    '{"object":"history-end","taken_at":"2026-11-21T12:37:55.576Z","oldest_at":"2026-10-22T00:00:00.000Z",'
    '"row_count":1,"revision":483113}\n'
)
_COLUMNS = """\
An Arrow IPC stream with a row for each event. A column that is unknown or does not apply is null:

- `device_id` string, null for an event of all devices
- `endpoint_name` string
- `path` string, null for an event of a device
- `changed_at` timestamp[ms, tz=UTC], by the device's own clock if it sent a time; the start of a gap
- `received_at` timestamp[ms, tz=UTC], the time of receipt
- `what` string: `reported`, `desired` (a write ended), `registration`, `reg_update`, `deregistration`, `expired`, `gap`
- `origin` string: `read`, `observation`, `auto_observation`, `registration`, `write`
- `value` binary, the payload that was reported or written
- `content_type` string
- `status` int8, the result of a write: 1 success, 2 failure
- `category` string, why a write failed; only for the application that submitted it
- `requested_at` timestamp[ms, tz=UTC], the time of the request of a write
- `until` timestamp[ms, tz=UTC], the end of a gap
- `revision` int64, the number of the row

Strings are encoded as dictionaries with int32 indices. The metadata `mirror.after` of a batch is the cursor that
continues after its rows. The last batch has no rows, and the end in its metadata `mirror.end`."""
_FORMS = (text_of(NDJSON, _LINES), text_of(ARROW, "an Arrow IPC stream", _COLUMNS))

routes = Blueprint("history", __name__)


@routes.get(HISTORY)
@requires(Scope.READ, query=None)
@without_head
@described(
    "Mirror",
    ResponseSpec(200, "The rows, as they are read.", *_FORMS),
    parameters=_PARAMETERS,
    selects_devices=True,
    errors=(404, 406),
    is_extension=True,
)
def get_history() -> Response:
    """Return the history, with every reported value, every completed write and every registration.

    The header ``Accept`` selects the format, which is NDJSON with one row per line or an Arrow IPC stream. The default
    is NDJSON. All pages show the history at the time of the first request. The last line, or the metadata
    ``mirror.end`` of the last batch, has the number of rows. A response without it is incomplete. To continue, pass the
    last ``after`` of the response.

    Rows without a path, which are registrations and gaps, are returned for every ``path``. Without them, you could not
    distinguish an unchanged value from one that could not be received. The number of rows is known only at the end, so
    there is no ``Mirror-Total``.

    If the operator keeps no history, the response is 404. If a time is before the oldest data, the response is 400 with
    ``oldest_at``. Any other parameter is a filter, as in ``GET /v3/devices``.
    """
    form, compression = accepted_format("the history"), query_compression()
    selection, limit, after = _selection(), query_integer("limit", low=1, high=MAX_ROWS), query_text("after")
    before = None if after is None else read_cursor(after, selection)
    page = selection if before is None else replace(selection, revision=before[0].revision, after=before[1])
    reader = app_id()

    def response(query: OpenQuery) -> Generator[bytes]:
        from mirror_server.extensions.history.arrow import HistoryPage, arrow_stream  # noqa: PLC0415

        pages = before[0] if before else PagedRequest(request_of(selection), query.taken_at, query.revision)
        rows = HistoryPage(query, reader, limit)
        cursor, end = partial(write_cursor, pages), partial(_end, rows, pages)
        return arrow_stream(rows, compression, cursor, end) if form == ARROW else _ndjson(rows, cursor, end)

    return _download(
        partial(services().part(HistoryQueries).open_history, reader, page), response, page.conditions, form
    )


def _download(
    opening: Callable[[], OpenQuery],
    response: Callable[[OpenQuery], Generator[bytes]],
    conditions: Sequence[Condition],
    form: str,
) -> Response:
    """Return a response with the rows of a query. The query is closed after the response has been sent."""
    is_admitted = g.still_admits

    def download(query: OpenQuery) -> Response:
        return Download(response(query), is_admitted=is_admitted, release=query.close, content_type=form, headers={})

    is_long = is_slow_read(conditions, rows=services().devices.estimated_count())
    return when_read(opening, download, is_long=is_long, discard=lambda query: query.close())


def _selection() -> HistorySelection:
    """Return the selection of the request, without the position of its page."""
    begin, end = query_instant("from"), query_instant("to")
    if begin is not None and end is not None and end < begin:
        raise ApiError.of_field("to", "is before 'from'; 'to' must be the same instant or a later one")
    return HistorySelection(
        conditions=(*query_conditions(_OWN), *_query_devices()),
        patterns=query_patterns(),
        begin=begin,
        end=end,
        descending=query_choice("order", _ORDERS) == "DESC",
    )


def _query_devices() -> tuple[Condition, ...]:
    """Return the condition for the values of ``device_id`` in the query, if there are any."""
    device_ids = request.args.getlist("device_id")
    if len(device_ids) > MAX_DEVICES:
        raise ApiError.of_field("device_id", f"{len(device_ids)} values; at most {MAX_DEVICES} are allowed")
    return (Condition("device_id", "IN", tuple(device_ids), is_unique=True),) if device_ids else ()


def _end(page: HistoryPage, pages: PagedRequest) -> bytes:
    members = {
        "object": "history-end",
        "taken_at": timestamp(pages.taken_at),
        "oldest_at": timestamp(page.query.oldest_at),
        "row_count": page.row_count,
        "revision": pages.revision,
    }
    after = {"after": write_cursor(pages, page.position)} if page.has_more and page.position else {}
    return orjson.dumps(members | after)


def _ndjson(page: HistoryPage, cursor: Callable[[Position], str], end: Callable[[], bytes]) -> Generator[bytes]:
    """Yield one row per line, with cursors that continue after the rows so far. The last line is the end."""
    from mirror_server.extensions.history.arrow import rows_of  # noqa: PLC0415

    for batch, position in page.batches():
        after = orjson.dumps({"object": "history-cursor", "after": cursor(position)})
        yield from in_chunks(chain(map(_row, rows_of(batch)), [after]))
    yield end() + b"\n"


def _row(row: Mapping[str, Any]) -> bytes:
    members = {"object": "history-row"} | {name: value for name, value in row.items() if value is not None}
    for name in _INSTANTS & members.keys():
        members[name] = timestamp(members[name])
    if "value" in members:
        members["value"] = encode(members["value"])
    return orjson.dumps(members)


def snapshot_at(
    instant: Instant,
    conditions: Sequence[Condition],
    patterns: Sequence[str],
    form: str,
    compression: Compression,
) -> Response:
    """Return the fleet at an earlier time, in the formats of a snapshot.

    Args:
        instant: The time of the state.
        conditions: The conditions that a device must meet.
        patterns: The paths of the resources. If it is empty, all resources are returned.
        form: The content type of the response.
        compression: The compression of the buffers of an Arrow stream.

    Raises:
        ApiError: See :meth:`mirror_server.extensions.history.history_queries.HistoryQueries.open_as_of`.
    """
    selection, reader = HistorySelection(conditions=tuple(conditions), patterns=tuple(patterns)), app_id()

    def response(query: OpenQuery) -> Generator[bytes]:
        from mirror_server.extensions.history.arrow import FleetState, fleet_stream  # noqa: PLC0415

        fleet = FleetState(query)

        def end() -> bytes:
            # A refresh cannot continue from an earlier time, so there is neither a revision nor a position in the log.
            members = {"object": "snapshot-end", "taken_at": timestamp(instant), "device_count": fleet.device_count}
            return orjson.dumps(members)

        if form == ARROW:
            return fleet_stream(fleet, compression, end)
        return in_chunks(_lines(fleet, reader, instant, end))

    opening = partial(services().part(HistoryQueries).open_as_of, reader, selection, instant)
    return _download(opening, response, conditions, form)


def _lines(fleet: FleetState, reader: str, instant: Instant, end: Callable[[], bytes]) -> Generator[bytes]:
    """Yield one device object per line. The last line is the end."""
    from mirror_server.extensions.history.arrow import devices_of  # noqa: PLC0415

    for rows, starts in fleet.batches():
        for device_id, endpoint_name, resources in devices_of(rows, starts):
            members = {
                "object": "device-echo",
                "created_at": timestamp(instant),
                "device_id": device_id,
                "endpoint_name": endpoint_name,
            }
            yield orjson.dumps(members | resources_content(resources, reader))
    yield end()
