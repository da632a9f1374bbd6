"""The limits on calls of webhooks: the allowed addresses, and the time."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from mirror_server.config import Address, Network

LIMIT_SECONDS = 20
"""The time limit of one call in seconds."""


class CallFailed(Exception):
    """The URL did not respond with 200 or 204. The message contains the reason for the operator."""


def is_allowed_address(address: str, networks: Collection[Network]) -> bool:
    """Return whether webhooks to an address are allowed. An address must be public, or in the operator's networks."""
    resolved = ipaddress.ip_address(address)
    effective = _effective(resolved)
    return _is_public(effective) or any(each in network for network in networks for each in (resolved, effective))


LOOPBACK: tuple[Network, ...] = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))
"""The addresses of this machine itself."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""The public unicast addresses. :mod:`ipaddress` also considers many other addresses as global."""

# RFC 9637. Python 3.11 counts these addresses as global.
_DOCUMENTATION = ipaddress.IPv6Network("3fff::/20")


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address not in _UNICAST or address in _DOCUMENTATION):
        return False
    return address.is_global and not address.is_multicast


def _effective(address: Address) -> Address:
    """Return the IPv4 address in a mapped, NAT64 or 6to4 address, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    # Such an IPv6 address leads to an IPv4 address, which must be checked too.
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
