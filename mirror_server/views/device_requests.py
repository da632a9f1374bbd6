"""E2, device requests. Source: wire.md 2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from flask import Blueprint, Response, g, request

from mirror_sdk.wire.device_requests import (
    ANY_REVISION,
    ASYNC_ID_PATTERN,
    DEFAULT_CONTENT_TYPE,
    MAX_EXPIRY_SECONDS,
    MAX_RETRIES,
    DeviceRequestBody,
)
from mirror_sdk.wire.directory import DEFAULT_LIMIT, MAX_LIMIT, MIN_LIMIT
from mirror_sdk.wire.routes import EXPIRES_AT_HEADER, REQUESTED_AT_HEADER
from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.errors import Refusal
from mirror_server.service.commands import Placement
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer, when_stored
from mirror_server.views.requests import (
    app_id,
    note,
    query_integer,
    query_text,
    read_body,
    require_scope,
    requires,
    services,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_PAGING = ("limit", "after")
_REVISION = re.compile(r'(?:W/)?"([0-9]{1,19})"|([0-9]{1,19})', re.ASCII)
_ASYNC_ID = re.compile(ASYNC_ID_PATTERN.replace("$", r"\Z"), re.ASCII)

routes = Blueprint("device_requests", __name__)


@routes.post("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=("async-id", "expiry-seconds", "retry"))
def place_device_request(device_id: str) -> Response:
    """E2: have a device read, written or executed; the answer comes by a notification."""
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
    return when_stored(services().commands.place(placement), lambda command: _accepted(environ, command))


@routes.get("/v2/device-requests")
@requires(Scope.READ, Scope.WRITE, query=_PAGING)
def list_waiting_requests() -> Response:
    """The device requests of this key that wait for an answer."""
    return _waiting(None)


@routes.get("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=_PAGING)
def list_waiting_requests_of_device(device_id: str) -> Response:
    """Those that wait for one device."""
    return _waiting(device_id)


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


def _accepted(environ: WSGIEnvironment, command: Command) -> Response:
    note(environ, async_id=command.async_id)
    answer = json_answer({"async-response-id": command.async_id}, status=202)
    answer.headers[REQUESTED_AT_HEADER] = serialize.timestamp(command.requested_at)
    answer.headers[EXPIRES_AT_HEADER] = serialize.timestamp(command.expires_at)
    return answer


def _read_async_id() -> str | None:
    async_id = query_text("async-id")
    if async_id is not None and not _ASYNC_ID.match(async_id):
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
