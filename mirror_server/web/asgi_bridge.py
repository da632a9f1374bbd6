"""The ASGI app for uvicorn: calls the Flask app on the event loop and completes deferred responses without a thread.

A view reads a little or submits work to the writer, which takes well under a millisecond. Anything slower is returned
as a :class:`~mirror_server.views.deferred_responses.DeferredResponse`. A pending request costs a task, not a thread.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from flask import Response

from mirror_server.config import Settings
from mirror_server.core.errors import ApiError
from mirror_server.service.slow_reads import Slots
from mirror_server.views.deferred_responses import DEFER, DeferredResponse, StreamedResponse, until_done
from mirror_server.views.requests import log_details
from mirror_server.views.responses import SharedResponse
from mirror_server.web.admission import HEAD_ONLY, IS_FULL, ONCE, REJECTED
from mirror_server.web.fair_scheduler import FairScheduler
from mirror_server.web.wsgi_adapter import (
    Backpressure,
    Message,
    Receive,
    ResponseReader,
    Send,
    Unfinished,
    WSGIResponse,
    environ_of,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.web.flask_app import MirrorApp

QUEUED = "mirror.queued"
"""Key of uvicorn's ASGI state: each request is called in the order of arrival, through the queue of the event loop."""

_LARGE_BYTES = 256 * 1024
_SMALL_BYTES = 16 * 1024
_LARGE_BODY_BYTES = 64 * 1024
_LAST_SECONDS = 0.5
# A client's threads can read two connections in any order, some tens of milliseconds apart on a busy machine.
_READING_SECONDS = 0.05
_MAX_CALLS_PER_TURN = 100
_EMPTY_SCOPE = {"method": "", "path": "", "query_string": b"", "http_version": "1.1", "scheme": "http"}


