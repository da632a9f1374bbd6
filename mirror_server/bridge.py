"""uvicorn's side: calls the WSGI app on the event loop and parks deferred answers without a thread.

The app's views look something up or hand work to the writer, which takes well under a millisecond; whatever takes
longer comes back as a :class:`~mirror_server.views.deferred.Deferred`. A parked request costs a task, not a thread.
"""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from mirror_server.app import HEAD_ONLY, IS_FULL, REFUSED
from mirror_server.config import Settings
from mirror_server.core.errors import Refusal
from mirror_server.places import Places
from mirror_server.store.failures import StorageFailed
from mirror_server.views.deferred import PARK, Deferred
from mirror_server.views.download import DOWNLOAD, Download
from mirror_server.views.duty import CALLER
from mirror_server.views.event_stream import HEARTBEAT, HEARTBEAT_SECONDS, STREAM, EventStream
from mirror_server.views.requests import noted

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

    from mirror_server.app import MirrorApp

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

_DEFAULTS = Settings()
_PIECE_BYTES = 64 * 1024
_EXPECTED_CHUNK_BYTES = 256 * 1024
_LARGE_BYTES = 256 * 1024
_SMALL_BYTES = 16 * 1024
_LAST_SECONDS = 0.5
_NOTHING_KNOWN = {"method": "", "path": "", "query_string": b"", "http_version": "1.1", "scheme": "http"}
_LONGEST_DOWNLOAD_SECONDS = 900

_log = logging.getLogger(__name__)


