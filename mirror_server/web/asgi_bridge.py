"""uvicorn's side: calls the WSGI app on the event loop and parks deferred answers without a thread.

The app's views look something up or hand work to the writer, which takes well under a millisecond; whatever takes
longer comes back as a :class:`~mirror_server.views.deferred.Deferred`. A parked request costs a task, not a thread.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mirror_server.config import Settings
from mirror_server.core.errors import Refusal
from mirror_server.service.long_reads import Slots
from mirror_server.views.deferred import PARK, Deferred, until_done
from mirror_server.views.requests import noted
from mirror_server.views.streamed import Streamed
from mirror_server.web.admission import HEAD_ONLY, IS_FULL, ONCE, REFUSED
from mirror_server.web.calls import Calls
from mirror_server.web.parked import Parked, is_gone, until_gone
from mirror_server.web.shares import Shares
from mirror_server.web.unread import Reader, Unread
from mirror_server.web.wsgi_call import Answer, Message, Receive, Send, Unfinished, environ_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment
    from flask import Response

    from mirror_server.web.app import MirrorApp

QUEUED = "mirror.queued"
"""Key of the ASGI state of a request whose call stood in the loop's queue since it arrived, as uvicorn has it."""

_DEFAULTS = Settings()
_LARGE_BYTES = 256 * 1024
_SMALL_BYTES = 16 * 1024
_LARGE_BODY_BYTES = 64 * 1024
_LAST_SECONDS = 0.5
# The threads of a client read two connections in any order, some tens of milliseconds apart on a busy machine.
_READING_SECONDS = 0.05
_NOTHING_KNOWN = {"method": "", "path": "", "query_string": b"", "http_version": "1.1", "scheme": "http"}


