"""Requests that only the process on duty can answer: it alone knows the devices and what is under way."""

from __future__ import annotations

import base64

from flask import Response, g, request

from mirror_sdk.wire.routes import MAX_HOLD_SECONDS, REQUEST_ID_HEADER
from mirror_server.core.errors import Refusal
from mirror_server.relay import Call, Relay, Reply
from mirror_server.views.deferred import Deferred

CALLER = "mirror.caller"
"""Key of the WSGI environment with the :class:`Call` of a request that another process passed on."""

_POLL = "notifications.pull"
_OF_DUTY = {
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
_NOT_PASSED_ON = {"content-length", REQUEST_ID_HEADER.lower(), "cache-control", "x-content-type-options"}


def is_of_duty() -> bool:
    """Whether this request is one of those."""
    if request.endpoint == _POLL:
        # Who gives a position reads the log itself, which any process can do.
        return "after" not in request.args
    return request.blueprint == "bench" or request.endpoint in _OF_DUTY


def asked_by() -> str | None:
    """The process that passed this request on; ``None`` where the application itself asks."""
    call: Call | None = request.environ.get(CALLER)
    return None if call is None else call.process_id


def pass_on(relay: Relay, request_id: str) -> Response:
    """Have the process on duty answer this request."""
    call = Call(
        process_id=relay.process_id,
        app_id=g.app_id,
        scopes=sorted(g.scopes),
        method=request.method,
        path=request.path,
        query=request.query_string.decode("latin-1"),
        headers=[["content-type", request.headers.get("Content-Type", "")], [REQUEST_ID_HEADER.lower(), request_id]],
        address=request.remote_addr or "",
        body=base64.b64encode(request.get_data()).decode(),
    )
    call_id, future = relay.ask(call)
    is_poll = request.endpoint == _POLL
    return Deferred(
        future,
        _POLL_TIMEOUT_SECONDS if is_poll else _TIMEOUT_SECONDS,
        render=_answer,
        expired=_expired,
        close=lambda: relay.forget(call_id),
        is_poll=is_poll,
    )


def _answer(reply: Reply) -> Response:
    answer = Response(reply.body, reply.status)
    del answer.headers["Content-Type"]
    for name, value in reply.headers:
        if name not in _NOT_PASSED_ON:
            answer.headers[name] = value
    return answer


def _expired() -> Response:
    message = "the process that holds the devices and channels did not answer in time; look before you repeat it"
    raise Refusal(503, message, retry_after_seconds=1)
