"""uvicorn's side: calls the WSGI app on the event loop and parks deferred answers without a thread.

The app's views look something up or hand work to the writer, which takes well under a millisecond; whatever takes
longer comes back as a :class:`~mirror_server.views.deferred.Deferred`. A parked request costs a task, not a thread.
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
from mirror_server.service.long_reads import Slots
from mirror_server.views.deferred import PARK, Deferred, Streamed, until_done
from mirror_server.views.requests import noted
from mirror_server.views.responses import SharedResponse
from mirror_server.web.admission import HEAD_ONLY, IS_FULL, ONCE, REJECTED
from mirror_server.web.asgi import (
    Backpressure,
    Message,
    Receive,
    ResponseReader,
    Send,
    Unfinished,
    WSGIResponse,
    environ_of,
)
from mirror_server.web.shares import Shares

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.web.app import MirrorApp

QUEUED = "mirror.queued"
"""Key of the ASGI state of a request whose call stood in the loop's queue since it arrived, as uvicorn has it."""

_LARGE_BYTES = 256 * 1024
_SMALL_BYTES = 16 * 1024
_LARGE_BODY_BYTES = 64 * 1024
_LAST_SECONDS = 0.5
# The threads of a client read two connections in any order, some tens of milliseconds apart on a busy machine.
_READING_SECONDS = 0.05
_MOST_AT_ONCE = 100
_NOTHING_KNOWN = {"method": "", "path": "", "query_string": b"", "http_version": "1.1", "scheme": "http"}