class Bridge:
    """An ASGI app around the Flask app.

    Args:
        app: The Flask app.
        max_body_bytes: Of a longer body no more than this is held in memory; the app refuses it.
        max_parked_polls: How many polls and streams may be open at once.
        poll_share: Which part of these one application may have.
        max_unread_bytes: How much of its answers an application may leave unread before it gets no more of them.
        body_timeout_seconds: How long a body may take to arrive.
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
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._places = Places.of_polls(max_parked_polls, poll_share)
        self._unread = _Unread(max_unread_bytes)
        self._body_timeout_seconds = body_timeout_seconds
        self._large_for: str | None = None
        self._stopping = asyncio.Event()
        self._parked: set[Callable[[], None]] = set()

    @classmethod
    def of(cls, app: MirrorApp, settings: Settings) -> Bridge:
        """With the limits an operator set."""
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

    def answer_refusal(
        self, refusal: Refusal, scope: Mapping[str, Any]
    ) -> tuple[int, Sequence[tuple[bytes, bytes]], bytes]:
        """Status, headers and body of the answer to a request that did not arrive whole; its scope may lack parts."""
        answer = _Answer.of(self._app, _environ_of({**_NOTHING_KNOWN, **scope, "headers": []}) | {REFUSED: refusal})
        return answer.status, answer.headers, answer.body

    def _note_large(self, environ: WSGIEnvironment) -> None:
        """Let others have their turn before the same key gets another answer, which may take as long to make."""
        self._large_for = environ.get("HTTP_AUTHORIZATION")
        asyncio.get_running_loop().call_soon(self._end_large)

    def _end_large(self) -> None:
        self._large_for = None

    def stop_waiting(self) -> None:
        """Answer all parked requests, as if their time were over; what is being stored is first given a moment."""
        self._stopping.set()
        for end in list(self._parked):
            end()

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Serve one HTTP request."""
        environ = _environ_of(scope)
        body = await self._body(environ, receive, send)
        if body is None:
            return
        if body:
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        parked: list[Deferred] = []
        streams: list[EventStream] = []
        downloads: list[Download] = []
        held_by: list[str] = []

        def hold() -> Refusal | None:
            application = noted(environ)["application"]
            refusal = self._places.take(application)
            if refusal is None:
                held_by.append(application)
            return refusal

        def park(deferred: Deferred) -> Refusal | None:
            refusal = hold() if deferred.is_poll else None
            if refusal is None:
                parked.append(deferred)
            return refusal

        def take(stream: EventStream) -> Refusal | None:
            refusal = hold()
            if refusal is None:
                streams.append(stream)
            return refusal

        def take_download(download: Download) -> None:
            download.take()
            downloads.append(download)

        while self._large_for is not None and self._large_for == environ.get("HTTP_AUTHORIZATION"):
            await asyncio.sleep(0)
        environ |= {PARK: park, STREAM: take, DOWNLOAD: take_download, IS_FULL: self._unread.is_full}
        answer: _Answer | None = _Answer.of(self._app, environ, streams, downloads)
        if answer is not None and not (streams or downloads or parked) and len(answer.body) <= _SMALL_BYTES:
            # Nearly always. What waits of these is counted by nobody, and less than what the server buffers anyway.
            await answer.send(send, is_last=len(body) > self._max_body_bytes)
            return
        reader = self._unread.reader(noted(environ).get("application", ""), send)
        if downloads and answer is not None:
            await self._download(downloads[0], answer, receive, reader)
            return
        try:
            if streams and answer is not None:
                await self._stream(streams[0], answer, receive, reader)
                return
            if parked:
                answer = await self._wait(parked.pop(), environ, receive, reader)
        finally:
            if held_by:
                self._places.give_back(held_by[0])
        if answer is not None:
            if len(answer.body) > _LARGE_BYTES:
                self._note_large(environ)
            await reader.send(answer)

    async def _body(self, environ: WSGIEnvironment, receive: _Receive, send: _Send) -> bytes | None:
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
            await _Answer.of(self._app, environ | {REFUSED: refusal}).send(send, is_last=True)
            return None

    async def _may_send(self, environ: WSGIEnvironment, send: _Send) -> bool:
        """Whether the head lets a client send a body; one that may not is told why."""
        answer = _Answer.of(self._app, environ | {HEAD_ONLY: True})
        if answer.status != 100:
            # The body may still come; nothing is read behind it.
            await answer.send(send, is_last=True)
        return answer.status == 100

    async def _wait(
        self, deferred: Deferred, environ: WSGIEnvironment, receive: _Receive, reader: _Reader
    ) -> _Answer | None:
        """The answer when it can be made; ``None`` when the client went away."""
        try:
            if await self._gone(deferred, receive):
                return None
            if reader.must_wait:
                await reader.room()
                if deferred.takes and await _is_gone(receive):
                    return None
            return _Answer.of(self._app.finish(deferred, environ), environ)
        finally:
            deferred.release()

    async def _stream(self, stream: EventStream, answer: _Answer, receive: _Receive, reader: _Reader) -> None:
        """Send events as they come, until the client goes away or the server stops."""
        await reader.begin(answer)
        # Without its database it ends; the client comes back with its position.
        with suppress(StorageFailed):
            await self._send_events(stream, receive, reader)
        await reader.end()

    async def _send_events(self, stream: EventStream, receive: _Receive, reader: _Reader) -> None:
        chunk = stream.begin()
        with reader.waiting(len(chunk)):
            await reader.send_chunk(chunk)
        ends = self._ends(receive)
        try:
            while not (stream.is_over or any(end.done() for end in ends)):
                await reader.room()
                # Asked for before looking, so that what arrives in between is not waited for.
                more = stream.more()
                chunk = stream.take()
                if not (chunk or stream.is_over):
                    chunk = await _wait_for(more, ends)
                more.cancel()
                with reader.waiting(len(chunk)):
                    await reader.send_chunk(chunk)
        finally:
            for end in ends:
                end.cancel()

    async def _download(self, download: Download, answer: _Answer, receive: _Receive, reader: _Reader) -> None:
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

    def _ends(self, receive: _Receive) -> list[asyncio.Future[Any]]:
        """What is done when the client goes away, or the server stops."""
        return [asyncio.ensure_future(_disconnect(receive)), asyncio.ensure_future(self._stopping.wait())]

    async def _gone(self, deferred: Deferred, receive: _Receive) -> bool:
        """Wait for the future, the end of its time or of the server; true if the client went away before.

        What arrives in the same moment is not for a client that is gone: a plain poll would lose it.
        """
        # Thousands wait here at once: the request's own task listens to its client and is interrupted, rather than a
        # second task for each of them.
        loop = asyncio.get_running_loop()
        task = cast("asyncio.Task[None]", asyncio.current_task())
        is_waiting = True
        gone = False

        def end(_: object = None) -> None:
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                task.cancel()

        timer = loop.call_later(deferred.timeout_seconds, end)
        self._parked.add(end)
        if self._stopping.is_set():
            end()
        deferred.future.add_done_callback(lambda _: _call(loop, end))
        try:
            await _disconnect(receive)
            gone = True
        except asyncio.CancelledError:
            if is_waiting or task.uncancel():
                raise
        finally:
            is_waiting = False
            self._parked.discard(end)
            timer.cancel()
        if deferred.takes and not gone:
            gone = await _is_gone(receive)
        if self._stopping.is_set() and not gone and not deferred.is_poll:
            # Work in the writer's hands ends by itself; telling its client that it failed would be wrong.
            await asyncio.wait([_watch(deferred.future)], timeout=_LAST_SECONDS)
        return gone


