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
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.devices.link import (
    Content,
    NameTaken,
    NotRegistered,
    Observation,
    Registration,
)
from mirror_server.extensions.lwm2m import device_keys, registrations
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
from mirror_server.extensions.lwm2m.registration import (
    RegistrationParameters,
    read_registration,
    read_update,
)
from mirror_server.extensions.lwm2m.registry import RegisteredDevice, Registry
from mirror_server.extensions.lwm2m.requests import shown
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
"""Long enough that nobody can guess it: in plain CoAP nothing else proves that an update is from the device."""

_MOST_ADDRESSES = 100_000
"""The number of addresses that may register in a minute."""

_HELD: Instant = 2**63 - 1
"""The end of registrations while no update can be stored: later than any instant."""

_MINUTE_SECONDS = 60
_LINES_SHOWN = 60
"""The number of warnings in a minute that are logged."""

_FULL_SECONDS = 60
"""The time after which a device may try again if there are too many."""
_TOO_MANY = "4.29"

_VALUE = b"v="
"""Part of all links that have values."""


@dataclass(slots=True)
class LwM2MCounts:
    """The events since the start."""

    registrations: int = 0
    updates: int = 0
    deregistrations: int = 0
    refused: int = 0
    notifications: int = 0
    unreadable_notifications: int = 0
    unknown_notifications: int = 0
    failed_exchanges: int = 0
    unreadable_responses: int = 0


class _RateWindow:
    """Minutes, each of which begins with the first call in it.

    Args:
        clock: Domain time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at: Instant = 0

    def is_over(self) -> bool:
        """Whether the last minute is over, or the clock was set back; then the next one begins."""
        now = self._clock.now()
        if self._began_at <= now < after_seconds(self._began_at, _MINUTE_SECONDS):
            return False
        self._began_at = now
        return True


class LimitedWarnings:
    """Warnings that devices cause at will: devices may not fill the disk, so only the first of a minute are logged.

    Args:
        log: The log.
        clock: Domain time.
        what: Their subject, in the plural; ``/metrics`` counts it.
    """

    def __init__(self, log: logging.Logger, clock: Clock, what: str) -> None:
        self._log = log
        self._what = what
        self._minutes = _RateWindow(clock)
        self._count = 0

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning as :meth:`logging.Logger.warning` does, unless there were enough in this minute."""
        if self._minutes.is_over():
            self._count = 0
        self._count += 1
        if self._count <= _LINES_SHOWN:
            self._log.warning(message, *arguments)
        if self._count == _LINES_SHOWN:
            self._log.warning("further %s of this minute are counted in /metrics alone", self._what)