class Bridge:
    """An ASGI app around the Flask app.

    Args:
        app: The Flask app.
        settings: Limits: of bodies, of polls and what else stays open as they do, and of answers that are not read.
        reading_seconds: How long after an answer was sent it counts as read, where something waits for that.

    Attributes:
        stopping: Set when the server stops.
        unread: Counts what waits for clients to take it.
    """

    def __init__(self, app: MirrorApp, settings: Settings, *, reading_seconds: float = _READING_SECONDS) -> None:
        self._app = app
        self._max_body_bytes = settings.max_body_bytes
        self._body_timeout_seconds = settings.request_timeout_seconds
        self._reading_seconds = reading_seconds
        self._slots = Slots.of_polls(settings.max_parked_polls, settings.poll_share)
        self.unread = Backpressure(settings.max_unread_bytes)
        self._turn = _Turn()
        # By loop: clients in the process of the server may have loops of their own, and an event of one wakes no other.
        self._shares: WeakKeyDictionary[asyncio.AbstractEventLoop, Shares] = WeakKeyDictionary()
        self.stopping = asyncio.Event()
        self._parked: set[_Parked] = set()
        self._calls: Calls | None = None

    def error_response(self, api_error: ApiError, scope: Mapping[str, Any]) -> WSGIResponse:
        """The answer to a request that did not arrive whole; its scope may lack parts."""
        return WSGIResponse.of(
            self._app, environ_of({**_NOTHING_KNOWN, **scope, "headers": []}) | {REJECTED: api_error}
        )

    def wait_for_responses(self, seconds: float) -> None:
        """Wait on another thread, so long at most, until those have their answers whose future is done."""
        if self._calls is not None:
            self._calls.wait(seconds)

    def stop_waiting(self) -> None:
        """Answer all parked requests, as if their time were over; what is being stored is first given a moment."""
        self.stopping.set()
        for shares in list(self._shares.values()):
            shares.end_rests()
        for parked in list(self._parked):
            parked.end()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        environ = environ_of(scope)
        shares = self._shares_here()
        await shares.turn(environ)
        body = await self._body(environ, receive, send)
        if body is None:
            return
        if body:
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
            # Many may have come meanwhile.
            await shares.turn(environ)
        if QUEUED in scope.get("state", ()):
            environ[ONCE] = self._turn.once
        unfinished = self.begin(environ)
        response = self.ask(environ, is_large=len(body) > _LARGE_BODY_BYTES)
        left = unfinished.response
        if left is None and len(response.body) <= _SMALL_BYTES:
            # Nearly always. What waits of these is counted by nobody, and less than what the server buffers anyway.
            unfinished.release()
            await response.send(send, is_last=len(body) > self._max_body_bytes)
            return
        reader = self.reader(environ, send)
        try:
            whole = await self._finish(left, response, environ, receive, reader)
            unfinished.release()
            if whole is not None:
                if len(whole.body) > _LARGE_BYTES:
                    shares.rest(environ)
                await reader.send_whole(whole)
        finally:
            unfinished.release()
            if isinstance(left, Deferred) and left.sent is not None:
                asyncio.get_running_loop().call_later(self._reading_seconds, left.sent)

    def begin(self, environ: WSGIEnvironment) -> Unfinished:
        """Prepare to call the app: the caller finishes what it leaves of the request, and releases this."""
        unfinished = Unfinished(environ, self._slots)
        environ |= {PARK: unfinished.take, IS_FULL: self.unread.is_full}
        return unfinished

    def ask(self, environ: WSGIEnvironment, *, is_large: bool = False) -> WSGIResponse:
        """Call the app; the time that it takes counts as its key's."""
        began_at, worked_before = time.perf_counter(), time.thread_time()
        response = WSGIResponse.of(self._app, environ)
        seconds, worked = time.perf_counter() - began_at, time.thread_time() - worked_before
        # A large one lets others have as much; what it waited for the database, they had already.
        self._shares_here().count(environ, seconds, rest_seconds=worked if is_large else 0)
        return response

    def reader(self, environ: WSGIEnvironment, send: Send) -> ResponseReader:
        """The client of a request that the app was asked."""
        return ResponseReader(self.unread, noted(environ).get("application", ""), send)

    def _shares_here(self) -> Shares:
        loop = asyncio.get_running_loop()
        shares = self._shares.get(loop)
        if shares is None:
            shares = self._shares[loop] = Shares(loop)
        return shares

    async def _finish(
        self,
        left: Response | None,
        response: WSGIResponse,
        environ: WSGIEnvironment,
        receive: Receive,
        reader: ResponseReader,
    ) -> WSGIResponse | None:
        """The whole answer; ``None`` where it was sent while it was made, or the client went away."""
        while isinstance(left, Deferred):
            left = await self._wait(left, environ, receive, reader)
            if left is None:
                return None
            response = WSGIResponse.of(left, environ)
        if isinstance(left, Streamed):
            await self._stream(left, response, receive, reader)
            return None
        return response

    async def _body(self, environ: WSGIEnvironment, receive: Receive, send: Send) -> bytes | None:
        """The body; ``None`` when the client went away, has no key to send it, or was told that it took too long."""
        try:
            async with asyncio.timeout(self._body_timeout_seconds):
                # To ask for the body tells a client that expects to be told so to send it.
                message: Message = {"type": "", "more_body": True} if "HTTP_EXPECT" in environ else await receive()
                if message.get("more_body") and not await self._may_send(environ, send):
                    return None
                # No more than one byte behind the limit is kept of a longer one.
                body = bytearray(message.get("body", b""))
                while message.get("more_body") and len(body) <= self._max_body_bytes:
                    message = await receive()
                    body += message.get("body", b"")
                    del body[self._max_body_bytes + 1 :]
                return None if message["type"] == "http.disconnect" else bytes(body[: self._max_body_bytes + 1])
        except TimeoutError:
            api_error = ApiError(408, "the body did not arrive in time; send it at once")
            await WSGIResponse.of(self._app, environ | {REJECTED: api_error}).send(send, is_last=True)
            return None

    async def _may_send(self, environ: WSGIEnvironment, send: Send) -> bool:
        """Whether the head lets a client send a body; one that may not is told why."""
        response = self.ask(environ | {HEAD_ONLY: True})
        if response.status != 100:
            # The body may still come; nothing is read behind it.
            await response.send(send, is_last=True)
        return response.status == 100

    async def _wait(
        self, deferred: Deferred, environ: WSGIEnvironment, receive: Receive, reader: ResponseReader
    ) -> Response | None:
        """The response when it can be made; ``None`` where it was sent already, or the client went away."""
        parked = _Parked(self._app, deferred, environ, reader)
        try:
            if await self._gone(parked, deferred, receive):
                return None
            if reader.must_wait:
                if deferred.is_optional:
                    deferred.release()
                await reader.room()
                if deferred.takes and await _is_gone(receive):
                    return None
            return parked.finished_response()
        finally:
            # Before a download, which may take a slow reader minutes.
            deferred.release()

    async def _stream(
        self, streamed: Streamed, response: WSGIResponse, receive: Receive, reader: ResponseReader
    ) -> None:
        """Have the response send itself, until the client goes away or the server stops."""
        ends = [asyncio.ensure_future(_until_gone(receive)), asyncio.ensure_future(self.stopping.wait())]
        try:
            await response.begin(reader.send)
            if await streamed.send(reader, ends):
                await reader.send({"type": "http.response.body", "body": b""})
        finally:
            for end in ends:
                end.cancel()
            streamed.close()

    @property
    def calls(self) -> Calls:
        """Brings calls of other threads to the loop that runs here."""
        loop = asyncio.get_running_loop()
        if self._calls is None or self._calls.loop is not loop:
            self._calls = Calls(loop)
        return self._calls

    async def _gone(self, parked: _Parked, deferred: Deferred, receive: Receive) -> bool:
        """Wait for the future, the end of its time or of the server; true where nothing is left to be answered."""
        timer = asyncio.get_running_loop().call_later(deferred.timeout_seconds, parked.end)
        self._parked.add(parked)
        # The end of the server may have come before it was parked.
        if self.stopping.is_set():
            parked.end()
        calls = self.calls
        deferred.future.add_done_callback(lambda _: calls.soon(parked.arrived))
        try:
            gone = await parked.is_gone(receive)
        finally:
            self._parked.discard(parked)
            timer.cancel()
        if self.stopping.is_set() and not (gone or deferred.is_poll or deferred.is_optional):
            # Work in the writer's hands ends by itself; telling its client that it failed would be wrong. A device
            # does not, and what it would tell may come later.
            await until_done(deferred.future, _LAST_SECONDS)
        return gone


