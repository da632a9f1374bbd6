"""The ASGI app for uvicorn. It calls the Flask app on the event loop, and completes deferred responses.

A view reads a small amount of data or submits work to the writer, which takes well under a millisecond. For slower
work, the view returns a :class:`~mirror_server.views.deferred_responses.DeferredResponse`. A pending request uses a
task, but does not block a thread.
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
    has_arrived,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.web.flask_app import MirrorApp

QUEUED = "mirror.queued"
"""The key in uvicorn's ASGI state that is set if requests are called in the order of their arrival.

Each request is then called through the queue of the event loop.
"""

_LARGE_BYTES = 256 * 1024
_SMALL_BYTES = 16 * 1024
_LARGE_BODY_BYTES = 64 * 1024
_LAST_SECONDS = 0.5
# Threads of a client can read two connections in any order, some tens of milliseconds apart on a busy machine.
_READING_SECONDS = 0.05
_MAX_CALLS_PER_TURN = 100
_EMPTY_SCOPE = {"method": "", "path": "", "query_string": b"", "http_version": "1.1", "scheme": "http"}


class ASGIBridge:
    """An ASGI app that calls the Flask app.

    Args:
        app: The Flask app.
        settings: The settings of the server, with the limits of bodies, of open responses and of unread responses.
        reading_seconds: The time in seconds after which a sent response is considered read.
            :attr:`DeferredResponse.sent` is called then.

    Attributes:
        stopping: An event that is set when the server stops.
        backpressure: The counter of unsent bytes.
    """

    def __init__(self, app: MirrorApp, settings: Settings, *, reading_seconds: float = _READING_SECONDS) -> None:
        self._app = app
        self._max_body_bytes = settings.max_body_bytes
        self._body_timeout_seconds = settings.request_timeout_seconds
        self._reading_seconds = reading_seconds
        self._slots = Slots.of_polls(settings.max_parked_polls, settings.poll_share)
        self.backpressure = Backpressure(settings.max_unread_bytes)
        self._turn = _Turn()
        # One scheduler per loop. Clients in the process of the server can have their own loops, and an event of one
        # loop does not wake another loop.
        self._schedulers: WeakKeyDictionary[asyncio.AbstractEventLoop, FairScheduler] = WeakKeyDictionary()
        self.stopping = asyncio.Event()
        self._pending: set[_PendingRequest] = set()
        self._loop_calls: LoopCallQueue | None = None

    def error_response(self, api_error: ApiError, scope: Mapping[str, Any]) -> WSGIResponse:
        """Return the response to a request that did not arrive completely. Members of its scope may be missing."""
        return WSGIResponse.of(self._app, environ_of({**_EMPTY_SCOPE, **scope, "headers": []}) | {REJECTED: api_error})

    def wait_for_responses(self, seconds: float) -> None:
        """Block another thread until all responses whose future is done were sent, or for at most this many seconds."""
        if self._loop_calls is not None:
            self._loop_calls.wait(seconds)

    def stop_waiting(self) -> None:
        """Respond to all pending requests as if they had timed out.

        First wait a moment for commits in progress to complete.
        """
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
            # Other requests may have arrived while the body was read.
            await scheduler.turn(environ)
        if QUEUED in scope.get("state", ()):
            environ[ONCE] = self._turn.once
        unfinished = self.prepare(environ)
        response = self.call_app(environ, is_large=len(body) > _LARGE_BODY_BYTES)
        unsent = unfinished.response
        if unsent is None and len(response.body) <= _SMALL_BYTES:
            # This is the most frequent case. The bytes are not counted, because they are fewer than the server buffers
            # anyway.
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
        """Prepare a call of the app.

        The caller completes the unfinished response, and then releases the returned object.
        """
        unfinished = Unfinished(environ, self._slots)
        environ |= {DEFER: unfinished.accept, IS_FULL: self.backpressure.is_full}
        return unfinished

    def call_app(self, environ: WSGIEnvironment, *, is_large: bool = False) -> WSGIResponse:
        """Call the app, and count the time of the call against the share of the key."""
        began_at, worked_before = time.perf_counter(), time.thread_time()
        response = WSGIResponse.of(self._app, environ)
        seconds, worked = time.perf_counter() - began_at, time.thread_time() - worked_before
        # After a large request, other keys get as much CPU time as the request used. While the request waited for the
        # database, they could run anyway.
        self._scheduler_here().count(environ, seconds, pause_seconds=worked if is_large else 0)
        return response

    def reader(self, environ: WSGIEnvironment, send: Send) -> ResponseReader:
        """Return the reader of the response to a request that the app has admitted."""
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
        """Return the complete response, or ``None`` if it was already sent or the client has disconnected."""
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
        """Return the body, or ``None`` if the request must not be processed further.

        This is the case if the client disconnected, has no valid key, or was too slow and received an error.
        """
        if has_arrived(send):
            # This is the most frequent case. A time limit takes longer than reading the body.
            return await self._read_body(environ, receive, send)
        try:
            async with asyncio.timeout(self._body_timeout_seconds):
                return await self._read_body(environ, receive, send)
        except TimeoutError:
            api_error = ApiError(408, "the body did not arrive in time; send it without pauses")
            await WSGIResponse.of(self._app, environ | {REJECTED: api_error}).send(send, is_last=True)
            return None

    async def _read_body(self, environ: WSGIEnvironment, receive: Receive, send: Send) -> bytes | None:
        # Calling receive() permits a client that expects status 100 to send the body.
        message: Message = {"type": "", "more_body": True} if "HTTP_EXPECT" in environ else await receive()
        if message.get("more_body") and not await self._may_send(environ, send):
            return None
        # Of a body beyond the limit, only one more byte is stored, which is enough to detect the excess.
        body = bytearray(message.get("body", b""))
        while message.get("more_body") and len(body) <= self._max_body_bytes:
            message = await receive()
            body += message.get("body", b"")
            del body[self._max_body_bytes + 1 :]
        return None if message["type"] == "http.disconnect" else bytes(body[: self._max_body_bytes + 1])

    async def _may_send(self, environ: WSGIEnvironment, send: Send) -> bool:
        """Return whether the head of the request permits the client to send a body. If not, send the error."""
        response = self.call_app(environ | {HEAD_ONLY: True})
        if response.status != 100:
            # The body may still arrive, so no further request can be read from this connection.
            await response.send(send, is_last=True)
        return response.status == 100

    async def _wait(
        self, deferred: DeferredResponse, environ: WSGIEnvironment, receive: Receive, reader: ResponseReader
    ) -> Response | None:
        """Wait until the response can be created, and return it.

        Return ``None`` if it was already sent or the client has disconnected.
        """
        pending = _PendingRequest(self._app, deferred, environ, reader, self.loop_calls)
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
            # Released now, because a slow client can take minutes to read a download.
            deferred.release()

    async def _stream(
        self, streamed: StreamedResponse, response: WSGIResponse, receive: Receive, reader: ResponseReader
    ) -> None:
        """Call the ``send`` method of the response. It ends when the client disconnects or the server stops."""
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
        """Wait for the future, the timeout or the end of the server. Return true if no response must be sent."""
        timer = asyncio.get_running_loop().call_later(deferred.timeout_seconds, pending.end)
        self._pending.add(pending)
        # The server may have started to stop before the request was added.
        if self.stopping.is_set():
            pending.end()
        deferred.future.add_done_callback(pending.submit)
        try:
            is_over = await pending.wait_until_ready(receive)
        finally:
            self._pending.discard(pending)
            timer.cancel()
        if self.stopping.is_set() and not (is_over or deferred.is_poll or deferred.is_optional):
            # A commit ends soon, and an error response would be wrong. The response of a device may take longer, so
            # the server does not wait for it.
            await until_done(deferred.future, _LAST_SECONDS)
        return is_over


class _PendingRequest:
    """A request that waits for its deferred response. Its own task creates it.

    Thousands of requests wait at once, so each has only one task. This task waits until the client disconnects, and is
    interrupted when the response is ready. Waking the task takes longer than sending a response that many polls share.
    Therefore such a response is sent immediately if this needs no further waiting. The task only cleans up, after the
    responses to all requests that were waiting for the same event.

    Args:
        app: The app that creates the response.
        deferred: The deferred response.
        environ: The WSGI environment of the request.
        reader: The reader of the response.
        loop_calls: The queue of calls to the event loop of the request.
    """

    __slots__ = (
        *("_app", "_deferred", "_environ", "_is_interrupted", "_is_waiting", "_loop_calls", "_reader", "_response"),
        "_task",
    )

    def __init__(
        self,
        app: MirrorApp,
        deferred: DeferredResponse,
        environ: WSGIEnvironment,
        reader: ResponseReader,
        loop_calls: LoopCallQueue,
    ) -> None:
        self._loop_calls = loop_calls
        self._app = app
        self._deferred = deferred
        self._environ = environ
        self._reader = reader
        self._task = cast("asyncio.Task[None]", asyncio.current_task())
        self._response: Response | None = None
        self._is_waiting = True
        self._is_interrupted = False

    def finished_response(self) -> Response:
        """Return the complete response. If it was already created when the future completed, return that response."""
        response = self._response
        if response is None:
            response = self._app.current_response(self._deferred, self._environ)
        return self._app.finish(response, self._environ)

    def end(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._is_interrupted = True
            self._task.cancel()

    def submit(self, _: object) -> None:
        """Let the event loop respond, because the future has completed. Any thread may call this method."""
        self._loop_calls.submit(self._respond)

    def _respond(self) -> None:
        """Send the response or wake the task after the future has completed. This method never raises an exception."""
        if self._reader.is_disconnected:
            # The task will soon notice the disconnection. A response would count as read, although no one can read it.
            return
        # If an exception occurs before the response is sent, it occurs again in the task, which handles it.
        with suppress(Exception):
            if self._is_waiting and self._send():
                return
        self.end()

    def _send(self) -> bool:
        """Send the response immediately, if neither creating nor sending it needs further waiting.

        Return whether the response was sent.
        """
        if not self._deferred.is_poll or self._deferred.consumes or self._reader.must_wait:
            return False
        response = self._response = self._app.current_response(self._deferred, self._environ)
        if not (
            isinstance(response, SharedResponse)
            and WSGIResponse.of(response, self._environ).send_at_once(self._reader.send, self._loop_calls.submit)
        ):
            return False
        self._is_waiting = False
        self._app.finish(response, self._environ)
        return True

    async def wait_until_ready(self, receive: Receive) -> bool:
        """Wait until the response can be sent.

        Return true if the client disconnected or has already received its response.
        """
        is_over = False
        try:
            await _until_disconnected(receive)
            is_over = True
        except asyncio.CancelledError:
            # If the task was cancelled by other code than `end`, it has to end.
            if not self._is_interrupted or self._task.uncancel():
                raise
        finally:
            self._is_waiting = False
        # The client may disconnect at the same time. Then it must not get the data, because a plain poll would lose
        # it.
        return is_over or (self._deferred.consumes and await _is_disconnected(receive))


async def _until_disconnected(receive: Receive) -> None:
    """Wait until the client disconnects. The rest of a body beyond the limit is ignored."""
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

    One event can wake thousands of waiting requests. Waking the loop for each call would take about as long as the
    call itself. Making all calls at once would delay all other work of the loop.

    Args:
        loop: The event loop. It runs other callbacks after every hundred calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Callable[[], object]] = deque()
        self._is_scheduled = False
        self._idle = threading.Event()
        self._idle.set()

    def submit(self, call: Callable[[], object]) -> None:
        """Submit a call from any thread. The call must not raise an exception. It is not made if the loop is closed."""
        # The call is appended before the flag is read, and the loop clears the flag before it reads the queue. This
        # order ensures that no call is missed.
        self._calls.append(call)
        if not (self._is_scheduled or self.loop.is_closed()):
            self._is_scheduled = True
            self._idle.clear()
            self.loop.call_soon_threadsafe(self._make)

    def wait(self, seconds: float) -> None:
        """Block another thread until the submitted calls were made and the tasks that they woke have run.

        The method returns after ``seconds`` at the latest.
        """
        self._idle.wait(seconds)

    def _make(self) -> None:
        self._is_scheduled = False
        for _ in range(min(len(self._calls), _MAX_CALLS_PER_TURN)):
            self._calls.popleft()()
        if self._calls and not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._make)
        else:
            # This callback runs after the tasks that the calls woke.
            self.loop.call_soon(self._idle.set)


class _Turn:
    """A cache of results by name, which all requests in one turn of the event loop share."""

    def __init__(self) -> None:
        self._results: dict[str, Any] = {}

    def once(self, name: str, query: Callable[[], Any]) -> Any:
        """Call ``query`` once for all requests that have already arrived, and return its result.

        The queue of the loop contains these requests, followed by the callback that ends this turn. Later requests
        come after the callback. So the result includes every change that was made before a request arrived.
        """
        if not self._results:
            asyncio.get_running_loop().call_soon(self._results.clear)
        if name not in self._results:
            self._results[name] = query()
        return self._results[name]
