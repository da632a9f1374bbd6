"""The network of the asynchronous client: connections of httpcore, opened in a thread and kept in a list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from weakref import WeakSet

import anyio
import httpcore
import httpx

from mirror_sdk._protocol.environment import certificates_for
from mirror_sdk._protocol.httpcore_messages import (
    IDLE_SECONDS,
    MOST_IDLE,
    httpcore_proxy,
    httpcore_request,
    httpcore_url,
    httpx_errors,
)


class AsyncNetwork(httpx.AsyncBaseTransport):
    """Carries requests over reused connections, through the proxy that the environment names for the address.

    A connection belongs to one request until the body of its response is closed, and is reused only when it is idle
    then. httpcore's pool counts connections instead: one whose request is cancelled at the wrong moment keeps its slot
    forever, and after 100 of them no request is sent any more (encode/httpcore 830, 1093). Here there is no count, so
    a connection that is lost cannot block the others.

    Args:
        base_url: Where the requests go.

    Raises:
        ConfigError: The environment names no proxy that can be used.
    """

    def __init__(self, base_url: str) -> None:
        self._url = httpx.URL(base_url)
        self._proxy = httpcore_proxy(self._url)
        self._maker: httpcore.AsyncConnectionPool | None = None
        self._idle: list[httpcore.AsyncConnectionInterface] = []
        self._open: WeakSet[httpcore.AsyncConnectionInterface] = WeakSet()
        self._is_closed = False

    def open(self) -> httpcore.AsyncConnectionPool:
        """Make it ready, which takes a tenth of a second: to be done in a thread before anything is sent.

        Returns:
            A pool that makes connections and stays empty.

        Raises:
            ConfigError: The certificates that the environment names cannot be read.
        """
        if self._maker is None:
            # Loads what anyio loads where it is wanted first.
            anyio.run(anyio.sleep, 0)
            self._maker = httpcore.AsyncConnectionPool(
                ssl_context=certificates_for(self._url), proxy=self._proxy, keepalive_expiry=IDLE_SECONDS
            )
        return self._maker

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the body of the response is read as it is wanted."""
        connection = await self._connection()
        try:
            with httpx_errors():
                response = await connection.handle_async_request(httpcore_request(request))
        except BaseException:
            await connection.aclose()
            raise
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response, connection, self),
            extensions=response.extensions,
        )

    async def release(self, connection: httpcore.AsyncConnectionInterface) -> None:
        """Keep a connection for the next request if it is idle, and close it otherwise."""
        if connection.is_idle() and len(self._idle) < MOST_IDLE and not self._is_closed:
            self._idle.append(connection)
        else:
            await connection.aclose()

    async def aclose(self) -> None:
        """Close the connections, also those that are in use."""
        self._is_closed = True
        connections = list(self._open)
        self._idle.clear()
        for connection in connections:
            await connection.aclose()

    async def _connection(self) -> httpcore.AsyncConnectionInterface:
        """The connection that was used last, or a new one; those that were idle for too long are closed."""
        while expired := next((connection for connection in self._idle if connection.has_expired()), None):
            self._idle.remove(expired)
            await expired.aclose()
        if self._idle:
            return self._idle.pop()
        connection = self.open().create_connection(httpcore_url(self._url).origin)
        self._open.add(connection)
        return connection


class _Body(httpx.AsyncByteStream):
    """The body of a response; closing it releases the connection."""

    def __init__(
        self, response: httpcore.Response, connection: httpcore.AsyncConnectionInterface, network: AsyncNetwork
    ) -> None:
        self._response = response
        self._connection = connection
        self._network = network
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with httpx_errors():
            async for piece in self._response.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        """Release the connection, once; it is closed if this is cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._response.aclose()
        finally:
            await self._network.release(self._connection)