class _Parked:
    """A request whose answer comes later, while it waits; made by its task.

    Thousands wait at once: the request's own task listens to its client and is interrupted, rather than a second task
    for each of them. To wake it takes longer than to make the answer of a poll, which many share. So where there is
    nothing else to wait for that answer is sent at once, and the task, when it runs, only tidies up.

    Args:
        app: Makes the answer.
        deferred: What it waits for.
        environ: The request.
        reader: Its client.
    """

    __slots__ = ("_app", "_deferred", "_environ", "_is_interrupted", "_is_waiting", "_reader", "_response", "_task")

    def __init__(self, app: MirrorApp, deferred: Deferred, environ: WSGIEnvironment, reader: ResponseReader) -> None:
        self._app = app
        self._deferred = deferred
        self._environ = environ
        self._reader = reader
        self._task = cast("asyncio.Task[None]", asyncio.current_task())
        self._response: Response | None = None
        self._is_waiting = True
        self._is_interrupted = False

    def finished_response(self) -> Response:
        """The answer as it is now, or was when it arrived."""
        response = self._response
        if response is None:
            response = self._app.current_response(self._deferred, self._environ)
        return self._app.finish(response, self._environ)

    def end(self) -> None:
        """Wait no longer."""
        if self._is_waiting:
            self._is_waiting = False
            self._is_interrupted = True
            self._task.cancel()

    def arrived(self) -> None:
        """Answer, as its future is done. Raises nothing."""
        if self._reader.is_gone:
            # The task is about to hear of it. An answer would count as read, and nobody could read it.
            return
        # Whatever goes wrong before it is sent goes wrong in the task once more, which knows what to do about it.
        with suppress(Exception):
            if self._is_waiting and self._send():
                return
        self.end()

    def _send(self) -> bool:
        """Send the answer, unless something has to be waited for before it is made or while it is sent."""
        if not self._deferred.is_poll or self._deferred.takes or self._reader.must_wait:
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

    async def is_gone(self, receive: Receive) -> bool:
        """Wait until there is something to do: false where there is an answer to be sent, true if the client is gone.

        To a client that was answered there is nothing more to say either.
        """
        gone = False
        try:
            await _until_gone(receive)
            gone = True
        except asyncio.CancelledError:
            # Interrupted by others than `end`, or by them too: then the task is to end.
            if not self._is_interrupted or self._task.uncancel():
                raise
        finally:
            self._is_waiting = False
        # What arrives in the same moment is not for a client that is gone: a plain poll would lose it.
        return gone or (self._deferred.takes and await _is_gone(receive))


async def _until_gone(receive: Receive) -> None:
    """Wait until the client goes away; what is left of a body past the limit comes before that."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _is_gone(receive: Receive) -> bool:
    """Whether the client is known to be gone by now."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            await _until_gone(receive)
            return True
    return False


class Calls:
    """Calls from other threads, brought to an event loop together and made there in their order.

    One event wakes thousands who wait. To wake the loop for each of them takes about as long as what each does, and
    what all of them do at once would keep it from everybody else.

    Args:
        loop: The loop, which others get their turn on between a hundred calls and the next.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_due = False
        self._made = threading.Event()
        self._made.set()

    def soon(self, call: Callable[[], object]) -> None:
        """Make a call soon; from any thread. It must not raise. After the end of the loop nothing is called."""
        # Added before it is looked whether the loop knows, and there looked for the other way round: none is left.
        self._waiting.append(call)
        if not (self._is_due or self.loop.is_closed()):
            self._is_due = True
            self._made.clear()
            self.loop.call_soon_threadsafe(self._make)

    def wait(self, seconds: float) -> None:
        """Wait on another thread, so long at most, until what was asked for is done, and what tasks did for it."""
        self._made.wait(seconds)

    def _make(self) -> None:
        self._is_due = False
        for _ in range(min(len(self._waiting), _MOST_AT_ONCE)):
            self._waiting.popleft()()
        if self._waiting and not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._make)
        else:
            # Behind the tasks that the calls woke.
            self.loop.call_soon(self._made.set)


class _Turn:
    """Looks up once what all requests need that the loop handles in one turn."""

    def __init__(self) -> None:
        self._given: Any = None

    def once(self, ask: Callable[[], Any]) -> Any:
        """Call ``ask``, which never gives ``None``, once for all requests that had arrived before.

        They stand in the loop's queue, one behind the other, and behind them the end of this turn. What arrives later
        stands behind that. So whatever was done before a request arrived was done before it was asked.
        """
        if self._given is None:
            asyncio.get_running_loop().call_soon(self._end)
            self._given = ask()
        return self._given

    def _end(self) -> None:
        self._given = None
