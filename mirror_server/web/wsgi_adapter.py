"""Conversion between ASGI and WSGI: requests, responses, and the backpressure of clients that read slowly."""

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
from mirror_server.service.slow_reads import Slots
from mirror_server.views.deferred_responses import DeferredResponse, StreamedResponse
from mirror_server.views.requests import CALLER, log_details, request_id
from mirror_server.views.responses import SharedResponse

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]

_CHUNK_BYTES = 64 * 1024
_WITHOUT_BODY = frozenset({204, 304})
_REQUEST_ID = REQUEST_ID_HEADER.lower().encode()


class Unfinished:
    """A holder for the deferred or streamed response of a request, which the server completes.

    Args:
        environ: The WSGI environment of the request.
        slots: The slots for polls and for other responses that stay open for a long time. Each such response uses one
            slot.

    Attributes:
        response: The response to complete, or ``None``.
    """

    __slots__ = ("_environ", "_slot_owner", "_slots", "response")

    def __init__(self, environ: WSGIEnvironment, slots: Slots) -> None:
        self.response: DeferredResponse | StreamedResponse | None = None
        self._environ = environ
        self._slots = slots
        self._slot_owner: str | None = None

    def accept(self, response: DeferredResponse | StreamedResponse) -> ApiError | None:
        """Accept a response. See :data:`~mirror_server.views.deferred_responses.DEFER`."""
        if response.is_poll:
            application = log_details(self._environ)["application"]
            api_error = self._slots.acquire(application)
            if api_error is not None:
                return api_error
            self._slot_owner = application
        self.response = response
        return None

    def release(self) -> None:
        """Release the request, the response, and the slot if the response used one."""
        # These objects refer to this object. Only the garbage collector could free such a cycle.
        self._environ = {}
        self.response = None
        if self._slot_owner is not None:
            self._slots.release(self._slot_owner)
            self._slot_owner = None


class WSGIResponse:
    """A response of the WSGI app, which is sent over ASGI.

    Args:
        status: The status code.
        lines: The headers as they are sent to the client, each with its line end.
        body: The body.
    """

    __slots__ = ("body", "lines", "status")

    def __init__(self, status: int = 500, lines: bytes = b"", body: bytes = b"") -> None:
        self.status = status
        self.lines = lines
        self.body = body

    @classmethod
    def of(cls, app: WSGIApplication, environ: WSGIEnvironment) -> Self:
        """Call a WSGI app and close its body. A shared response is encoded once for all its requests."""
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
        # WSGI requires a function that writes. Flask never calls it.
        return lambda _: None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as pairs of a name and a value."""
        found = (line.partition(b": ") for line in self.lines.split(b"\r\n")[:-1])
        return [(name, value) for name, _, value in found]

    async def send(self, send: Send, *, is_last: bool = False) -> None:
        """Send the response, with one write if possible. If ``is_last`` is set, the connection is closed afterwards."""
        if is_last:
            self.lines += b"connection: close\r\n"
        elif self.send_at_once(send):
            return
        await self.begin(send)
        await send_in_chunks(send, self.body, is_end=True)

    async def begin(self, send: Send) -> None:
        """Send only the status and the headers."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})

    def send_at_once(self, send: Send, submit: Callable[[Callable[[], None]], object] = lambda call: call()) -> bool:
        """Send the response with one write, without waiting. If this is not possible, send nothing and return false.

        Uvicorn validates each header, and writes head and body separately. For thousands of equal responses, this
        takes longer than sending them. The waiting task notices that the request is complete when ``submit`` has called
        its argument.
        """
        cycle = _cycle_of(send)
        if cycle is None or cycle.scope["method"] == "HEAD" or len(self.body) > _CHUNK_BYTES:
            return False
        # Without a content length, uvicorn sends chunks.
        if b"\r\ncontent-length: " not in self.lines and self.status not in _WITHOUT_BODY:
            return False
        if cycle.disconnected:
            return True
        # After the last response, uvicorn has to close the connection.
        if cycle.flow.write_paused or not cycle.keep_alive:
            return False
        common = [b"%b: %b\r\n" % header for header in cycle.default_headers]
        # Uvicorn makes the same changes when it sends a complete response.
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"".join([STATUS_LINE[self.status], *common, self.lines, b"\r\n", self.body]))
        submit(cycle.message_event.set)
        cycle.on_response()
        return True


