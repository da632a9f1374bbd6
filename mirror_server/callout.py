"""Calling an application's URL: which addresses may be called, and one call. Source: wire.md 4.

The address is checked where the connection is made, against what the name resolves to there and then, so that a name
cannot point somewhere else between the check and the call. Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import httpcore
from httpcore import AsyncNetworkBackend, AsyncNetworkStream

LIMIT_SECONDS = 20
"""How long one call may take."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class CallFailed(Exception):
    """The URL did not answer with 200 or 204; the message says what it did instead."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which addresses may be called: public ones, those of ``networks``, and this machine's own with ``loopback``."""

    loopback: bool
    networks: tuple[Network, ...] = ()

    def allows(self, address: str) -> bool:
        """Whether this address may be called."""
        parsed = _plain(ipaddress.ip_address(address))
        if any(parsed in network for network in self.networks):
            return True
        if parsed.is_loopback:
            return self.loopback
        return parsed.is_global and not parsed.is_multicast


def _plain(address: Address) -> Address:
    """The IPv4 address inside a mapped IPv6 one: they reach the same place."""
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


class _CheckedBackend(AsyncNetworkBackend):
    """Resolves, checks, and connects to the very address that was checked."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
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
        addresses = [str(entry[4][0]) for entry in found]
        refused = [address for address in addresses if not self._policy.allows(address)]
        if refused or not addresses:
            raise CallFailed(f"the address {', '.join(refused) or host} may not be called; the operator can allow it")
        return await self._backend.connect_tcp(addresses[0], port, timeout, local_address, socket_options)


class Caller:
    """Calls URLs with ``PUT``."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=None,
            max_keepalive_connections=100,
            network_backend=_CheckedBackend(policy),
        )

    async def put(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Call once.

        Raises:
            CallFailed: It was not answered with 200 or 204 in time, or may not be called.
        """
        sent: Sequence[tuple[str, str]] = [("Content-Type", "application/json"), *headers.items()]
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                response = await self._pool.request("PUT", url, headers=sent, content=body)
        except TimeoutError:
            raise CallFailed(f"no answer within {LIMIT_SECONDS} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise CallFailed(f"no answer: {type(error).__name__} {error}".rstrip()) from error
        if response.status not in {200, 204}:
            raise CallFailed(f"answered {response.status}; 200 or 204 is needed")

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()
