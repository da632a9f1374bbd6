"""Registrations, their updates and their end, under ``/rd``. Source: LwM2M core 1.0 (5.3) and 1.1 (6.2)."""

from __future__ import annotations

import asyncio
import logging
import reprlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from mirror_server.clock import Clock
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.interface import (
    Content,
    NameInUse,
    NotRegistered,
    Observation,
    Registration,
)
from mirror_server.extensions.lwm2m import device_keys, registration_store
from mirror_server.extensions.lwm2m.coap_commands import error_text
from mirror_server.extensions.lwm2m.device_registry import DeviceRegistry, RegisteredDevice
from mirror_server.extensions.lwm2m.links import (
    BadLinks,
    Links,
    Structure,
    TooManyLinks,
    hash_of,
    read_links,
    structure_of,
    with_discovered,
)
from mirror_server.extensions.lwm2m.registration_parameters import (
    RegistrationParameters,
    read_registration,
    read_update,
)
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.extensions.lwm2m.transport_api import Peer, Request, RequestRejected, Response
from mirror_server.service.devices import DeviceService
from mirror_server.store import devices, resources, subscriptions
from mirror_server.store.database import Database
from mirror_server.store.resources import AnnouncedResource
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

BACKEND = "lwm2m"
"""The name of real devices' backend."""
T = TypeVar("T")

_LOCATION_BYTES = 12
"""Long enough to be unguessable: in plain CoAP nothing else proves that an update is from the device."""

_MAX_ADDRESSES = 100_000
"""The maximum number of addresses that may register in a minute."""

_NEVER: Instant = 2**63 - 1
"""The expiry of registrations while no update can be stored: later than any instant."""

_MINUTE_SECONDS = 60
_MAX_LINES = 60
"""The maximum number of warnings that are logged in a minute."""

_RETRY_SECONDS = 60
"""The time after which a device may try again if the maximum number of devices is registered."""
_TOO_MANY = "4.29"

_VALUE = b"v="
"""Links with a value contain this."""


@dataclass(slots=True)
class LwM2MCounts:
    """Counters of events since the start."""

    registrations: int = 0
    updates: int = 0
    deregistrations: int = 0
    rejected: int = 0
    notifications: int = 0
    unreadable_notifications: int = 0
    unknown_notifications: int = 0
    failed_exchanges: int = 0
    unreadable_responses: int = 0


class _RateWindow:
    """Consecutive windows of one minute. Each window starts with the first call after the end of the previous window.

    Args:
        clock: Domain time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_at: Instant = 0

    def is_over(self) -> bool:
        """Whether the current window has ended or the clock was set back. If so, start the next window."""
        now = self._clock.now()
        if self._started_at <= now < after_seconds(self._started_at, _MINUTE_SECONDS):
            return False
        self._started_at = now
        return True


class RateLimitedLogger:
    """A logger that logs only the first warnings of a minute, so that devices cannot fill the disk.

    Args:
        log: The log.
        clock: Domain time.
        subject: The subject of the warnings, in the plural. ``/metrics`` has a counter of it.
    """

    def __init__(self, log: logging.Logger, clock: Clock, subject: str) -> None:
        self._log = log
        self._subject = subject
        self._rate_window = _RateWindow(clock)
        self._count = 0

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning like :meth:`logging.Logger.warning`, unless the limit of this minute is reached."""
        if self._rate_window.is_over():
            self._count = 0
        self._count += 1
        if self._count <= _MAX_LINES:
            self._log.warning(message, *arguments)
        if self._count == _MAX_LINES:
            self._log.warning("further %s of this minute are only counted in /metrics", self._subject)


