"""What has to be so before CoAP is listened to; checked before a server starts anything."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import shlex
import socket
from collections.abc import Iterator

from mirror_server.config import ListenAddress, Settings
from mirror_server.extensions.lwm2m.exchange import INSTALL_DTLS, CannotListen
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.store.database import location_of

_log = logging.getLogger(__name__)

_NO_COAP = "real devices need aiocoap, which is not installed: pip install 'device-state-mirror[lwm2m]'"
_NO_DTLS = f"--coaps needs DTLSSocket, which is not installed: {INSTALL_DTLS}"


def check_listening(settings: Settings) -> None:
    """Refuse to listen where the settings do not allow it, or something is not installed.

    Keys of devices that others can read in the database's file are told in the log: they are there already.

    Raises:
        CannotListen: It is refused.
    """
    if reason := next(_problems(settings.of(LwM2MSettings)), None):
        raise CannotListen(reason)
    if settings.of(LwM2MSettings).coaps is not None and (exposed := _exposed(settings.database_url)):
        _log.warning("others than the owner can read the keys of devices; chmod 600 %s", exposed)


def _problems(settings: LwM2MSettings) -> Iterator[str]:
    coap, coaps = settings.coap, settings.coaps
    if (coap or coaps) and not _is_installed("aiocoap"):
        yield _NO_COAP
    if coaps and not _is_installed("DTLSSocket"):
        yield _NO_DTLS
    if coap and coap == coaps and coap.port:
        yield f"--coap and --coaps cannot both listen on {coap}; give one of them another port"
    for option, address in (("--coap", coap), ("--coaps", coaps)):
        if address and not _resolved(address.host):
            yield f"cannot listen on {address}: {address.host!r} is no address of this machine; give {option} another"
    if coap and not settings.coap_insecure and not is_loopback(coap):
        yield (
            f"plain CoAP on {coap} is refused: who is on that network could pass for any device, and read and change"
            " what is sent; let devices come with keys ('mirror-server run --coaps'), or say --coap-insecure to 'run'"
        )


def is_loopback(address: ListenAddress) -> bool:
    """Whether only this machine itself reaches the address, whatever it is a name of."""
    return all(_unmapped(ip).is_loopback for ip in _resolved(address.host))


def _resolved(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(sockaddr[0])) for *_, sockaddr in found]


def _unmapped(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return (ip.ipv4_mapped or ip) if isinstance(ip, ipaddress.IPv6Address) else ip


def _exposed(database_url: str) -> str:
    return shlex.join(map(str, location_of(database_url).exposed_files()))


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:
        return False
