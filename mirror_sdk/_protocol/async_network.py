"""The network of the asynchronous client, which reuses connections of httpcore."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakSet

import anyio
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
from mirror_sdk._protocol.proxy_and_tls_settings import certificates_for

# synchronous alone: from mirror_sdk._protocol.network_streams import DeadlineBackend, OpenStreams


class AsyncNetwork(httpx.AsyncBaseTransport):
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
        self._maker: httpcore.AsyncConnectionPool | None = None
        self._lock = Lock()
        self._idle: list[httpcore.AsyncConnectionInterface] = []
        # Weak, so that connections that are closed, or that httpcore has lost, need not be removed.
        self._open: WeakSet[httpcore.AsyncConnectionInterface] = WeakSet()
        self._is_closed = False
        # synchronous alone: self._streams = OpenStreams()
        # synchronous alone: self._options["network_backend"] = DeadlineBackend(self._streams)
        # synchronous alone: self.open()

    def open(self) -> httpcore.AsyncConnectionPool:
        """Prepare the network, which takes about 0.1 s. An event loop does this in a thread before the first request.

        Returns:
            A pool that only creates connections and stays empty.

        Raises:
            ConfigError: The certificates of the environment cannot be read.
        """
        if self._maker is None:
            # Loads the modules that anyio imports when it is first used.
            anyio.run(anyio.sleep, 0)  # asynchronous alone
            self._maker = httpcore.AsyncConnectionPool(ssl_context=certificates_for(self._url), **self._options)
        return self._maker

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response, whose body is read on demand."""
        connection = await self._connection()
        try:
            with httpx_errors():
                response = await connection.handle_async_request(httpcore_request(request))
        except BaseException:
            # After an interrupted request, the state of the connection is unknown, so it is not reused.
            await connection.aclose()
            raise
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response, connection, self),
            extensions=response.extensions,
        )

    async def release(self, connection: httpcore.AsyncConnectionInterface) -> None:
        """Store a connection for the next request if it is idle, and close it otherwise."""
        with self._lock:
            is_reusable = connection.is_idle() and len(self._idle) < MAX_IDLE and not self._is_closed
            if is_reusable:
                self._idle.append(connection)
        # Outside the lock, because closing may wait for the network.
        if not is_reusable:
            await connection.aclose()

    async def release_idle(self) -> None:
        """Close the connections that no request is using. The next request opens a new one."""
        with self._lock:
            connections, self._idle = self._idle, []
        for connection in connections:
            await connection.aclose()

    async def aclose(self) -> None:
        """Close all connections, including those in use. Requests that wait for a response fail at once."""
        # synchronous alone: self._streams.hang_up()
        with self._lock:
            self._is_closed = True
            connections = list(self._open)
        for connection in connections:
            await connection.aclose()
        # synchronous alone: self._streams.close()

    async def _connection(self) -> httpcore.AsyncConnectionInterface:
        """Return the most recently used connection or a new one, and close those that were idle for too long."""
        with self._lock:
            expired = [connection for connection in self._idle if connection.has_expired()]
            self._idle = [connection for connection in self._idle if connection not in expired]
            connection = self._idle.pop() if self._idle else None
        for old in expired:
            await old.aclose()
        if connection is None:
            connection = self.open().create_connection(httpcore_url(self._url).origin)
            with self._lock:
                self._open.add(connection)
        return connection


class _Body(httpx.AsyncByteStream):
    """The body of a response, which releases the connection when it is closed."""

    def __init__(
        self, response: httpcore.Response, connection: httpcore.AsyncConnectionInterface, network: AsyncNetwork
    ) -> None:
        self._response = response
        self._connection = connection
        self._network = network
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with httpx_errors():
            async for chunk in self._response.aiter_stream():
                yield chunk

    async def aclose(self) -> None:
        """Release the connection. Later calls do nothing. If this call is cancelled, the connection is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._response.aclose()
        finally:
            await self._network.release(self._connection)
