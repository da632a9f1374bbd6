"""Making answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from flask import Response, request
from werkzeug.wsgi import ClosingIterator

from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.core.errors import Refusal
from mirror_server.service.long_reads import LongRead
from mirror_server.views.deferred import Deferred
from mirror_server.views.requests import app_id, request_id, services

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

T = TypeVar("T")

# Values may be personal data: nobody on the way keeps them.
NOT_KEPT = ("Cache-Control", "no-store")
NOT_GUESSED = ("X-Content-Type-Options", "nosniff")

_STORED_TIMEOUT_SECONDS = 30
_READ_TIMEOUT_SECONDS = 30


class KeepableAnswer(Response):
    """An answer whose own ``Cache-Control`` stays; all others are kept by nobody."""


class EncodedAnswer(Response):
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


class SharedAnswer(EncodedAnswer):
    """An answer to any number of requests, made once: what differs is the id of the request, which it adds itself."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.content = body
        for header in (NOT_KEPT, NOT_GUESSED):
            self.headers.add(*header)

    @cached_property
    def lines(self) -> bytes:
        """Its headers as they go over the wire, without the id of a request; asked for when it has all others."""
        return "".join(f"{name.lower()}: {value}\r\n" for name, value in self.headers).encode("latin-1")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a WSGI server."""
        start_response(self.status, [*self.headers.to_wsgi_list(), (REQUEST_ID_HEADER, request_id(environ))])
        return [self.content]


def json_answer(content: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return EncodedAnswer(orjson.dumps(content), status)


def empty_answer(status: int = 204) -> Response:
    """An answer with nothing in it, and so without a content type."""
    answer = Response(status=status)
    del answer.headers["Content-Type"]
    return answer


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
        Refusal: Too many wait for what takes long (429).
    """
    if not is_long:
        return render(read())
    return when_long_read(services().long_reads.begin(app_id(), read), render, discard=discard)


def when_deleted(stored: Future[bool], missing: Refusal) -> Response:
    """Answer when something is deleted on disk, or was not there."""

    def answer(was_there: bool) -> Response:
        if not was_there:
            raise missing
        return empty_answer()

    return when_stored(stored, answer)


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
    raise Refusal(503, message, retry_after_seconds=_READ_TIMEOUT_SECONDS)


def when_stored(
    future: Future[T], render: Callable[[T], Response], sent: Callable[[], object] | None = None
) -> Response:
    """Answer when something is on disk; a 503 tells that this took too long. For ``sent`` see :class:`Deferred`."""

    def expired() -> Response:
        raise Refusal(
            503, f"not stored within {_STORED_TIMEOUT_SECONDS} s; it may still be stored, so look before you repeat it"
        )

    return Deferred(future, _STORED_TIMEOUT_SECONDS, render=render, expired=expired, sent=sent)


def make_conditional(answer: Response) -> None:
    """Give an answer a tag of its content, and leave the content out where the client has it."""
    answer.add_etag()
    answer.make_conditional(request)
    # Werkzeug adds the date, and the server that sends the answer adds it once more.
    del answer.headers["Date"]
