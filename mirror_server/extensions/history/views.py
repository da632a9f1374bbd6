"""The history [an extension]. Source: wire.md 10."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
from flask import Blueprint, Response, g, request

from mirror_sdk.wire.history import MAX_DEVICES, MAX_ROWS
from mirror_sdk.wire.routes import HISTORY
from mirror_sdk.wire.snapshot import ARROW
from mirror_server.core.errors import Refusal
from mirror_server.core.messages import encode
from mirror_server.extensions.history.cursor import Reading, read_cursor, request_of, write_cursor
from mirror_server.extensions.history.example import FORMS
from mirror_server.extensions.history.pasts import Past, PastService
from mirror_server.extensions.history.selection import HistorySelection, Position
from mirror_server.service.keys import Scope
from mirror_server.service.long_reads import takes_long
from mirror_server.store.conditions import Condition
from mirror_server.views.answers import when_read
from mirror_server.views.description import INSTANT, TEXT, Answer, Parameter, described, whole_number, words
from mirror_server.views.requests import (
    app_id,
    query_choice,
    query_conditions,
    query_instant,
    query_integer,
    query_text,
    requires,
    services,
    without_head,
)
from mirror_server.views.serialize import timestamp
from mirror_server.views.streamed import (
    COMPRESSION,
    PATTERNS,
    Download,
    accepted_form,
    in_chunks,
    query_compression,
    query_patterns,
)

if TYPE_CHECKING:
    from mirror_server.extensions.history.arrow import HistoryPage
    from mirror_server.extensions.history.service import OpenHistory

_INSTANTS = {"changed_at", "received_at", "requested_at", "until"}
_ORDERS = ("ASC", "DESC")
_PARAMETERS = (
    Parameter("from", "Only what happened then or later, and gaps that ended later; absent, all there is.", INSTANT),
    Parameter("to", "Only what happened before then, not before `from`.", INSTANT),
    PATTERNS,
    Parameter(
        "device_id",
        "Only this device; may be given several times. Devices are selected by the directory's filters too.",
        {"type": "array", "items": TEXT, "maxItems": MAX_DEVICES},
        is_repeated=True,
    ),
    Parameter(
        "order",
        "In which order of device, path, `changed_at` and `revision`. What has no device or no path comes first, with"
        " `DESC` last.",
        words(*_ORDERS, default="ASC"),
    ),
    Parameter("limit", "How many rows at most; absent, all.", whole_number(1, MAX_ROWS)),
    Parameter("after", "What the answer before told as `after`, with the same other parameters but `limit`.", TEXT),
    COMPRESSION,
)
_OWN = tuple(one.name for one in _PARAMETERS)

routes = Blueprint("history", __name__)


@routes.get(HISTORY)
@requires(Scope.READ, query=None)
@without_head
@described(
    "Mirror",
    Answer(200, "The rows, as they are read.", *FORMS),
    parameters=_PARAMETERS,
    selects_devices=True,
    errors=(404, 406),
    is_extension=True,
)
def get_history() -> Response:
    """What happened: every value that was reported, every write that ended, every registration.

    As NDJSON, a row a line, or as an Arrow IPC stream, as the header ``Accept`` asks; NDJSON by default. It shows what
    was known when the first page was begun. The last line, or the metadata ``mirror.end`` of the last batch, tells how
    many rows there were: an answer without it has broken off, and goes on with the last ``after`` it told. Rows without
    a path, registrations and gaps, come whatever ``path`` asks for: without them a value that did not change could not
    be told from one that could not be heard. How many rows come is known at the end alone, so there is no
    ``Mirror-Total``. 404 where the operator keeps no history, 400 with ``oldest_at`` where an instant lies before what
    is kept. Any other parameter is taken for a filter, as in ``GET /v3/devices``.
    """
    form, compression = accepted_form("the history"), query_compression()
    asked, limit, after = _asked(), query_integer("limit", low=1, high=MAX_ROWS), query_text("after")
    before = None if after is None else read_cursor(after, asked)
    parts, is_admitted = services(), g.still_admits

    def answer(past: Past[OpenHistory]) -> Response:
        # It loads pyarrow, which is there where a history is kept.
        from mirror_server.extensions.history.arrow import HistoryPage, arrow_stream  # noqa: PLC0415

        reading = before[0] if before else Reading(request_of(asked), past.rows.taken_at, past.rows.revision)
        page = HistoryPage(past, limit)
        cursor, end = partial(write_cursor, reading), partial(_end, page, reading)
        chunks = arrow_stream(page, compression, cursor, end) if form == ARROW else _ndjson(page, cursor, end)
        return Download(chunks, is_admitted=is_admitted, release=past.close, content_type=form, headers={})

    opening = partial(parts.part(PastService).open_history, app_id(), _page_of(asked, limit, before))
    is_long = takes_long(asked.conditions, rows=parts.devices.recent_count())
    return when_read(opening, answer, is_long=is_long, discard=lambda past: past.close())


def _asked() -> HistorySelection:
    """What is asked for, whatever the page."""
    begin, end = query_instant("from"), query_instant("to")
    if begin is not None and end is not None and end < begin:
        raise Refusal.of_field("to", "lies before 'from'; the rows told are those from 'from' on and before 'to'")
    return HistorySelection(
        conditions=(*query_conditions(_OWN), *_query_devices()),
        patterns=query_patterns(),
        begin=begin,
        end=end,
        descending=query_choice("order", _ORDERS) == "DESC",
    )


def _query_devices() -> tuple[Condition, ...]:
    """The condition that ``device_id`` is one of those in the query of the request, where there are any."""
    device_ids = request.args.getlist("device_id")
    if len(device_ids) > MAX_DEVICES:
        raise Refusal.of_field("device_id", f"given {len(device_ids)} times; {MAX_DEVICES} is the limit")
    return (Condition("device_id", "IN", tuple(device_ids), is_unique=True),) if device_ids else ()


def _page_of(asked: HistorySelection, limit: int | None, before: tuple[Reading, Position] | None) -> HistorySelection:
    """One row more than the page has, so that it is known whether more follow."""
    page = replace(asked, limit=None if limit is None else limit + 1)
    return page if before is None else replace(page, revision=before[0].revision, after=before[1])


def _end(page: HistoryPage, reading: Reading) -> bytes:
    """How a history ends."""
    told = {
        "object": "history-end",
        "taken_at": timestamp(reading.taken_at),
        "oldest_at": timestamp(page.past.rows.oldest_at),
        "row_count": page.row_count,
        "revision": reading.revision,
    }
    after = {"after": write_cursor(reading, page.position)} if page.has_more and page.position else {}
    return orjson.dumps(told | after)


def _ndjson(page: HistoryPage, cursor: Callable[[Position], str], end: Callable[[], bytes]) -> Generator[bytes]:
    """A row a line, in between what goes on behind the rows so far; the last line is the end."""
    from mirror_server.extensions.history.arrow import rows_of  # noqa: PLC0415 - it loads pyarrow

    for batch, position in page.parts():
        after = orjson.dumps({"object": "history-cursor", "after": cursor(position)})
        yield from in_chunks(chain(map(_row, rows_of(batch)), [after]))
    yield end() + b"\n"


def _row(row: Mapping[str, Any]) -> bytes:
    """A row of the history; what it does not have is left out."""
    told = {"object": "history-row"} | {name: value for name, value in row.items() if value is not None}
    for name in _INSTANTS & told.keys():
        told[name] = timestamp(told[name])
    if "value" in told:
        told["value"] = encode(told["value"])
    return orjson.dumps(told)
