"""Construction of responses: JSON, pages, errors, and responses that wait for a read or a commit.

Source: wire.md 0 and 6.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from flask import Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.wsgi import ClosingIterator, get_path_info

from mirror_sdk.wire.errors import ERROR_TYPES, PATH_NOT_FOUND
from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.service.slow_reads import SlowRead, is_slow_read
from mirror_server.store.backend import StorageFailed, TooMuchWaiting
from mirror_server.store.conditions import Condition
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.views.requests import Paging, app_id, request_id, services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

T = TypeVar("T")

# Values can be personal data, so proxies and browsers must not store them.
NO_STORE = ("Cache-Control", "no-store")
NO_SNIFF = ("X-Content-Type-Options", "nosniff")

_STORED_TIMEOUT_SECONDS = 30
_READ_TIMEOUT_SECONDS = 30
_STORE_AGAIN_SECONDS = 5

_NOT_SUPPORTED_BECAUSE = (
    ("POST", re.compile("/v3/devices"), ", because a device is created when it registers"),
    ("DELETE", re.compile("/v3/devices/[^/]+"), ", because only an operator can erase a device"),
)
"""Methods that programs of the public API use and that this server does not support, each with the reason."""

_log = logging.getLogger(__name__)


class CacheableResponse(Response):
    """A response with its own ``Cache-Control`` header. All other responses get ``Cache-Control: no-store``."""


class EncodedResponse(Response):
    """A JSON response with an encoded body and final headers.

    It skips work that Werkzeug does for each response: completing a location, counting and closing an iterator, and
    copying the headers.
    """

    def __init__(self, body: bytes, status: int = 200) -> None:
        super().__init__(body, status, content_type="application/json")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Send the response to a WSGI server."""
        if environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        start_response(self.status, self.headers.to_wsgi_list())
        body = [self.get_data()]
        return ClosingIterator(body, self.close) if self._on_close else body


class SharedResponse(EncodedResponse):
    """A response that is built once and sent to many requests.

    The responses differ only in the request id, which is added for each request.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.content = body
        for header in (NO_STORE, NO_SNIFF):
            self.headers.add(*header)

    @cached_property
    def lines(self) -> bytes:
        """The headers as they are sent to the client, without the request id.

        Read this property only after all other headers are set, because it is cached.
        """
        return "".join(f"{name.lower()}: {value}\r\n" for name, value in self.headers).encode("latin-1")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Send the response to a WSGI server."""
        start_response(self.status, [*self.headers.to_wsgi_list(), (REQUEST_ID_HEADER, request_id(environ))])
        return [self.content]


