"""uvicorn's side: calls the WSGI app on the event loop and parks deferred answers without a thread.

The app's views look something up or hand work to the writer, which takes well under a millisecond; whatever takes
longer comes back as a :class:`~mirror_server.views.deferred.Deferred`. A parked request costs a task, not a thread.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mirror_server.config import Settings
from mirror_server.core.errors import Refusal
from mirror_server.service.slots import Slots
from mirror_server.store.failures import StorageFailed
from mirror_server.views.answers import SharedAnswer
from mirror_server.views.deferred import PARK, Awaited, Deferred
from mirror_server.views.download import DOWNLOAD, Download
from mirror_server.views.event_stream import HEARTBEAT, HEARTBEAT_SECONDS, STREAM, EventStream
from mirror_server.views.requests import noted
from mirror_server.views.websocket import OPEN
from mirror_server.web.admission import HEAD_ONLY, IS_FULL, ONCE, REFUSED
from mirror_server.web.calls import Calls
from mirror_server.web.parked import Parked, is_gone, until_gone
from mirror_server.web.shares import Shares
from mirror_server.web.unread import Reader, Unread
from mirror_server.web.websocket_serving import accept, environ_of_handshake, refuse, serve
from mirror_server.web.wsgi_call import Answer, EncodedShared, Message, Receive, Send, Unfinished, environ_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.web.app import MirrorApp

QUEUED = "mirror.queued"
"""Key of the ASGI state of a request whose call stood in the loop's queue since it arrived, as uvicorn has it."""

_DEFAULTS = Settings()
_EXPECTED_CHUNK_BYTES = 256 * 1024
_LARGE_BYTES = 256 * 1024
_SMALL_BYTES = 16 * 1024
_LARGE_BODY_BYTES = 64 * 1024
_LAST_SECONDS = 0.5
# The threads of a client read two connections in any order, some tens of milliseconds apart on a busy machine.
_READING_SECONDS = 0.05
_NOTHING_KNOWN = {"method": "", "path": "", "query_string": b"", "http_version": "1.1", "scheme": "http"}
_LONGEST_DOWNLOAD_SECONDS = 900

_log = logging.getLogger(__name__)


