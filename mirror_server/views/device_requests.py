"""The view of E2, device requests. Source: wire.md 2."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from flask import Blueprint, Response, g, request

from mirror_sdk.wire.device_requests import (
    ASYNC_ID_PATTERN,
    DEFAULT_CONTENT_TYPE,
    MAX_EXPIRY_SECONDS,
    MAX_RETRIES,
    DeviceRequestBody,
)
from mirror_sdk.wire.routes import (
    EXPIRES_AT_HEADER,
    REQUESTED_AT_HEADER,
)
from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.errors import ApiError
from mirror_server.hooks import Handling
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.requests import (
    add_log_details,
    app_id,
    query_integer,
    query_text,
    read_body,
    require_scope,
    requires,
    services,
)
from mirror_server.views.responses import json_response, when_stored

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# In Python, `$` also matches before a line break at the end.
_ASYNC_ID_FORM = re.compile(ASYNC_ID_PATTERN.replace("$", r"\Z"), re.ASCII)

routes = Blueprint("device_requests", __name__)


@routes.post("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=("async-id", "expiry-seconds", "retry"))
def submit_device_request(device_id: str) -> Response:
    """Read, write or execute a resource on a device.

    The result arrives later on the notification channel, as an async response with the same async-id. The queue of a
    device has room for :data:`~mirror_sdk.wire.device_requests.QUEUE_LIMIT` requests. A key needs the scope ``read``
    to read, and ``write`` to write or execute.
    """
    async_id = _read_async_id()
    body = read_body(DeviceRequestBody, malformed_reason="MALFORMED_JSON_CONTENT")
    require_scope(g.scopes, Scope.READ if body.method == "GET" else Scope.WRITE)
    submission = CommandSubmission(
        app_id=app_id(),
        device_id=device_id,
        request=_read_request(body),
        async_id=async_id or uuid4().hex,
        expiry_seconds=_read_expiry_seconds(body),
        retries=query_integer("retry", low=0, high=MAX_RETRIES),
    )
    server = services()
    handlings = [found for hook in server.device_request_hooks if (found := hook(submission)) is not None]
    return submit(submission, *handlings)


def submit(submission: CommandSubmission, *handlings: Handling) -> Response:
    """Queue a device request. The 202 response is sent when the request is on disk.

    Raises:
        ApiError: The request has a precondition that no extension evaluates (400).
    """
    if "If-Match" in request.headers and not any(each.is_conditional for each in handlings):
        # Ignoring the header would overwrite a value that the client wants to preserve.
        raise ApiError.of_field("If-Match", "preconditions are not supported here; remove the header")
    # Only the environment is passed on, because Flask's request no longer exists when the response is created.
    respond = partial(_accepted, request.environ)
    checks = tuple(each.check for each in handlings if each.check is not None)
    stored = services().commands.submit(replace(submission, checks=checks) if checks else submission)
    for each in handlings:
        if each.respond is not None:
            return each.respond(stored, respond)
    return when_stored(stored, respond)


def _accepted(environ: WSGIEnvironment, command: Command, **members: Any) -> Response:
    add_log_details(environ, async_id=command.async_id)
    response = json_response({"async-response-id": command.async_id, **members}, status=202)
    response.headers[REQUESTED_AT_HEADER] = serialize.timestamp(command.requested_at)
    response.headers[EXPIRES_AT_HEADER] = serialize.timestamp(command.expires_at)
    return response


def _read_async_id() -> str | None:
    async_id = query_text("async-id")
    if async_id is not None and not _ASYNC_ID_FORM.match(async_id):
        message = f"must be 1 to 64 letters, digits, _ or -, got {async_id!r}"
        raise ApiError.of_field("async-id", message, reason="MALFORMED_ASYNC_ID")
    return async_id


def _read_expiry_seconds(body: DeviceRequestBody) -> int | None:
    from_query = query_integer("expiry-seconds", low=1, high=MAX_EXPIRY_SECONDS)
    if body.expiry_seconds is not None and from_query not in {None, body.expiry_seconds}:
        message = f"the body has {body.expiry_seconds} and the query has {from_query}; use only one of them"
        raise ApiError.of_field("expiry_seconds", message)
    return from_query if body.expiry_seconds is None else body.expiry_seconds


def _read_request(body: DeviceRequestBody) -> CommandRequest:
    path, mark, query = body.uri.partition("?")
    if mark and (body.method != "PUT" or body.payload_b64 is not None):
        raise ApiError.of_field(
            "uri",
            "only a PUT without payload-b64 can have a query, which sets notification rules; remove one of the two",
        )
    if mark and not query:
        raise ApiError.of_field("uri", "the query is empty; write notification rules like ?pmin=5&pmax=120")
    if body.method == "PUT" and not mark and body.payload_b64 is None:
        raise ApiError.of_field("payload-b64", "missing; a write needs the value to write, in base64")
    if body.method == "GET" and body.payload_b64:
        raise ApiError.of_field("payload-b64", "payload-b64 is not allowed in a read; remove it, or use PUT to write")
    content_type = body.content_type
    if body.method == "PUT" and not mark and content_type is None:
        content_type = DEFAULT_CONTENT_TYPE
    return CommandRequest(body.method, path, query if mark else None, body.payload_b64, content_type, body.accept)
