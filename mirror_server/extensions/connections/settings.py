"""The settings of connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

from mirror_server.config import SECONDS, Network, read_network, setting

UNIX: Literal["unix"] = "unix"
"""A peer that connects through a Unix socket, which has no address."""

Proxy = Network | Literal["unix"]


def _read_proxy(text: str) -> Proxy:
    return UNIX if text == UNIX else read_network(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The limits of connections, and the trusted proxies in front of the server."""

    trusted_proxies: tuple[Proxy, ...] = setting(
        (),
        "A proxy whose X-Forwarded-For the server trusts: its address or network, or 'unix' for one that connects"
        " through a Unix socket. Can be repeated. By default the server ignores the header.",
        option="--trust-proxy",
        type=_read_proxy,
        multiple=True,
        metavar="NETWORK",
    )
    max_connections: int = setting(
        25_000,
        "Maximum number of open connections. Beyond this, the server responds with 503 and closes the connection.",
        type=click.IntRange(min=1),
    )
    max_head_bytes: int = setting(
        64 * 1024,
        "Maximum size in bytes of the request line and headers. The server rejects larger ones with 414 or 431.",
        type=click.IntRange(min=1000),
    )
    max_headers: int = setting(
        100,
        "Maximum number of headers of a request. The server rejects more with 431.",
        type=click.IntRange(min=10),
    )
    idle_timeout_seconds: float = setting(
        20,
        "Seconds after which the server closes a connection without a request. A proxy that reuses connections should"
        " close them earlier.",
        type=SECONDS,
    )