class ASGIBridge:
    """An ASGI app around the Flask app.

    Args:
        app: The Flask app.
        settings: Limits of bodies, of polls and other responses that stay open, and of unread responses.
        reading_seconds: How long after it was sent a response is considered read. Then :attr:`DeferredResponse.sent`
            is called.

    Attributes:
        stopping: Set when the server stops.
        backpressure: Counts the unsent bytes.
    """

    def __init__(self, app: MirrorApp, settings: Settings, *, reading_seconds: float = _READING_SECONDS) -> None:
        self._app = app
        self._max_body_bytes = settings.max_body_bytes
        self._body_timeout_seconds = settings.request_timeout_seconds
        self._reading_seconds = reading_seconds
        self._slots = Slots.of_polls(settings.max_parked_polls, settings.poll_share)
        self.backpressure = Backpressure(settings.max_unread_bytes)
        self._turn = _Turn()
        # By loop: clients in the server's process can have loops of their own, and an event of one wakes no other.
        self._schedulers: WeakKeyDictionary[asyncio.AbstractEventLoop, FairScheduler] = WeakKeyDictionary()
        self.stopping = asyncio.Event()
        self._pending: set[_PendingRequest] = set()
        self._loop_calls: LoopCallQueue | None = None

    def error_response(self, api_error: ApiError, scope: Mapping[str, Any]) -> WSGIResponse:
        """Return the response to a request that did not arrive completely. Its scope may lack members."""
        return WSGIResponse.of(self._app, environ_of({**_EMPTY_SCOPE, **scope, "headers": []}) | {REJECTED: api_error})

    def wait_for_responses(self, seconds: float) -> None:
        """Block another thread until the responses whose future is done were sent, or for this many seconds."""
        if self._loop_calls is not None:
            self._loop_calls.wait(seconds)

    def stop_waiting(self) -> None:
        """Respond to all pending requests as if they had timed out; commits in progress get a moment to complete."""
        self.stopping.set()
        for scheduler in list(self._schedulers.values()):
            scheduler.end_pauses()
        for pending in list(self._pending):
            pending.end()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        environ = environ_of(scope)
        scheduler = self._scheduler_here()
        await scheduler.turn(environ)
        body = await self._body(environ, receive, send)
        if body is None:
            return
        if body:
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
            # Other requests may have arrived meanwhile.
            await scheduler.turn(environ)
        if QUEUED in scope.get("state", ()):
            environ[ONCE] = self._turn.once
        unfinished = self.prepare(environ)
        response = self.call_app(environ, is_large=len(body) > _LARGE_BODY_BYTES)
        unsent = unfinished.response
        if unsent is None and len(response.body) <= _SMALL_BYTES:
            # The most frequent case. These bytes are not counted: they are fewer than the server buffers anyway.
            unfinished.release()
            await response.send(send, is_last=len(body) > self._max_body_bytes)
            return
        reader = self.reader(environ, send)
        try:
            completed = await self._complete(unsent, response, environ, receive, reader)
            unfinished.release()
            if completed is not None:
                if len(completed.body) > _LARGE_BYTES:
                    scheduler.pause(environ)
                await reader.send_response(completed)
        finally:
            unfinished.release()
            if isinstance(unsent, DeferredResponse) and unsent.sent is not None:
                asyncio.get_running_loop().call_later(self._reading_seconds, unsent.sent)

    def prepare(self, environ: WSGIEnvironment) -> Unfinished:
        """Prepare a call of the app. The caller completes the unfinished response, and releases the returned object."""
        unfinished = Unfinished(environ, self._slots)
        environ |= {DEFER: unfinished.accept, IS_FULL: self.backpressure.is_full}
        return unfinished

    def call_app(self, environ: WSGIEnvironment, *, is_large: bool = False) -> WSGIResponse:
        """Call the app, and count its time against the share of the key."""
        began_at, worked_before = time.perf_counter(), time.thread_time()
        response = WSGIResponse.of(self._app, environ)
        seconds, worked = time.perf_counter() - began_at, time.thread_time() - worked_before
        # After a large request others get as much CPU time. While it waited for the database they could run anyway.
        self._scheduler_here().count(environ, seconds, pause_seconds=worked if is_large else 0)
        return response

    def reader(self, environ: WSGIEnvironment, send: Send) -> ResponseReader:
        """Return the client of a request that the app has admitted."""
        return ResponseReader(self.backpressure, log_details(environ).get("application", ""), send)

    def _scheduler_here(self) -> FairScheduler:
        loop = asyncio.get_running_loop()
        scheduler = self._schedulers.get(loop)
        if scheduler is None:
            scheduler = self._schedulers[loop] = FairScheduler(loop)
        return scheduler

    async def _complete(
        self,
        unsent: Response | None,
        response: WSGIResponse,
        environ: WSGIEnvironment,
        receive: Receive,
        reader: ResponseReader,
    ) -> WSGIResponse | None:
        """Return the complete response, or ``None`` if it was already sent, or the client disconnected."""
        while isinstance(unsent, DeferredResponse):
            unsent = await self._wait(unsent, environ, receive, reader)
            if unsent is None:
                return None
            response = WSGIResponse.of(unsent, environ)
        if isinstance(unsent, StreamedResponse):
            await self._stream(unsent, response, receive, reader)
            return None
        return response

    async def _body(self, environ: WSGIEnvironment, receive: Receive, send: Send) -> bytes | None:
        """Return the body. ``None`` if the client disconnected, has no valid key, or was too slow and got an error."""
        try:
            async with asyncio.timeout(self._body_timeout_seconds):
                # To call receive() permits a client that expects status 100 to send the body.
                message: Message = {"type": "", "more_body": True} if "HTTP_EXPECT" in environ else await receive()
                if message.get("more_body") and not await self._may_send(environ, send):
                    return None
                # Of a body beyond the limit only one more byte is stored: enough to detect it.
                body = bytearray(message.get("body", b""))
                while message.get("more_body") and len(body) <= self._max_body_bytes:
                    message = await receive()
                    body += message.get("body", b"")
                    del body[self._max_body_bytes + 1 :]
                return None if message["type"] == "http.disconnect" else bytes(body[: self._max_body_bytes + 1])
        except TimeoutError:
            api_error = ApiError(408, "the body did not arrive in time; send it without pauses")
            await WSGIResponse.of(self._app, environ | {REJECTED: api_error}).send(send, is_last=True)
            return None

    async def _may_send(self, environ: WSGIEnvironment, send: Send) -> bool:
        """Return whether the head permits a client to send a body; otherwise send the error."""
        response = self.call_app(environ | {HEAD_ONLY: True})
        if response.status != 100:
            # The body may still arrive, so no further request can be read from this connection.
            await response.send(send, is_last=True)
        return response.status == 100

    async def _wait(
        self, deferred: DeferredResponse, environ: WSGIEnvironment, receive: Receive, reader: ResponseReader
    ) -> Response | None:
        """Return the response when it can be made, or ``None`` if it was already sent, or the client disconnected."""
        pending = _PendingRequest(self._app, deferred, environ, reader)
        try:
            if await self._wait_until_ready(pending, deferred, receive):
                return None
            if reader.must_wait:
                if deferred.is_optional:
                    deferred.release()
                await reader.wait_for_room()
                if deferred.consumes and await _is_disconnected(receive):
                    return None
            return pending.finished_response()
        finally:
            # Not later: a slow client can take minutes to read a download.
            deferred.release()

    async def _stream(
        self, streamed: StreamedResponse, response: WSGIResponse, receive: Receive, reader: ResponseReader
    ) -> None:
        """Let the response send itself, until the client disconnects or the server stops."""
        ends: dict[asyncio.Future[Any], str] = {
            asyncio.ensure_future(_until_disconnected(receive)): "its client disconnected",
            asyncio.ensure_future(self.stopping.wait()): "the server stops",
        }
        try:
            await response.begin(reader.send)
            if await streamed.send(reader, ends):
                await reader.send({"type": "http.response.body", "body": b""})
        finally:
            for end in ends:
                end.cancel()
            streamed.close()

    @property
    def loop_calls(self) -> LoopCallQueue:
        """The queue for calls from other threads to the running event loop."""
        loop = asyncio.get_running_loop()
        if self._loop_calls is None or self._loop_calls.loop is not loop:
            self._loop_calls = LoopCallQueue(loop)
        return self._loop_calls

    async def _wait_until_ready(self, pending: _PendingRequest, deferred: DeferredResponse, receive: Receive) -> bool:
        """Wait for the future, the timeout or the end of the server. Return true if no response is to be sent."""
        timer = asyncio.get_running_loop().call_later(deferred.timeout_seconds, pending.end)
        self._pending.add(pending)
        # The server may have stopped before the request was added.
        if self.stopping.is_set():
            pending.end()
        loop_calls = self.loop_calls
        deferred.future.add_done_callback(lambda _: loop_calls.submit(pending.respond))
        try:
            is_over = await pending.wait_until_ready(receive)
        finally:
            self._pending.discard(pending)
            timer.cancel()
        if self.stopping.is_set() and not (is_over or deferred.is_poll or deferred.is_optional):
            # A commit ends by itself, and an error response would be wrong. The response of a device may take longer,
            # and is not waited for.
            await until_done(deferred.future, _LAST_SECONDS)
        return is_over


