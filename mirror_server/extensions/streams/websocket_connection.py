"""A connection that has become a websocket: how long its client may be silent, and how little it may send.

uvicorn speaks the protocol. What is its own here: a client's answer to a ping tells that the messages before it
arrived, a client that takes nothing is cut off, and what a client sends is dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple, cast

from uvicorn._types import ASGI3Application, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import HeaderLineTooLong, InvalidHeader, RequestLineTooLong, TooManyHeaders
from websockets.frames import Frame, Opcode
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS, Request
from websockets.server import ServerProtocol

from mirror_server.config import Settings
from mirror_server.core.errors import ApiError
from mirror_server.extensions.streams.settings import StreamSettings
from mirror_server.extensions.streams.sockets import Frame as Message
from mirror_server.extensions.streams.websocket_serving import CONNECTION
from mirror_server.web.asgi import AsgiApp

_NUMBER_BYTES = 8
_MOST_OF_A_FRAME_BYTES = 64 * 1024

_log = logging.getLogger(__name__)
# What uvicorn tells of each websocket stands in the line of its request.
_quiet = logging.getLogger(f"{__name__}.uvicorn")
_quiet.setLevel(logging.WARNING)


@lru_cache(maxsize=1024)
def _encoded_ping(number: int) -> bytes:
    """A ping with a number; those of many websockets have the same ones."""
    return Frame(Opcode.PING, number.to_bytes(_NUMBER_BYTES)).serialize(mask=False)


class _Ping(NamedTuple):
    number: int
    sent_at: float
    confirms: int | None


class BoundedWebsocket(WebSocketsSansIOProtocol):
    """A websocket of uvicorn's with limits.

    Args:
        connection: What it is made of.
        app: Serves it.
        settings: The limits.

    It is a :class:`~mirror_server.extensions.streams.websocket_serving.Connection`.
    """

    def __init__(self, connection: HttpToolsProtocol, app: AsgiApp, settings: Settings) -> None:
        super().__init__(connection.config, connection.server_state, connection.app_state)
        self.app = cast("ASGI3Application", app)
        self.logger = _quiet
        # Without extensions: compressing what is small costs memory for each websocket.
        self.conn = ServerProtocol(max_size=_MOST_OF_A_FRAME_BYTES, logger=_quiet)
        self.on_end: Callable[[], None] = lambda: None
        self.on_confirmed: Callable[[int], None] = lambda _: None
        self._settings = settings
        self._of_streams = settings.of(StreamSettings)
        self._early = b""
        self._numbers = itertools.count(1)
        self._pings: deque[_Ping] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """See :class:`~mirror_server.extensions.streams.websocket_serving.Connection`."""
        return self.close_sent or self.disconnected or self.transport.is_closing()

    def deliver(self, message: Message) -> None:
        """See :class:`~mirror_server.extensions.streams.websocket_serving.Connection`."""
        if self.is_over:
            return
        if message.encoded is None:
            message.encoded = Frame(Opcode.TEXT, message.text).serialize(mask=False)
        # In one write, as each costs as much as to make both.
        self.transport.write(message.encoded + self._note_ping(message.cursor))

    async def drain(self) -> None:
        """See :class:`~mirror_server.extensions.streams.websocket_serving.Connection`."""
        await self.writable.wait()

    def read_head(self, head: bytes) -> Request:
        """Read the head of the request before there is a connection; :meth:`handle_connect` goes on with it.

        Refused later it would be by the library, whose words repeat headers, and a key may stand in one.

        Raises:
            ApiError: A websocket cannot be opened by it (400, 414 or 431).
        """
        self.conn.receive_data(head)
        events = self.conn.events_received()
        if events:
            request = cast("Request", events[0])
            if self.conn.accept(request).status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                return request
        raise _api_error_of(self.conn.handshake_exc)

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake; its task has not begun yet when this returns."""
        super().handle_connect(event)
        cast("dict[str, Any]", self.scope)[CONNECTION] = self

    def data_received(self, data: bytes) -> None:
        """Called by the transport; what comes before the handshake is answered waits, or would be answered first."""
        if self.handshake_initiated and not self.handshake_complete:
            self._early += data
            self.transport.pause_reading()
        else:
            super().data_received(data)

    async def send(self, message: ASGISendEvent) -> None:
        """Called by the app."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # uvicorn would tell the log, for each, that the handshake was not completed.
            self.handshake_complete = True

    def start_keepalive(self) -> None:
        """Called by uvicorn when the websocket is open."""
        if self._early:
            self.loop.call_soon(self._read_early)
        self._timer = self.loop.call_later(self._of_streams.websocket_ping_seconds, self._look)

    def stop_keepalive(self) -> None:
        """Called by uvicorn when it ends."""
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._write_timer = None

    def handle_pong(self, event: Frame) -> None:
        """A client answers with the newest ping it knows of: those before it have arrived too."""
        number = int.from_bytes(bytes(event.data)) if len(event.data) == _NUMBER_BYTES else 0
        confirmed = None
        while self._pings and self._pings[0].number <= number:
            ping = self._pings.popleft()
            confirmed = confirmed if ping.confirms is None else ping.confirms
        if confirmed is not None:
            self.on_confirmed(confirmed)

    def handle_text(self, event: Frame) -> None:
        """What a client sends is of no meaning, and is not kept."""

    handle_bytes = handle_cont = handle_text

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport."""
        super().connection_lost(exc)
        self.on_end()

    def handle_close(self, event: Frame) -> None:
        """The client closes it, or answers that it was closed."""
        super().handle_close(event)
        self.on_end()

    def pause_writing(self) -> None:
        """Called by the transport when much waits for the client to take it."""
        super().pause_writing()
        # It may ping, and not take the answers.
        if not self.transport.is_closing():
            self.transport.pause_reading()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._settings.write_timeout_seconds, self._note_stalled)

    def resume_writing(self) -> None:
        """Called by the transport when little waits."""
        super().resume_writing()
        if not self.transport.is_closing():
            self.transport.resume_reading()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Nothing more is sent: close it as soon as the client took what was."""
        super().on_task_complete(task)
        if self._timer is not None:
            self._timer.cancel()
        if not self.disconnected:
            self._timer = self.loop.call_later(self._settings.write_timeout_seconds, self.transport.abort)

    def shutdown(self) -> None:
        """Called by uvicorn when the server stops; who is not told yet is told the same as the others."""
        self.on_end()

    def _read_early(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self.data_received(self._early)

    def _note_ping(self, confirms: int | None) -> bytes:
        """The next ping, which is to be sent."""
        ping = _Ping(next(self._numbers), self.loop.time(), confirms)
        self._pings.append(ping)
        return _encoded_ping(ping.number)

    def _look(self) -> None:
        """Ping, or end it where the client has not answered one for too long."""
        if self.is_over:
            return
        oldest = self._pings[0].sent_at if self._pings else self.loop.time()
        # What is on its way to a slow client has a limit of its own.
        if self.writable.is_set() and self.loop.time() - oldest > self._of_streams.websocket_pong_seconds:
            self._fail()
            return
        if not self._pings:
            self.transport.write(self._note_ping(None))
        seconds = min(self._of_streams.websocket_ping_seconds, self._of_streams.websocket_pong_seconds)
        self._timer = self.loop.call_later(seconds, self._look)

    def _fail(self) -> None:
        self.conn.fail(1011, "the client did not answer a ping in time")
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()
        self.on_end()

    def _note_stalled(self) -> None:
        _log.info("a websocket was ended: its client did not take what was sent")
        self.transport.abort()


def _api_error_of(fault: Exception | None) -> ApiError:
    if isinstance(fault, RequestLineTooLong):
        return ApiError(414, f"the request line of a websocket may have {MAX_LINE_LENGTH} bytes; ask for less")
    if isinstance(fault, HeaderLineTooLong):
        return ApiError(
            431, f"a header may have {MAX_LINE_LENGTH} bytes where a websocket is opened; send shorter ones"
        )
    if isinstance(fault, TooManyHeaders):
        return ApiError(431, f"more than {MAX_NUM_HEADERS} headers, where a websocket is opened; send fewer")
    name = fault.name if isinstance(fault, InvalidHeader) else "Upgrade"
    return ApiError.of_field(name, "it opens no websocket as it is; send it once, and as RFC 6455 has it")
