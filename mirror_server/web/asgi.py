"""The app, which speaks WSGI, from ASGI: a request as its environment, its answer, and the client who takes that."""

from __future__ import annotations

import asyncio
import io
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.service.long_reads import Slots
from mirror_server.views.deferred import Deferred, Streamed
from mirror_server.views.requests import CALLER, noted, request_id
from mirror_server.views.responses import SharedResponse

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]

_PIECE_BYTES = 64 * 1024
_WITHOUT_BODY = frozenset({204, 304})
_REQUEST_ID = REQUEST_ID_HEADER.lower().encode()


class Unfinished:
    """Takes what the app leaves of a request for its server to finish, if anything.

    Args:
        environ: The request.
        slots: For polls, and what else stays open as they do: each holds one.

    Attributes:
        response: What is left.
    """

    __slots__ = ("_environ", "_held_by", "_slots", "response")

    def __init__(self, environ: WSGIEnvironment, slots: Slots) -> None:
        self.response: Deferred | Streamed | None = None
        self._environ = environ
        self._slots = slots
        self._held_by: str | None = None

    def take(self, response: Deferred | Streamed) -> ApiError | None:
        """See :data:`~mirror_server.views.deferred.PARK`."""
        if response.is_poll:
            application = noted(self._environ)["application"]
            api_error = self._slots.acquire(application)
            if api_error is not None:
                return api_error
            self._held_by = application
        self.response = response
        return None

    def release(self) -> None:
        """Release the slot, if one is held, the request and the response."""
        # They refer to the methods of this: garbage that Python would have to look for.
        self._environ = {}
        self.response = None
        if self._held_by is not None:
            self._slots.release(self._held_by)
            self._held_by = None


class WSGIResponse:
    """A WSGI answer on its way to ASGI.

    Args:
        status: The status.
        lines: Its headers as they go over the wire, each with its line end.
        body: The body.
    """

    __slots__ = ("body", "lines", "status")

    def __init__(self, status: int = 500, lines: bytes = b"", body: bytes = b"") -> None:
        self.status = status
        self.lines = lines
        self.body = body

    @classmethod
    def of(cls, app: WSGIApplication, environ: WSGIEnvironment) -> Self:
        """Call a WSGI app, and close what gave the body. An answer that many get is encoded once for all of them."""
        if isinstance(app, SharedResponse):
            lines = b"%b%b: %b\r\n" % (app.lines, _REQUEST_ID, request_id(environ).encode())
            return cls(app.status_code, lines, app.content)
        response = cls()
        chunks = app(environ, response._start)
        try:
            response.body = b"".join(chunks)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        return response

    def _start(
        self, status: str, headers: list[tuple[str, str]], _exc_info: object = None
    ) -> Callable[[bytes], object]:
        self.status = int(status[:3])
        self.lines = "".join([f"{name.lower()}: {value}\r\n" for name, value in headers]).encode("latin-1")
        return lambda _: None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Its headers by name."""
        found = (line.partition(b": ") for line in self.lines.split(b"\r\n")[:-1])
        return [(name, value) for name, _, value in found]

    async def send(self, send: Send, *, is_last: bool = False) -> None:
        """Send it, in one write where that is possible; after the last one the connection is closed."""
        if is_last:
            self.lines += b"connection: close\r\n"
        elif self.send_at_once(send):
            return
        await self.begin(send)
        await send_pieces(send, self.body, is_end=True)

    async def begin(self, send: Send) -> None:
        """Send its head alone."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})

    def send_at_once(self, send: Send) -> bool:
        """Send it in one write, without waiting for anything; false where that is not possible, and nothing was sent.

        uvicorn looks at each header and writes head and body apart, which for thousands of equal answers at once takes
        longer than to send them. Who waits for what its client sends finds that there is nobody to answer any more.
        """
        cycle = _cycle_of(send)
        if cycle is None or cycle.scope["method"] == "HEAD" or len(self.body) > _PIECE_BYTES:
            return False
        if b"\r\ncontent-length: " not in self.lines and self.status not in _WITHOUT_BODY:
            return False
        if cycle.disconnected:
            return True
        # Behind the last answer a connection is closed.
        if cycle.flow.write_paused or not cycle.keep_alive:
            return False
        common = [b"%b: %b\r\n" % header for header in cycle.default_headers]
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"".join([STATUS_LINE[self.status], *common, self.lines, b"\r\n", self.body]))
        cycle.message_event.set()
        cycle.on_response()
        return True


async def send_pieces(send: Send, content: bytes, *, is_end: bool) -> None:
    """Send something piece by piece: the server takes one when the client has taken most of those before."""
    last = len(content) - _PIECE_BYTES
    for begin in range(0, max(last, 0), _PIECE_BYTES):
        await send({"type": "http.response.body", "body": content[begin : begin + _PIECE_BYTES], "more_body": True})
    rest = content[-(len(content) % _PIECE_BYTES or _PIECE_BYTES) :]
    if rest or is_end:
        await send({"type": "http.response.body", "body": rest, "more_body": not is_end})


def _cycle_of(send: object) -> RequestResponseCycle | None:
    """Uvicorn's side of a request, by what it gives to send with; ``None`` under another server."""
    cycle = getattr(send, "__self__", None)
    return cycle if isinstance(cycle, RequestResponseCycle) else None


class Backpressure:
    """How much of the answers of each application waits for its clients to take it.

    Args:
        most_bytes: With this much an application gets no further answers before it has taken some.

    Attributes:
        by_application: How many bytes wait.
        taken: Set when some were taken.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.by_application: Counter[str] = Counter()
        self.taken = asyncio.Event()

    @property
    def total_bytes(self) -> int:
        """That of all applications."""
        return self.by_application.total()

    def is_full(self, app_id: str) -> bool:
        """Whether this application leaves as much unread as it may."""
        return app_id in self.by_application and self.by_application[app_id] >= self._most_bytes


class ResponseReader:
    """The client of one request: it gets its answer as fast as it takes it, and what waits is counted.

    Args:
        unread: Where it is counted.
        app_id: Its application.
        send: Sends to it.

    Attributes:
        send: Sends to it, without being counted.
    """

    __slots__ = ("_app_id", "_unread", "send")

    def __init__(self, unread: Backpressure, app_id: str, send: Send) -> None:
        self._unread = unread
        self._app_id = app_id
        self.send = send

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have gone away, which its task hears of in a moment."""
        cycle = _cycle_of(self.send)
        return cycle is not None and cycle.disconnected

    @property
    def must_wait(self) -> bool:
        """Whether its application is to take other answers first."""
        return self._unread.is_full(self._app_id)

    async def room(self) -> None:
        """Wait until an answer may be made for it.

        Its application took some then, or its connections ended, which those of a client that takes nothing do.
        """
        while self.must_wait:
            self._unread.taken.clear()
            await self._unread.taken.wait()

    @contextmanager
    def waiting(self, size: int) -> Iterator[None]:
        """Meanwhile so much more waits, until it is taken or not sent any more."""
        waiting = self._unread.by_application
        waiting[self._app_id] += size
        try:
            yield
        finally:
            waiting[self._app_id] -= size
            if not waiting[self._app_id]:
                del waiting[self._app_id]
            self._unread.taken.set()

    async def send_whole(self, response: WSGIResponse) -> None:
        """Send an answer."""
        with self.waiting(len(response.body)):
            await response.send(self.send)

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a part of an answer."""
        await send_pieces(self.send, chunk, is_end=False)


def environ_of(scope: Message) -> WSGIEnvironment:
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
