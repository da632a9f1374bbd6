"""A deferred error has the same response as an immediate one, under every kind of web server."""

import asyncio
import logging
from concurrent.futures import Future

import pytest
from asgi_requests import Request
from werkzeug.exceptions import MethodNotAllowed, NotFound, RequestEntityTooLarge

from mirror_server.config import Settings
from mirror_server.core.errors import ApiError
from mirror_server.service.keys import Scope
from mirror_server.store.backend import StorageFailed, TooMuchWaiting
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.views.requests import requires
from mirror_server.web.asgi_bridge import ASGIBridge

ERRORS = {
    "refused": (ApiError(409, "it is there already; take another", reason="THERE"), 409),
    "field": (ApiError.of_field("path", "no path; write /3/0/0"), 400),
    "no_key": (ApiError(401, "pass a key"), 401),
    "again": (ApiError(429, "too much; wait", retry_after_seconds=7), 429),
    "storage": (StorageFailed("cannot write"), 503),
    "waiting": (TooMuchWaiting("too much waits"), 429),
    "not_found": (NotFound(), 404),
    "method": (MethodNotAllowed(["GET", "PUT"]), 405),
    "large": (RequestEntityTooLarge(), 413),
    "bug": (RuntimeError("unexpected"), 500),
}
REQUEST_ID = "0123456789abcdef" * 2


@pytest.fixture
def failing(server):
    """A server with routes that fail at once, or later."""

    @requires(Scope.READ, query=None)
    def fail(name, when):
        error, _ = ERRORS[name]
        if when == "at-once":
            raise error
        future = Future()
        future.set_exception(error)
        return DeferredResponse(future, 5, render=lambda _: None, expired=lambda: None, is_poll=when == "poll")

    server.app.add_url_rule("/fails/<name>/<when>", view_func=fail)
    return server


def wsgi_response(server, key, path):
    response = server.call(key, "GET", path, headers={"X-Request-ID": REQUEST_ID})
    return response.status_code, compared_headers(response.headers), response.json


def asgi_response(server, key, path):
    async def send():
        bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=2))
        return await Request(bridge, key, path, **{"x-request-id": REQUEST_ID}).end()

    response = asyncio.run(send())
    return response.status, compared_headers(response.headers), response.json


def compared_headers(headers):
    """Return the headers by lower-case name, without the length of a body that contains its path."""
    return {name.lower(): value for name, value in headers.items() if name.lower() != "content-length"}


@pytest.mark.parametrize("name", ERRORS)
def test_deferred_error_has_the_same_response_as_an_immediate_one(failing, name, caplog):
    key = failing.key()
    _, status = ERRORS[name]
    responses = [
        send(failing, key, f"/fails/{name}/{when}")
        for send in (wsgi_response, asgi_response)
        for when in ("at-once", "later", "poll")
    ]
    for each in responses:
        # Some messages name the path.
        for when in ("later", "poll"):
            each[2]["message"] = each[2]["message"].replace(when, "at-once")
    first, *others = responses
    assert first[0] == status
    assert (first[2]["object"], first[2]["request_id"]) == ("error", REQUEST_ID)
    assert others == [first] * 5
    assert "unexpected" not in first[2]["message"]
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == (6 if name == "bug" else 0)
    assert all(record.request_id == REQUEST_ID and record.exc_info[1] is ERRORS[name][0] for record in logged)
