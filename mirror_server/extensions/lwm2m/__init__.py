"""Real devices that speak LwM2M 1.0 or 1.1 over CoAP, with and without DTLS: setup, keys, network, monitoring."""

# Read ``backend`` first, then ``server``, ``registration_handler`` and ``device_session``.
# ``coap`` is the transport below them.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirror_server.extensions.lwm2m.settings import LwM2MSettings, check_listening
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_server.config import Settings
    from mirror_server.server import Services
    from mirror_server.store.backend import Storage


@extends
def needs() -> list[str]:
    """Require the CoAP library."""
    return ["aiocoap"]


@extends
def settings() -> type:
    """Add the addresses and limits of real devices."""
    return LwM2MSettings


@extends
def commands() -> dict[str, Sequence[str]]:
    """Add the commands for keys."""
    return {f"{__name__}.device_commands": ["devices"]}


@extends
def storage() -> Storage:
    """Add the tables of keys and registrations."""
    from mirror_server.extensions.lwm2m import registration_store
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(branch=Branch("lwm2m", Path(__file__).parent / "migrations"), erase=registration_store.erase)


@extends
def check_settings(settings: Settings) -> None:
    """Reject settings that need a missing package or open an unprotected address."""
    check_listening(settings)


@extends
def shared_settings(settings: Settings) -> str:
    """Name the options that all processes of one database need."""
    chosen = settings.of(LwM2MSettings)
    # Empty without real devices: the text must equal that of versions that had no real devices.
    return "".join(f", with {name}" for name in ("--coap", "--coaps") if getattr(chosen, name[2:]))


@extends
def build(services: Services) -> Sequence[object]:
    """Listen for real devices if an address is configured."""
    chosen = services.settings.of(LwM2MSettings)
    if chosen.coap is None and chosen.coaps is None:
        return []
    # Imported late: it loads CBOR and other codecs that a server without real devices does not need.
    from mirror_server.extensions.lwm2m.backend import LwM2MBackend

    return [LwM2MBackend(chosen, services)]
