"""Deferred responses, which wait for a commit or an event, and streamed responses."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from flask import Response

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from mirror_server.web.wsgi_adapter import ResponseReader

DEFER = "mirror.defer"
"""The key in the WSGI environment for the function that accepts a deferred or streamed response.

A server sets this key if it can wait without blocking a thread. The function returns the error to respond with if a
limit is exceeded, or ``None`` if it accepts the response.
"""


_DISCONNECT_CHECK_SECONDS = 0.5


_NO_RESULT = Future[None]()


def _nothing() -> None:
    """Do nothing."""


class PendingResult(Protocol):
    """A result that a deferred response waits for, such as a :class:`concurrent.futures.Future`."""

    def done(self) -> bool:
        """Return whether the result is available."""
        ...

    def result(self) -> Any:
        """Return the result. Call this method only if the result is available.

        Raises:
            Exception: The error to respond with.
        """
        ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call a function in any thread when the result is available."""
        ...


class DeferredResponse(Response):
    """A placeholder that a view returns if the response has to wait. The placeholder itself is empty and never sent.

    Args:
        future: The result for which the response waits.
        timeout_seconds: The maximum time to wait, in seconds.
        render: A function that creates the response from the result of the future.
        expired: A function that creates the response after the timeout. If the server can wait without blocking a
            thread, it may return another placeholder.
        close: A function that is called once, when the response was created or the client has disconnected.
        is_poll: Whether this is a poll. A poll can stay open for a long time, and counts against the limit of polls.
        is_optional: Whether the server may send the ``expired`` response immediately if the application has too many
            unread responses. Use it if the result is also stored elsewhere, so that the result need not wait in
            memory.
        consumes: Whether rendering marks the result as delivered, so that it is not sent again. Such a result is not
            rendered if the client has disconnected.
        rechecks_key: Whether the access key must still be valid when the response is created. Set it for a response
            with data, because an expired or revoked key must not receive data. Do not set it for the confirmation of a
            stored change.
        sent: A function that is called after the response was sent or could not be sent. If the server can wait
            without blocking a thread, it calls the function a moment later. The function is not called if the server
            is killed. It must not block.
    """

    def __init__(
        self,
        future: PendingResult,
        timeout_seconds: float,
        *,
        render: Callable[[Any], Response],
        expired: Callable[[], Response],
        close: Callable[[], object] = _nothing,
        is_poll: bool = False,
        is_optional: bool = False,
        consumes: bool = False,
        rechecks_key: bool = False,
        sent: Callable[[], object] | None = None,
    ) -> None:
        super().__init__()
        self.future = future
        self.timeout_seconds = timeout_seconds
        # A poll that does not wait needs no slot.
        self.is_poll = is_poll and timeout_seconds > 0
        self.is_optional = is_optional
        self.consumes = consumes
        self.rechecks_key = rechecks_key
        self._render = render
        self._expired = expired
        self._close = close
        self.sent = sent

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:  # noqa: ARG002 - WSGI
        """Return an empty body. The server that accepted this placeholder sends the actual response later."""
        start_response(self.status, [])
        return ()

    def current_response(self) -> Response:
        """Return the rendered response, or the ``expired`` response if the future is not done.

        Raises:
            Exception: The exception of the future.
        """
        return self._render(self.future.result()) if self.future.done() else self._expired()

    def release(self) -> None:
        """Release the future and its result, and call ``close`` unless it has already been called."""
        close, self._close = self._close, _nothing
        # The result may be large, so its memory is released here.
        self.future = _NO_RESULT
        close()

    def close(self) -> None:
        """Release all resources, whether or not a response was sent."""
        super().close()
        self.release()

    def wait(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Block this thread until the response can be created or the wait is cancelled. See :func:`wait_for`."""
        wait_for(self.future, self.timeout_seconds, is_cancelled)


class StreamedResponse(Response):
    """A response that is sent in chunks. Each chunk is created when the client can receive it.

    A server that can wait without blocking a thread accepts this response in the same way as a
    :class:`DeferredResponse`. It then calls :meth:`send`, and closes the response at the end. Any other server
    iterates over ``chunks``, which blocks a thread.

    Args:
        chunks: The chunks of the body.
        content_type: The content type.
        headers: Additional headers.

    Attributes:
        is_poll: Whether the response can stay open for a long time and counts against the limit of polls.
        is_interrupted: A function that returns whether to stop early. Used if the response blocks a thread.
    """

    is_poll = False

    def __init__(self, chunks: Iterable[bytes], *, content_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(chunks, content_type=content_type, headers=dict(headers))
        self.is_interrupted: Callable[[], bool] = lambda: False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Return an empty body to a server that accepted this response, and the chunks to any other server."""
        if DEFER not in environ:
            return super().__call__(environ, start_response)
        start_response(self.status, self.get_wsgi_headers(environ).to_wsgi_list())
        return ()

    async def send(self, reader: ResponseReader, ends: Mapping[asyncio.Future[Any], str]) -> bool:
        """Send the body. Return false if it was aborted, so that the server does not end the body normally.

        Args:
            reader: The client.
            ends: Futures that complete when the client disconnects or the server stops, each with that reason.
        """
        raise NotImplementedError


def wait_for(future: PendingResult, timeout_seconds: float, is_cancelled: Callable[[], bool]) -> bool:
    """Block this thread until the future is done. Return false after the timeout or when the wait is cancelled.

    ``is_cancelled`` is called twice a second, because WSGI servers do not report that a client has disconnected.
    """
    is_done = threading.Event()
    future.add_done_callback(lambda _: is_done.set())
    end_at = time.monotonic() + timeout_seconds
    while not is_cancelled() and (remaining_seconds := end_at - time.monotonic()) > 0:
        if is_done.wait(min(remaining_seconds, _DISCONNECT_CHECK_SECONDS)):
            return True
    return False


async def until_done(future: PendingResult, timeout_seconds: float, *ends: asyncio.Future[Any]) -> bool:
    """Wait without blocking a thread until the future or one of the ends is done. Return false after the timeout."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def set_done() -> None:
        # The wait may have ended in the meantime.
        if not done.done():
            done.set_result(None)

    # The server may stop before the future is done.
    future.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(set_done))
    completed, _ = await asyncio.wait([done, *ends], timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    done.cancel()
    return bool(completed)
