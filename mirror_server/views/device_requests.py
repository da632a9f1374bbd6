"""E2, device requests, and the older calls that place them. Source: wire.md 2 and 9."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import orjson
from flask import Blueprint, Response, g, request
from werkzeug.http import parse_list_header

from mirror_sdk.wire.device_requests import (
    ANY_REVISION,
    ASYNC_ID_PATTERN,
    DEFAULT_CONTENT_TYPE,
    MAX_EXPIRY_SECONDS,
    MAX_MEDIA_TYPE,
    MAX_RETRIES,
    MAX_WAIT_SECONDS,
    MEDIA_TYPE_PATTERN,
    DesiredChanged,
    DeviceRequestAccepted,
    DeviceRequestBody,
    WaitingRequestPage,
)
from mirror_sdk.wire.directory import DEFAULT_LIMIT, MAX_LIMIT, MIN_LIMIT
from mirror_sdk.wire.older_calls import NOTIFICATION_RULES, NUMBER_PATTERN
from mirror_sdk.wire.routes import (
    EXPIRES_AT_HEADER,
    PREFER_HEADER,
    PREFERENCE_APPLIED_HEADER,
    REQUESTED_AT_HEADER,
)
from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.errors import Refusal
from mirror_server.core.messages import CURSOR_EXTRAS, LogEntry, shown
from mirror_server.description.parts import (
    INSTANT,
    TEXT,
    Answer,
    Content,
    Parameter,
    described,
    header,
    json_of,
    text_of,
    whole_number,
    words,
)
from mirror_server.service.commands import Placement
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.answers import empty_answer, json_answer, when_stored
from mirror_server.views.deferred import PARK, Deferred
from mirror_server.views.requests import (
    app_id,
    leader_only,
    note,
    query_flag,
    query_integer,
    query_text,
    read_body,
    read_path,
    read_raw_body,
    require_scope,
    requires,
    services,
    without_head,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_MEDIA_TYPE = re.compile(MEDIA_TYPE_PATTERN.replace("$", r"\Z"))
_NUMBER = re.compile(NUMBER_PATTERN.replace("$", r"\Z"))
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_BYTES = "application/octet-stream"
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
_OF_ACCEPTED = (
    header(
        REQUESTED_AT_HEADER,
        "When the request was accepted, by this service's clock: of a repeated async-id the first time. Of a write it"
        " is `desired.requested_at` too.",
        INSTANT,
    ),
    header(EXPIRES_AT_HEADER, "Until when the request may wait for the device, by this service's clock.", INSTANT),
)
_ACCEPTED = Answer(202, "Accepted, and on disk.", json_of(DeviceRequestAccepted, "202"), headers=_OF_ACCEPTED)
_PAGING = (
    Parameter("limit", "How many requests at most.", whole_number(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
    Parameter("after", "The async-id of the last request of the page before.", TEXT),
)
_WAITING_PAGE = Answer(
    200,
    "A page; the values of writes are not shown.",
    json_of(WaitingRequestPage, "one that waits and one that the device has in hand"),
)
_ONLY_NO = words("false", default="false")
_OLDER = (
    Parameter(
        "noResp",
        "With `true` nobody is told how the request ends, and the answer is 204; 409 for a device in queue mode.",
        words("true", "false", default="false"),
    ),
    Parameter("sync", "Whether to wait for the device: only without.", _ONLY_NO),
)
_FROM_CACHE = Parameter(
    "cacheOnly",
    "Have what the mirror holds for the answer, and ask the device for nothing.",
    words("true", "false", default="false"),
)
_NOT_FROM_CACHE = Parameter(
    "cacheOnly", "Whether the answer is to come from the cache: only when it is read.", _ONLY_NO
)
_RULES = tuple(
    Parameter(name, "A notification rule, in the place of a value.", TEXT | {"pattern": NUMBER_PATTERN})
    for name in NOTIFICATION_RULES
)
_NOBODY_IS_TOLD = Answer(204, "Accepted with `noResp`, and on disk; nobody is told how it ends.")
_VALUE = "A value as it is, in the format that `Content-Type` tells."


def _raw(example: str) -> Content:
    """A body that is not looked into: in JSON it may be anything."""
    return Content(media_type="*/*", schema={"description": _VALUE}, example=example)


routes = Blueprint("device_requests", __name__)


@routes.post("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=(_ASYNC_ID, _EXPIRY_SECONDS, _RETRY))
@described(
    "Device requests",
    Answer(
        202,
        "Accepted, and on disk; with `Prefer: wait` maybe ended, too.",
        json_of(DeviceRequestAccepted, "202", "202 with the answer"),
        headers=(*_OF_ACCEPTED, _PREFERENCE_APPLIED),
    ),
    Answer(
        412,
        "The desired value is not the one of `If-Match` any more; nothing was queued.",
        json_of(DesiredChanged, "written by another application since", "never written"),
    ),
    parameters=(_IF_MATCH, _PREFER),
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
        return _place_untold(placement)
    if (wait_seconds := _read_wait_seconds()) and _may_hold():
        return _place_and_wait(placement, wait_seconds)
    return when_stored(services().commands.place(placement), lambda command: _accepted(environ, command))


@routes.get("/v2/device-requests")
@requires(Scope.READ, Scope.WRITE, query=_PAGING)
@described("Device requests", _WAITING_PAGE, is_extension=True)
@leader_only()
def list_waiting_requests() -> Response:
    """The requests of this application that have no answer yet, oldest first."""
    return _waiting(None)


@routes.get("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=_PAGING)
@described("Device requests", _WAITING_PAGE, is_extension=True)
@leader_only()
def list_waiting_requests_of_device(device_id: str) -> Response:
    """The requests of this application for one device that have no answer yet, oldest first."""
    return _waiting(device_id)


@routes.get("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.READ, query=(_FROM_CACHE, *_OLDER))
@without_head
@described(
    "Device requests",
    Answer(200, "What the mirror holds, with `cacheOnly`.", text_of("*/*", "21.5", _VALUE)),
    _ACCEPTED,
    _NOBODY_IS_TOLD,
    Answer(205, "With `cacheOnly`: the mirror holds no value, or none that is fresh."),
    errors=(409,),
)
def read_resource(device_id: str, path: str) -> Response:
    """Have a device read a resource, as older programs ask for it.

    As ``POST /v2/device-requests/{device_id}`` with ``GET``, and an async-id that the server makes. With ``cacheOnly``
    the answer is the value itself, in the format it has, as long as it is fresh by what the device said; without a word
    of the device it is fresh until the next one comes.
    """
    is_from_cache = query_flag("cacheOnly")
    _check_older()
    asked = CommandRequest("GET", read_path(path))
    if not is_from_cache:
        return _place(device_id, asked)
    if query_flag("noResp"):
        raise Refusal.of_field("noResp", "the answer comes from the cache, and at once; leave one of them out")
    found = services().commands.cached(device_id, asked.path)
    if found is None:
        return empty_answer(205)
    # What a device named may be no content type, and no header may have it.
    is_type = _MEDIA_TYPE.fullmatch(found.content_type)
    return Response(found.payload, content_type=found.content_type if is_type else _BYTES)


@routes.put("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.WRITE, query=(_NOT_FROM_CACHE, *_OLDER, *_RULES))
@described("Device requests", _ACCEPTED, _NOBODY_IS_TOLD, body=_raw("1"), takes_no_body=True, errors=(409,))
def write_resource(device_id: str, path: str) -> Response:
    """Have a device write a resource, as older programs ask for it.

    As ``POST /v2/device-requests/{device_id}`` with ``PUT``, and an async-id that the server makes. The body is the
    value as it is, ``text/plain`` where no ``Content-Type`` tells another format; one number, text or boolean in JSON
    is written as plain text. Without a body the parameters set notification rules.
    """
    _check_older(is_cacheable=False)
    rules = _read_rules()
    payload = read_raw_body()
    if rules and payload:
        raise Refusal.of_field("body", "notification rules in the query go without a value; leave one of them out")
    if rules:
        return _place(device_id, CommandRequest("PUT", read_path(path), query=rules))
    if not payload:
        message = "empty; a write needs the value to write. POST /v2/device-requests/{id} writes an empty one"
        raise Refusal.of_field("body", message)
    payload, content_type = _as_device_takes_it(payload, _read_content_type() or DEFAULT_CONTENT_TYPE)
    return _place(device_id, CommandRequest("PUT", read_path(path), payload=payload, content_type=content_type))


@routes.post("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.WRITE, query=(_NOT_FROM_CACHE, *_OLDER))
@described("Device requests", _ACCEPTED, _NOBODY_IS_TOLD, body=_raw("0='1'"), takes_no_body=True, errors=(409,))
def execute_resource(device_id: str, path: str) -> Response:
    """Have a device execute a resource, as older programs ask for it.

    As ``POST /v2/device-requests/{device_id}`` with ``POST``, and an async-id that the server makes. The body is the
    argument, if there is one.
    """
    _check_older(is_cacheable=False)
    payload = read_raw_body() or None
    content_type = None if payload is None else _read_content_type()
    return _place(device_id, CommandRequest("POST", read_path(path), payload=payload, content_type=content_type))


@routes.delete("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.WRITE, query=_OLDER)
@described("Device requests")
def delete_resource(device_id: str, path: str) -> Response:
    """Refused: nothing is deleted of a device."""
    # Source: specification 2.1.
    message = f"DELETE is not to be had of /{path} of the device {device_id!r}: nothing is deleted of a device"
    raise Refusal(400, f"{message}. Write it, execute it, or have the device remove it")


def _place(device_id: str, asked: CommandRequest) -> Response:
    """Queue a request as it is by default: the server makes its async-id, which nobody needs who wants no answer."""
    environ = request.environ
    is_silent = query_flag("noResp")
    placement = Placement(app_id=app_id(), device_id=device_id, request=asked, is_silent=is_silent)
    if not is_silent:
        return _place_untold(placement)

    def answer(command: Command) -> Response:
        note(environ, async_id=command.async_id)
        return empty_answer()

    return when_stored(services().commands.place(placement), answer)


def _place_untold(placement: Placement) -> Response:
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


def _check_older(*, is_cacheable: bool = True) -> None:
    """Refuse what an older call may ask for and cannot have.

    Raises:
        Refusal: It is to be answered at once, or from a cache that does not hold what is asked for (400).
    """
    if query_flag("sync"):
        raise Refusal.of_field("sync", "a device is not waited for; leave it out, the answer comes as a notification")
    if not is_cacheable and query_flag("cacheOnly"):
        raise Refusal.of_field("cacheOnly", "only what is read can come from a cache; leave it out")


def _read_rules() -> str:
    """The notification rules in the query, as the device gets them; empty where there are none."""
    given = [(name, query_text(name)) for name in NOTIFICATION_RULES]
    for name, value in given:
        if value is not None and not _NUMBER.fullmatch(value):
            raise Refusal.of_field(name, f"{value!r} is no number; write a rule like {name}=5")
    return "&".join(f"{name}={value}" for name, value in given if value is not None)


def _read_content_type() -> str | None:
    """The content type of the body, ``None`` where it has none."""
    given = request.headers.get("Content-Type")
    if not given:
        return None
    if len(given) > MAX_MEDIA_TYPE or not _MEDIA_TYPE.fullmatch(given):
        message = f"{given[:MAX_MEDIA_TYPE]!r} is no content type of {MAX_MEDIA_TYPE} characters at most"
        raise Refusal.of_field("Content-Type", f"{message}; write it like text/plain")
    return given


def _as_device_takes_it(payload: bytes, content_type: str) -> tuple[bytes, str]:
    """A value and its content type; a text, number or boolean in JSON is plain text, since no device has it so.

    Some programs send every value as JSON, and some declare JSON for every text. A body that is not JSON is plain
    text; an object, a list or null stays as it is.
    """
    if request.mimetype != "application/json":
        return payload, content_type
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return payload, DEFAULT_CONTENT_TYPE
    match value:
        case bool():
            return str(int(value)).encode(), DEFAULT_CONTENT_TYPE
        case str():
            return value.encode(), DEFAULT_CONTENT_TYPE
        case int() | float():
            return payload.strip(), DEFAULT_CONTENT_TYPE
        case _:
            return payload, content_type


def _waiting(device_id: str | None) -> Response:
    limit = query_integer("limit", low=MIN_LIMIT, high=MAX_LIMIT) or DEFAULT_LIMIT
    after = query_text("after")
    # One more tells that there is more.
    found = services().commands.waiting(app_id(), device_id=device_id, after=after, limit=limit + 1)
    return json_answer(
        {
            "object": "list",
            "data": [
                serialize.waiting_request(command, with_device=with_device) for command, with_device in found[:limit]
            ],
            "has_more": len(found) > limit,
            "limit": limit,
            "order": "ASC",
            "after": after,
        }
    )


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