class _PendingRequest:
    """A request that waits for its deferred response. Its own task creates it.

    Thousands wait at once, so no second task is created for each: the request's own task waits for its client to
    disconnect, and is interrupted. Waking that task takes longer than sending a response that many polls share. So if
    such a response needs no further waiting, it is sent at once, and the task only cleans up when it runs.

    Args:
        app: Makes the response.
        deferred: The deferred response.
        environ: The request.
        reader: The client.
    """

    __slots__ = ("_app", "_deferred", "_environ", "_is_interrupted", "_is_waiting", "_reader", "_response", "_task")

    def __init__(
        self, app: MirrorApp, deferred: DeferredResponse, environ: WSGIEnvironment, reader: ResponseReader
    ) -> None:
        self._app = app
        self._deferred = deferred
        self._environ = environ
        self._reader = reader
        self._task = cast("asyncio.Task[None]", asyncio.current_task())
        self._response: Response | None = None
        self._is_waiting = True
        self._is_interrupted = False

    def finished_response(self) -> Response:
        """Return the complete response, as it is now or was when the future was done."""
        response = self._response
        if response is None:
            response = self._app.current_response(self._deferred, self._environ)
        return self._app.finish(response, self._environ)

    def end(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._is_interrupted = True
            self._task.cancel()

    def respond(self) -> None:
        """Respond, because the future is done. Raises nothing."""
        if self._reader.is_disconnected:
            # The task is about to learn of it. A response would count as read, although no one can read it.
            return
        # An error before the response is sent occurs again in the task, which handles it.
        with suppress(Exception):
            if self._is_waiting and self._send():
                return
        self.end()

    def _send(self) -> bool:
        """Send the response at once, if neither making nor sending it needs further waiting."""
        if not self._deferred.is_poll or self._deferred.consumes or self._reader.must_wait:
            return False
        response = self._response = self._app.current_response(self._deferred, self._environ)
        if not (
            isinstance(response, SharedResponse)
            and WSGIResponse.of(response, self._environ).send_at_once(self._reader.send)
        ):
            return False
        self._is_waiting = False
        self._app.finish(response, self._environ)
        return True

    async def wait_until_ready(self, receive: Receive) -> bool:
        """Wait until the response can be sent. Return true if the client disconnected or already has its response."""
        is_over = False
        try:
            await _until_disconnected(receive)
            is_over = True
        except asyncio.CancelledError:
            # If not only `end` interrupted the task, it was cancelled from outside and has to end.
            if not self._is_interrupted or self._task.uncancel():
                raise
        finally:
            self._is_waiting = False
        # A client can disconnect in the same moment. It must not get the data, or a plain poll would lose it.
        return is_over or (self._deferred.consumes and await _is_disconnected(receive))


async def _until_disconnected(receive: Receive) -> None:
    """Wait until the client disconnects; the rest of a body beyond the limit comes first."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _is_disconnected(receive: Receive) -> bool:
    """Return whether the client is known to have disconnected."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            await _until_disconnected(receive)
            return True
    return False


class LoopCallQueue:
    """A queue of calls from other threads to an event loop, in order.

    One event can wake thousands of waiting requests. Waking the loop for each takes about as long as the call itself,
    and making all calls at once would delay everything else.

    Args:
        loop: The loop. After each hundred calls it runs other callbacks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Callable[[], object]] = deque()
        self._is_scheduled = False
        self._idle = threading.Event()
        self._idle.set()

    def submit(self, call: Callable[[], object]) -> None:
        """Submit a call from any thread. It must not raise. Once the loop is closed, calls are never made."""
        # The call is appended before the flag is read, and the loop clears the flag before it reads the queue. In this
        # order no call is missed.
        self._calls.append(call)
        if not (self._is_scheduled or self.loop.is_closed()):
            self._is_scheduled = True
            self._idle.clear()
            self.loop.call_soon_threadsafe(self._make)

    def wait(self, seconds: float) -> None:
        """Block another thread until the submitted calls were made and the tasks they woke ran, or for so long."""
        self._idle.wait(seconds)

    def _make(self) -> None:
        self._is_scheduled = False
        for _ in range(min(len(self._calls), _MAX_CALLS_PER_TURN)):
            self._calls.popleft()()
        if self._calls and not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._make)
        else:
            # After the tasks that the calls woke.
            self.loop.call_soon(self._idle.set)


class _Turn:
    """A cache of one result for all requests that the loop handles in one turn."""

    def __init__(self) -> None:
        self._result: Any = None

    def once(self, query: Callable[[], Any]) -> Any:
        """Call ``query`` once for all requests that arrived before, and return its result, which is never ``None``.

        The loop's queue contains these requests and then the end of this turn. A later request comes after that. So
        the result includes every change that was made before a request arrived.
        """
        if self._result is None:
            asyncio.get_running_loop().call_soon(self._end)
            self._result = query()
        return self._result

    def _end(self) -> None:
        self._result = None
