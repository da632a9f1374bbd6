"""The address of a client: the peer of the connection, or what trusted proxies say in ``X-Forwarded-For``.

Anybody may write that header into a request. It is believed as far as it comes from proxies that the
operator named: from its end back to the first address that is none of theirs.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from mirror_server.config import Address
from mirror_server.extensions.connections.settings import UNIX, Proxy

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_BRACKETED = re.compile(r"\[([^]]*)](?::\d+)?")
_WITH_PORT = re.compile(r"([\d.]+):\d+")
_PREFIX_OF_A_SITE = 64
"""Whoever has an IPv6 address has a network of that many bits, and may use another address of it each time."""


class TrustedProxies:
    """Tells who sent a request, where proxies may stand in front of the server.

    Args:
        proxies: The networks of the proxies that are believed, and :data:`UNIX` for one on a socket file.
    """

    def __init__(self, proxies: tuple[Proxy, ...]) -> None:
        self._networks = tuple(proxy for proxy in proxies if proxy != UNIX)
        self._trusts_unix = UNIX in proxies

    def client_of(self, environ: WSGIEnvironment) -> str:
        """The client of the request with this WSGI environment: an IPv4 address, an IPv6 network (/64), or ``unix``."""
        client = _read(environ.get("REMOTE_ADDR", ""))
        forwarded_for = environ.get("HTTP_X_FORWARDED_FOR", "")
        for text in reversed(forwarded_for.split(",") if forwarded_for else []):
            if not self._trusts(client):
                break
            address = _read(text)
            if address is None:
                break
            client = address
        return _shown(client)

    def _trusts(self, address: Address | None) -> bool:
        if address is None:
            return self._trusts_unix
        return any(address in network for network in self._networks)


def _read(text: str) -> Address | None:
    """The address in a text, where a port may stand behind it; ``None`` for what is not an address."""
    bare = text.strip()
    with_port = _BRACKETED.fullmatch(bare) or _WITH_PORT.fullmatch(bare)
    try:
        address = ipaddress.ip_address(with_port[1] if with_port else bare)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _shown(address: Address | None) -> str:
    if address is None:
        return UNIX
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address), _PREFIX_OF_A_SITE), strict=False))
    return str(address)
