"""Calling an application's URL: which addresses may be called, and one call. Source: wire.md 4.

The address is checked where the connection is made, against what the name resolves to there and then, so that a name
cannot point somewhere else between the check and the call. Redirects are never followed. Why a call failed is for the
operator alone: told to an application, it would tell what listens in the operator's networks.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import httpcore
from httpcore import AsyncNetworkBackend, AsyncNetworkStream

from mirror_server.config import Network

LIMIT_SECONDS = 20
"""How long one call may take."""

# So much of an answer is read, for the connection to be used again; nobody looks at it.
_MOST_ANSWER_BYTES = 64 * 1024

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class CallFailed(Exception):
    """The URL did not answer with 200 or 204; the message says to the operator what it did instead."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which addresses may be called: public ones, and those of the operator's ``networks``."""

    networks: tuple[Network, ...] = ()

    def allows(self, address: str) -> bool:
        """Whether this address may be called."""
        given = ipaddress.ip_address(address)
        reached = _reached(given)
        return _is_public(reached) or any(place in network for network in self.networks for place in (given, reached))


LOOPBACK: tuple[Network, ...] = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))
"""This machine itself."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that is given out for the public network; :mod:`ipaddress` calls much of what is outside of it global too."""

_DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address not in _UNICAST or address in _DOCUMENTATION):
        return False
    return address.is_global and not address.is_multicast


def _reached(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, mapped or through a gateway: they reach the same place."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


class _CheckedBackend(AsyncNetworkBackend):
    """Resolves, checks, and connects to the very addresses that were checked, one after the other until one answers."""

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
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        refused = [address for address in addresses if not self._policy.allows(address)]
        if refused or not addresses:
            where = ", ".join(refused) or host
            raise CallFailed(f"the address {where} may not be called; --allow-callbacks-to can allow it")
        *others, last = addresses
        patience_seconds = LIMIT_SECONDS / len(addresses)
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._backend.connect_tcp(address, port, patience_seconds, local_address, socket_options)
        return await self._backend.connect_tcp(last, port, timeout, local_address, socket_options)


class Caller:
    """Calls URLs with ``PUT``."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def put(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Call once.

        Raises:
            CallFailed: It was not answered with 200 or 204 in time, or may not be called.
        """
        sent = list(headers.items())
        if "content-type" not in map(str.lower, headers):
            sent.append(("Content-Type", "application/json"))
        try:
            async with (
                asyncio.timeout(LIMIT_SECONDS),
                self._connections().stream("PUT", url, headers=sent, content=body) as answer,
            ):
                await _read_a_part(answer)
        except TimeoutError:
            raise CallFailed(f"no answer within {LIMIT_SECONDS} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise CallFailed(f"no answer: {type(error).__name__} {error}".rstrip()) from error
        if answer.status not in {200, 204}:
            redirects = ", and redirects are not followed" if 300 <= answer.status < 400 else ""
            raise CallFailed(f"answered {answer.status}{redirects}")

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.aclose()

    def _connections(self) -> httpcore.AsyncConnectionPool:
        # With the first call: to read all certificates the system trusts takes longer than to start most of a server.
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=ssl.create_default_context(),
                max_connections=None,
                max_keepalive_connections=100,
                network_backend=_CheckedBackend(self._policy),
            )
        return self._pool


async def _read_a_part(answer: httpcore.Response) -> None:
    read_bytes = 0
    async for chunk in answer.aiter_stream():
        read_bytes += len(chunk)
        if read_bytes > _MOST_ANSWER_BYTES:
            return
