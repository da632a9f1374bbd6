"""The server's settings."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mirror_server.store.url import DEFAULT_URL

ACCESS_LOG = "mirror_server.requests"
"""Name of the logger that has a line for each request."""

LogFormat = Literal["console", "json"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

UNIX: Literal["unix"] = "unix"
"""A peer on a socket of this machine's file system, which has no address."""

Proxy = Network | Literal["unix"]

COAP_PORT = 5683
"""Where CoAP is spoken by default. Source: RFC 7252, 6.1."""

COAPS_PORT = 5684
"""Where CoAP over DTLS is spoken by default. Source: RFC 7252, 6.2."""


class ListenAddress(NamedTuple):
    """Where to listen: a name or an address without brackets, and a port, 0 for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """As it is written in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may set.

    Attributes:
        database_url: Where the state is; see ``mirror_server.store.database``.
        simulate: How many simulated devices there are at least; ``None`` for no bench.
        seed: What the simulated devices are made from.
        manual_clock: Whether domain time stands still until it is advanced.
        pace: How many seconds of a manual clock pass by themselves in a second of real time.
        answer_timeout_seconds: How long an attempt waits for a device's answer.
        max_body_bytes: The largest request body.
        keep_log_seconds: How long a notification is kept.
        keep_log_bytes: How much of notifications is kept for one application.
        keep_device_events_seconds: How long the list of what became of registrations is kept.
        max_device_events: How many entries it has at most, when it was last looked after.
        keep_history_seconds: How long the history is kept; ``None`` for none at all.
        history_archive: Where older days of it go, a folder or a URL; ``None`` for nowhere.
        callback_networks: Networks webhooks may lead to (``10.0.0.0/8``, ``127.0.0.0/8``), besides public addresses.
        failed_keys_per_minute: How often one address may come with a wrong key before it is told 429.
        trusted_proxies: Which proxies are believed what they say in ``X-Forwarded-For``.
        max_parked_polls: How many polls and event streams may be open at once.
        max_blocking_polls: How many of them may be open where each takes a thread, under another WSGI server.
        poll_share: Which part of these places one application may have.
        max_unread_bytes: How much of its answers an application may leave unread before it gets no more of them.
        max_connections: How many connections may be open.
        max_head_bytes: The largest request line with its headers.
        max_headers: How many headers a request may have.
        idle_timeout_seconds: How long a connection stays open on which no request begins.
        request_timeout_seconds: How long the head of a request may take to arrive, and how long its body.
        write_timeout_seconds: How long a client may take to read what is on its way to it.
        websocket_ping_seconds: How often an idle websocket is pinged.
        websocket_pong_seconds: How long a client may take to answer a ping.
        tls_cert: The file of the certificate with which TLS is spoken; ``None`` for plain HTTP.
        tls_key: The file of its key.
        coap: Where real devices come by CoAP in plain text; ``None`` for nowhere.
        coaps: Where they come by CoAP over DTLS, with a pre-shared key each; ``None`` for nowhere.
        coap_insecure: Whether plain CoAP may be spoken beyond this machine.
        coap_awake_seconds: How long after its last message a device in queue mode listens.
        max_coap_devices: How many real devices may be registered at once.
        max_coap_links: How many links one of them may register.
        max_coap_payload_bytes: The largest payload a real device may send, all blocks together.
        coap_registrations_per_minute: How often one address and port may register.
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
    keep_device_events_seconds: float = 30 * 24 * 3600
    max_device_events: int = 1_000_000
    keep_history_seconds: float | None = None
    history_archive: str | None = None
    callback_networks: tuple[Network, ...] = ()
    failed_keys_per_minute: int = 20
    trusted_proxies: tuple[Proxy, ...] = ()
    max_parked_polls: int = 20_000
    max_blocking_polls: int = 8
    poll_share: float = 0.5
    max_unread_bytes: int = 32_000_000
    max_connections: int = 25_000
    max_head_bytes: int = 64 * 1024
    max_headers: int = 100
    idle_timeout_seconds: float = 20
    request_timeout_seconds: float = 30
    write_timeout_seconds: float = 30
    websocket_ping_seconds: float = 20
    websocket_pong_seconds: float = 20
    tls_cert: str | None = None
    tls_key: str | None = None
    coap: ListenAddress | None = None
    coaps: ListenAddress | None = None
    coap_insecure: bool = False
    coap_awake_seconds: float = 93
    max_coap_devices: int = 100_000
    max_coap_links: int = 1000
    max_coap_payload_bytes: int = 64 * 1024
    coap_registrations_per_minute: int = 600
