"""E2, device requests. Source: wire.md 2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from flask import Blueprint, Response, g, request
from werkzeug.http import parse_list_header

from mirror_sdk.wire.device_requests import (
    ANY_REVISION,
    ASYNC_ID_PATTERN,
    DEFAULT_CONTENT_TYPE,
    MAX_EXPIRY_SECONDS,
    MAX_RETRIES,
    MAX_WAIT_SECONDS,
    DesiredChanged,
    DeviceRequestAccepted,
    DeviceRequestBody,
    WaitingRequestPage,
)
from mirror_sdk.wire.directory import DEFAULT_LIMIT, MAX_LIMIT, MIN_LIMIT
from mirror_sdk.wire.routes import (
    EXPIRES_AT_HEADER,
    PREFER_HEADER,
    PREFERENCE_APPLIED_HEADER,
    REQUESTED_AT_HEADER,
)
from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.errors import Refusal
from mirror_server.core.messages import CURSOR_EXTRAS, LogEntry, shown
from mirror_server.service.commands import Placement
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer, page_answer, when_stored
from mirror_server.views.deferred import PARK, Deferred
from mirror_server.views.description import (
    INSTANT,
    TEXT,
    Answer,
    Parameter,
    described,
    header,
    json_of,
    whole_number,
)
from mirror_server.views.requests import (
    app_id,
    leader_only,
    note,
    query_integer,
    query_paging,
    query_text,
    read_body,
    require_scope,
    requires,
    services,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_REVISION = re.compile(r'(?:W/)?"([0-9]{1,19})"|([0-9]{1,19})', re.ASCII)
_ASYNC_ID_FORM = re.compile(ASYNC_ID_PATTERN.replace("$", r"\Z"), re.ASCII)

_ASYNC_ID = Parameter(
    "async-id",
    "The request's identity, by which its answer is recognised. The same one for the same request within 24 h queues"
    " nothing twice; for another request it is a conflict. Without it the server makes one.",
    TEXT | {"pattern": ASYNC_ID_PATTERN},
)
_EXPIRY_SECONDS = Parameter("expiry-seconds", "As `expiry_seconds` in the body.", whole_number(1, MAX_EXPIRY_SECONDS))
_RETRY = Parameter(
    "retry",
    "How often it is tried again when the device does not answer. The default is 2 for a device in queue mode, else 0."
    " For a `POST` it is always 0, because the device may have executed it although its response was lost: with another"
    " number the device may execute it more than once.",
    whole_number(0, MAX_RETRIES),
)
_IF_MATCH = header(
    "If-Match",
    "The `revision` of the desired value that the writer saw, `0` where there was none, or `*` for any: if it is"
    " another by now, because of another write or because the last one has ended, nothing is queued and the answer is"
    " 412. Quotes around it are optional. Only with a write of one resource. A repeated async-id is answered as the"
    " first time.",
    TEXT | {"pattern": r'^(?:\*|[0-9]{1,19}|(?:W/)?"[0-9]{1,19}")$'},
)
_PREFER = header(
    PREFER_HEADER,
    "With `wait=SECONDS` (RFC 7240) the 202 is held back until the request has ended, and tells how; for so long at"
    f" most, and {MAX_WAIT_SECONDS} s. Only with an `async-id` that was not used before; a server that cannot wait"
    " sends its 202 at once.",
)
_PREFERENCE_APPLIED = header(
    PREFERENCE_APPLIED_HEADER,
    "`wait=SECONDS` where the answer to the request was waited for and is there (RFC 7240).",
    TEXT | {"pattern": "^wait=[0-9]+$"},
)
OF_ACCEPTED = (
    header(
        REQUESTED_AT_HEADER,
        "When the request was accepted, by this service's clock: of a repeated async-id the first time. Of a write it"
        " is `desired.requested_at` too.",
        INSTANT,
    ),
    header(EXPIRES_AT_HEADER, "Until when the request may wait for the device, by this service's clock.", INSTANT),
)
"""What comes with the 202."""
_PAGING = (
    Parameter("limit", "How many requests at most.", whole_number(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
    Parameter("after", "The async-id of the last request of the page before.", TEXT),
)
_WAITING_PAGE = Answer(
    200,
    "A page; the values of writes are not shown.",
    json_of(WaitingRequestPage, "one that waits and one that the device has in hand"),
)

routes = Blueprint("device_requests", __name__)


@routes.post("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=("async-id", "expiry-seconds", "retry"))
@described(
    "Device requests",
    Answer(
        202,
        "Accepted, and on disk; with `Prefer: wait` maybe ended, too.",
        json_of(DeviceRequestAccepted, "202", "202 with the answer"),
        headers=(*OF_ACCEPTED, _PREFERENCE_APPLIED),
    ),
    Answer(
        412,
        "The desired value is not the one of `If-Match` any more; nothing was queued.",
        json_of(DesiredChanged, "written by another application since", "never written"),
    ),
    parameters=(_ASYNC_ID, _EXPIRY_SECONDS, _RETRY, _IF_MATCH, _PREFER),
    body=json_of(DeviceRequestBody, "read", "write", "execute", "notification rules"),
    errors=(409,),
)
def place_device_request(device_id: str) -> Response:
    """Have a device read, write or execute a resource.

    The answer comes later, as an async response on the notification channel, with the same async-id. At most
    :data:`~mirror_sdk.wire.device_requests.QUEUE_LIMIT` requests wait for one device. A key needs the scope ``read``
    to read, and ``write`` to write or execute. ``If-Match`` and ``Prefer`` are extensions.
    """
    async_id = _read_async_id()
    body = read_body(DeviceRequestBody, malformed_reason="MALFORMED_JSON_CONTENT")
    require_scope(g.scopes, Scope.READ if body.method == "GET" else Scope.WRITE)
    asked = _read_request(body)
    placement = Placement(
        app_id=app_id(),
        device_id=device_id,
        request=asked,
        async_id=async_id,
        expiry_seconds=_read_expiry_seconds(body),
        retries=query_integer("retry", low=0, high=MAX_RETRIES),
        if_match=_read_if_match(asked),
    )
    # The answer is made when there is no request any more to ask for it.
    environ = request.environ
    if async_id is None:
        return place_untold(placement)
    if (wait_seconds := _read_wait_seconds()) and _may_hold():
        return _place_and_wait(placement, wait_seconds)
    return when_stored(services().commands.place(placement), lambda command: _accepted(environ, command))


@routes.get("/v2/device-requests")
@requires(Scope.READ, Scope.WRITE, query=("limit", "after"))
@described("Device requests", _WAITING_PAGE, parameters=_PAGING, is_extension=True)
@leader_only()
def list_waiting_requests() -> Response:
    """The requests of this application that have no answer yet, oldest first."""
    return _waiting(None)


@routes.get("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=("limit", "after"))
@described("Device requests", _WAITING_PAGE, parameters=_PAGING, is_extension=True)
@leader_only()
def list_waiting_requests_of_device(device_id: str) -> Response:
    """The requests of this application for one device that have no answer yet, oldest first."""
    return _waiting(device_id)


def place_untold(placement: Placement) -> Response:
    """Queue a request for whose answer its application has no id before it is told one: the 202 goes first."""
    environ = request.environ
    stored, told = services().commands.place_untold(placement)
    return when_stored(stored, lambda command: _accepted(environ, command), told)


def _place_and_wait(placement: Placement, wait_seconds: int) -> Response:
    """Queue a request and hold its 202 back until its answer can go with it, for so long at most."""
    environ, is_admitted = request.environ, g.still_admits
    stored, answered = services().commands.place_and_wait(placement)

    def answer(entry: LogEntry | None = None) -> Response:
        if not stored.done():
            # Its time is over, or the same request of before has ended: its own 202 still has to wait for the disk.
            return when_stored(stored, lambda _: answer(entry))
        if entry is not None and not is_admitted():
            # The request was accepted, and repeating it would be wrong; its result is not for an invalid key.
            entry = None
        accepted = _accepted(environ, stored.result(), entry)
        if entry is not None:
            accepted.headers[PREFERENCE_APPLIED_HEADER] = f"wait={wait_seconds}"
        return accepted

    return Deferred(answered, wait_seconds, render=answer, expired=answer, close=answered.cancel, is_optional=True)


def _may_hold() -> bool:
    """Whether this process can hold a request open without a thread, and would know first of its answer."""
    return PARK in request.environ and services().is_leader()


def _read_wait_seconds() -> int:
    """For how long the client would wait for the answer to its request (RFC 7240); what cannot be read is no wish."""
    for wish in parse_list_header(request.headers.get(PREFER_HEADER, "")):
        name, _, value = wish.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            seconds = value.strip().strip('"')
            # Of several the first one counts.
            return min(int(seconds), MAX_WAIT_SECONDS) if _SECONDS.fullmatch(seconds) else 0
    return 0


def _waiting(device_id: str | None) -> Response:
    paging = query_paging()
    found = services().commands.waiting(app_id(), device_id=device_id, after=paging.after, limit=paging.limit + 1)
    waiting = [serialize.waiting_request(command, with_device=with_device) for command, with_device in found]
    return page_answer(paging, waiting, None)


def _accepted(environ: WSGIEnvironment, command: Command, entry: LogEntry | None = None) -> Response:
    note(environ, async_id=command.async_id)
    content = {"async-response-id": command.async_id}
    if entry is not None:
        content["async-response"] = shown(entry, CURSOR_EXTRAS)
    answer = json_answer(content, status=202)
    answer.headers[REQUESTED_AT_HEADER] = serialize.timestamp(command.requested_at)
    answer.headers[EXPIRES_AT_HEADER] = serialize.timestamp(command.expires_at)
    return answer


def _read_async_id() -> str | None:
    async_id = query_text("async-id")
    if async_id is not None and not _ASYNC_ID_FORM.match(async_id):
        message = f"{async_id!r} is not 1 to 64 letters, digits, _ or -"
        raise Refusal.of_field("async-id", message, reason="MALFORMED_ASYNC_ID")
    return async_id


def _read_if_match(asked: CommandRequest) -> int | Literal["*"] | None:
    """The revision of the desired value that the writer saw, ``None`` where it does not say."""
    given = request.headers.get("If-Match")
    if given is None:
        return None
    if not asked.is_write:
        raise Refusal.of_field("If-Match", "it goes with the write of a value alone; leave it out")
    if given.strip() == ANY_REVISION:
        return "*"
    found = _REVISION.fullmatch(given.strip())
    if found is None:
        told = 'it is no revision; write that of the desired value, like "482113", or "0" for one never written, or *'
        raise Refusal.of_field("If-Match", told)
    return int(found[1] or found[2])


def _read_expiry_seconds(body: DeviceRequestBody) -> int | None:
    from_query = query_integer("expiry-seconds", low=1, high=MAX_EXPIRY_SECONDS)
    if body.expiry_seconds is not None and from_query not in {None, body.expiry_seconds}:
        message = f"{body.expiry_seconds} in the body and {from_query} in the query; give one of them"
        raise Refusal.of_field("expiry_seconds", message)
    return from_query if body.expiry_seconds is None else body.expiry_seconds


def _read_request(body: DeviceRequestBody) -> CommandRequest:
    path, mark, query = body.uri.partition("?")
    if mark and (body.method != "PUT" or body.payload_b64 is not None):
        raise Refusal.of_field("uri", "a query sets notification rules; it goes with PUT and without payload-b64")
    if mark and not query:
        raise Refusal.of_field("uri", "the query is empty; write notification rules like ?pmin=5&pmax=120")
    if body.method == "PUT" and not mark and body.payload_b64 is None:
        raise Refusal.of_field("payload-b64", "missing; a write needs the value to write, in base64")
    if body.method == "GET" and body.payload_b64:
        raise Refusal.of_field("payload-b64", "a read carries no value; leave it out, or write with PUT")
    content_type = body.content_type
    if body.method == "PUT" and not mark and content_type is None:
        content_type = DEFAULT_CONTENT_TYPE
    return CommandRequest(body.method, path, query if mark else None, body.payload_b64, content_type, body.accept)
