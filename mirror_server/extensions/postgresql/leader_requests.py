"""The forwarding of requests that only the leader can serve, because only the leader is connected to the devices."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from flask import Response, g, request

from mirror_sdk.wire.routes import MAX_HOLD_SECONDS, REQUEST_ID_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.extensions.postgresql.forwarding import Call, Forwarder, Reply, leader_changed
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.views.requests import CALLER, read_raw_body, request_id

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_TIMEOUT_SECONDS = 620
_POLL_TIMEOUT_SECONDS = MAX_HOLD_SECONDS + 10
# Every response gets new values of these headers from the process that sends it.
_NOT_FORWARDED = {"content-length", REQUEST_ID_HEADER.lower(), "cache-control", "x-content-type-options"}


def forward(forwarder: Forwarder, environ: WSGIEnvironment, *, is_poll: bool) -> Response | None:
    """Forward the current request to the leader. Return ``None`` if this process is the leader.

    Raises:
        ApiError: Another process forwarded the request to this process, which is no longer the leader (503).
    """
    if not forwarder.is_needed:
        return None
    if CALLER in environ:
        raise leader_changed()
    request_id_header = [REQUEST_ID_HEADER.lower(), request_id(environ)]
    call = Call(
        process_id=forwarder.process_id,
        app_id=g.app_id,
        scopes=sorted(g.scopes),
        method=request.method,
        path=request.path,
        # Latin-1 preserves every byte of the query string.
        query=request.query_string.decode("latin-1"),
        headers=[["content-type", request.headers.get("Content-Type", "")], request_id_header],
        address=request.remote_addr or "",
        body=base64.b64encode(read_raw_body()).decode(),
        secret_hash=g.secret_hash.hex(),
    )
    call_id, future = forwarder.forward(call)
    return DeferredResponse(
        future,
        _POLL_TIMEOUT_SECONDS if is_poll else _TIMEOUT_SECONDS,
        render=_response,
        expired=_expired,
        close=lambda: forwarder.forget(call_id),
        is_poll=is_poll,
    )


def _response(reply: Reply) -> Response:
    response = Response(reply.body, reply.status)
    del response.headers["Content-Type"]
    for name, value in reply.headers:
        if name not in _NOT_FORWARDED:
            response.headers[name] = value
    return response


def _expired() -> Response:
    message = "the leader did not respond in time; check whether the request took effect before you repeat it"
    raise ApiError(503, message, retry_after_seconds=1)
