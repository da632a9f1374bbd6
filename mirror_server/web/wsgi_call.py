"""One call of the WSGI app from ASGI: the request as its environment, its answer, and what it leaves unfinished."""

from __future__ import annotations

import io
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.core.errors import Refusal
from mirror_server.notifications.sockets import Socket
from mirror_server.service.slots import Slots
from mirror_server.views.answers import SharedAnswer
from mirror_server.views.deferred import Deferred
from mirror_server.views.download import Download
from mirror_server.views.event_stream import EventStream
from mirror_server.views.requests import CALLER, noted, request_id
from mirror_server.views.websocket import OpenedWebsocket
from mirror_server.web.one_write import send_at_once

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_PIECE_BYTES = 64 * 1024
_WITHOUT_BODY = frozenset({204, 304})
_REQUEST_ID = REQUEST_ID_HEADER.lower().encode()


class Unfinished:
    """What the app leaves of a request for its server to finish: nothing, or one of its attributes.

    Args:
        environ: The request.
        slots: For polls, streams and websockets, which hold one each.
    """

    __slots__ = ("_environ", "_held_by", "_slots", "deferred", "download", "stream", "websocket")

    def __init__(self, environ: WSGIEnvironment, slots: Slots) -> None:
        self.deferred: Deferred | None = None
        self.stream: EventStream | None = None
        self.download: Download | None = None
        self.websocket: Socket | None = None
        self._environ = environ
        self._slots = slots
        self._held_by: str | None = None

    @property
    def has_body(self) -> bool:
        """Whether the body of the answer is sent while it is made."""
        return self.stream is not None or self.download is not None

    @property
    def is_nothing(self) -> bool:
        """Whether the answer is whole."""
        return self.deferred is None and not self.has_body

    def park(self, deferred: Deferred) -> Refusal | None:
        """See :data:`~mirror_server.views.deferred.PARK`."""
        refusal = self._hold() if deferred.is_poll else None
        if refusal is None:
            self.deferred = deferred
        return refusal

    def take_stream(self, stream: EventStream) -> Refusal | None:
        """See :data:`~mirror_server.views.event_stream.STREAM`."""
        refusal = self._hold()
        if refusal is None:
            self.stream = stream
        return refusal

    def take_download(self, download: Download) -> None:
        """See :data:`~mirror_server.views.download.DOWNLOAD`."""
        download.take()
        self.download = download

    def take_websocket(self, opened: OpenedWebsocket) -> Refusal | None:
        """See :data:`~mirror_server.views.websocket.OPEN`."""
        refusal = self._hold()
        if refusal is None:
            self.websocket = opened.socket
        return refusal

    def release(self) -> None:
        """Release the slot, if one is held, and the request."""
        # It refers to the methods of this: garbage that Python would have to look for.
        self._environ = {}
        if self._held_by is not None:
            self._slots.release(self._held_by)
            self._held_by = None

    def _hold(self) -> Refusal | None:
        application = noted(self._environ)["application"]
        refusal = self._slots.acquire(application)
        if refusal is None:
            self._held_by = application
        return refusal


class Answer:
    """A WSGI answer on its way to ASGI."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""

    @classmethod
    def of(cls, app: WSGIApplication, environ: WSGIEnvironment, unfinished: Unfinished | None = None) -> Answer:
        """What a WSGI app answers; whatever gave the body is closed, and that of what is unfinished is not taken."""
        answer = cls()
        chunks = app(environ, answer._start)
        try:
            answer.body = b"" if unfinished and unfinished.has_body else b"".join(chunks)
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

    async def send(self, send: Send, *, is_last: bool = False) -> None:
        """Send it, in one write where that is possible; after the last one the connection is closed."""
        if is_last:
            self.headers.append((b"connection", b"close"))
        elif self._is_short and send_at_once(send, self.status, self._lines, self.body):
            return
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        if len(self.body) > _PIECE_BYTES:
            await send_pieces(send, self.body, is_end=True)
        else:
            await send({"type": "http.response.body", "body": self.body})

    @property
    def _is_short(self) -> bool:
        """Whether it may go in one write: its length is told, or it has none."""
        has_length = any(name == b"content-length" for name, _ in self.headers) or self.status in _WITHOUT_BODY
        return has_length and len(self.body) <= _PIECE_BYTES

    @property
    def _lines(self) -> bytes:
        """Its headers as they go over the wire."""
        return b"".join(b"%b: %b\r\n" % header for header in self.headers)


class EncodedShared(Answer):
    """An answer that other requests get too, encoded once for all of them.

    Args:
        shared: The answer.
        environ: One of the requests.
    """

    def __init__(self, shared: SharedAnswer, environ: WSGIEnvironment) -> None:
        super().__init__()
        self.status = shared.status_code
        self.body = shared.content
        self._shared = shared
        self._environ = environ

    async def send(self, send: Send, *, is_last: bool = False) -> None:
        """Send it, in one write where that is possible."""
        if not is_last and send_shared_at_once(send, self._shared, self._environ):
            return
        self.headers = Answer.of(self._shared, self._environ).headers
        await super().send(send, is_last=is_last)


def send_shared_at_once(send: Send, shared: SharedAnswer, environ: WSGIEnvironment) -> bool:
    """Send an answer in one write, without waiting for anything; false where that is not possible."""
    if len(shared.content) > _PIECE_BYTES:
        return False
    lines = b"%b%b: %b\r\n" % (shared.lines, _REQUEST_ID, request_id(environ).encode())
    return send_at_once(send, shared.status_code, lines, shared.content)


async def send_pieces(send: Send, content: bytes, *, is_end: bool) -> None:
    """Send something piece by piece: the server takes one when the client has taken most of those before."""
    last = len(content) - _PIECE_BYTES
    for begin in range(0, max(last, 0), _PIECE_BYTES):
        await send({"type": "http.response.body", "body": content[begin : begin + _PIECE_BYTES], "more_body": True})
    rest = content[-(len(content) % _PIECE_BYTES or _PIECE_BYTES) :]
    if rest or is_end:
        await send({"type": "http.response.body", "body": rest, "more_body": not is_end})


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
