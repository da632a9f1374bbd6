"""Connects the real devices with the life of the server."""

from __future__ import annotations

from collections.abc import Sequence

from mirror_server.config import ListenAddress
from mirror_server.core.instants import Instant
from mirror_server.extensions.lwm2m.coap import CoapEndpoint, Limits, listen
from mirror_server.extensions.lwm2m.exchange import Handler
from mirror_server.extensions.lwm2m.identities import Identities
from mirror_server.extensions.lwm2m.lwm2m import LwM2MLink
from mirror_server.extensions.lwm2m.measurements import measure
from mirror_server.extensions.lwm2m.registrar import RegistrationLimits
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.extensions.lwm2m.store import registrations
from mirror_server.hooks import Measurement, extends
from mirror_server.server import Services
from mirror_server.store.changes import RegistrationChange
from mirror_server.store.session import Session


class RealDevices:
    """The real devices of a server.

    Args:
        settings: Where they come, and what they may.
        services: The server.

    Attributes:
        link: Speaks with them.
    """

    def __init__(self, settings: LwM2MSettings, services: Services) -> None:
        self._settings = settings
        self._services = services
        self._identities = Identities(services.database)
        self.link = LwM2MLink(
            events=services.devices,
            database=services.database,
            clock=services.clock,
            open_endpoint=self._listen,
            identities=self._identities,
            awake_seconds=settings.coap_awake_seconds,
            limits=RegistrationLimits(
                devices=settings.max_coap_devices,
                links=settings.max_coap_links,
                per_minute=settings.coap_registrations_per_minute,
            ),
        )
        services.backends.add(self.link)

    async def _listen(self, handler: Handler) -> CoapEndpoint:
        given = self._settings
        limits = Limits(payload_bytes=given.max_coap_payload_bytes)
        return await listen(handler, coap=given.coap, coaps=given.coaps, keys=self._identities.secret, limits=limits)

    def urls(self) -> list[str]:
        """Where they come in; empty while this process does not listen for them."""
        endpoint = self.link.endpoint
        if endpoint is None:
            return []
        ways = (("coap", endpoint.coap_address), ("coaps", endpoint.coaps_address))
        return [f"{scheme}://{ListenAddress(*address)}" for scheme, address in ways if address is not None]

    @extends
    def devices_come_to(self) -> str:
        """The addresses, or when there are some."""
        return f"Real devices: {', '.join(self.urls()) or 'as soon as this process leads and their port is free'}"

    @extends
    def connect_devices(self) -> None:
        """Listen."""
        # Where others may have led, one of them may still hold the port.
        self.link.start(listening=self._services.dispatcher.wake_all if self._services.database.is_shared else None)

    @extends
    def disconnect_devices(self) -> None:
        """Listen no more."""
        self.link.stop()

    @extends
    def interrupted(self) -> None:
        """End no registration."""
        self.link.hold_registrations()

    @extends
    def resumed(self, session: Session, since: Instant) -> None:
        """Leave devices the time to update their registrations."""
        self.link.prolong_registrations(session, since)

    @extends
    def registration_changed(self, session: Session, batch: Sequence[RegistrationChange]) -> None:
        """Forget the registrations that ended."""
        for change in batch:
            if change.kind in {"deregistration", "expired"}:
                registrations.delete(session, change.device.device_id)

    @extends
    def measurements(self) -> Sequence[Measurement]:
        """What is counted."""
        return list(measure(self.link))
