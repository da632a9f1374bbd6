# Made from async_network.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The network of the synchronous client, which reuses connections of httpcore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import httpcore
import httpx

from mirror_sdk._fork import Lock
from mirror_sdk._protocol.httpcore_messages import (
    IDLE_SECONDS,
    MAX_IDLE,
    httpcore_proxy,
    httpcore_request,
    httpcore_url,
    httpx_errors,
)
from mirror_sdk._protocol.network_streams import DeadlineBackend, OpenStreams
from mirror_sdk._protocol.proxy_and_tls_settings import certificates_for


class Network(httpx.BaseTransport):
    """A transport that reuses connections, and uses the proxy of the environment for the address.

    A connection belongs to one request until the body of the response is closed. It is reused only if it is then idle.
    httpcore's own pool counts connections instead. If a request is cancelled at the wrong moment, its connection keeps
    a slot forever. After 100 of them, no request can be sent any more (encode/httpcore 830, 1093). This class has no
    count, so a lost connection cannot block others.

    Args:
        base_url: The address to which the requests are sent.

    Raises:
        ConfigError: The proxy of the environment cannot be used.
    """

    def __init__(self, base_url: str) -> None:
        self._url = httpx.URL(base_url)
        self._options: dict[str, Any] = {"proxy": httpcore_proxy(self._url), "keepalive_expiry": IDLE_SECONDS}
        self._maker: httpcore.ConnectionPool | None = None
        self._lock = Lock()
        self._idle: list[httpcore.ConnectionInterface] = []
        # Weak, so that connections that are closed, or that httpcore has lost, need not be removed.
        self._open: WeakSet[httpcore.ConnectionInterface] = WeakSet()
        self._is_closed = False
        self._streams = OpenStreams()
        self._options["network_backend"] = DeadlineBackend(self._streams)
        self.open()

    def open(self) -> httpcore.ConnectionPool:
        """Prepare the network, which takes about 0.1 s.

        Returns:
            A pool that only creates connections and stays empty.

        Raises:
            ConfigError: The certificates of the environment cannot be read.
        """
        if self._maker is None:
            self._maker = httpcore.ConnectionPool(ssl_context=certificates_for(self._url), **self._options)
        return self._maker

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response, whose body is read on demand."""
        connection = self._connection()
        try:
            with httpx_errors():
                response = connection.handle_request(httpcore_request(request))
        except BaseException:
            # After an interrupted request, the state of the connection is unknown, so it is not reused.
            connection.close()
            raise
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response, connection, self),
            extensions=response.extensions,
        )

    def release(self, connection: httpcore.ConnectionInterface) -> None:
        """Store a connection for the next request if it is idle, and close it otherwise."""
        with self._lock:
            is_reusable = connection.is_idle() and len(self._idle) < MAX_IDLE and not self._is_closed
            if is_reusable:
                self._idle.append(connection)
        # Outside the lock, because closing may wait for the network.
        if not is_reusable:
            connection.close()

    def release_idle(self) -> None:
        """Close the connections that no request is using. The next request opens a new one."""
        with self._lock:
            connections, self._idle = self._idle, []
        for connection in connections:
            connection.close()

    def close(self) -> None:
        """Close all connections, including those in use. Requests that wait for a response fail at once."""
        self._streams.hang_up()
        with self._lock:
            self._is_closed = True
            connections = list(self._open)
        for connection in connections:
            connection.close()
        self._streams.close()

    def _connection(self) -> httpcore.ConnectionInterface:
        """Return the most recently used connection or a new one, and close those that were idle for too long."""
        with self._lock:
            expired = [connection for connection in self._idle if connection.has_expired()]
            self._idle = [connection for connection in self._idle if connection not in expired]
            connection = self._idle.pop() if self._idle else None
        for old in expired:
            old.close()
        if connection is None:
            connection = self.open().create_connection(httpcore_url(self._url).origin)
            with self._lock:
                self._open.add(connection)
        return connection


class _Body(httpx.SyncByteStream):
    """The body of a response, which releases the connection when it is closed."""

    def __init__(self, response: httpcore.Response, connection: httpcore.ConnectionInterface, network: Network) -> None:
        self._response = response
        self._connection = connection
        self._network = network
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        with httpx_errors():
            yield from self._response.iter_stream()

    def close(self) -> None:
        """Release the connection. Later calls do nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._response.close()
        finally:
            self._network.release(self._connection)
