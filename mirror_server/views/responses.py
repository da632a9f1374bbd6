"""Makes responses: of JSON, of what is stored or read, page by page, and of every error. Source: wire.md 0 and 6."""

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
from mirror_server.service.long_reads import LongRead, takes_long
from mirror_server.store.backend import StorageFailed, TooMuchWaiting
from mirror_server.store.conditions import Condition
from mirror_server.views.deferred import Deferred
from mirror_server.views.requests import Paging, app_id, request_id, services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

T = TypeVar("T")

# Values may be personal data: nobody on the way keeps them.
NO_STORE = ("Cache-Control", "no-store")
NO_SNIFF = ("X-Content-Type-Options", "nosniff")

_STORED_TIMEOUT_SECONDS = 30
_READ_TIMEOUT_SECONDS = 30
_STORE_AGAIN_SECONDS = 5

_WHY_NOT = (
    ("POST", re.compile("/v3/devices"), ", since devices come by registering"),
    ("DELETE", re.compile("/v3/devices/[^/]+"), ", since the mirror keeps what it knows until an operator erases it"),
)
"""Methods that programs of the public API use, and why a mirror has them not."""

_log = logging.getLogger(__name__)


class CacheableResponse(Response):
    """An answer whose own ``Cache-Control`` stays; all others are kept by nobody."""


class EncodedResponse(Response):
    """Encoded JSON: a body that is whole, and headers that are as they are sent.

    Werkzeug looks at each answer for a location to complete, for an iterator to count and to close, and copies the
    headers meanwhile; none of this is here.
    """

    def __init__(self, body: bytes, status: int = 200) -> None:
        super().__init__(body, status, content_type="application/json")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a WSGI server."""
        if environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        start_response(self.status, self.headers.to_wsgi_list())
        whole = [self.get_data()]
        return ClosingIterator(whole, self.close) if self._on_close else whole


class SharedResponse(EncodedResponse):
    """An answer to any number of requests, made once: what differs is the id of the request, which it adds itself."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.content = body
        for header in (NO_STORE, NO_SNIFF):
            self.headers.add(*header)

    @cached_property
    def lines(self) -> bytes:
        """Its headers as they go over the wire, without the id of a request; asked for when it has all others."""
        return "".join(f"{name.lower()}: {value}\r\n" for name, value in self.headers).encode("latin-1")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a WSGI server."""
        start_response(self.status, [*self.headers.to_wsgi_list(), (REQUEST_ID_HEADER, request_id(environ))])
        return [self.content]


def json_response(content: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return EncodedResponse(orjson.dumps(content), status)


def empty_response(status: int = 204) -> Response:
    """An answer with nothing in it, and so without a content type."""
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
    """Answer at once, or, where reading takes long, when it was done on another thread than the loop's.

    Args:
        read: Reads, and encodes what takes long to encode. Neither this nor what follows knows anything of the request.
        render: Makes the answer of what was read; quickly, on the loop.
        is_long: Whether it takes longer than the loop may be held; see :func:`takes_long`.
        discard: Lets go of what was read where nobody waits for it any more.

    Raises:
        ApiError: Too many wait for what takes long (429).
    """
    if not is_long:
        return render(read())
    return when_long_read(services().long_reads.submit(app_id(), read), render, discard=discard)


def when_deleted(stored: Future[bool], missing: ApiError) -> Response:
    """Answer when something is deleted on disk, or was not there."""

    def response(was_there: bool) -> Response:
        if not was_there:
            raise missing
        return empty_response()

    return when_stored(stored, response)


def when_long_read(
    reading: LongRead[T],
    render: Callable[[T], Response],
    *,
    discard: Callable[[T], object] = lambda _: None,
    close: Callable[[], object] = lambda: None,
    takes: bool = False,
) -> Response:
    """Answer when a long read has ended; see :func:`when_read`, and :class:`Deferred` for ``close`` and ``takes``."""
    long_reads = services().long_reads
    is_taken = False

    def take(found: T) -> Response:
        nonlocal is_taken
        is_taken = True
        return render(found)

    def let_go() -> None:
        close()
        long_reads.release(reading)
        if not (is_taken or reading.cancelled()):
            reading.add_done_callback(lambda done: done.exception() or discard(done.result()))

    return Deferred(
        reading,
        _READ_TIMEOUT_SECONDS,
        render=take,
        expired=_not_read,
        close=let_go,
        takes=takes,
        rechecks_key=True,
    )


def _not_read() -> Response:
    message = f"nothing was found within {_READ_TIMEOUT_SECONDS} s; give fewer filters, or try again when less is asked"
    raise ApiError(503, message, retry_after_seconds=_READ_TIMEOUT_SECONDS)


def when_stored(
    future: Future[T], render: Callable[[T], Response], sent: Callable[[], object] | None = None
) -> Response:
    """Answer when something is on disk; a 503 tells that this took too long. For ``sent`` see :class:`Deferred`."""

    def expired() -> Response:
        raise ApiError(
            503, f"not stored within {_STORED_TIMEOUT_SECONDS} s; it may still be stored, so look before you repeat it"
        )

    return Deferred(future, _STORED_TIMEOUT_SECONDS, render=render, expired=expired, sent=sent)


def make_conditional(response: Response) -> None:
    """Give an answer a tag of its content, and leave the content out where the client has it."""
    response.add_etag()
    response.make_conditional(request)
    # Werkzeug adds the date, and the server that sends the answer adds it once more.
    del response.headers["Date"]


def when_page_read(
    paging: Paging,
    conditions: Sequence[Condition],
    rows: int,
    select: Callable[..., tuple[Sequence[T], int | None]],
    show: Callable[[T], Any],
    *,
    after: int | None = None,
) -> Response:
    """A page of a list of so many rows, made on another thread where that takes long.

    Args:
        paging: Which page.
        conditions: On the entries.
        rows: How many rows there are to select from.
        select: Reads up to ``limit + 1`` entries, and how many there are in all.
        show: Makes the JSON of an entry.
        after: The id that the page begins behind, where it is a number.
    """

    def read() -> Response:
        found, total = select(
            conditions,
            after=paging.after if after is None else after,
            descending=paging.descending,
            limit=paging.limit,
            count=paging.count,
        )
        return page_response(paging, [show(entry) for entry in found], total)

    is_long = takes_long(conditions, rows=rows, returned=paging.limit, counts=paging.count)
    return when_read(read, lambda page: page, is_long=is_long)


def page_response(paging: Paging, entries: Sequence[Any], total: int | None) -> Response:
    """The page, of up to ``limit + 1`` entries: one more tells that there is more."""
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
    """The answer to a request that ended in an error, at once or while somebody waited for its answer.

    Args:
        error: Whatever it is; one that no request should cause goes into the log.
        environ: The request.
        max_body_bytes: How large a body may be.
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
        response.headers["WWW-Authenticate"] = "Bearer"
    if api_error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(api_error.retry_after_seconds)
    return response


