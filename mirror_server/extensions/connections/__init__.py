"""Limits on connections before authentication, and trusted proxies.

For example, behind a proxy on the same machine::

    mirror-server run --max-connections 2000 --idle-timeout-seconds 60 --trust-proxy 127.0.0.1

Limits before authentication
----------------------------

``--max-connections``, ``--max-head-bytes``, ``--max-headers`` and ``--idle-timeout-seconds`` limit each connection.
Every connection is an open file. The server raises the limit of ``ulimit -n`` as far as it is allowed to, and does not
start if the limit is still too low.

Trusted proxies
---------------

``--trust-proxy`` lists the proxies whose ``X-Forwarded-For`` identifies the client. Failed authentication is counted by
that address. Without ``--trust-proxy`` it is counted by the address of the proxy, which is the same for all clients.
``unix`` is a proxy that connects by a socket file.

List all proxies of a chain. Each of them has to add to the header (``$proxy_add_x_forwarded_for`` of nginx). The server
reads the header from its end to the first address that is not one of your proxies. Addresses that a client writes into
the header itself are never trusted.

Without this extension
----------------------

Leave this extension out only behind a proxy that does the same. Without it:

- uvicorn handles the connections. A request head can have any size and can take any time to arrive.
- A client that reads nothing keeps its connection.
- Trailer fields after a body count as headers, and the body of a request with ``Upgrade`` is lost.
- The address of a client is the address of its connection, and each IPv6 address counts separately.
"""

# Start reading with ``limits``, then ``connection``.

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.extensions.connections.settings import ConnectionSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_server.server import Services


@extends
def settings() -> type:
    """Return the settings: the limits, and the trusted proxies."""
    return ConnectionSettings


@extends
def help_topics() -> dict[str, str]:
    """Return the help about the limits and trusted proxies."""
    return {"connections": __name__}


@extends
def build(services: Services) -> Sequence[object]:
    """Return the limits of one server."""
    from mirror_server.extensions.connections.limits import ConnectionLimits

    return [ConnectionLimits(services.settings)]
