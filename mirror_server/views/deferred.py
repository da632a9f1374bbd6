"""Responses that come later, when something is on disk or arrives, or part by part while they are made."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from flask import Response

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from mirror_server.web.asgi import ResponseReader

PARK = "mirror.park"
"""Key of the WSGI environment under which a server that can wait without a thread takes what is not whole yet.

That is a :class:`Deferred` or a :class:`Streamed`. It answers whether it took it; one too many is refused.
"""


_LOOK_SECONDS = 0.5


def _nothing() -> None:
    """There is nothing to do."""


class PendingResult(Protocol):
    """What an answer waits for; a future of :mod:`concurrent.futures` is one."""

    def done(self) -> bool:
        """Whether there is something to answer."""
        ...

    def result(self) -> Any:
        """What is to be answered, once it is done.

        Raises:
            Exception: That is to be answered.
        """
        ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Have this called when it is done, in any thread."""
        ...


class Deferred(Response):
    """What a view returns when the answer cannot be made yet; the response itself is empty and never sent.

    Args:
        future: What the answer waits for, a future or what is like one.
        timeout_seconds: How long it waits at most.
        render: Makes the answer from the future's result.
        expired: Makes the answer when the time is over; where it was parked it may give what it still has to wait for.
        close: Called once when the answer was made, or nobody waits for it any more.
        is_poll: Whether it is a poll, which may be held open for long, and so counts against the bound on those.
        is_optional: Whether the answer may be the one whose time is over, where its application is to take others
            first: what it would tell is kept elsewhere, and would wait in memory.
        takes: Whether the answer takes something away, which is not to be made for a client that is gone.
        rechecks_key: Whether the access key of the request has to be valid still when the response is made: a response
            with data is not sent with a key that expired or was revoked meanwhile. A stored change is still confirmed.
        sent: Called when the answer was sent, or cannot be, and a moment later where the server can do that without a
            thread; where a server is killed or says nothing of it, never. It must not block.
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
        takes: bool = False,
        rechecks_key: bool = False,
        sent: Callable[[], object] | None = None,
    ) -> None:
        super().__init__()
        self.future = future
        self.timeout_seconds = timeout_seconds
        self.is_poll = is_poll and timeout_seconds > 0
        self.is_optional = is_optional
        self.takes = takes
        self.rechecks_key = rechecks_key
        self._render = render
        self._expired = expired
        self._close = close
        self.sent = sent

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:  # noqa: ARG002 - WSGI
        """Nothing, for the server that took it; the answer comes later."""
        start_response(self.status, [])
        return ()

    def current_response(self) -> Response:
        """The answer as it is now: rendered, or expired if the future is not done.

        Raises:
            Exception: What the future raises.
        """
        return self._render(self.future.result()) if self.future.done() else self._expired()

    def release(self) -> None:
        """Let go of what it waited for, and of what that told."""
        close, self._close = self._close, _nothing
        self.future = Future[None]()
        close()

    def close(self) -> None:
        """It is over, however it ended."""
        super().close()
        self.release()

    def wait(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Block this thread until the answer can be made, or nobody waits for it any more; see :func:`wait_for`."""
        wait_for(self.future, self.timeout_seconds, is_over)


class Streamed(Response):
    """An answer that is sent part by part, each made when there is room for it.

    A server that can wait without a thread takes it as it takes a :class:`Deferred`, has
    :meth:`send` send it, and closes it at the end. Any other reads ``chunks``, in a thread that is held meanwhile.

    Args:
        chunks: The parts.
        content_type: What they are.
        headers: Further headers.

    Attributes:
        is_poll: Whether it may stay open for long, and so counts against the bound on polls.
        is_interrupted: Whether it is to end before its time, where it holds a thread.
    """

    is_poll = False

    def __init__(self, chunks: Iterable[bytes], *, content_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(chunks, content_type=content_type, headers=dict(headers))
        self.is_interrupted: Callable[[], bool] = lambda: False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """The head alone, for the server that took it."""
        if PARK not in environ:
            return super().__call__(environ, start_response)
        start_response(self.status, self.get_wsgi_headers(environ).to_wsgi_list())
        return ()

    async def send(self, reader: ResponseReader, ends: Sequence[asyncio.Future[Any]]) -> bool:
        """Send the body; false where it broke off, which its client is to see.

        Args:
            reader: The client.
            ends: Of these one is done when the client goes away or the server stops.
        """
        raise NotImplementedError


def wait_for(future: PendingResult, timeout_seconds: float, is_over: Callable[[], bool]) -> bool:
    """Block this thread until the future is done, which is told, or ``is_over``, which is asked twice a second."""
    is_done = threading.Event()
    future.add_done_callback(lambda _: is_done.set())
    end_at = time.monotonic() + timeout_seconds
    while not is_over() and (remaining_seconds := end_at - time.monotonic()) > 0:
        if is_done.wait(min(remaining_seconds, _LOOK_SECONDS)):
            return True
    return False


async def until_done(future: PendingResult, timeout_seconds: float, *ends: asyncio.Future[Any]) -> bool:
    """Wait without a thread until the future or one of the ends is done; false where none is in time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not done.done():
            done.set_result(None)

    future.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(note))
    found, _ = await asyncio.wait([done, *ends], timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    done.cancel()
    return bool(found)