class _Unread:
    """How much of the answers of each application waits for its clients to take it.

    Args:
        most_bytes: With this much an application gets no further answers before it has taken some.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes: Counter[str] = Counter()
        self._taken = asyncio.Event()

    @property
    def total_bytes(self) -> int:
        """That of all applications."""
        return self._bytes.total()

    def is_full(self, app_id: str) -> bool:
        """Whether this application leaves as much unread as it may."""
        return app_id in self._bytes and self._bytes[app_id] >= self._most_bytes

    async def room(self, app_id: str) -> None:
        """Wait until it took some, or its connections ended, which those of a client that takes nothing do."""
        while self.is_full(app_id):
            self._taken.clear()
            await self._taken.wait()

    def add(self, app_id: str, size: int) -> None:
        """So much more waits."""
        self._bytes[app_id] += size

    def remove(self, app_id: str, size: int) -> None:
        """So much was taken, or is not sent any more."""
        self._bytes[app_id] -= size
        if not self._bytes[app_id]:
            del self._bytes[app_id]
        self._taken.set()

    def reader(self, app_id: str, send: _Send) -> _Reader:
        """The client of a request of this application."""
        return _Reader(self, app_id, send)


class _Reader:
    """The client of one request: it gets its answer as fast as it takes it, and what waits is counted."""

    __slots__ = ("_app_id", "_send", "_unread")

    def __init__(self, unread: _Unread, app_id: str, send: _Send) -> None:
        self._unread = unread
        self._app_id = app_id
        self._send = send

    @property
    def must_wait(self) -> bool:
        """Whether its application is to take other answers first."""
        return self._unread.is_full(self._app_id)

    async def room(self) -> None:
        """Wait until an answer may be made for it."""
        await self._unread.room(self._app_id)

    async def begin(self, answer: _Answer) -> None:
        """Send the head of an answer."""
        await self._send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})

    async def send(self, answer: _Answer) -> None:
        """Send an answer."""
        size = len(answer.body)
        self._unread.add(self._app_id, size)
        try:
            await answer.send(self._send)
        finally:
            self._unread.remove(self._app_id, size)

    @contextmanager
    def waiting(self, size: int) -> Iterator[None]:
        """Meanwhile so much more waits."""
        self._unread.add(self._app_id, size)
        try:
            yield
        finally:
            self._unread.remove(self._app_id, size)

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a part of an answer."""
        await _send_pieces(self._send, chunk, is_end=False)

    async def end(self) -> None:
        """Send that this was all."""
        await self._send({"type": "http.response.body", "body": b""})


