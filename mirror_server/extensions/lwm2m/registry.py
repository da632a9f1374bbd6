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
from mirror_server.extensions.lwm2m.exchange import Notification, Peer
from mirror_server.extensions.lwm2m.links import Structure
from mirror_server.extensions.lwm2m.registration import RegistrationParameters
from mirror_server.extensions.lwm2m.requests import structured_formats

_TOKEN_BYTES = 8
"""The longest there is: nobody who does not see the traffic can guess it."""
_HALF_OF_SEQUENCES = 1 << 23
_MOST_HELD = 100
_SEQUENCE_LIVES_MILLISECONDS = 128_000
_AS_STORED = ("device_id", "location", "version", "binding", "prefix")


@dataclass(slots=True, eq=False, kw_only=True)
class RegisteredDevice(RegistrationParameters):
    """A real device while it is registered, with the parameters of its registration.

    Attributes:
        device_id: Its id in the directory.
        location: The last part of the path it updates its registration under.
        peer: Where it is reached.
        expires_at: When it ends without an update.
        prefix: Under which path its objects are; ``""`` where they are at the root.
        structured: The content formats it has that hold any value, the one to try first in front.
        links_hash: Of what it said of its objects.
        to_discover: What it registered without saying which resources it has, and was not asked yet.
        tokens: With which tokens it sends values unasked, in hexadecimal, and of which paths.
        heard_at: When its last message came, or in queue mode 0 where it is known to sleep.
        is_known_address: Whether something came from its address since the service started.
        is_silent: Whether it left the last request unanswered, and nothing came from it since.
        is_reachable: False where nothing can be sent to it before it makes contact.
        observed: What it sends on its own account, by path.
        read_formats: Content formats to read in where it is not the first to be tried, by path.
        write_formats: The same to write in.
        is_being_discovered: Whether it is being asked for what is in ``to_discover``.
        turn: Held by the one request that is under way.
        exchange: Waits for the answer to it.
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
        """A device as it was when the service ended; whether it is still at its address is not known."""
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
        """What is kept of it for the time after a restart."""
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
        """Whether it listens; ``awake_seconds`` is for how long one in queue mode does after a message."""
        if not (self.is_reachable and self.is_registered(now)):
            return False
        return not self.queue_mode or now < after_seconds(self.heard_at, awake_seconds)

    def is_registered(self, now: Instant) -> bool:
        """Whether its lifetime has not ended."""
        return now < self.expires_at

    def may_be(self, peer: Peer) -> bool:
        """Whether a message with an unguessable token of this device may have come from a peer.

        Over DTLS it is the identity that says so. In plain text it is the host: a router may give a device another
        port at any time.
        """
        # Mostly it is the very same object, which is seen sooner than that two are alike.
        if peer is self.peer or peer == self.peer:
            return True
        if peer.is_secure or self.peer.is_secure:
            return peer.is_secure and self.peer.is_secure and peer.identity == self.peer.identity
        return peer.host == self.peer.host

    def give_up_exchange(self) -> None:
        """Wait no more for the answer to the request that is under way: it went to where the device is no more."""
        if self.exchange is not None:
            self.exchange.cancel()


@dataclass(slots=True)
class ObservedResource:
    """A resource that a device sends on its own account.

    Attributes:
        device: The device.
        path: The resource.
        token: What its notifications bear.
        is_asked: Whether it was asked to; false where it said at its registration that it would.
        sequence: The number of the newest notification; ``None`` before one that has a number.
        heard_at: When that came.
        is_being_read: Whether its value is going to be read, because it was too long for a notification.
        held: The newest notifications that came while the device was asked to observe; they are told after its answer.
        has_value: Whether the mirror has a value of it from this registration; noted where the device was not asked.
    """

    device: RegisteredDevice
    path: str
    token: bytes
    is_asked: bool = True
    sequence: int | None = None
    heard_at: Instant = 0
    is_being_read: bool = False
    held: deque[Notification] | None = None
    has_value: bool = False

    def hold(self) -> None:
        """Keep notifications until they are released."""
        self.held = deque(maxlen=_MOST_HELD)

    def release(self) -> Iterable[Notification]:
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

    def observed_by(self, notification: Notification) -> ObservedResource | None:
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
