"""Making answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from flask import Response
from werkzeug.wsgi import ClosingIterator

from mirror_server.core.errors import Refusal
from mirror_server.views.deferred import Deferred

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

T = TypeVar("T")

_STORED_TIMEOUT_SECONDS = 30


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


def json_answer(content: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return EncodedAnswer(orjson.dumps(content), status)


def empty_answer(status: int = 204) -> Response:
    """An answer with nothing in it, and so without a content type."""
    answer = Response(status=status)
    del answer.headers["Content-Type"]
    return answer


def when_stored(
    future: Future[T], render: Callable[[T], Response], sent: Callable[[], object] | None = None
) -> Response:
    """Answer when something is on disk; a 503 tells that this took too long. For ``sent`` see :class:`Deferred`."""

    def expired() -> Response:
        raise Refusal(
            503, f"not stored within {_STORED_TIMEOUT_SECONDS} s; it may still be stored, so look before you repeat it"
        )

    return Deferred(future, _STORED_TIMEOUT_SECONDS, render=render, expired=expired, sent=sent)
