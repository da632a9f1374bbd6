"""Care for hostile connections: what one may send, how long it may take, how many there may be, and who sends it.

- What a connection may before a key is asked for: ``--max-connections`` (each is an open file: the server raises the
  limit of ``ulimit -n`` as far as it may, and does not start where that leaves too few), ``--max-head-bytes``,
  ``--max-headers``, ``--idle-timeout-seconds``.
- Who is believed: ``--trust-proxy`` names the proxies whose ``X-Forwarded-For`` says who sends a request. Wrong keys
  count by the address that the proxy names, and without ``--trust-proxy`` by that of the proxy itself, where all
  clients are one. ``unix`` is a proxy that comes by a socket file. Where several proxies stand in a row, name them all;
  each then adds to the header (``$proxy_add_x_forwarded_for`` of nginx), which is believed from its end back to the
  first address that is no proxy of yours. What a client writes into it itself is never believed.

Leave this extension out only behind a proxy that does the same. Without it connections are those of uvicorn. A head may
have any size and take any time. A client that reads nothing keeps its connection. Fields that follow a body count as
headers, and the body of a request with ``Upgrade`` is lost. The address of a client is that of its connection, and of
IPv6 each address counts by itself.
"""

# To read it begin with ``limits``, then ``connection``.

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.extensions.connections.settings import ConnectionSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_server.server import Services


@extends
def settings() -> type:
    """The limits, and the proxies in front."""
    return ConnectionSettings


@extends
def help_topics() -> dict[str, str]:
    """The limits, and who is believed."""
    return {"connections": __name__}


@extends
def build(services: Services) -> Sequence[object]:
    """The limits of one server."""
    from mirror_server.extensions.connections.limits import ConnectionLimits

    return [ConnectionLimits(services.settings)]