class Registrar:
    """Accepts registrations, updates and deregistrations; each response is sent when it is on disk.

    Args:
        events: The service.
        database: Stores the registrations.
        clock: Domain time.
        settings: The limits for registrations.
        greet: Called with each device whose registration or update was accepted.

    Attributes:
        counts: The events since the start, also those that the fleet counts.
        registry: The devices that are registered, and what they observe.
    """

    def __init__(
        self,
        *,
        events: DeviceService,
        database: Database,
        clock: Clock,
        settings: LwM2MSettings,
        greet: Callable[[RegisteredDevice], None],
    ) -> None:
        self.counts = LwM2MCounts()
        self.registry = Registry()
        self._events = events
        self._database = database
        self._clock = clock
        self._settings = settings
        self._greet = greet
        # Requests of a device are handled one after the other, so that no device is registered twice.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._lately: Counter[str] = Counter()
        self._minutes = _RateWindow(clock)
        self._refusals = LimitedWarnings(_log, clock, "refusals")

    async def register(self, peer: Peer, request: Request) -> Response:
        """Handle a full registration: ``POST /rd``."""
        return await self._taken(peer, self._register(peer, request))

    async def update(self, peer: Peer, location: str, request: Request) -> Response:
        """Handle an update of a registration: ``POST /rd/{location}``."""
        async with self._alone(location):
            return await self._taken(peer, self._update(peer, location, request))

    async def deregister(self, peer: Peer, location: str) -> Response:
        """Handle a deregistration: ``DELETE /rd/{location}``."""
        async with self._alone(location):
            return await self._taken(peer, self._deregister(peer, location))

    def reject_bootstrap(self, peer: Peer, request: Request) -> Response:
        """Reject ``POST /bs``, which is for a bootstrap server. Source: LwM2M core 1.1, 6.1."""
        reason = "this is no bootstrap server; give the device this address as that of its LwM2M server"
        name = next((each[3:] for each in request.query if each.startswith("ep=")), "")
        return self._noted(peer, f"bootstrap of ep={reprlib.repr(name)}", RequestRejected("4.04", reason).response)

    def move(self, device: RegisteredDevice, peer: Peer) -> None:
        """Change the address of a device, also in the database."""
        if peer == device.peer:
            return
        self.registry.move(device, peer)
        device.give_up_exchange()
        self._database.submit_durable(
            lambda session: registrations.put_address(session, device.device_id, peer.address)
        )

    def hold_registrations(self) -> None:
        """End no registration until :meth:`release_registrations`: no update can be stored now."""
        for device in self.registry:
            device.expires_at = _HELD

    def release_registrations(self, expiries: Mapping[str, Instant]) -> None:
        """Set the ends of registrations, by device id; those that are not in ``expiries`` have ended."""
        for device in self.registry:
            # One that was updated or made since has its own end.
            if device.expires_at != _HELD:
                continue
            if device.device_id in expiries:
                device.expires_at = expiries[device.device_id]
            else:
                self.forget(device)

    async def learn(self, device: RegisteredDevice, discovered: Mapping[str, Links | None]) -> None:
        """Store the discovered resources of a device, by path; ``None`` where it did not return any.

        Raises:
            NotRegistered: Its registration has ended meanwhile.
        """
        async with self._lock(device.endpoint_name):
            if self.registry.by_id(device.device_id) is not device:
                raise NotRegistered(device.device_id)
            found = {each.path: each for each in await self._look(partial(_introduced, device.device_id))}
            for path in discovered.keys() & set(device.to_discover):
                found = with_discovered(found, path, discovered[path])
            await asyncio.wrap_future(self._events.registration_updated(device.device_id, tuple(found.values())))
            device.to_discover = tuple(path for path in device.to_discover if path not in discovered)
            await self._keep(device)

    async def check_device(self, peer: Peer, device: RegisteredDevice) -> None:
        """Check that a peer may still register as a device: an operator may have changed names and keys.

        Raises:
            RequestRejected: It may not; its messages are not from that device.
        """
        await self._check_identity(peer, await self._look(partial(_name_of, device)))

    def _lock(self, endpoint_name: str) -> asyncio.Lock:
        return self._locks.setdefault(endpoint_name, asyncio.Lock())

    def _alone(self, location: str) -> AbstractAsyncContextManager[object]:
        """Handle no other request of the device meanwhile; its registration may have changed when it begins."""
        device = self.registry.by_location(location)
        return nullcontext() if device is None else self._lock(device.endpoint_name)

    async def _taken(self, peer: Peer, work: Awaitable[Response]) -> Response:
        try:
            response = await work
        except RequestRejected as error:
            response = error.response
        except BadLinks as error:
            response = RequestRejected("4.13" if isinstance(error, TooManyLinks) else "4.00", str(error)).response
        return self._noted(peer, "registration", response)

    def _noted(self, peer: Peer, what: str, response: Response) -> Response:
        if not response.is_success:
            self.counts.refused += 1
            # Too many requests of one device would fill the log.
            if response.code != _TOO_MANY:
                self._refusals.warn("%s from %s refused: %s", what, peer.address, shown(response))
        return response

    async def _register(self, peer: Peer, request: Request) -> Response:
        if not self._may_register(peer):
            raise RequestRejected(_TOO_MANY, "too many registrations; try again later", _MINUTE_SECONDS)
        parameters = read_registration(request.query)
        name = parameters.endpoint_name
        await self._check_identity(peer, name)
        links = self._read_links(request.payload)
        async with self._lock(name):
            former = await self._former(name)
            # A device that restarted, or two devices with one name: then the addresses alternate.
            before = "" if former is None else f" in place of its registration from {former.peer.address}"
            if former is None and len(self.registry) >= self._settings.max_coap_devices:
                raise RequestRejected("5.03", "as many devices are registered as may be", _FULL_SECONDS)
            structure = await self._structure(links, request.payload, partial(_introduced_by_name, name))
            device = await self._store(peer, parameters, structure, former)
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
        self._greet(device)
        return Response("2.01", location=("rd", device.location))

    async def _former(self, endpoint_name: str) -> RegisteredDevice | None:
        """Return the device that has a name now; not one that an operator gave another name."""
        device = self.registry.by_name(endpoint_name)
        if device is None:
            return None
        name = await self._look(partial(_name_of, device))
        if name == endpoint_name:
            return device
        self.registry.rename(device, name)
        return None

    async def _store(
        self, peer: Peer, parameters: RegistrationParameters, structure: Structure, former: RegisteredDevice | None
    ) -> RegisteredDevice:
        """Store a full registration, then add the device."""
        if former is not None:
            # Requests to the former registration would come too early for the new one.
            former.is_reachable = False
        device_id = await self._announce(parameters, structure)
        now = self._clock.now()
        device = RegisteredDevice(
            **asdict(parameters),
            device_id=device_id,
            location=secrets.token_urlsafe(_LOCATION_BYTES),
            peer=peer,
            expires_at=after_seconds(now, parameters.lifetime_seconds),
            heard_at=now,
            is_reachable=False,
        )
        device.take_structure(structure)
        # An operator may have given it another name since it registered.
        former = self.registry.by_id(device_id) or former
        if former is not None:
            self._replace(former, device)
        if former is None or former.links_hash != structure.links_hash:
            device.to_discover = structure.links.to_discover
        await self._keep(device)
        self.registry.add(device)
        self._tell_published(device, structure.links.published)
        return device

    async def _announce(self, parameters: RegistrationParameters, structure: Structure) -> str:
        registration = Registration(
            endpoint_name=parameters.endpoint_name,
            endpoint_type=parameters.endpoint_type,
            queue_mode=parameters.queue_mode,
            lifetime_seconds=parameters.lifetime_seconds,
            resources=structure.introduced,
            backend=BACKEND,
        )
        try:
            return await asyncio.wrap_future(self._events.registered(registration))
        except NameTaken:
            reason = f"ep={parameters.endpoint_name} is the name of a simulated device; take another name"
            raise RequestRejected("4.03", reason) from None

    async def _deregister(self, peer: Peer, location: str) -> Response:
        device = await self._device(peer, location)
        self.forget(device)
        await asyncio.wrap_future(self._events.deregistered(device.device_id))
        self.counts.deregistrations += 1
        _log.info("device %s (%s) deregistered", device.device_id, device.endpoint_name)
        return Response("2.02")

    def _replace(self, former: RegisteredDevice, device: RegisteredDevice) -> None:
        self.registry.remove(former)
        # The request in flight goes on if the address is the same. An execute does not: a device that restarted does
        # not know that it got the message already.
        device.turn = former.turn
        if former.links_hash == device.links_hash:
            device.read_formats, device.write_formats = former.read_formats, former.write_formats
        if former.peer != device.peer or former.is_executing:
            former.give_up_exchange()

    async def _update(self, peer: Peer, location: str, request: Request) -> Response:
        device = await self._device(peer, location)
        parameters = read_update(request.query, device)
        structure = None
        # Some devices send all their links with each update.
        if request.payload and hash_of(request.payload) != device.links_hash:
            links = self._read_links(request.payload)
            structure = await self._structure(links, request.payload, partial(_introduced, device.device_id))
        # Nothing is sent to it before this response.
        device.is_reachable = False
        try:
            await asyncio.wrap_future(
                self._events.registration_updated(
                    device.device_id,
                    None if structure is None else structure.introduced,
                    lifetime_seconds=parameters.lifetime_seconds,
                    queue_mode=parameters.queue_mode,
                )
            )
        except NotRegistered:
            self.forget(device)
            raise _unknown() from None
        has_new_binding = parameters.binding != device.binding
        device.binding, device.queue_mode = parameters.binding, parameters.queue_mode
        device.lifetime_seconds = parameters.lifetime_seconds
        device.expires_at = after_seconds(self._clock.now(), device.lifetime_seconds)
        self.move(device, peer)
        if structure is not None:
            await self._take_structure(device, structure)
        elif has_new_binding:
            await self._keep(device)
        if structure is None and _VALUE in request.payload:
            published = self._read_links(request.payload).published
            self._tell_published(device, await asyncio.to_thread(self._changed_values, device.device_id, published))
        self.counts.updates += 1
        self._greet(device)
        return Response("2.04")

    async def _structure(
        self, links: Links, payload: bytes, look_up: Callable[[Session], list[AnnouncedResource]]
    ) -> Structure:
        """Return the resources of a device; ``look_up`` reads the known ones, for links that do not have all."""
        known = await self._look(look_up) if links.to_discover else ()
        return structure_of(links, hash_of(payload), known)

    async def _take_structure(self, device: RegisteredDevice, structure: Structure) -> None:
        former = device.tokens
        device.take_structure(structure)
        ended = [path for path in former.values() if path not in device.tokens.values()]
        for path in ended:
            self.registry.end_observation(device, path)
        self.registry.expect_unasked(device)
        await self._keep(device, ended)
        self._tell_published(device, structure.links.published)

    async def _keep(self, device: RegisteredDevice, no_longer_sent: Sequence[str] = ()) -> None:
        """Store a registration; the resources that the device no longer sends by itself have to be observed."""
        row = device.to_store()

        def work(session: Session) -> None:
            registrations.put(session, row)
            for path in no_longer_sent:
                subscriptions.forgotten(session, device.device_id, path)

        await asyncio.wrap_future(self._database.submit_durable(work))

    def forget(self, device: RegisteredDevice) -> None:
        """Remove a device whose registration has ended."""
        self.registry.remove(device)
        device.give_up_exchange()

    def _tell_published(self, device: RegisteredDevice, published: Mapping[str, Content]) -> None:
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
        """Return the device that may update its registration there from this peer.

        Raises:
            RequestRejected: There is none.
        """
        device = self.registry.by_location(location)
        if device is None or not device.is_registered(self._clock.now()):
            raise _unknown()
        if peer.is_secure != device.peer.is_secure or peer.identity != device.peer.identity:
            raise _unknown()
        await self.check_device(peer, device)
        return device

    def _may_register(self, peer: Peer) -> bool:
        if self._minutes.is_over():
            self._lately.clear()
        # An attacker can forge any number of addresses.
        if peer.address not in self._lately and len(self._lately) >= _MOST_ADDRESSES:
            return False
        self._lately[peer.address] += 1
        return self._lately[peer.address] <= self._settings.coap_registrations_per_minute

    async def _check_identity(self, peer: Peer, endpoint_name: str) -> None:
        """Over DTLS a device registers the name its key is for, and no other.

        In plain text nobody may register a name that has a key, and replace a device that proves itself.
        """
        key = await self._look(lambda session: device_keys.find(session, endpoint_name))
        if peer.is_secure and (key is None or key.identity != peer.identity):
            raise RequestRejected("4.03", f"ep={endpoint_name} is not the name this key is for")
        if not peer.is_secure and key is not None:
            raise RequestRejected("4.03", f"ep={endpoint_name} has a key; come by coaps")

    async def _look(self, statement: Callable[[Session], T]) -> T:
        """Return the result of a statement, on a thread that may wait for the database."""
        return await asyncio.to_thread(self._database.query, statement)

    def _read_links(self, payload: bytes) -> Links:
        return read_links(payload, most_links=self._settings.max_coap_links)

    def _changed_values(self, device_id: str, published: Mapping[str, Content]) -> dict[str, Content]:
        """Return the values that differ from those in the mirror: a notification may have brought newer ones."""
        with self._database.read() as session:
            return {
                path: content
                for path, content in published.items()
                if resources.stored_value(session, device_id, path).value != content.payload
            }


def _name_of(device: RegisteredDevice, session: Session) -> str:
    """Return the name of a device in the directory; the name it registered if it is not there any more."""
    row = devices.find(session, device.device_id)
    return device.endpoint_name if row is None else row.endpoint_name


def _introduced(device_id: str, session: Session) -> list[AnnouncedResource]:
    return resources.announced(session, device_id)


def _introduced_by_name(endpoint_name: str, session: Session) -> list[AnnouncedResource]:
    row = devices.find_by_endpoint_name(session, endpoint_name)
    return [] if row is None else _introduced(row.device_id, session)


def _unknown() -> RequestRejected:
    return RequestRejected("4.04", "nothing is registered here; register anew under /rd")