class Bridge:
    """An ASGI app around the Flask app.

    Args:
        app: The Flask app.
        max_body_bytes: Of a longer body no more than this is held in memory; the app refuses it.
        max_parked_polls: How many polls, streams and websockets may be open at once.
        poll_share: Which part of these one application may have.
        max_unread_bytes: How much of its answers an application may leave unread before it gets no more of them.
        body_timeout_seconds: How long a body may take to arrive.
        websocket_look_seconds: How often is looked whether a websocket on which nothing happens is to go on.
        reading_seconds: How long after an answer was sent it counts as read, where something waits for that.
    """

    def __init__(
        self,
        app: MirrorApp,
        *,
        max_body_bytes: int,
        max_parked_polls: int,
        poll_share: float = _DEFAULTS.poll_share,
        max_unread_bytes: int = _DEFAULTS.max_unread_bytes,
        body_timeout_seconds: float = _DEFAULTS.request_timeout_seconds,
        websocket_look_seconds: float = _DEFAULTS.websocket_ping_seconds,
        reading_seconds: float = _READING_SECONDS,
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._slots = Slots.of_polls(max_parked_polls, poll_share)
        self._unread = Unread(max_unread_bytes)
        self._body_timeout_seconds = body_timeout_seconds
        self._websocket_look_seconds = websocket_look_seconds
        self._reading_seconds = reading_seconds
        self._turn = _Turn()
        # By loop: clients in the process of the server may have loops of their own, and an event of one wakes no other.
        self._shares: WeakKeyDictionary[asyncio.AbstractEventLoop, Shares] = WeakKeyDictionary()
        self._stopping = asyncio.Event()
        self._parked: set[Parked] = set()
        self._calls: Calls | None = None
        self._open_websockets = 0

    @classmethod
    def of(cls, app: MirrorApp, settings: Settings) -> Bridge:
        """The limits that an operator set."""
        return cls(
            app,
            max_body_bytes=settings.max_body_bytes,
            max_parked_polls=settings.max_parked_polls,
            poll_share=settings.poll_share,
            max_unread_bytes=settings.max_unread_bytes,
            body_timeout_seconds=settings.request_timeout_seconds,
            websocket_look_seconds=settings.websocket_ping_seconds,
        )

    @property
    def unread_bytes(self) -> int:
        """How much of all answers waits for clients to take it."""
        return self._unread.total_bytes

    @property
    def open_websockets(self) -> int:
        """How many websockets are open."""
        return self._open_websockets

    def answer_refusal(
        self, refusal: Refusal, scope: Mapping[str, Any]
    ) -> tuple[int, Sequence[tuple[bytes, bytes]], bytes]:
        """Status, headers and body of the answer to a request that did not arrive whole; its scope may lack parts."""
        answer = Answer.of(self._app, environ_of({**_NOTHING_KNOWN, **scope, "headers": []}) | {REFUSED: refusal})
        return answer.status, answer.headers, answer.body

    def wait_for_told(self, seconds: float) -> None:
        """Wait on another thread, so long at most, until those have their answers whose future is done."""
        if self._calls is not None:
            self._calls.wait(seconds)

    def stop_waiting(self) -> None:
        """Answer all parked requests, as if their time were over; what is being stored is first given a moment."""
        self._stopping.set()
        for shares in list(self._shares.values()):
            shares.end_rests()
        for parked in list(self._parked):
            parked.end()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or one websocket."""
        if scope["type"] == "websocket":
            await self._open_websocket(scope, send)
            return
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
        unfinished = Unfinished(environ, self._slots)
        environ |= {
            PARK: unfinished.park,
            STREAM: unfinished.take_stream,
            DOWNLOAD: unfinished.take_download,
            IS_FULL: self._unread.is_full,
        }
        if QUEUED in scope.get("state", ()):
            environ[ONCE] = self._turn.once
        answer = self._ask(shares, environ, unfinished, is_large=len(body) > _LARGE_BODY_BYTES)
        if unfinished.is_nothing and len(answer.body) <= _SMALL_BYTES:
            # Nearly always. What waits of these is counted by nobody, and less than what the server buffers anyway.
            unfinished.release()
            await answer.send(send, is_last=len(body) > self._max_body_bytes)
            return
        reader = self._unread.reader(noted(environ).get("application", ""), send)
        try:
            whole = await self._finish(unfinished, answer, environ, receive, reader)
            unfinished.release()
            if whole is not None:
                if len(whole.body) > _LARGE_BYTES:
                    shares.rest(environ)
                await reader.send(whole)
        finally:
            unfinished.release()
            if unfinished.deferred is not None and unfinished.deferred.sent is not None:
                asyncio.get_running_loop().call_later(self._reading_seconds, unfinished.deferred.sent)

    def _ask(
        self, shares: Shares, environ: WSGIEnvironment, unfinished: Unfinished | None = None, *, is_large: bool = False
    ) -> Answer:
        """What the app answers; the time that it takes counts as its key's."""
        began_at, worked_before = time.perf_counter(), time.thread_time()
        answer = Answer.of(self._app, environ, unfinished)
        seconds, worked = time.perf_counter() - began_at, time.thread_time() - worked_before
        # A large one lets others have as much; what it waited for the database, they had already.
        shares.count(environ, seconds, rest_seconds=worked if is_large else 0)
        return answer

    def _shares_here(self) -> Shares:
        loop = asyncio.get_running_loop()
        shares = self._shares.get(loop)
        if shares is None:
            shares = self._shares[loop] = Shares(loop)
        return shares

    async def _open_websocket(self, scope: Message, send: Send) -> None:
        environ = environ_of_handshake(scope)
        unfinished = Unfinished(environ, self._slots)
        environ |= {OPEN: unfinished.take_websocket, IS_FULL: self._unread.is_full}
        answer = Answer.of(self._app, environ, unfinished)
        try:
            if unfinished.websocket is None:
                await refuse(scope, answer, send)
                return
            await accept(scope, answer, send)
            reader = self._unread.reader(noted(environ)["application"], send)
            self._open_websockets += 1
            try:
                await serve(
                    scope,
                    unfinished.websocket,
                    reader,
                    send,
                    look_seconds=self._websocket_look_seconds,
                    is_stopping=self._stopping,
                    calls=self._calls_here(),
                )
            finally:
                self._open_websockets -= 1
        finally:
            unfinished.release()

    async def _finish(
        self, unfinished: Unfinished, answer: Answer, environ: WSGIEnvironment, receive: Receive, reader: Reader
    ) -> Answer | None:
        """The whole answer; ``None`` where it was sent while it was made, or the client went away."""
        if unfinished.download is not None:
            await self._download(unfinished.download, answer, receive, reader)
            return None
        if unfinished.stream is not None:
            await self._stream(unfinished.stream, answer, receive, reader)
            return None
        if unfinished.deferred is not None:
            return await self._wait(unfinished.deferred, unfinished, environ, receive, reader)
        return answer

    async def _body(self, environ: WSGIEnvironment, receive: Receive, send: Send) -> bytes | None:
        """The body; ``None`` when the client went away, has no key to send it, or was told that it took too long."""
        # To ask for the body tells a client that expects to be told so to send it.
        is_expecting = "HTTP_EXPECT" in environ
        try:
            async with asyncio.timeout(self._body_timeout_seconds):
                if is_expecting and not await self._may_send(environ, send):
                    return None
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                if not message.get("more_body"):
                    body: bytes = message.get("body", b"")
                    return body[: self._max_body_bytes + 1]
                if not is_expecting and not await self._may_send(environ, send):
                    return None
                return await _read_body(message, receive, self._max_body_bytes)
        except TimeoutError:
            refusal = Refusal(408, "the body did not arrive in time; send it at once")
            await Answer.of(self._app, environ | {REFUSED: refusal}).send(send, is_last=True)
            return None

    async def _may_send(self, environ: WSGIEnvironment, send: Send) -> bool:
        """Whether the head lets a client send a body; one that may not is told why."""
        answer = self._ask(self._shares_here(), environ | {HEAD_ONLY: True})
        if answer.status != 100:
            # The body may still come; nothing is read behind it.
            await answer.send(send, is_last=True)
        return answer.status == 100

    async def _wait(
        self, deferred: Deferred, unfinished: Unfinished, environ: WSGIEnvironment, receive: Receive, reader: Reader
    ) -> Answer | None:
        """The answer when it can be made; ``None`` where it was sent while it was made, or the client went away."""
        parked = Parked(self._app, deferred, environ, reader)
        try:
            if await self._gone(parked, deferred, receive):
                return None
            if reader.must_wait:
                if deferred.is_optional:
                    deferred.release()
                await reader.room()
                if deferred.takes and await is_gone(receive):
                    return None
            answer = parked.finished_answer()
            # Before a download, which may take a slow reader minutes.
            deferred.release()
            if isinstance(answer, Deferred):
                return await self._wait(answer, unfinished, environ, receive, reader)
            if isinstance(answer, SharedAnswer):
                return EncodedShared(answer, environ)
            if isinstance(answer, Download):
                unfinished.take_download(answer)
                await self._download(answer, Answer.of(answer, environ, unfinished), receive, reader)
                return None
            return Answer.of(answer, environ)
        finally:
            deferred.release()

    async def _stream(self, stream: EventStream, answer: Answer, receive: Receive, reader: Reader) -> None:
        """Send events as they come, until the client goes away or the server stops."""
        await reader.begin(answer)
        # Without its database it ends; the client comes back with its position.
        with suppress(StorageFailed):
            await self._send_events(stream, receive, reader)
        await reader.end()

    async def _send_events(self, stream: EventStream, receive: Receive, reader: Reader) -> None:
        chunk = stream.begin()
        with reader.waiting(len(chunk)):
            await reader.send_chunk(chunk)
        ends = self._ends(receive)
        try:
            await reader.room()
            # What is made for a client that is gone, also while there was no room, would count as read.
            while not (stream.is_over or reader.is_gone or any(end.done() for end in ends)):
                # Asked for before looking, so that what arrives in between is not waited for.
                more = stream.more()
                chunk = stream.take()
                if not (chunk or stream.is_over):
                    chunk = await _wait_for(more, ends)
                more.cancel()
                with reader.waiting(len(chunk)):
                    await reader.send_chunk(chunk)
                # To a client that takes all at once, sending waits for nothing.
                await asyncio.sleep(0)
                await reader.room()
        finally:
            for end in ends:
                end.cancel()

    async def _download(self, download: Download, answer: Answer, receive: Receive, reader: Reader) -> None:
        """Send chunks as they are made, on other threads; without its end when the reader or the server stops.

        A reader that takes too long is cut off: what is made for it keeps the database from tidying up.
        """
        ends = self._ends(receive)
        end_at = time.monotonic() + _LONGEST_DOWNLOAD_SECONDS
        try:
            await reader.begin(answer)
            async with aclosing(_chunks(download, reader)) as chunks:
                async for chunk in chunks:
                    sending = asyncio.ensure_future(reader.send_chunk(chunk))
                    seconds = end_at - time.monotonic()
                    await asyncio.wait([sending, *ends], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                    if not sending.done() or any(end.done() for end in ends):
                        sending.cancel()
                        _log.info("a download was cut off: its reader is gone or too slow, or the server stops")
                        return
                    await sending
            await reader.end()
        except StorageFailed as failure:
            _log.warning("a download was cut off: the server %s", failure)
        finally:
            for end in ends:
                end.cancel()
            download.release()

    def _calls_here(self) -> Calls:
        """What brings calls to the loop that runs here."""
        loop = asyncio.get_running_loop()
        if self._calls is None or self._calls.loop is not loop:
            self._calls = Calls(loop)
        return self._calls

    def _ends(self, receive: Receive) -> list[asyncio.Future[Any]]:
        """What is done when the client goes away, or the server stops."""
        return [asyncio.ensure_future(until_gone(receive)), asyncio.ensure_future(self._stopping.wait())]

    async def _gone(self, parked: Parked, deferred: Deferred, receive: Receive) -> bool:
        """Wait for the future, the end of its time or of the server; true where nothing is left to be answered."""
        timer = asyncio.get_running_loop().call_later(deferred.timeout_seconds, parked.end)
        self._parked.add(parked)
        # The end of the server may have come before it was parked.
        if self._stopping.is_set():
            parked.end()
        calls = self._calls_here()
        deferred.future.add_done_callback(lambda _: calls.soon(parked.arrived))
        if deferred.prepare is not None:
            deferred.prepare(calls.soon)
        try:
            gone = await parked.is_gone(receive)
        finally:
            self._parked.discard(parked)
            timer.cancel()
        if self._stopping.is_set() and not (gone or deferred.is_poll or deferred.is_optional):
            # Work in the writer's hands ends by itself; telling its client that it failed would be wrong. A device
            # does not, and what it would tell may come later.
            await asyncio.wait([_watch(deferred.future)], timeout=_LAST_SECONDS)
        return gone


class _Turn:
    """What the requests whose turn has come in the loop have in common."""

    def __init__(self) -> None:
        self._given: Any = None

    def once(self, ask: Callable[[], Any]) -> Any:
        """What ``ask`` gives, which is never ``None``, asked once for all requests that had arrived before.

        They stand in the loop's queue, one behind the other, and behind them the end of this turn. What arrives later
        stands behind that. So whatever was done before a request arrived was done before it was asked.
        """
        if self._given is None:
            asyncio.get_running_loop().call_soon(self._end)
            self._given = ask()
        return self._given

    def _end(self) -> None:
        self._given = None


def _give_way() -> None:
    """Have the thread run when others do not want to: a large answer has time, a small one has not."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


_DOWNLOADS = ThreadPoolExecutor(2, "download", _give_way)
"""Few: an interpreter runs one thread at a time, and every other request waits for each of these again and again."""


async def _chunks(download: Download, reader: Reader) -> AsyncGenerator[bytes]:
    """The chunks, each made when there is room for it."""
    loop = asyncio.get_running_loop()
    while True:
        await reader.room()
        # Counted while it is made, or all that wait for threads to make theirs would find room.
        with reader.waiting(_EXPECTED_CHUNK_BYTES):
            chunk = await loop.run_in_executor(_DOWNLOADS, download.next_chunk)
            if chunk is None:
                return
            with reader.waiting(len(chunk) - _EXPECTED_CHUNK_BYTES):
                yield chunk


async def _wait_for(more: Awaited, ends: list[asyncio.Future[Any]]) -> bytes:
    """Wait until there is more, or the end; a heartbeat when neither came in time."""
    watched = _watch(more)
    done, _ = await asyncio.wait([watched, *ends], timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    watched.cancel()
    return b"" if done else HEARTBEAT


def _watch(future: Awaited) -> asyncio.Future[Any]:
    """A future of the loop that is done when the other is; cancelling it leaves that one alone."""
    loop = asyncio.get_running_loop()
    watched: asyncio.Future[Any] = loop.create_future()

    def note() -> None:
        if not watched.done():
            watched.set_result(None)

    future.add_done_callback(lambda _: _call(loop, note))
    return watched


def _call(loop: asyncio.AbstractEventLoop, note: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(note)


async def _read_body(message: Message, receive: Receive, max_body_bytes: int) -> bytes | None:
    """The body, or one byte more than the limit of a longer one; ``None`` when the client went away."""
    chunks = bytearray()
    while True:
        if message["type"] == "http.disconnect":
            return None
        chunks += message.get("body", b"")
        del chunks[max_body_bytes + 1 :]
        if not message.get("more_body") or len(chunks) > max_body_bytes:
            return bytes(chunks)
        message = await receive()
