"""The HTTP client of webhooks. It connects only to allowed addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import httpcore
from httpcore import AsyncNetworkBackend, AsyncNetworkStream

from mirror_server.config import Network
from mirror_server.notifications.webhook_limits import LIMIT_SECONDS, CallFailed, is_allowed_address

# The response is read up to this size, so that the connection can be reused. Its content is ignored.
_MAX_RESPONSE_BYTES = 64 * 1024


class _CheckedBackend(AsyncNetworkBackend):
    """A network backend that resolves a name and checks its addresses.

    It connects to exactly these addresses, one after the other.
    """

    def __init__(self, networks: Collection[Network]) -> None:
        self._networks = networks
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        forbidden = [address for address in addresses if not is_allowed_address(address, self._networks)]
        if forbidden or not addresses:
            target = ", ".join(forbidden) or host
            raise CallFailed(f"this server is not allowed to call {target}; --allow-callbacks-to can allow it")
        *others, last = addresses
        # Each address gets an equal part of the time, so that all addresses are tried within the time limit of a call.
        limit_seconds = LIMIT_SECONDS / len(addresses)
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._backend.connect_tcp(address, port, limit_seconds, local_address, socket_options)
        return await self._backend.connect_tcp(last, port, timeout, local_address, socket_options)


class WebhookCaller:
    """A client that calls URLs with ``PUT``."""

    def __init__(self, networks: Collection[Network]) -> None:
        self._networks = networks
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def put(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Call a URL once.

        Raises:
            CallFailed: The URL did not respond with 200 or 204 in time, or its address is not allowed.
        """
        sent = list(headers.items())
        if "content-type" not in map(str.lower, headers):
            sent.append(("Content-Type", "application/json"))
        try:
            async with (
                asyncio.timeout(LIMIT_SECONDS),
                self._connections().stream("PUT", url, headers=sent, content=body) as response,
            ):
                await _drain(response)
        except TimeoutError:
            raise CallFailed(f"no response within {LIMIT_SECONDS} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise CallFailed(f"no response: {type(error).__name__} {error}".rstrip()) from error
        if response.status not in {200, 204}:
            redirects = ", and redirects are not followed" if 300 <= response.status < 400 else ""
            raise CallFailed(f"status {response.status}{redirects}")

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.aclose()

    def _connections(self) -> httpcore.AsyncConnectionPool:
        # Created at the first call, because reading the system's certificates takes longer than the rest of the start.
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=ssl.create_default_context(),
                # There is no limit, because slow URLs would occupy all connections and delay the webhooks of other
                # applications.
                max_connections=None,
                max_keepalive_connections=100,
                network_backend=_CheckedBackend(self._networks),
            )
        return self._pool


async def _drain(response: httpcore.Response) -> None:
    read_bytes = 0
    async for chunk in response.aiter_stream():
        read_bytes += len(chunk)
        if read_bytes > _MAX_RESPONSE_BYTES:
            return
