"""The settings of real devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import click

from mirror_server.config import SECONDS, SERVE, ListenAddress, setting

COAP_PORT = 5683
"""Where CoAP is spoken by default. Source: RFC 7252, 6.1."""

COAPS_PORT = 5684
"""Where CoAP over DTLS is spoken by default. Source: RFC 7252, 6.2."""

# An address of IPv6 stands in brackets, or without a port.
_LISTEN_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<name>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)


def _read_address(default_port: int) -> Callable[[str], ListenAddress]:
    """Reads ``127.0.0.1:5683``, ``[::1]:5683``, ``localhost``, ``[::]``; the type of an option."""

    def read(text: str) -> ListenAddress:
        found = _LISTEN_ADDRESS.fullmatch(text)
        if found is None:
            raise click.BadParameter(
                f"{text!r} is no address to listen on; write it like 127.0.0.1:{default_port} or [::1]"
            )
        port = int(found["port"]) if found["port"] else default_port
        if port > 65535:
            raise click.BadParameter(f"{port} is no port; write one up to 65535, or 0 for a free one")
        return ListenAddress(found["v6"] or found["name"], port)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class LwM2MSettings:
    """Where real devices come, and what they may."""

    coap: ListenAddress | None = setting(
        None,
        "Have real devices come by CoAP there, by LwM2M 1.0 or 1.1: 127.0.0.1:5683, [::1]:5683. Without a port 5683,"
        " and 0 takes a free one.",
        type=_read_address(COAP_PORT),
        metavar="HOST:PORT",
        commands=(*SERVE, "demo"),
    )
    coaps: ListenAddress | None = setting(
        None,
        "Have real devices come by CoAP over DTLS there, each with the pre-shared key that 'devices add' made.",
        type=_read_address(COAPS_PORT),
        metavar="HOST:PORT",
    )
    coap_insecure: bool = setting(
        False,
        "Let --coap listen beyond this machine, though anybody there can then pass for any device and read along.",
        is_flag=True,
    )
    coap_awake_seconds: float = setting(
        93,
        "How long after its last message a device in queue mode can be reached; then requests wait for it.",
        type=SECONDS,
    )
    max_coap_devices: int = setting(
        100_000,
        "How many real devices may be registered at once; one more is told 5.03.",
        type=click.IntRange(min=1),
    )
    max_coap_links: int = setting(
        1000,
        "How many links a real device may register; more are refused with 4.13.",
        type=click.IntRange(min=1),
    )
    max_coap_payload_bytes: int = setting(
        64 * 1024,
        "The largest payload a real device may send, all blocks together; a larger one is refused with 4.13.",
        type=click.IntRange(min=1024),
    )
    coap_registrations_per_minute: int = setting(
        600,
        "How often one address and port may register real devices; more is refused with 4.29.",
        type=click.IntRange(min=1),
    )
