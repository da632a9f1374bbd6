"""Bounds what a connection may send and how long it may take, before any key is asked for.

uvicorn keeps the headers of a request however many come, begins as many requests of one connection as arrive, and
waits for ever for a client that says nothing or takes nothing. What comes behind a request with ``Upgrade`` it reads as
a request, be it the body, and trailers as headers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mirror_server.config import Settings
from mirror_server.core.errors import ApiError
from mirror_server.extensions.connections.settings import ConnectionSettings
from mirror_server.web.asgi import WSGIResponse
from mirror_server.web.serve import Upgrade

_LINGER_SECONDS = 2
_MOST_PIPELINED = 16
_MAX_LOGGED = 100
_PIECE_BYTES = 64 * 1024
_HEADER_MARKS = 4
_MALFORMED = "this is not a request of HTTP/1.1; plain HTTP is spoken here, and paths are percent-encoded ASCII"

_log = logging.getLogger(__name__)

ErrorResponder = Callable[[ApiError, Mapping[str, Any]], WSGIResponse]
"""Makes the answer of a refusal, given what is known of the request as an ASGI scope."""


class _Rejected(Exception):
    """Stops the parser; the refusal itself is kept by the connection."""


class BoundedConnection(HttpToolsProtocol):
    """A connection of uvicorn's with limits.

    Args:
        config: uvicorn's.
        server_state: uvicorn's; it knows all connections.
        app_state: uvicorn's.
        _loop: uvicorn's.
        settings: The limits that others have too.
        limits: Those of connections alone.
        error_response: Makes the answer of what is refused here.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        settings: Settings,
        limits: ConnectionSettings,
        error_response: ErrorResponder,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._settings = settings
        self._max_connections = limits.max_connections
        self._max_headers, self._max_head_bytes = limits.max_headers, limits.max_head_bytes
        # It is only given to the event loop, which takes any number.
        self.timeout_keep_alive = limits.idle_timeout_seconds  # type: ignore[assignment]
        self._error_response = error_response
        self._upgrade = cast("Upgrade | None", self.ws_protocol_class)
        self._api_error: ApiError | None = None
        self._responding: RequestResponseCycle | None = None
        self._is_over = False
        self._in_head = False
        self._in_message = False
        # Bytes since the parser last told of something that ends: a head, a piece of a body, a message. They lack
        # what stood in the piece in which a request began behind another one, which is no more than the slack.
        self._unparsed_bytes = 0
        self._slack_bytes = 0
        self._piece_bytes = 0
        self._begins_piece = False
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Begin, unless there are too many connections."""
        super().connection_made(transport)
        excess = len(self.connections) - self._max_connections
        if excess > _MAX_LOGGED:
            transport.abort()
        elif excess > 0:
            message = "too many connections are open on this server; try again later, and close those you do not use"
            self._reject(ApiError(503, message, reason="TOO_MANY_CONNECTIONS", retry_after_seconds=5))
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was to happen with it."""
        self._is_over = True
        self._stop_timers()
        self._abandon_response()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, in pieces: how much of one belongs to which request is not known exactly."""
        if self._is_over:
            return
        size = len(data)
        if size > _PIECE_BYTES:
            for begin in range(0, size, _PIECE_BYTES):
                self.data_received(data[begin : begin + _PIECE_BYTES])
            return
        self._piece_bytes = size
        self._unparsed_bytes += size
        self._begins_piece = not self._in_message
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._timer is None and not (self._in_message or self._begins_piece):
            # Nearly always: a whole request came.
            return
        if not self._is_over:
            self._look()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            try:
                take_over = self._upgrade(self) if self._upgrade and not self._is_answering() else None
            except ApiError as api_error:
                self._reject(api_error)
                return
            if take_over is not None:
                self._is_over = True
                self._stop_timers()
                self.connections.discard(self)
                take_over(rest)
                return
            self._begin_again()
            if not self._is_over:
                self._parse(rest)
        except httptools.HttpParserError:
            self._reject(self._api_error or ApiError(400, _MALFORMED))

    def _begin_again(self) -> None:
        """Read the head as one without ``Upgrade``, which may be ignored (RFC 9110 7.8).

        The parser takes what follows that header for another protocol. The app gets to know of it all the same.
        """
        upgrades = [header for header in self.headers if header[0] == b"upgrade"]
        others = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        version = self.parser.get_http_version().encode()
        start = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)
        self.parser = httptools.HttpRequestParser(self)
        self._parse(b"\r\n".join([start, *others, b"", b""]))
        self.scope["headers"] = [*self.scope["headers"], *upgrades]

    def _look(self) -> None:
        """Refuse what is too large, and give what is to come its time."""
        api_error = self._head_error() if self._in_head else None
        if api_error is None and self._unparsed_bytes > self._max_head_bytes:
            api_error = self._too_large()
        if api_error is not None:
            self._reject(api_error)
        elif not self._in_head and (self._in_message or self._is_answering()):
            self._stop_timer()
        elif self._timer is None:
            slow = ApiError(408, "the request did not arrive in time; send it at once")
            self._timer = self.loop.call_later(self._settings.request_timeout_seconds, self._reject, slow)

    def _is_answering(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)

    def on_message_begin(self) -> None:
        """Called by the parser."""
        super().on_message_begin()
        self._in_head = self._in_message = True
        self._unparsed_bytes, self._slack_bytes = self._piece_bytes, 0
        if not self._begins_piece:
            self._unparsed_bytes, self._slack_bytes = 0, self._piece_bytes

    def on_headers_complete(self) -> None:
        """Called by the parser; raising stops it."""
        if len(self.headers) > self._max_headers or self._unparsed_bytes + self._slack_bytes > self._max_head_bytes:
            self._api_error = self._head_error()
        if self._api_error is None and len(self.pipeline) >= _MOST_PIPELINED:
            self._api_error = ApiError(
                400, "too many requests came before their answers; wait for these, then send more"
            )
        if self.parser.should_upgrade():
            if self._api_error is None and self.parser.get_method() != b"CONNECT":
                return
            self._api_error = self._api_error or ApiError(400, "this is not a proxy: CONNECT is not spoken here")
        if self._api_error is not None:
            raise _Rejected
        super().on_headers_complete()
        # The parser tells of trailers as of headers. They are counted apart and never read: a proxy in front checks and
        # replaces headers alone (RFC 9110 6.5.1).
        self.headers = []
        if not self.pipeline:
            self._responding = self.cycle
        self._in_head = False
        self._unparsed_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser; raising stops it."""
        if self._in_head:
            # It goes on without its upgrade.
            return
        if self.headers:
            self._api_error = self._trailer_error()
            if self._api_error is not None:
                raise _Rejected
            # ``Connection: close`` ends what the parser reads even here.
            self.cycle.keep_alive = self.cycle.keep_alive and self.parser.should_keep_alive()
        self._in_message = self._begins_piece = False
        self._unparsed_bytes = 0
        super().on_message_complete()

    def _trailer_error(self) -> ApiError | None:
        if len(self.headers) > self._max_headers:
            return ApiError(431, f"more than {self._max_headers} trailers; leave them out")
        return self._too_large() if self._header_bytes() > self._max_head_bytes else None

    def _head_error(self) -> ApiError | None:
        if len(self.headers) > self._max_headers:
            return ApiError(431, f"more than {self._max_headers} headers; send fewer")
        most = self._max_head_bytes
        if self._unparsed_bytes + self._slack_bytes > most and len(self.url) + self._header_bytes() > most:
            return self._too_large()
        return None

    def _header_bytes(self) -> int:
        return sum(len(name) + len(value) + _HEADER_MARKS for name, value in self.headers)

    def _too_large(self) -> ApiError:
        limit = f"{self._max_head_bytes} bytes"
        if not self._in_head:
            return ApiError(400, f"more than {limit} of line ends, chunk extensions or trailers; leave them out")
        if len(self.url) > self._max_head_bytes / 2:
            return ApiError(414, f"request line and headers are larger than {limit}; ask for less at a time")
        return ApiError(431, f"request line and headers are larger than {limit}; send fewer or shorter headers")

    def _reject(self, api_error: ApiError) -> None:
        """Read no more; answer, unless an answer is under way, which then is the last one."""
        self._is_over = True
        self._stop_timer()
        if self._is_answering():
            if self._in_head or not self._in_message:
                self.cycle.keep_alive = False
                return
            self._abandon_response()
            if self.cycle.response_started or self.pipeline:
                self._end()
                return
        self._write(self._error_response(api_error, self.scope if self._in_message else {"client": self.client}))
        self._linger()

    def _abandon_response(self) -> None:
        """Tell the request that is being answered that its client is gone; uvicorn tells only the last that came."""
        if self._responding is not None and not self._responding.response_complete:
            self._responding.disconnected = True
            self._responding.message_event.set()

    def _write(self, response: WSGIResponse) -> None:
        common = [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        end = (response.lines, b"connection: close\r\n\r\n", response.body)
        self.transport.write(b"".join([STATUS_LINE[response.status], *common, *end]))

    def _linger(self) -> None:
        """Say that no more is sent, and drop what still comes: closing at once would take the answer away again."""
        self._is_over = True
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        if not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()
        self._end_within(_LINGER_SECONDS)

    def timeout_keep_alive_handler(self) -> None:
        """Called when no request began for a while."""
        self._end()

    def on_response_complete(self) -> None:
        """Called by uvicorn when an answer is handed over to be sent."""
        if self.pipeline:
            self._responding = self.pipeline[-1][0]
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None and not self._in_message:
            # Nearly always: the next request is waited for.
            return
        if self.transport.is_closing():
            self._end_within(self._settings.write_timeout_seconds)
        elif self._in_message and not self._in_head and self.cycle.response_complete:
            # The rest of a body that was refused.
            self._linger()

    def _end(self) -> None:
        """Close it as soon as the client took what was sent."""
        self._is_over = True
        self.transport.close()
        self._end_within(self._settings.write_timeout_seconds)

    def _end_within(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def pause_writing(self) -> None:
        """Called by the transport when much waits for the client to take it."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._settings.write_timeout_seconds, self._note_stalled)

    def resume_writing(self) -> None:
        """Called by the transport when little waits."""
        self._stop_write_timer()
        super().resume_writing()

    def _note_stalled(self) -> None:
        _log.info("a connection was ended: its client did not take what was sent")
        self.transport.abort()

    def _stop_timers(self) -> None:
        self._unset_keepalive_if_required()
        self._stop_timer()
        self._stop_write_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
