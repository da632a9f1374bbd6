"""The address of a client: the peer of the connection, or the client that trusted proxies name in ``X-Forwarded-For``.

Any client can write that header itself. So it is trusted only as far as trusted proxies have extended it. It is read
from its end, up to the first address that does not belong to a trusted proxy.
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
"""The prefix length of an IPv6 network that usually belongs to one client.

Such a client can change its address within the network at will.
"""


class TrustedProxies:
    """The trusted proxies, which determine the client of a forwarded request.

    Args:
        proxies: The networks of trusted proxies, and :data:`UNIX` for a proxy that connects through a Unix socket.
    """

    def __init__(self, proxies: tuple[Proxy, ...]) -> None:
        self._networks = tuple(proxy for proxy in proxies if proxy != UNIX)
        self._trusts_unix = UNIX in proxies

    def client_of(self, environ: WSGIEnvironment) -> str:
        """Return the client of a request: an IPv4 address, an IPv6 network (/64), or ``unix``."""
        client = _read(environ.get("REMOTE_ADDR", ""))
        forwarded_for = environ.get("HTTP_X_FORWARDED_FOR", "")
        for text in reversed(forwarded_for.split(",") if forwarded_for else []):
            if not self._trusts(client):
                break
            address = _read(text)
            if address is None:
                break
            client = address
        return _format(client)

    def _trusts(self, address: Address | None) -> bool:
        if address is None:
            return self._trusts_unix
        return any(address in network for network in self._networks)


def _read(text: str) -> Address | None:
    """Parse an address with or without a port. Return ``None`` if the string is not an address."""
    bare = text.strip()
    with_port = _BRACKETED.fullmatch(bare) or _WITH_PORT.fullmatch(bare)
    try:
        address = ipaddress.ip_address(with_port[1] if with_port else bare)
    except ValueError:
        return None
    # A socket for both address families returns IPv4 clients as mapped IPv6 addresses.
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _format(address: Address | None) -> str:
    if address is None:
        return UNIX
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address), _PREFIX_OF_A_SITE), strict=False))
    return str(address)
