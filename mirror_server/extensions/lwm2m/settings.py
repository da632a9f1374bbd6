"""The settings of real devices, and the checks of these settings before a server starts."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import shlex
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from mirror_server.config import SECONDS, SERVE, Address, ListenAddress, Settings, setting
from mirror_server.extensions.lwm2m.transport_api import INSTALL_DTLS, CannotListen

_log = logging.getLogger(__name__)

COAP_PORT = 5683
"""The default port of CoAP. Source: RFC 7252, 6.1."""

COAPS_PORT = 5684
"""The default port of CoAP over DTLS. Source: RFC 7252, 6.2."""

# An IPv6 address must be in brackets.
_LISTEN_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<name>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)


def _read_address(default_port: int) -> Callable[[str], ListenAddress]:
    """Return a function that parses an option such as ``127.0.0.1:5683``, ``[::1]:5683``, ``localhost`` or ``[::]``."""

    def read(text: str) -> ListenAddress:
        found = _LISTEN_ADDRESS.fullmatch(text)
        if found is None:
            raise click.BadParameter(
                f"{text!r} is not an address to listen on; write it like 127.0.0.1:{default_port} or [::1]"
            )
        port = int(found["port"]) if found["port"] else default_port
        if port > 65535:
            raise click.BadParameter(f"{port} is not a port; use one up to 65535, or 0 for a free one")
        return ListenAddress(found["v6"] or found["name"], port)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class LwM2MSettings:
    """The addresses and limits for real devices."""

    coap: ListenAddress | None = setting(
        None,
        "Address on which real devices connect over CoAP (LwM2M 1.0 or 1.1), such as 127.0.0.1:5683 or [::1]:5683. The"
        " default port is 5683; 0 selects a free one.",
        type=_read_address(COAP_PORT),
        metavar="HOST:PORT",
        commands=(*SERVE, "demo"),
    )
    coaps: ListenAddress | None = setting(
        None,
        "Address on which real devices connect over CoAP with DTLS. Each needs a pre-shared key from 'mirror-server"
        " devices add'. The default port is 5684.",
        type=_read_address(COAPS_PORT),
        metavar="HOST:PORT",
    )
    coap_insecure: bool = setting(
        False,
        "Allow --coap on addresses that other machines can reach. Anyone there can then impersonate any device and read"
        " messages, so use it only in a trusted network.",
        is_flag=True,
    )
    coap_awake_seconds: float = setting(
        93,
        "Seconds after its last message during which a device in queue mode is assumed to be awake. Later requests wait"
        " for its next contact.",
        type=SECONDS,
    )
    max_coap_devices: int = setting(
        100_000,
        "Maximum number of registered real devices. Beyond this, the server responds with 5.03.",
        type=click.IntRange(min=1),
    )
    max_coap_links: int = setting(
        1000,
        "Maximum number of links (objects and instances) in a registration. The server rejects more with 4.13.",
        type=click.IntRange(min=1),
    )
    max_coap_payload_bytes: int = setting(
        64 * 1024,
        "Maximum size in bytes of a payload from a real device, all blocks together. The server rejects a larger one"
        " with 4.13.",
        type=click.IntRange(min=1024),
    )
    coap_registrations_per_minute: int = setting(
        600,
        "Maximum number of registrations per minute from one address and port. The server rejects more with 4.29.",
        type=click.IntRange(min=1),
    )


def check_listening(settings: Settings) -> None:
    """Check the settings of the addresses to listen on.

    If other users can read the database file with the device keys, this only logs a warning. An error would not help,
    because the keys are already exposed.

    Raises:
        CannotListen: The settings are not valid, or a package is not installed.
    """
    if reason := next(_problems(settings.of(LwM2MSettings)), None):
        raise CannotListen(reason)
    if settings.of(LwM2MSettings).coaps is not None and (exposed := exposed_files(settings.database_url)):
        files = shlex.join(map(str, exposed))
        _log.warning("other users can read the keys of devices; run: chmod 600 %s", files)


def exposed_files(database_url: str) -> list[Path]:
    """Return the files of a database that other users may read or change. These files contain device keys."""
    from mirror_server.store.database import location_of  # noqa: PLC0415 - commands that serve nothing start sooner

    location = location_of(database_url)
    if os.name != "posix" or not location.is_file:
        return []
    # SQLite creates the -wal and -shm files with the permissions that the database file has at that time.
    found = [location.file().with_name(location.file().name + end) for end in ("", "-wal", "-shm")]
    return [file for file in found if file.exists() and file.stat().st_mode & 0o077]


def _problems(settings: LwM2MSettings) -> Iterator[str]:
    coap, coaps = settings.coap, settings.coaps
    if coaps and find_spec("DTLSSocket") is None:
        yield f"--coaps needs DTLSSocket, which is not installed: {INSTALL_DTLS}"
    if coap and coap == coaps and coap.port:
        yield f"--coap and --coaps cannot both listen on {coap}; give one of them another port"
    for option, address in (("--coap", coap), ("--coaps", coaps)):
        if address and not _resolved(address.host):
            yield f"cannot listen on {address}: {address.host!r} is not an address of this machine; set {option}"
    if coap and not settings.coap_insecure and not is_loopback(coap):
        yield (
            f"plain CoAP on {coap} is rejected: anyone on that network could impersonate any device, and read and"
            " change messages; use keys ('mirror-server run --coaps'), or allow it with 'run --coap-insecure'"
        )


def is_loopback(address: ListenAddress) -> bool:
    """Return whether only this machine can reach the address. If the host is a name, it is resolved first."""
    return all(ip.is_loopback for ip in _resolved(address.host))


def _resolved(host: str) -> list[Address]:
    """Return the addresses of a host name. IPv4-mapped IPv6 addresses are returned as IPv4 addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    addresses = (ipaddress.ip_address(str(sockaddr[0])) for *_, sockaddr in found)
    return [(ip.version == 6 and ip.ipv4_mapped) or ip for ip in addresses]