class Bridge:
    """An ASGI app around the Flask app.

    Args:
        app: The Flask app.
        max_body_bytes: Of a longer body no more than this is held in memory; the app refuses it.
        max_parked_polls: How many polls may be open at once, with what else stays open as they do.
        poll_share: Which part of these one application may have.
        max_unread_bytes: How much of its answers an application may leave unread before it gets no more of them.
        body_timeout_seconds: How long a body may take to arrive.
        reading_seconds: How long after an answer was sent it counts as read, where something waits for that.

    Attributes:
        stopping: Set when the server stops.
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
        reading_seconds: float = _READING_SECONDS,
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._slots = Slots.of_polls(max_parked_polls, poll_share)
        self._unread = Unread(max_unread_bytes)
        self._body_timeout_seconds = body_timeout_seconds
        self._reading_seconds = reading_seconds
        self._turn = _Turn()
        # By loop: clients in the process of the server may have loops of their own, and an event of one wakes no other.
        self._shares: WeakKeyDictionary[asyncio.AbstractEventLoop, Shares] = WeakKeyDictionary()
        self.stopping = asyncio.Event()
        self._parked: set[Parked] = set()
        self._calls: Calls | None = None

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
        )

    @property
    def unread_bytes(self) -> int:
        """How much of all answers waits for clients to take it."""
        return self._unread.total_bytes

    def answer_refusal(self, refusal: Refusal, scope: Mapping[str, Any]) -> Answer:
        """The answer to a request that did not arrive whole; its scope may lack parts."""
        return Answer.of(self._app, environ_of({**_NOTHING_KNOWN, **scope, "headers": []}) | {REFUSED: refusal})

    def wait_for_told(self, seconds: float) -> None:
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
        answer = self.ask(environ, is_large=len(body) > _LARGE_BODY_BYTES)
        left = unfinished.response
        if left is None and len(answer.body) <= _SMALL_BYTES:
            # Nearly always. What waits of these is counted by nobody, and less than what the server buffers anyway.
            unfinished.release()
            await answer.send(send, is_last=len(body) > self._max_body_bytes)
            return
        reader = self.reader(environ, send)
        try:
            whole = await self._finish(left, answer, environ, receive, reader)
            unfinished.release()
            if whole is not None:
                if len(whole.body) > _LARGE_BYTES:
                    shares.rest(environ)
                await reader.send(whole)
        finally:
            unfinished.release()
            if isinstance(left, Deferred) and left.sent is not None:
                asyncio.get_running_loop().call_later(self._reading_seconds, left.sent)

    def begin(self, environ: WSGIEnvironment) -> Unfinished:
        """What the app will leave of a request that it is asked; whoever asks it finishes that, and releases this."""
        unfinished = Unfinished(environ, self._slots)
        environ |= {PARK: unfinished.take, IS_FULL: self._unread.is_full}
        return unfinished

    def ask(self, environ: WSGIEnvironment, *, is_large: bool = False) -> Answer:
        """What the app answers; the time that it takes counts as its key's."""
        began_at, worked_before = time.perf_counter(), time.thread_time()
        answer = Answer.of(self._app, environ)
        seconds, worked = time.perf_counter() - began_at, time.thread_time() - worked_before
        # A large one lets others have as much; what it waited for the database, they had already.
        self._shares_here().count(environ, seconds, rest_seconds=worked if is_large else 0)
        return answer

    def reader(self, environ: WSGIEnvironment, send: Send) -> Reader:
        """The client of a request that the app was asked."""
        return self._unread.reader(noted(environ).get("application", ""), send)

    def _shares_here(self) -> Shares:
        loop = asyncio.get_running_loop()
        shares = self._shares.get(loop)
        if shares is None:
            shares = self._shares[loop] = Shares(loop)
        return shares

    async def _finish(
        self, left: Response | None, answer: Answer, environ: WSGIEnvironment, receive: Receive, reader: Reader
    ) -> Answer | None:
        """The whole answer; ``None`` where it was sent while it was made, or the client went away."""
        while isinstance(left, Deferred):
            left = await self._wait(left, environ, receive, reader)
            if left is None:
                return None
            answer = Answer.of(left, environ)
        if isinstance(left, Streamed):
            await self._stream(left, answer, receive, reader)
            return None
        return answer

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
            refusal = Refusal(408, "the body did not arrive in time; send it at once")
            await Answer.of(self._app, environ | {REFUSED: refusal}).send(send, is_last=True)
            return None

    async def _may_send(self, environ: WSGIEnvironment, send: Send) -> bool:
        """Whether the head lets a client send a body; one that may not is told why."""
        answer = self.ask(environ | {HEAD_ONLY: True})
        if answer.status != 100:
            # The body may still come; nothing is read behind it.
            await answer.send(send, is_last=True)
        return answer.status == 100

    async def _wait(
        self, deferred: Deferred, environ: WSGIEnvironment, receive: Receive, reader: Reader
    ) -> Response | None:
        """The response when it can be made; ``None`` where it was sent already, or the client went away."""
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
            return parked.finished_answer()
        finally:
            # Before a download, which may take a slow reader minutes.
            deferred.release()

    async def _stream(self, streamed: Streamed, answer: Answer, receive: Receive, reader: Reader) -> None:
        """Have the response send itself, until the client goes away or the server stops."""
        ends = [asyncio.ensure_future(until_gone(receive)), asyncio.ensure_future(self.stopping.wait())]
        try:
            await reader.begin(answer)
            if await streamed.send(reader, ends):
                await reader.end()
        finally:
            for end in ends:
                end.cancel()
            streamed.close()

    @property
    def calls(self) -> Calls:
        """What brings calls to the loop that runs here."""
        loop = asyncio.get_running_loop()
        if self._calls is None or self._calls.loop is not loop:
            self._calls = Calls(loop)
        return self._calls

    async def _gone(self, parked: Parked, deferred: Deferred, receive: Receive) -> bool:
        """Wait for the future, the end of its time or of the server; true where nothing is left to be answered."""
        timer = asyncio.get_running_loop().call_later(deferred.timeout_seconds, parked.end)
        self._parked.add(parked)
        # The end of the server may have come before it was parked.
        if self.stopping.is_set():
            parked.end()
        calls = self.calls
        deferred.future.add_done_callback(lambda _: calls.soon(parked.arrived))
        if deferred.prepare is not None:
            deferred.prepare(calls.soon)
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
