"""The settings of connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

from mirror_server.config import SECONDS, Network, read_network, setting

UNIX: Literal["unix"] = "unix"
"""A peer on a socket of this machine's file system, which has no address."""

Proxy = Network | Literal["unix"]


def _read_proxy(text: str) -> Proxy:
    return UNIX if text == UNIX else read_network(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Limits of connections, and the proxies that stand in front."""

    trusted_proxies: tuple[Proxy, ...] = setting(
        (),
        "A proxy whose X-Forwarded-For is believed: its address or network, or 'unix' for one that comes by a"
        " socket file; may be given several times. Without it the header is ignored.",
        option="--trust-proxy",
        type=_read_proxy,
        multiple=True,
        metavar="NETWORK",
    )
    max_connections: int = setting(
        25_000,
        "How many connections may be open; one more is told 503 and ends.",
        type=click.IntRange(min=1),
    )
    max_head_bytes: int = setting(
        64 * 1024,
        "How large request line and headers may be; more is refused with 414 or 431.",
        type=click.IntRange(min=1000),
    )
    max_headers: int = setting(
        100,
        "How many headers a request may have; more are refused with 431.",
        type=click.IntRange(min=10),
    )
    idle_timeout_seconds: float = setting(
        20,
        "How long a connection stays open on which no request begins.",
        type=SECONDS,
    )