async def _chunks(download: Download, reader: _Reader) -> AsyncGenerator[bytes]:
    """The chunks, each made when there is room for it."""
    loop = asyncio.get_running_loop()
    while True:
        await reader.room()
        # Counted while it is made, or all that wait for threads to make theirs would find room.
        with reader.waiting(_EXPECTED_CHUNK_BYTES):
            chunk = await loop.run_in_executor(None, download.next_chunk)
            if chunk is None:
                return
            with reader.waiting(len(chunk) - _EXPECTED_CHUNK_BYTES):
                yield chunk


async def _send_pieces(send: _Send, content: bytes, *, is_end: bool) -> None:
    """Send something piece by piece: the server takes one when the client has taken most of those before."""
    last = len(content) - _PIECE_BYTES
    for begin in range(0, max(last, 0), _PIECE_BYTES):
        await send({"type": "http.response.body", "body": content[begin : begin + _PIECE_BYTES], "more_body": True})
    rest = content[-(len(content) % _PIECE_BYTES or _PIECE_BYTES) :]
    if rest or is_end:
        await send({"type": "http.response.body", "body": rest, "more_body": not is_end})


async def _wait_for(more: Future[Any], ends: list[asyncio.Future[Any]]) -> bytes:
    """Wait until there is more, or the end; a heartbeat when neither came in time."""
    watched = _watch(more)
    done, _ = await asyncio.wait([watched, *ends], timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    watched.cancel()
    return b"" if done else HEARTBEAT


def _watch(future: Future[Any]) -> asyncio.Future[Any]:
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


class _Answer:
    """A WSGI answer on its way to ASGI."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""

    @classmethod
    def of(
        cls,
        app: WSGIApplication,
        environ: WSGIEnvironment,
        streams: Sequence[EventStream] = (),
        downloads: Sequence[Download] = (),
    ) -> _Answer:
        """What a WSGI app answers; whatever gave the body is closed, and that of a stream is not taken."""
        answer = cls()
        chunks = app(environ, answer._start)
        try:
            answer.body = b"" if streams or downloads else b"".join(chunks)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        return answer

    def _start(
        self, status: str, headers: list[tuple[str, str]], _exc_info: object = None
    ) -> Callable[[bytes], object]:
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return lambda _: None

    async def send(self, send: _Send, *, is_last: bool = False) -> None:
        """Send it; after the last one the connection is closed."""
        if is_last:
            self.headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        if len(self.body) > _PIECE_BYTES:
            await _send_pieces(send, self.body, is_end=True)
        else:
            await send({"type": "http.response.body", "body": self.body})


async def _read_body(message: _Message, receive: _Receive, max_body_bytes: int) -> bytes | None:
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


async def _disconnect(receive: _Receive) -> None:
    """Wait until the client goes away; what is left of a body past the limit comes before that."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _is_gone(receive: _Receive) -> bool:
    """Whether the client is known to be gone by now."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            await _disconnect(receive)
            return True
    return False


def _environ_of(scope: _Message) -> WSGIEnvironment:
    """The environment of a request whose body did not come yet."""
    server = scope.get("server") or ("localhost", 80)
    client = scope.get("client") or ("", 0)
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode("utf-8").decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        _put_header(environ, name.decode("latin-1"), value.decode("latin-1"))
    if CALLER in scope:
        environ[CALLER] = scope[CALLER]
    # A body is whole before it is read; Werkzeug would take a chunked one for endless and cut it at the limit without
    # a word.
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ["CONTENT_LENGTH"] = "0"
    return environ


def _put_header(environ: WSGIEnvironment, name: str, value: str) -> None:
    if "_" in name:
        # It would pass for the name with hyphens, which a proxy in front adds, replaces or takes away.
        return
    if name in {"content-type", "content-length"}:
        environ[name.replace("-", "_").upper()] = value
        return
    key = f"HTTP_{name.replace('-', '_').upper()}"
    environ[key] = f"{environ[key]},{value}" if key in environ else value
