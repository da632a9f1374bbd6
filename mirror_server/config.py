"""The server's settings."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.callout import Network
from mirror_server.senders import Proxy
from mirror_server.store.url import DEFAULT_URL

ACCESS_LOG = "mirror_server.requests"
"""Name of the logger that has a line for each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may set.

    Attributes:
        database_url: Where the state is; see :class:`mirror_server.store.database.Database`.
        simulate: How many simulated devices there are at least; ``None`` for no bench.
        seed: What the simulated devices are made from.
        manual_clock: Whether domain time stands still until it is advanced.
        pace: How many seconds of a manual clock pass by themselves in a second of real time.
        answer_timeout_seconds: How long an attempt waits for a device's answer.
        max_body_bytes: The largest request body.
        keep_log_seconds: How long a notification is kept.
        keep_log_bytes: How much of notifications is kept for one application.
        callback_networks: Networks webhooks may lead to (``10.0.0.0/8``, ``127.0.0.0/8``), besides public addresses.
        failed_keys_per_minute: How often one address may come with a wrong key before it is told 429.
        trusted_proxies: Which proxies are believed what they say in ``X-Forwarded-For``.
        max_parked_polls: How many polls and event streams may be open at once.
        max_blocking_polls: How many of them may be open where each takes a thread, under another WSGI server.
    """

    database_url: str = DEFAULT_URL
    simulate: int | None = None
    seed: int = 0
    manual_clock: bool = False
    pace: float = 0
    answer_timeout_seconds: float = 120
    max_body_bytes: int = 1024 * 1024
    keep_log_seconds: float = 24 * 3600
    keep_log_bytes: int = 50_000_000
    callback_networks: tuple[Network, ...] = ()
    failed_keys_per_minute: int = 20
    trusted_proxies: tuple[Proxy, ...] = ()
    max_parked_polls: int = 20_000
    max_blocking_polls: int = 8