async def send_in_chunks(send: Send, content: bytes, *, is_end: bool) -> None:
    """Send content in chunks. Each chunk is sent when the client has received most of the previous chunks."""
    last = len(content) - _CHUNK_BYTES
    for begin in range(0, max(last, 0), _CHUNK_BYTES):
        await send({"type": "http.response.body", "body": content[begin : begin + _CHUNK_BYTES], "more_body": True})
    rest = content[-(len(content) % _CHUNK_BYTES or _CHUNK_BYTES) :]
    if rest or is_end:
        await send({"type": "http.response.body", "body": rest, "more_body": not is_end})


def _cycle_of(send: object) -> RequestResponseCycle | None:
    """Return uvicorn's object of the request to which ``send`` belongs, or ``None`` on another server."""
    cycle = getattr(send, "__self__", None)
    return cycle if isinstance(cycle, RequestResponseCycle) else None


def has_arrived(send: object) -> bool:
    """Return whether the body of a request is known to have arrived, so that reading it does not wait."""
    cycle = _cycle_of(send)
    return cycle is not None and not cycle.more_body


class Backpressure:
    """A counter of the unsent response bytes of each application.

    Args:
        most_bytes: The limit. An application that reaches it gets no further responses until some bytes were sent.

    Attributes:
        by_application: The unsent bytes by application.
        drained: An event that is set when some bytes were sent.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.by_application: Counter[str] = Counter()
        self.drained = asyncio.Event()

    @property
    def total_bytes(self) -> int:
        """The unsent bytes of all applications together."""
        return self.by_application.total()

    def is_full(self, app_id: str) -> bool:
        """Return whether an application has reached the limit."""
        return app_id in self.by_application and self.by_application[app_id] >= self._most_bytes


class ResponseReader:
    """The client of one request. It sends responses as fast as the client reads, and counts the unsent bytes.

    Args:
        backpressure: The counter of unsent bytes.
        app_id: The id of the client's application.
        send: The ASGI function that sends messages to the client.

    Attributes:
        send: The ASGI function that sends messages to the client, without counting their bytes.
    """

    __slots__ = ("_app_id", "_backpressure", "send")

    def __init__(self, backpressure: Backpressure, app_id: str, send: Send) -> None:
        self._backpressure = backpressure
        self._app_id = app_id
        self.send = send

    @property
    def is_disconnected(self) -> bool:
        """Whether the client has disconnected, as far as uvicorn knows.

        The task of the request notices this a moment later.
        """
        cycle = _cycle_of(self.send)
        return cycle is not None and cycle.disconnected

    @property
    def must_wait(self) -> bool:
        """Whether the application has to read other responses first."""
        return self._backpressure.is_full(self._app_id)

    async def wait_for_room(self) -> None:
        """Wait until the application may receive another response.

        This is the case when the application has read some bytes or its connections have ended. A connection whose
        client reads nothing ends after a timeout.
        """
        while self.must_wait:
            self._backpressure.drained.clear()
            await self._backpressure.drained.wait()

    @contextmanager
    def counting(self, size: int) -> Iterator[None]:
        """Count this many bytes as unsent within the context."""
        unsent = self._backpressure.by_application
        unsent[self._app_id] += size
        try:
            yield
        finally:
            unsent[self._app_id] -= size
            if not unsent[self._app_id]:
                del unsent[self._app_id]
            self._backpressure.drained.set()

    async def send_response(self, response: WSGIResponse) -> None:
        """Send a complete response."""
        with self.counting(len(response.body)):
            await response.send(self.send)

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a chunk of a response."""
        await send_in_chunks(self.send, chunk, is_end=False)


def environ_of(scope: Message) -> WSGIEnvironment:
    """Return the WSGI environment of a request, without its body."""
    server = scope.get("server") or ("localhost", 80)
    client = scope.get("client") or ("", 0)
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        # WSGI represents bytes as a string in latin-1 (PEP 3333).
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
    # The body is read completely before the app is called. Without this change, Werkzeug would treat a chunked body as
    # endless and silently truncate it at the limit.
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ["CONTENT_LENGTH"] = "0"
    return environ


def _put_header(environ: WSGIEnvironment, name: str, value: str) -> None:
    if "_" in name:
        # In the environment, the name would look like the name with hyphens, which a trusted proxy adds, replaces or
        # removes.
        return
    if name in {"content-type", "content-length"}:
        environ[name.replace("-", "_").upper()] = value
        return
    key = f"HTTP_{name.replace('-', '_').upper()}"
    environ[key] = f"{environ[key]},{value}" if key in environ else value