def _api_error_of(error: Exception, environ: WSGIEnvironment, max_body_bytes: int) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, StorageFailed):
        cure = "nothing was changed, so try again later; the operator finds the cause in the log"
        return ApiError(
            503, f"the server {error}; {cure}", reason="STORAGE_FAILED", retry_after_seconds=_STORE_AGAIN_SECONDS
        )
    if isinstance(error, TooMuchWaiting):
        message = f"{error}; nothing was changed, so try again in a moment"
        return ApiError(429, message, reason="TOO_MUCH_WAITING", retry_after_seconds=1)
    if isinstance(error, HTTPException):
        return _api_error_of_http(error, environ, max_body_bytes)
    _log.error("request failed", extra={"request_id": request_id(environ)}, exc_info=error)
    return ApiError(500, "the server failed; try again, and give the operator the request id if it fails again")


def _api_error_of_http(error: HTTPException, environ: WSGIEnvironment, max_body_bytes: int) -> ApiError:
    if error.code == 404:
        return ApiError(404, f"there is no {get_path_info(environ)} here; check the path", reason=PATH_NOT_FOUND)
    if isinstance(error, MethodNotAllowed):
        method, path = environ["REQUEST_METHOD"], get_path_info(environ)
        why = next((why for which, found, why in _WHY_NOT if which == method and found.fullmatch(path)), "")
        message, allow = f"{method} is not available for {path}{why}; see the header Allow", error.valid_methods or ()
        return ApiError(405, message, headers={"Allow": ", ".join(allow)})
    if error.code == 413:
        return ApiError(413, f"the body is larger than {max_body_bytes} bytes; send less at a time")
    code = error.code if error.code in ERROR_TYPES else 400
    return ApiError(code, error.description or error.name)
