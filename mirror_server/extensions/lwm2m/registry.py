"""The registered devices in memory, and the resources they observe: lean, because there may be many.

Source: RFC 7641; LwM2M core, observation.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from mirror_server.core.instants import Instant, after_seconds
from mirror_server.extensions.lwm2m.links import Structure
from mirror_server.extensions.lwm2m.registration import RegistrationParameters
from mirror_server.extensions.lwm2m.requests import structured_formats
from mirror_server.extensions.lwm2m.transport_api import ObserveNotification, Peer

_TOKEN_BYTES = 8
"""The longest there is: nobody who does not see the traffic can guess it."""
_HALF_OF_SEQUENCES = 1 << 23
_MOST_HELD = 100
_SEQUENCE_LIVES_MILLISECONDS = 128_000
_AS_STORED = ("device_id", "location", "version", "binding", "prefix")


@dataclass(slots=True, eq=False, kw_only=True)
class RegisteredDevice(RegistrationParameters):
    """A registered device, with the parameters of its registration.

    Attributes:
        device_id: Its id in the directory.
        location: The last part of the path it updates its registration under.
        peer: Its address.
        expires_at: The end of its registration without an update.
        prefix: Under which path its objects are; ``""`` where they are at the root.
        structured: The content formats it has that hold any value, in the order to try.
        links_hash: The hash of its links.
        to_discover: The paths that it registered without resources, and that were not discovered yet.
        tokens: The tokens of values that it sends unasked, in hexadecimal, and their paths.
        heard_at: The time of its last message, or 0 if it is in queue mode and known to sleep.
        is_known_address: Whether a message came from its address since the service started.
        is_silent: Whether it did not respond to the last request, and sent nothing since.
        is_reachable: False if nothing can be sent to it before it makes contact.
        observed: The resources that it sends by itself, by path.
        read_formats: The content formats to read in, by path, where that is not the first to try.
        write_formats: The same to write in.
        is_being_discovered: Whether the paths in ``to_discover`` are being discovered.
        turn: Held by the one request in flight.
        exchange: The task that waits for its response.
        is_executing: Whether that is an execute.
    """

    device_id: str
    location: str
    peer: Peer
    expires_at: Instant
    heard_at: Instant
    prefix: str = ""
    structured: tuple[int, ...] = ()
    links_hash: bytes = b""
    to_discover: tuple[str, ...] = ()
    tokens: Mapping[str, str] = field(default_factory=dict)
    is_known_address: bool = True
    is_silent: bool = False
    is_reachable: bool = True
    observed: dict[str, ObservedResource] = field(default_factory=dict)
    read_formats: dict[str, int] = field(default_factory=dict)
    write_formats: dict[str, int] = field(default_factory=dict)
    is_being_discovered: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    exchange: asyncio.Task[Any] | None = None
    is_executing: bool = False
    # Two devices are not the same because their parameters are.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @classmethod
    def from_store(cls, row: Mapping[str, Any]) -> RegisteredDevice:
        """Return a stored device; it may have another address by now."""
        return cls(
            **{name: row[name] for name in (*_AS_STORED, "endpoint_name", "lifetime_seconds")},
            peer=Peer(row["address"], bool(row["is_secure"]), row["identity"]),
            queue_mode=bool(row["queue_mode"]),
            expires_at=row["registration_expires_at"],
            heard_at=row["last_contact_at"],
            links_hash=bytes(row["links_hash"]),
            structured=tuple(map(int, row["structured"].split())),
            to_discover=tuple(row["to_discover"].split()),
            tokens=orjson.loads(row["tokens"]),
            is_known_address=False,
            # A session of DTLS ended with the service, and devices begin the next one.
            is_reachable=not row["is_secure"],
        )

    def to_store(self) -> dict[str, object]:
        """Return the row to store for the time after a restart."""
        return {name: getattr(self, name) for name in _AS_STORED} | {
            "address": self.peer.address,
            "is_secure": int(self.peer.is_secure),
            "identity": self.peer.identity,
            "links_hash": self.links_hash,
            "structured": " ".join(map(str, self.structured)),
            "to_discover": " ".join(self.to_discover),
            "tokens": orjson.dumps(self.tokens).decode(),
        }

    def take_structure(self, structure: Structure) -> None:
        """Set what the device announced by its links."""
        links = structure.links
        self.links_hash, self.to_discover, self.prefix = structure.links_hash, structure.unknown, links.prefix
        self.structured = structured_formats(self.version, links.content_formats)
        self.tokens = {
            each.auto_token.hex(): each.introduced.path for each in links.resources if each.auto_token is not None
        }

    def is_awake(self, now: Instant, awake_seconds: float) -> bool:
        """Whether it listens; one in queue mode does for ``awake_seconds`` after a message."""
        if not (self.is_reachable and self.is_registered(now)):
            return False
        return not self.queue_mode or now < after_seconds(self.heard_at, awake_seconds)

    def is_registered(self, now: Instant) -> bool:
        """Whether its lifetime has not ended."""
        return now < self.expires_at

    def may_be(self, peer: Peer) -> bool:
        """Whether a message with an unguessable token of this device may have come from a peer.

        Over DTLS the identity decides. In plain text the host does: a router may give a device another port at any
        time.
        """
        # Mostly it is the very same object: that comparison is faster.
        if peer is self.peer or peer == self.peer:
            return True
        if peer.is_secure or self.peer.is_secure:
            return peer.is_secure and self.peer.is_secure and peer.identity == self.peer.identity
        return peer.host == self.peer.host

    def give_up_exchange(self) -> None:
        """Cancel the request in flight: it went to a former address of the device."""
        if self.exchange is not None:
            self.exchange.cancel()


@dataclass(slots=True)
class ObservedResource:
    """A resource that a device sends by itself.

    Attributes:
        device: The device.
        path: The resource.
        token: The token of its notifications.
        is_asked: Whether the server requested to observe it; false if the device announced it in its registration.
        sequence: The number of the newest notification; ``None`` before one that has a number.
        heard_at: The time of that.
        is_being_read: Whether its value is going to be read, because it was too long for a notification.
        held: The newest notifications that came before the response to Observe; they are reported after it.
        has_value: Whether the mirror has a value of it from this registration; only set where ``is_asked`` is false.
    """

    device: RegisteredDevice
    path: str
    token: bytes
    is_asked: bool = True
    sequence: int | None = None
    heard_at: Instant = 0
    is_being_read: bool = False
    held: deque[ObserveNotification] | None = None
    has_value: bool = False

    def hold(self) -> None:
        """Keep notifications until they are released."""
        self.held = deque(maxlen=_MOST_HELD)

    def release(self) -> Iterable[ObserveNotification]:
        """Return the kept notifications, in their order, and keep no more."""
        held, self.held = self.held or (), None
        return held

    def is_news(self, sequence: int | None, now: Instant) -> bool:
        """Whether a notification is newer than all that came before; it is then the newest. Source: RFC 7641, 3.4."""
        last = self.sequence
        if sequence is not None and last is not None and 0 <= now - self.heard_at <= _SEQUENCE_LIVES_MILLISECONDS:
            ahead = (sequence - last) % (2 * _HALF_OF_SEQUENCES)
            if not 0 < ahead < _HALF_OF_SEQUENCES:
                return False
        self.sequence, self.heard_at = sequence, now
        return True


class Registry:
    """The registered devices and the resources they observe, each found by several keys."""

    def __init__(self) -> None:
        self._by_id: dict[str, RegisteredDevice] = {}
        self._by_location: dict[str, RegisteredDevice] = {}
        self._by_name: dict[str, RegisteredDevice] = {}
        # One socket may be that of several devices: of a gateway, or of a test.
        self._by_peer: dict[Peer, dict[str, RegisteredDevice]] = {}
        self._by_identity: dict[str, RegisteredDevice] = {}
        # Tokens chosen here are unique; those of devices are short, and each peer has its own.
        self._asked: dict[bytes, ObservedResource] = {}
        self._unasked: dict[tuple[Peer, bytes], ObservedResource] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[RegisteredDevice]:
        return iter(list(self._by_id.values()))

    def add(self, device: RegisteredDevice) -> None:
        """Add a device; one with its id or name has been removed before."""
        self._by_id[device.device_id] = device
        self._by_location[device.location] = device
        self._by_name[device.endpoint_name] = device
        if device.peer.identity is not None:
            self._by_identity[device.peer.identity] = device
        self._by_peer.setdefault(device.peer, {})[device.device_id] = device
        self.expect_unasked(device)

    def remove(self, device: RegisteredDevice) -> None:
        """Remove a device and its observations."""
        for observed in device.observed.values():
            self._forget(observed)
        device.observed.clear()
        if self._by_id.get(device.device_id) is device:
            del self._by_id[device.device_id]
            del self._by_location[device.location]
            if self._by_name.get(device.endpoint_name) is device:
                del self._by_name[device.endpoint_name]
            if self._by_identity.get(device.peer.identity or "") is device:
                del self._by_identity[device.peer.identity or ""]
            self._leave_peer(device)

    def rename(self, device: RegisteredDevice, endpoint_name: str) -> None:
        """Change the endpoint name of a device; another device of that name is found by its id and location."""
        if self._by_name.get(device.endpoint_name) is device:
            del self._by_name[device.endpoint_name]
        device.endpoint_name = endpoint_name
        self._by_name[endpoint_name] = device

    def move(self, device: RegisteredDevice, peer: Peer) -> None:
        """Change the address of a device; its observations go on."""
        self._leave_peer(device)
        unasked = [observed for observed in device.observed.values() if not observed.is_asked]
        for observed in unasked:
            self._forget(observed)
        device.peer = peer
        for observed in unasked:
            self._unasked[peer, observed.token] = observed
        self._by_peer.setdefault(peer, {})[device.device_id] = device

    def _leave_peer(self, device: RegisteredDevice) -> None:
        there = self._by_peer.get(device.peer, {})
        there.pop(device.device_id, None)
        if not there:
            self._by_peer.pop(device.peer, None)

    def by_id(self, device_id: str) -> RegisteredDevice | None:
        """Return the device with this id."""
        return self._by_id.get(device_id)

    def by_location(self, location: str) -> RegisteredDevice | None:
        """Return the device that updates its registration there."""
        return self._by_location.get(location)

    def by_name(self, endpoint_name: str) -> RegisteredDevice | None:
        """Return the device with this endpoint name."""
        return self._by_name.get(endpoint_name)

    def of_peer(self, peer: Peer) -> RegisteredDevice | None:
        """Return the device that a message of a peer is from.

        Over DTLS that is the one with its identity, at any address; otherwise the last one that registered from there.
        """
        if peer.identity is not None:
            return self._by_identity.get(peer.identity)
        there = self.at(peer)
        return there[-1] if there else None

    def at(self, peer: Peer) -> list[RegisteredDevice]:
        """Return the devices at a peer; mostly one."""
        return list(self._by_peer.get(peer, {}).values())

    def observe(self, device: RegisteredDevice, path: str) -> ObservedResource:
        """Return the observation of a resource; a new one gets a token."""
        observed = device.observed.get(path)
        if observed is None:
            observed = device.observed[path] = ObservedResource(device, path, secrets.token_bytes(_TOKEN_BYTES))
            self._asked[observed.token] = observed
        return observed

    def expect_unasked(self, device: RegisteredDevice) -> None:
        """Accept notifications of the resources that a device sends unasked."""
        for token, path in device.tokens.items():
            self.end_observation(device, path)
            observed = device.observed[path] = ObservedResource(device, path, bytes.fromhex(token), is_asked=False)
            self._unasked[device.peer, observed.token] = observed

    def end_observation(self, device: RegisteredDevice, path: str) -> None:
        """Remove the observation of a resource, if there is one."""
        observed = device.observed.pop(path, None)
        if observed is not None:
            self._forget(observed)

    def observed_by(self, notification: ObserveNotification) -> ObservedResource | None:
        """Return the resource that a notification is of; ``None`` for an unknown token, or one of another peer."""
        peer = notification.peer
        observed = self._asked.get(notification.token)
        if observed is None:
            return self._unasked.get((peer, notification.token))
        return observed if observed.device.may_be(peer) else None

    def _forget(self, observed: ObservedResource) -> None:
        if observed.is_asked:
            self._asked.pop(observed.token, None)
        elif self._unasked.get((observed.device.peer, observed.token)) is observed:
            del self._unasked[observed.device.peer, observed.token]