def json_response(content: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    return EncodedResponse(orjson.dumps(content), status)


def empty_response(status: int = 204) -> Response:
    """Return a response without a body and without a content type."""
    response = Response(status=status)
    del response.headers["Content-Type"]
    return response


def when_read(
    read: Callable[[], T],
    render: Callable[[T], Response],
    *,
    is_long: bool,
    discard: Callable[[T], object] = lambda _: None,
) -> Response:
    """Read data and respond immediately. If the read is slow, run it in another thread and respond later.

    Args:
        read: A function that reads the result, and encodes it if encoding is slow. No function that is
            passed here may use Flask's request.
        render: A function that creates the response from the result. It must be fast, because it runs on the event
            loop.
        is_long: Whether the read would block the event loop for too long. See :func:`is_slow_read`.
        discard: A function that releases the result if the client has disconnected.

    Raises:
        ApiError: Too many slow reads are waiting (429).
    """
    if not is_long:
        return render(read())
    return when_slow_read(services().slow_reads.submit(app_id(), read), render, discard=discard)


def when_deleted(stored: Future[bool], missing: ApiError) -> Response:
    """Respond when a deletion is on disk, or with the error ``missing`` if there was nothing to delete."""

    def response(existed: bool) -> Response:
        if not existed:
            raise missing
        return empty_response()

    return when_stored(stored, response)


def when_slow_read(
    reading: SlowRead[T],
    render: Callable[[T], Response],
    *,
    discard: Callable[[T], object] = lambda _: None,
    close: Callable[[], object] = lambda: None,
    consumes: bool = False,
) -> Response:
    """Run a slow read and respond when it has finished.

    For the arguments see :func:`when_read` and :class:`DeferredResponse`.
    """
    slow_reads = services().slow_reads
    is_rendered = False

    def render_once(result: T) -> Response:
        nonlocal is_rendered
        is_rendered = True
        return render(result)

    def release() -> None:
        close()
        slow_reads.release(reading)
        # The read may still be running.
        if not (is_rendered or reading.cancelled()):
            reading.add_done_callback(lambda done: done.exception() or discard(done.result()))

    return DeferredResponse(
        reading,
        _READ_TIMEOUT_SECONDS,
        render=render_once,
        expired=_not_read,
        close=release,
        consumes=consumes,
        rechecks_key=True,
    )


def _not_read() -> Response:
    message = f"the query took more than {_READ_TIMEOUT_SECONDS} s; use fewer filters, or try again at lower load"
    raise ApiError(503, message, retry_after_seconds=_READ_TIMEOUT_SECONDS)


def when_stored(
    future: Future[T], render: Callable[[T], Response], sent: Callable[[], object] | None = None
) -> Response:
    """Respond when a change is on disk, or with 503 if this takes too long.

    See :class:`DeferredResponse` for ``sent``.
    """

    def expired() -> Response:
        raise ApiError(
            503,
            f"the change was not stored within {_STORED_TIMEOUT_SECONDS} s and may still be stored; check whether it"
            " took effect before you repeat the request",
        )

    return DeferredResponse(future, _STORED_TIMEOUT_SECONDS, render=render, expired=expired, sent=sent)


def make_conditional(response: Response) -> None:
    """Add an ``ETag`` of the content, and respond with 304 if the client already has this content."""
    response.add_etag()
    response.make_conditional(request)
    # Both Werkzeug and the HTTP server add the date, so one of them has to be removed.
    del response.headers["Date"]


def when_page_read(
    paging: Paging,
    conditions: Sequence[Condition],
    rows: int,
    select: Callable[..., tuple[Sequence[T], int | None]],
    to_json: Callable[[T], Any],
    *,
    after: int | None = None,
) -> Response:
    """Respond with a page of a list. If reading the page is slow, it is read in another thread.

    Args:
        paging: The requested page.
        conditions: The filters of the entries.
        rows: An estimate of the number of rows that are read.
        select: A function that reads up to ``limit + 1`` entries and the total number.
        to_json: A function that converts an entry to JSON.
        after: The id after which the page starts, if the ids are numbers.
    """

    def read() -> Response:
        entries, total = select(
            conditions,
            after=paging.after if after is None else after,
            descending=paging.descending,
            limit=paging.limit,
            count=paging.count,
        )
        return page_response(paging, [to_json(entry) for entry in entries], total)

    is_long = is_slow_read(conditions, rows=rows, returned=paging.limit, counts=paging.count)
    return when_read(read, lambda page: page, is_long=is_long)


def page_response(paging: Paging, entries: Sequence[Any], total: int | None) -> Response:
    """Return the response with a page.

    ``entries`` has up to ``limit + 1`` items; an extra item shows that there are more.
    """
    page = {
        "object": "list",
        "data": entries[: paging.limit],
        "has_more": len(entries) > paging.limit,
        "limit": paging.limit,
        "order": "DESC" if paging.descending else "ASC",
        "after": paging.after,
    }
    return json_response(page if total is None else page | {"total_count": total})


def error_response_to(error: Exception, environ: WSGIEnvironment, *, max_body_bytes: int) -> Response:
    """Return the error response for an exception, even if it occurred while a response was pending.

    Args:
        error: Any exception. An unexpected exception is logged.
        environ: The WSGI environment of the request.
        max_body_bytes: The maximum size of a body in bytes.
    """
    api_error = _api_error_of(error, environ, max_body_bytes)
    body: dict[str, Any] = {
        "object": "error",
        "code": api_error.code,
        "type": "validation_error" if api_error.fields and api_error.code == 400 else ERROR_TYPES[api_error.code],
        "message": api_error.message,
        "fields": [{"name": name, "message": message} for name, message in api_error.fields],
        "request_id": request_id(environ),
    }
    if api_error.reason is not None:
        body["reason"] = api_error.reason
    body |= api_error.more
    response = json_response(body, api_error.code)
    response.headers.update(api_error.headers)
    if api_error.code == 401:
        # Required by RFC 9110, 11.6.1.
        response.headers["WWW-Authenticate"] = "Bearer"
    if api_error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(api_error.retry_after_seconds)
    return response


def _api_error_of(error: Exception, environ: WSGIEnvironment, max_body_bytes: int) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, StorageFailed):
        cure = "nothing was changed, so try again later; if it fails again, the operator can find the cause in the log"
        return ApiError(
            503, f"the server {error}; {cure}", reason="STORAGE_FAILED", retry_after_seconds=_STORE_AGAIN_SECONDS
        )
    if isinstance(error, TooMuchWaiting):
        message = f"{error}; nothing was changed, so try again in a moment"
        return ApiError(429, message, reason="TOO_MUCH_WAITING", retry_after_seconds=1)
    if isinstance(error, HTTPException):
        return _api_error_of_http(error, environ, max_body_bytes)
    _log.error("request failed", extra={"request_id": request_id(environ)}, exc_info=error)
    cure = "try again, and send the request id to the operator if it fails again"
    return ApiError(500, f"the server failed; {cure}")


def _api_error_of_http(error: HTTPException, environ: WSGIEnvironment, max_body_bytes: int) -> ApiError:
    if error.code == 404:
        message = f"the path {get_path_info(environ)} does not exist on this server; check it"
        return ApiError(404, message, reason=PATH_NOT_FOUND)
    if isinstance(error, MethodNotAllowed):
        method, path = environ["REQUEST_METHOD"], get_path_info(environ)
        reasons = (why for other, paths, why in _NOT_SUPPORTED_BECAUSE if other == method and paths.fullmatch(path))
        message = f"{method} is not supported for {path}{next(reasons, '')}; see the header Allow"
        allow = error.valid_methods or ()
        return ApiError(405, message, headers={"Allow": ", ".join(allow)})
    if error.code == 413:
        return ApiError(413, f"the body is larger than {max_body_bytes} bytes; split it into several requests")
    code = error.code if error.code in ERROR_TYPES else 400
    return ApiError(code, error.description or error.name)