class RegistrationHandler:
    """Handles registrations, updates and deregistrations. Each response is sent after the change is on disk.

    Args:
        events: The service.
        database: Stores the registrations.
        clock: Domain time.
        settings: The limits for registrations.
        on_accepted: Called with each device whose registration or update was accepted.

    Attributes:
        counts: Counters of events since the start, including those that the fleet counts.
        registry: The registered devices and their observations.
    """

    def __init__(
        self,
        *,
        events: DeviceService,
        database: Database,
        clock: Clock,
        settings: LwM2MSettings,
        on_accepted: Callable[[RegisteredDevice], None],
    ) -> None:
        self.counts = LwM2MCounts()
        self.registry = DeviceRegistry()
        self._events = events
        self._database = database
        self._clock = clock
        self._settings = settings
        self._accepted = on_accepted
        # Requests of one device are handled one after the other, so that no device is registered twice.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._recent_registrations: Counter[str] = Counter()
        self._rate_window = _RateWindow(clock)
        self._rejections = RateLimitedLogger(_log, clock, "rejections")

    async def register(self, peer: Peer, request: Request) -> Response:
        """Handle a full registration: ``POST /rd``."""
        return await self._respond(peer, self._register(peer, request))

    async def update(self, peer: Peer, location: str, request: Request) -> Response:
        """Handle an update of a registration: ``POST /rd/{location}``."""
        async with self._exclusively(location):
            return await self._respond(peer, self._update(peer, location, request))

    async def deregister(self, peer: Peer, location: str) -> Response:
        """Handle a deregistration: ``DELETE /rd/{location}``."""
        async with self._exclusively(location):
            return await self._respond(peer, self._deregister(peer, location))

    def reject_bootstrap(self, peer: Peer, request: Request) -> Response:
        """Reject ``POST /bs``, which is for a bootstrap server. Source: LwM2M core 1.1, 6.1."""
        reason = "this is not a bootstrap server; configure this address as the LwM2M server of the device"
        name = next((each[3:] for each in request.query if each.startswith("ep=")), "")
        return self._log_rejection(
            peer, f"bootstrap of ep={reprlib.repr(name)}", RequestRejected("4.04", reason).response
        )

    def move(self, device: RegisteredDevice, peer: Peer) -> None:
        """Change the address of a device, also in the database."""
        if peer == device.peer:
            return
        self.registry.move(device, peer)
        device.cancel_exchange()
        self._database.submit_durable(
            lambda session: registration_store.put_address(session, device.device_id, peer.address)
        )

    def suspend_expiry(self) -> None:
        """Expire no registration until :meth:`resume_expiry`, because no update can be stored now."""
        for device in self.registry:
            device.expires_at = _NEVER

    def resume_expiry(self, expiries: Mapping[str, Instant]) -> None:
        """Set the expiries of registrations, by device id. Registrations that are not in ``expiries`` have ended."""
        for device in self.registry:
            # A registration that was created or updated since has its own expiry.
            if device.expires_at != _NEVER:
                continue
            if device.device_id in expiries:
                device.expires_at = expiries[device.device_id]
            else:
                self.forget(device)

    async def store_discovered(self, device: RegisteredDevice, discovered: Mapping[str, Links | None]) -> None:
        """Store the discovered resources of a device, by path, or ``None`` for a path without any.

        Raises:
            NotRegistered: The registration ended in the meantime.
        """
        async with self._lock(device.endpoint_name):
            if self.registry.by_id(device.device_id) is not device:
                raise NotRegistered(device.device_id)
            found = {each.path: each for each in await self._query(partial(_announced_resources, device.device_id))}
            for path in discovered.keys() & set(device.to_discover):
                found = with_discovered(found, path, discovered[path])
            await asyncio.wrap_future(self._events.registration_updated(device.device_id, tuple(found.values())))
            device.to_discover = tuple(path for path in device.to_discover if path not in discovered)
            await self._store_registration(device)

    async def check_device(self, peer: Peer, device: RegisteredDevice) -> None:
        """Check that a peer may still act as a device: an operator may have changed names and keys.

        Raises:
            RequestRejected: The peer may not act as this device any more.
        """
        await self._check_identity(peer, await self._query(partial(_name_of, device)))

    def _lock(self, endpoint_name: str) -> asyncio.Lock:
        # The dictionary keeps a lock only while a request holds it or waits for it.
        return self._locks.setdefault(endpoint_name, asyncio.Lock())

    def _exclusively(self, location: str) -> AbstractAsyncContextManager[object]:
        """Return a lock for the requests of a device. Its registration may have changed once the lock is acquired."""
        device = self.registry.by_location(location)
        return nullcontext() if device is None else self._lock(device.endpoint_name)

    async def _respond(self, peer: Peer, work: Awaitable[Response]) -> Response:
        try:
            response = await work
        except RequestRejected as error:
            response = error.response
        except BadLinks as error:
            response = RequestRejected("4.13" if isinstance(error, TooManyLinks) else "4.00", str(error)).response
        return self._log_rejection(peer, "registration", response)

    def _log_rejection(self, peer: Peer, request: str, response: Response) -> Response:
        if not response.is_success:
            self.counts.rejected += 1
            # A device that registers too often would use up the lines of other devices.
            if response.code != _TOO_MANY:
                self._rejections.warn("%s from %s rejected: %s", request, peer.address, error_text(response))
        return response

    async def _register(self, peer: Peer, request: Request) -> Response:
        if not self._may_register(peer):
            raise RequestRejected(_TOO_MANY, "too many registrations; try again later", _MINUTE_SECONDS)
        parameters = read_registration(request.query)
        name = parameters.endpoint_name
        await self._check_identity(peer, name)
        links = self._read_links(request.payload)
        async with self._lock(name):
            previous = await self._previous(name)
            # The device restarted, or two devices share the name. In the second case the logged addresses alternate.
            before = "" if previous is None else f" in place of its registration from {previous.peer.address}"
            if previous is None and len(self.registry) >= self._settings.max_coap_devices:
                raise RequestRejected("5.03", "the maximum number of devices is registered", _RETRY_SECONDS)
            structure = await self._structure(links, request.payload, partial(_announced_by_name, name))
            device = await self._store(peer, parameters, structure, previous)
        self.counts.registrations += 1
        _log.info(
            "device %s (%s) registered from %s%s, LwM2M %s, lifetime %s s, %s links",
            device.device_id,
            device.endpoint_name,
            peer.address,
            before,
            device.version,
            device.lifetime_seconds,
            len(links.resources) + len(links.to_discover),
        )
        self._accepted(device)
        return Response("2.01", location=("rd", device.location))

    async def _previous(self, endpoint_name: str) -> RegisteredDevice | None:
        """Return the device that currently has a name, or ``None`` if an operator renamed it."""
        device = self.registry.by_name(endpoint_name)
        if device is None:
            return None
        name = await self._query(partial(_name_of, device))
        if name == endpoint_name:
            return device
        self.registry.rename(device, name)
        return None

    async def _store(
        self, peer: Peer, parameters: RegistrationParameters, structure: Structure, previous: RegisteredDevice | None
    ) -> RegisteredDevice:
        """Store a full registration, then add the device to the registry."""
        if previous is not None:
            # The device would get requests before the response to its registration.
            previous.is_reachable = False
        device_id = await self._announce(parameters, structure)
        now = self._clock.now()
        device = RegisteredDevice(
            **asdict(parameters),
            device_id=device_id,
            location=secrets.token_urlsafe(_LOCATION_BYTES),
            peer=peer,
            expires_at=after_seconds(now, parameters.lifetime_seconds),
            last_seen_at=now,
            is_reachable=False,
        )
        device.apply_structure(structure)
        # An operator may have renamed the device since it registered.
        previous = self.registry.by_id(device_id) or previous
        if previous is not None:
            self._replace(previous, device)
        # The device may have other resources than before, even below known paths.
        if previous is None or previous.links_hash != structure.links_hash:
            device.to_discover = structure.links.to_discover
        await self._store_registration(device)
        self.registry.add(device)
        self._report_published(device, structure.links.published)
        return device

    async def _announce(self, parameters: RegistrationParameters, structure: Structure) -> str:
        registration = Registration(
            endpoint_name=parameters.endpoint_name,
            endpoint_type=parameters.endpoint_type,
            queue_mode=parameters.queue_mode,
            lifetime_seconds=parameters.lifetime_seconds,
            resources=structure.announced,
            backend=BACKEND,
        )
        try:
            return await asyncio.wrap_future(self._events.registered(registration))
        except NameInUse:
            reason = f"ep={parameters.endpoint_name} is the name of a simulated device; use another name"
            raise RequestRejected("4.03", reason) from None

    async def _deregister(self, peer: Peer, location: str) -> Response:
        device = await self._device(peer, location)
        # First, so that nothing is sent to the device while its end is stored.
        self.forget(device)
        await asyncio.wrap_future(self._events.deregistered(device.device_id))
        self.counts.deregistrations += 1
        _log.info("device %s (%s) deregistered", device.device_id, device.endpoint_name)
        return Response("2.02")

    def _replace(self, previous: RegisteredDevice, device: RegisteredDevice) -> None:
        self.registry.remove(previous)
        # A request in flight to the same address continues. An execute is cancelled: a device that restarted would not
        # recognize the retransmission as a duplicate.
        device.turn = previous.turn
        if previous.links_hash == device.links_hash:
            device.read_formats, device.write_formats = previous.read_formats, previous.write_formats
        if previous.peer != device.peer or previous.is_executing:
            previous.cancel_exchange()

    async def _update(self, peer: Peer, location: str, request: Request) -> Response:
        device = await self._device(peer, location)
        parameters = read_update(request.query, device)
        structure = None
        # Some devices send all their links with each update.
        if request.payload and hash_of(request.payload) != device.links_hash:
            links = self._read_links(request.payload)
            structure = await self._structure(links, request.payload, partial(_announced_resources, device.device_id))
        # Send nothing to the device before this response.
        device.is_reachable = False
        try:
            await asyncio.wrap_future(
                self._events.registration_updated(
                    device.device_id,
                    None if structure is None else structure.announced,
                    lifetime_seconds=parameters.lifetime_seconds,
                    queue_mode=parameters.queue_mode,
                )
            )
        except NotRegistered:
            # The registration has ended in the directory, for example because it expired.
            self.forget(device)
            raise _unknown() from None
        has_new_binding = parameters.binding != device.binding
        device.binding, device.queue_mode = parameters.binding, parameters.queue_mode
        device.lifetime_seconds = parameters.lifetime_seconds
        device.expires_at = after_seconds(self._clock.now(), device.lifetime_seconds)
        self.move(device, peer)
        if structure is not None:
            await self._apply_structure(device, structure)
        elif has_new_binding:
            await self._store_registration(device)
        if structure is None and _VALUE in request.payload:
            published = self._read_links(request.payload).published
            self._report_published(device, await asyncio.to_thread(self._changed_values, device.device_id, published))
        self.counts.updates += 1
        self._accepted(device)
        return Response("2.04")

    async def _structure(
        self, links: Links, payload: bytes, read_stored: Callable[[Session], list[AnnouncedResource]]
    ) -> Structure:
        """Return the resources of a device. ``read_stored`` reads the stored resources if the links are incomplete."""
        stored = await self._query(read_stored) if links.to_discover else ()
        return structure_of(links, hash_of(payload), stored)

    async def _apply_structure(self, device: RegisteredDevice, structure: Structure) -> None:
        previous = device.tokens
        device.apply_structure(structure)
        ended = [path for path in previous.values() if path not in device.tokens.values()]
        for path in ended:
            self.registry.end_observation(device, path)
        self.registry.expect_auto_observed(device)
        await self._store_registration(device, ended)
        self._report_published(device, structure.links.published)

    async def _store_registration(self, device: RegisteredDevice, not_sent_anymore: Sequence[str] = ()) -> None:
        """Store a registration. Resources that are no longer auto-observed need observe requests from now on."""
        row = device.to_store()

        def work(session: Session) -> None:
            registration_store.put(session, row)
            for path in not_sent_anymore:
                subscriptions.forgotten(session, device.device_id, path)

        await asyncio.wrap_future(self._database.submit_durable(work))

    def forget(self, device: RegisteredDevice) -> None:
        """Remove a device whose registration has ended, and cancel its request in flight."""
        self.registry.remove(device)
        device.cancel_exchange()

    def _report_published(self, device: RegisteredDevice, published: Mapping[str, Content]) -> None:
        now = self._clock.now()
        observations = [
            Observation(device.device_id, *each, now, is_unsolicited=True, is_published=True)
            for each in published.items()
        ]
        if observations:
            self._events.observed(observations)
        for path in published.keys() & device.observed.keys():
            device.observed[path].has_value = True

    async def _device(self, peer: Peer, location: str) -> RegisteredDevice:
        """Return the device at a registration location, if the peer may update it.

        Raises:
            RequestRejected: No device has this registration, or the device has another identity.
        """
        device = self.registry.by_location(location)
        if device is None or not device.is_registered(self._clock.now()):
            raise _unknown()
        if peer.is_secure != device.peer.is_secure or peer.identity != device.peer.identity:
            raise _unknown()
        await self.check_device(peer, device)
        return device

    def _may_register(self, peer: Peer) -> bool:
        if self._rate_window.is_over():
            self._recent_registrations.clear()
        # An attacker can forge any number of addresses, so the table is bounded.
        if peer.address not in self._recent_registrations and len(self._recent_registrations) >= _MAX_ADDRESSES:
            return False
        self._recent_registrations[peer.address] += 1
        return self._recent_registrations[peer.address] <= self._settings.coap_registrations_per_minute

    async def _check_identity(self, peer: Peer, endpoint_name: str) -> None:
        """Check that a peer may register a name.

        Over DTLS, a peer may register only the name of its key. Over plain CoAP, it may register any name that has no
        key, so that no one can replace an authenticated device.

        Raises:
            RequestRejected: 4.03: the peer may not register this name.
        """
        key = await self._query(lambda session: device_keys.find(session, endpoint_name))
        if peer.is_secure and (key is None or key.identity != peer.identity):
            raise RequestRejected("4.03", f"ep={endpoint_name} does not match the endpoint name of this key")
        if not peer.is_secure and key is not None:
            raise RequestRejected("4.03", f"ep={endpoint_name} has a key; connect by coaps")

    async def _query(self, statement: Callable[[Session], T]) -> T:
        """Return the result of a query. It runs on a thread, because it may wait for the database."""
        return await asyncio.to_thread(self._database.query, statement)

    def _read_links(self, payload: bytes) -> Links:
        return read_links(payload, max_links=self._settings.max_coap_links)

    def _changed_values(self, device_id: str, published: Mapping[str, Content]) -> dict[str, Content]:
        """Return the published values that differ from the stored values.

        An update may repeat the links of the registration; a notification may have reported newer values in the
        meantime.
        """
        with self._database.read() as session:
            return {
                path: content
                for path, content in published.items()
                if resources.stored_value(session, device_id, path).value != content.payload
            }


def _name_of(device: RegisteredDevice, session: Session) -> str:
    """Return the name of a device in the directory, or the name it registered if it was erased."""
    row = devices.find(session, device.device_id)
    return device.endpoint_name if row is None else row.endpoint_name


def _announced_resources(device_id: str, session: Session) -> list[AnnouncedResource]:
    return resources.announced(session, device_id)


def _announced_by_name(endpoint_name: str, session: Session) -> list[AnnouncedResource]:
    row = devices.find_by_endpoint_name(session, endpoint_name)
    return [] if row is None else _announced_resources(row.device_id, session)


def _unknown() -> RequestRejected:
    return RequestRejected("4.04", "unknown registration; register again under /rd")
