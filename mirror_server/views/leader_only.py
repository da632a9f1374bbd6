"""Requests that only the leader of several processes can answer: it alone knows the devices and what is under way."""

from __future__ import annotations

import base64

from flask import Response, g, request

from mirror_sdk.wire.routes import MAX_HOLD_SECONDS, REQUEST_ID_HEADER
from mirror_server.cluster.forwarding import Call, Forwarder, Reply
from mirror_server.core.errors import Refusal
from mirror_server.service.authentication import sent_secret_hash
from mirror_server.views.deferred import Deferred
from mirror_server.views.requests import read_raw_body

CALLER = "mirror.caller"
"""Key of the WSGI environment with the :class:`Call` of a request that another process forwarded."""

_POLL = "notifications.pull"
_LEADER_ONLY = {
    "device_directory.get_device_connection",
    "device_requests.list_waiting_requests",
    "device_requests.list_waiting_requests_of_device",
    "notifications.delete_callback",
    "notifications.delete_poll_channel",
    "notifications.get_channel",
    "notifications.put_callback",
}
_TIMEOUT_SECONDS = 620
_POLL_TIMEOUT_SECONDS = MAX_HOLD_SECONDS + 10
# Every answer gets its own of these.
_NOT_FORWARDED = {"content-length", REQUEST_ID_HEADER.lower(), "cache-control", "x-content-type-options"}


def is_leader_only() -> bool:
    """Whether this request is one of those."""
    if request.endpoint == _POLL:
        # Who gives a position reads the log itself, which any process can do.
        return "after" not in request.args
    return request.blueprint == "bench" or request.endpoint in _LEADER_ONLY


def asked_by() -> str | None:
    """The process that forwarded this request; ``None`` where the application itself asks."""
    call: Call | None = request.environ.get(CALLER)
    return None if call is None else call.process_id


def forward(forwarder: Forwarder, request_id: str) -> Response:
    """Have the leader answer this request."""
    call = Call(
        process_id=forwarder.process_id,
        app_id=g.app_id,
        scopes=sorted(g.scopes),
        method=request.method,
        path=request.path,
        query=request.query_string.decode("latin-1"),
        headers=[["content-type", request.headers.get("Content-Type", "")], [REQUEST_ID_HEADER.lower(), request_id]],
        address=request.remote_addr or "",
        body=base64.b64encode(read_raw_body()).decode(),
        secret_hash=sent_secret_hash(request.headers.get("Authorization")).hex(),
    )
    call_id, future = forwarder.ask(call)
    is_poll = request.endpoint == _POLL
    return Deferred(
        future,
        _POLL_TIMEOUT_SECONDS if is_poll else _TIMEOUT_SECONDS,
        render=_answer,
        expired=_expired,
        close=lambda: forwarder.forget(call_id),
        is_poll=is_poll,
    )


def _answer(reply: Reply) -> Response:
    answer = Response(reply.body, reply.status)
    del answer.headers["Content-Type"]
    for name, value in reply.headers:
        if name not in _NOT_FORWARDED:
            answer.headers[name] = value
    return answer


def _expired() -> Response:
    message = "the process that holds the devices and channels did not answer in time; look before you repeat it"
    raise Refusal(503, message, retry_after_seconds=1)
