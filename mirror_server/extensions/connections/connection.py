"""Limits on the size and the duration of requests on a connection, which apply before authentication.

Uvicorn itself stores any number of headers, and starts all pipelined requests of a connection. It also waits without a
limit for a client that sends or reads nothing. It parses the bytes after a request with ``Upgrade`` as a request, even
if they are its body, and treats trailers as headers.
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
from mirror_server.web.serve import Upgrade
from mirror_server.web.wsgi_adapter import WSGIResponse

_LINGER_SECONDS = 2
_MOST_PIPELINED = 16
_MAX_REJECTED_WITH_RESPONSE = 100
_CHUNK_BYTES = 64 * 1024
# The colon, the space and the line end of a header line.
_HEADER_MARKS = 4
_MALFORMED = "this is not an HTTP/1.1 request; use plain HTTP here, and percent-encode paths as ASCII"

_log = logging.getLogger(__name__)

ErrorResponder = Callable[[ApiError, Mapping[str, Any]], WSGIResponse]
"""A function that creates the response to a rejected request.

Its arguments are the error and the parsed members of the request's ASGI scope.
"""


class _Rejected(Exception):
    """Raised to stop the parser. The connection stores the error."""


class BoundedConnection(HttpToolsProtocol):
    """A uvicorn connection with limits.

    Args:
        config: The configuration of uvicorn.
        server_state: The state of the uvicorn server, which contains all connections.
        app_state: The ASGI state of the app.
        _loop: The event loop.
        settings: The limits of the server as a whole.
        limits: The limits of connections.
        error_response: The function that creates the response to a request that is rejected here.
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
        # Uvicorn declares an integer, but only passes this to the event loop, which accepts any number.
        self.timeout_keep_alive = limits.idle_timeout_seconds  # type: ignore[assignment]
        self._error_response = error_response
        self._upgrade = cast("Upgrade | None", self.ws_protocol_class)
        self._api_error: ApiError | None = None
        self._current: RequestResponseCycle | None = None
        self._is_over = False
        self._in_head = False
        self._in_message = False
        # The bytes since the parser last reported the end of a head, of a chunk of a body, or of a message. If a
        # request starts within a chunk of data, after another request, the bytes of that chunk count as slack.
        self._unparsed_bytes = 0
        self._slack_bytes = 0
        self._chunk_bytes = 0
        self._starts_chunk = False
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """Accept the connection, unless too many connections are open."""
        super().connection_made(transport)
        excess = len(self.connections) - self._max_connections
        # Only a limited number of clients above the limit get a response.
        if excess > _MAX_REJECTED_WITH_RESPONSE:
            transport.abort()
        elif excess > 0:
            message = "too many connections are open on this server; try again later, and close those you do not use"
            self._reject(ApiError(503, message, reason="TOO_MANY_CONNECTIONS", retry_after_seconds=5))
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers and the current request."""
        self._is_over = True
        self._stop_timers()
        self._abandon_response()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data in chunks.

        The parser does not report exactly how many bytes of a chunk belong to which request.
        """
        if self._is_over:
            return
        size = len(data)
        if size > _CHUNK_BYTES:
            for begin in range(0, size, _CHUNK_BYTES):
                self.data_received(data[begin : begin + _CHUNK_BYTES])
            return
        self._chunk_bytes = size
        self._unparsed_bytes += size
        self._starts_chunk = not self._in_message
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._timer is None and not (self._in_message or self._starts_chunk):
            # This is the most frequent case: a complete request has arrived.
            return
        if not self._is_over:
            self._check_limits()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            try:
                take_over = self._upgrade(self) if self._upgrade and not self._is_responding() else None
            except ApiError as api_error:
                self._reject(api_error)
                return
            if take_over is not None:
                self._is_over = True
                self._stop_timers()
                self.connections.discard(self)
                take_over(rest)
                return
            self._parse_without_upgrade()
            if not self._is_over:
                self._parse(rest)
        except httptools.HttpParserError:
            self._reject(self._api_error or ApiError(400, _MALFORMED))

    def _parse_without_upgrade(self) -> None:
        """Parse the head again without ``Upgrade``, which a server may ignore (RFC 9110 7.8).

        Otherwise the parser would treat the following bytes as another protocol. The app still receives the header.
        """
        upgrades = [header for header in self.headers if header[0] == b"upgrade"]
        others = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        version = self.parser.get_http_version().encode()
        start = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)
        self.parser = httptools.HttpRequestParser(self)
        self._parse(b"\r\n".join([start, *others, b"", b""]))
        self.scope["headers"] = [*self.scope["headers"], *upgrades]

    def _check_limits(self) -> None:
        """Reject a head that is too large. Start or stop the timer for an incomplete request."""
        api_error = self._head_error() if self._in_head else None
        if api_error is None and self._unparsed_bytes > self._max_head_bytes:
            api_error = self._too_large()
        if api_error is not None:
            self._reject(api_error)
        elif not self._in_head and (self._in_message or self._is_responding()):
            self._stop_timer()
        elif self._timer is None:
            slow = ApiError(408, "the request did not arrive in time; send it without pauses")
            self._timer = self.loop.call_later(self._settings.request_timeout_seconds, self._reject, slow)

    def _is_responding(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)

    def on_message_begin(self) -> None:
        """Start a request. Called by the parser."""
        super().on_message_begin()
        self._in_head = self._in_message = True
        self._unparsed_bytes, self._slack_bytes = self._chunk_bytes, 0
        if not self._starts_chunk:
            self._unparsed_bytes, self._slack_bytes = 0, self._chunk_bytes

    def on_headers_complete(self) -> None:
        """Check the head and start the request. Called by the parser, which stops after an exception."""
        if len(self.headers) > self._max_headers or self._unparsed_bytes + self._slack_bytes > self._max_head_bytes:
            self._api_error = self._head_error()
        if self._api_error is None and len(self.pipeline) >= _MOST_PIPELINED:
            self._api_error = ApiError(400, "too many pipelined requests; read their responses before you send more")
        if self.parser.should_upgrade():
            if self._api_error is None and self.parser.get_method() != b"CONNECT":
                return
            self._api_error = self._api_error or ApiError(400, "this server is not a proxy: do not use CONNECT")
        if self._api_error is not None:
            raise _Rejected
        super().on_headers_complete()
        # The parser reports trailers in the same way as headers. They are counted separately and never used, because a
        # proxy in front of the server checks and replaces only headers (RFC 9110 6.5.1).
        self.headers = []
        if not self.pipeline:
            self._current = self.cycle
        self._in_head = False
        self._unparsed_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Append to the body of the request. Called by the parser."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Complete the request. Called by the parser, which stops after an exception."""
        if self._in_head:
            # The upgrade is ignored, and the head is parsed again.
            return
        if self.headers:
            self._api_error = self._trailer_error()
            if self._api_error is not None:
                raise _Rejected
            # The parser also considers a ``Connection: close`` in the trailers.
            self.cycle.keep_alive = self.cycle.keep_alive and self.parser.should_keep_alive()
        self._in_message = self._starts_chunk = False
        self._unparsed_bytes = 0
        super().on_message_complete()

    def _trailer_error(self) -> ApiError | None:
        if len(self.headers) > self._max_headers:
            return ApiError(431, f"more than {self._max_headers} trailers; send fewer")
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
            return ApiError(400, f"more than {limit} of line ends, chunk extensions or trailers; send fewer")
        if len(self.url) > self._max_head_bytes / 2:
            return ApiError(414, f"request line and headers are larger than {limit}; request less data at a time")
        return ApiError(431, f"request line and headers are larger than {limit}; send fewer or shorter headers")

    def _reject(self, api_error: ApiError) -> None:
        """Stop reading and respond with an error.

        If a response is in progress, it becomes the last response instead.
        """
        self._is_over = True
        self._stop_timer()
        if self._is_responding():
            # The response in progress belongs to an earlier request, and stays valid.
            if self._in_head or not self._in_message:
                self.cycle.keep_alive = False
                return
            self._abandon_response()
            # An error response would be inside another response, or would be taken for the response to an earlier
            # request.
            if self.cycle.response_started or self.pipeline:
                self._end()
                return
        self._write(self._error_response(api_error, self.scope if self._in_message else {"client": self.client}))
        self._linger()

    def _abandon_response(self) -> None:
        """Mark the current request as disconnected, because uvicorn marks only the request that arrived last."""
        if self._current is not None and not self._current.response_complete:
            self._current.disconnected = True
            self._current.message_event.set()

    def _write(self, response: WSGIResponse) -> None:
        common = [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        end = (response.lines, b"connection: close\r\n\r\n", response.body)
        self.transport.write(b"".join([STATUS_LINE[response.status], *common, *end]))

    def _linger(self) -> None:
        """Close the connection for writing and discard further input.

        Closing it with unread input could destroy a response.
        """
        self._is_over = True
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        # TLS cannot close only one direction.
        if not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()
        self._end_within(_LINGER_SECONDS)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, because it was idle for too long. Called by the timer."""
        self._end()

    def on_response_complete(self) -> None:
        """Prepare for the next request. Called by uvicorn when a response was passed to the transport."""
        if self.pipeline:
            self._current = self.pipeline[-1][0]
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None and not self._in_message:
            # This is the most frequent case: the connection waits for the next request.
            return
        if self.transport.is_closing():
            self._end_within(self._settings.write_timeout_seconds)
        elif self._in_message and not self._in_head and self.cycle.response_complete:
            # The rest of a rejected body may still arrive.
            self._linger()

    def _end(self) -> None:
        """Close the connection as soon as the client has read the response."""
        self._is_over = True
        self.transport.close()
        self._end_within(self._settings.write_timeout_seconds)

    def _end_within(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def pause_writing(self) -> None:
        """Start the write timer. Called by the transport if the client reads too slowly."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._settings.write_timeout_seconds, self._note_stalled)

    def resume_writing(self) -> None:
        """Stop the write timer. Called by the transport when the client has caught up."""
        self._stop_write_timer()
        super().resume_writing()

    def _note_stalled(self) -> None:
        _log.info("a connection was closed because its client did not read the response")
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
