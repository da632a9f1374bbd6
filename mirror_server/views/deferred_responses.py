"""Delayed responses, which wait for a commit or an event, and streamed responses."""

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
"""Key of the WSGI environment for the callable that accepts a deferred or streamed response.

A server that can wait without a thread sets it. It returns whether it accepted the response. It rejects a response if
there are too many.
"""


_DISCONNECT_CHECK_SECONDS = 0.5


def _nothing() -> None:
    """There is nothing to do."""


class PendingResult(Protocol):
    """A result that a response waits for, such as a future of :mod:`concurrent.futures`."""

    def done(self) -> bool:
        """Return whether the result is available."""
        ...

    def result(self) -> Any:
        """Return the result. Call this only when it is done.

        Raises:
            Exception: The error to respond with.
        """
        ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Have a callback called in any thread when this is done."""
        ...


class DeferredResponse(Response):
    """A placeholder that a view returns if the response has to wait. It is empty itself and never sent.

    Args:
        future: The result that the response waits for.
        timeout_seconds: The maximum time to wait.
        render: Makes the response from the future's result.
        expired: Makes the response after the timeout. Under a server that can wait without a thread, this may return
            another placeholder.
        close: Called once when the response was made, or its client has disconnected.
        is_poll: Whether this is a poll. A poll can stay open for long, and counts against the limit of polls.
        is_optional: Whether the server may send the ``expired`` response at once if the application has too many
            unread responses. Use it if the result is also stored elsewhere, so that it need not wait in memory.
        consumes: Whether rendering consumes the result. Then it is not rendered for a client that has disconnected.
        rechecks_key: Whether the access key must still be valid when the response is made. Set it for a
            response with data, because an expired or revoked key must not get data.
            A stored change is always confirmed.
        sent: Called after the response was sent or could not be sent. A server that can wait without a thread calls it
            a moment later. It is never called if the server is killed. It must not block.
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
        """Return an empty body to the server that accepted this placeholder; the response follows later."""
        start_response(self.status, [])
        return ()

    def current_response(self) -> Response:
        """Return the rendered response, or the ``expired`` one if the future is not done.

        Raises:
            Exception: What the future raises.
        """
        return self._render(self.future.result()) if self.future.done() else self._expired()

    def release(self) -> None:
        """Release the future and its result, and call ``close`` once."""
        close, self._close = self._close, _nothing
        # The result may be large.
        self.future = Future[None]()
        close()

    def close(self) -> None:
        """Release everything, whether or not a response was sent."""
        super().close()
        self.release()

    def wait(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Block this thread until the response can be made or is cancelled; see :func:`wait_for`."""
        wait_for(self.future, self.timeout_seconds, is_cancelled)


class StreamedResponse(Response):
    """A response that is sent in chunks. Each chunk is produced when the client can receive it.

    A server that can wait without a thread accepts it like a :class:`DeferredResponse`, calls :meth:`send`, and
    closes it at the end. Any other server iterates over ``chunks`` and blocks a thread meanwhile.

    Args:
        chunks: The chunks.
        content_type: The content type.
        headers: Further headers.

    Attributes:
        is_poll: Whether it can stay open for long, and so counts against the limit of polls.
        is_interrupted: Returns whether to stop early, if it blocks a thread.
    """

    is_poll = False

    def __init__(self, chunks: Iterable[bytes], *, content_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(chunks, content_type=content_type, headers=dict(headers))
        self.is_interrupted: Callable[[], bool] = lambda: False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Return only the head to a server that accepted this response; otherwise the chunks."""
        if DEFER not in environ:
            return super().__call__(environ, start_response)
        start_response(self.status, self.get_wsgi_headers(environ).to_wsgi_list())
        return ()

    async def send(self, reader: ResponseReader, ends: Mapping[asyncio.Future[Any], str]) -> bool:
        """Send the body. Return false if it was aborted, so that the client notices.

        Args:
            reader: The client.
            ends: Futures that are done when the client disconnects or the server stops, with that reason.
        """
        raise NotImplementedError


def wait_for(future: PendingResult, timeout_seconds: float, is_cancelled: Callable[[], bool]) -> bool:
    """Block this thread until the future is done. Return false after the timeout or once ``is_cancelled`` is true.

    ``is_cancelled`` is polled twice a second, because WSGI servers do not report a disconnected client.
    """
    is_done = threading.Event()
    future.add_done_callback(lambda _: is_done.set())
    end_at = time.monotonic() + timeout_seconds
    while not is_cancelled() and (remaining_seconds := end_at - time.monotonic()) > 0:
        if is_done.wait(min(remaining_seconds, _DISCONNECT_CHECK_SECONDS)):
            return True
    return False


async def until_done(future: PendingResult, timeout_seconds: float, *ends: asyncio.Future[Any]) -> bool:
    """Wait without a thread until the future or one of the ends is done. Return false after the timeout."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def set_done() -> None:
        # The wait may have ended at this moment.
        if not done.done():
            done.set_result(None)

    # The server may have stopped before the future is done.
    future.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(set_done))
    completed, _ = await asyncio.wait([done, *ends], timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    done.cancel()
    return bool(completed)
