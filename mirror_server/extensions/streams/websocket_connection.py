"""A connection that was upgraded to a websocket, with timeouts for clients and limits on the data that they send.

Uvicorn implements the protocol. This module adds three things. A pong of the client confirms all messages before the
corresponding ping. A client that does not read is disconnected. Messages of the client are dropped.
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
from mirror_server.extensions.streams.reader_websockets import Frame as Message
from mirror_server.extensions.streams.settings import StreamSettings
from mirror_server.extensions.streams.websocket_serving import CONNECTION
from mirror_server.web.wsgi_adapter import AsgiApp

_NUMBER_BYTES = 8
_MAX_FRAME_BYTES = 64 * 1024

_log = logging.getLogger(__name__)
# The log lines of uvicorn about a websocket repeat the request line, which the server logs itself.
_quiet = logging.getLogger(f"{__name__}.uvicorn")
_quiet.setLevel(logging.WARNING)


@lru_cache(maxsize=1024)
def _encoded_ping(number: int) -> bytes:
    """Return an encoded ping with a number. The result can be shared by all websockets, because each counts from 1."""
    return Frame(Opcode.PING, number.to_bytes(_NUMBER_BYTES)).serialize(mask=False)


class _Ping(NamedTuple):
    number: int
    sent_at: float
    confirms: int | None


class BoundedWebsocket(WebSocketsSansIOProtocol):
    """A uvicorn websocket with timeouts and limits.

    It implements :class:`~mirror_server.extensions.streams.websocket_serving.WebSocketConnection`.

    Args:
        connection: The HTTP connection to upgrade.
        app: The ASGI app that serves the websocket.
        settings: The settings with the timeouts.
    """

    def __init__(self, connection: HttpToolsProtocol, app: AsgiApp, settings: Settings) -> None:
        super().__init__(connection.config, connection.server_state, connection.app_state)
        self.app = cast("ASGI3Application", app)
        self.logger = _quiet
        # No extensions are offered, because the compression of small messages would cost memory for each websocket.
        self.conn = ServerProtocol(max_size=_MAX_FRAME_BYTES, logger=_quiet)
        self.on_end: Callable[[], None] = lambda: None
        self.on_confirmed: Callable[[int], None] = lambda _: None
        self._settings = settings
        self._stream_settings = settings.of(StreamSettings)
        self._early = b""
        self._numbers = itertools.count(1)
        self._pings: deque[_Ping] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """See :class:`~mirror_server.extensions.streams.websocket_serving.WebSocketConnection`."""
        return self.close_sent or self.disconnected or self.transport.is_closing()

    def deliver(self, message: Message) -> None:
        """See :class:`~mirror_server.extensions.streams.websocket_serving.WebSocketConnection`."""
        if self.is_over:
            return
        if message.encoded is None:
            message.encoded = Frame(Opcode.TEXT, message.text).serialize(mask=False)
        # Both are sent in one write, because a second write would take as long as encoding both.
        self.transport.write(message.encoded + self._next_ping(message.cursor))

    async def drain(self) -> None:
        """See :class:`~mirror_server.extensions.streams.websocket_serving.WebSocketConnection`."""
        await self.writable.wait()

    def read_head(self, head: bytes) -> Request:
        """Read the head of the request before the upgrade. Pass the result to :meth:`handle_connect`.

        An invalid head is rejected here. Otherwise the library would reject it later, with a message that repeats the
        headers, which can contain the key.

        Raises:
            ApiError: The head is not a valid handshake (400, 414 or 431).
        """
        self.conn.receive_data(head)
        events = self.conn.events_received()
        if events:
            request = cast("Request", events[0])
            if self.conn.accept(request).status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                return request
        raise _api_error_of(self.conn.handshake_exc)

    def handle_connect(self, event: Request) -> None:
        """Start the handshake. When this returns, the task of the websocket has not started yet."""
        super().handle_connect(event)
        cast("dict[str, Any]", self.scope)[CONNECTION] = self

    def data_received(self, data: bytes) -> None:
        """Parse data from the client; called by the transport. Data that arrives during the handshake is delayed."""
        if self.handshake_initiated and not self.handshake_complete:
            # Pausing the transport limits the delayed data to what the transport has already read.
            self._early += data
            self.transport.pause_reading()
        else:
            super().data_received(data)

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message; called by the app."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # Without this, uvicorn would log that the handshake was not completed.
            self.handshake_complete = True

    def start_keepalive(self) -> None:
        """Start the pings; called by uvicorn when the websocket is open."""
        if self._early:
            self.loop.call_soon(self._read_early)
        self._timer = self.loop.call_later(self._stream_settings.websocket_ping_seconds, self._check_pongs)

    def stop_keepalive(self) -> None:
        """Stop the timers; called by uvicorn when the websocket ends."""
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._write_timer = None

    def handle_pong(self, event: Frame) -> None:
        """Confirm the messages before the ping of this pong. A client may send one pong for several pings."""
        # An unsolicited pong (RFC 6455, 5.5.3) has other data and confirms nothing.
        number = int.from_bytes(bytes(event.data)) if len(event.data) == _NUMBER_BYTES else 0
        confirmed = None
        while self._pings and self._pings[0].number <= number:
            ping = self._pings.popleft()
            confirmed = confirmed if ping.confirms is None else ping.confirms
        if confirmed is not None:
            self.on_confirmed(confirmed)

    def handle_text(self, event: Frame) -> None:
        """Ignore a text message of the client."""

    handle_bytes = handle_cont = handle_text

    def connection_lost(self, exc: Exception | None) -> None:
        """End the websocket; called by the transport."""
        super().connection_lost(exc)
        self.on_end()

    def handle_close(self, event: Frame) -> None:
        """End the websocket after the client has closed it, or has confirmed that the server closed it."""
        super().handle_close(event)
        self.on_end()

    def pause_writing(self) -> None:
        """Start the write timer; called by the transport when its buffer is full."""
        super().pause_writing()
        # Reading is paused because the client could otherwise send pings without reading the pongs.
        if not self.transport.is_closing():
            self.transport.pause_reading()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._settings.write_timeout_seconds, self._abort_stalled)

    def resume_writing(self) -> None:
        """Stop the write timer; called by the transport when the client has read enough."""
        super().resume_writing()
        if not self.transport.is_closing():
            self.transport.resume_reading()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Close the connection as soon as the client has read everything, because nothing more will be sent."""
        super().on_task_complete(task)
        if self._timer is not None:
            self._timer.cancel()
        if not self.disconnected:
            self._timer = self.loop.call_later(self._settings.write_timeout_seconds, self.transport.abort)

    def shutdown(self) -> None:
        """Wake the task of the websocket, which closes it; called by uvicorn when the server stops."""
        self.on_end()

    def _read_early(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self.data_received(self._early)

    def _next_ping(self, confirms: int | None) -> bytes:
        ping = _Ping(next(self._numbers), self.loop.time(), confirms)
        self._pings.append(ping)
        return _encoded_ping(ping.number)

    def _check_pongs(self) -> None:
        """Send a ping, or close the websocket if a pong is overdue."""
        if self.is_over:
            return
        oldest = self._pings[0].sent_at if self._pings else self.loop.time()
        # If the buffer is full, the ping may not have been sent yet, so only the write timer applies.
        if self.writable.is_set() and self.loop.time() - oldest > self._stream_settings.websocket_pong_seconds:
            self._fail()
            return
        if not self._pings:
            self.transport.write(self._next_ping(None))
        seconds = min(self._stream_settings.websocket_ping_seconds, self._stream_settings.websocket_pong_seconds)
        self._timer = self.loop.call_later(seconds, self._check_pongs)

    def _fail(self) -> None:
        self.conn.fail(1011, "the client did not respond to a ping in time")
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()
        self.on_end()

    def _abort_stalled(self) -> None:
        _log.info("a websocket was closed because its client did not read the messages")
        self.transport.abort()


def _api_error_of(fault: Exception | None) -> ApiError:
    if isinstance(fault, RequestLineTooLong):
        limit = f"at most {MAX_LINE_LENGTH} bytes"
        return ApiError(414, f"the request line of a websocket may have {limit}; send a shorter one")
    if isinstance(fault, HeaderLineTooLong):
        limit = f"at most {MAX_LINE_LENGTH} bytes"
        return ApiError(431, f"a header in a websocket handshake may have {limit}; send shorter ones")
    if isinstance(fault, TooManyHeaders):
        return ApiError(431, f"more than {MAX_NUM_HEADERS} headers in a websocket handshake; send fewer")
    name = fault.name if isinstance(fault, InvalidHeader) else "Upgrade"
    return ApiError.of_field(name, "invalid in a websocket handshake; send it once, as described in RFC 6455")
