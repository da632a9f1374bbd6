"""The registered devices and their observed resources, in memory. Objects are small, because there may be many.

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

from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.extensions.lwm2m.coap_commands import structured_formats
from mirror_server.extensions.lwm2m.links import Structure
from mirror_server.extensions.lwm2m.registration_parameters import RegistrationParameters
from mirror_server.extensions.lwm2m.transport_api import ObserveNotification, Peer

_TOKEN_BYTES = 8
"""The maximum in CoAP. Only someone who sees the traffic knows such a token."""
# Observe numbers have 24 bits and wrap around. A number is newer if it is ahead by less than half of them, or if 128 s
# have passed. Source: RFC 7641, 3.4.
_HALF_OF_SEQUENCES = 1 << 23
_MAX_BUFFERED = 100
_SEQUENCE_LIVES_MILLISECONDS = 128_000
_AS_STORED = ("device_id", "location", "version", "binding", "prefix")


@dataclass(slots=True, eq=False, kw_only=True)
class RegisteredDevice(RegistrationParameters):
    """A registered device, with the parameters of its registration.

    Attributes:
        device_id: Its id in the directory.
        location: The last segment of the path of its registration.
        peer: Its address.
        expires_at: The expiry of the registration, unless the device updates it before.
        prefix: The path under which the device has its objects. ``""`` for the root.
        structured: The supported content formats that can represent any value, in the order to try.
        links_hash: The hash of its links.
        to_discover: The paths that it registered without resources and that were not discovered yet.
        tokens: Paths of auto-observed resources, by the hexadecimal tokens of their notifications.
        last_seen_at: The time of the last message. 0 if the device is in queue mode and certainly sleeps.
        is_address_fresh: Whether a message arrived from its address since the service started.
        is_silent: Whether it did not respond to the last request and has sent nothing since then.
        is_reachable: False if the server cannot send anything to the device before its next message.
        observed: The observed resources, by path.
        read_formats: The content formats for reads, by path, if not the first one to try.
        write_formats: The same for writes.
        is_being_discovered: Whether the paths in ``to_discover`` are being discovered.
        turn: The lock that allows only one request in flight.
        exchange: The task that waits for the response of that request.
        is_executing: Whether that request is an execute.
    """

    device_id: str
    location: str
    peer: Peer
    expires_at: Instant
    last_seen_at: Instant
    prefix: str = ""
    structured: tuple[int, ...] = ()
    links_hash: bytes = b""
    to_discover: tuple[str, ...] = ()
    tokens: Mapping[str, str] = field(default_factory=dict)
    is_address_fresh: bool = True
    is_silent: bool = False
    is_reachable: bool = True
    observed: dict[str, ObservedResource] = field(default_factory=dict)
    read_formats: dict[str, int] = field(default_factory=dict)
    write_formats: dict[str, int] = field(default_factory=dict)
    is_being_discovered: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    exchange: asyncio.Task[Any] | None = None
    is_executing: bool = False
    # Devices are compared by identity: two devices may have equal parameters.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @classmethod
    def from_store(cls, row: Mapping[str, Any]) -> RegisteredDevice:
        """Return a stored device. Its address may have changed in the meantime."""
        return cls(
            **{name: row[name] for name in (*_AS_STORED, "endpoint_name", "lifetime_seconds")},
            peer=Peer(row["address"], bool(row["is_secure"]), row["identity"]),
            queue_mode=bool(row["queue_mode"]),
            expires_at=row["registration_expires_at"],
            last_seen_at=row["last_contact_at"],
            links_hash=bytes(row["links_hash"]),
            structured=tuple(map(int, row["structured"].split())),
            to_discover=tuple(row["to_discover"].split()),
            tokens=orjson.loads(row["tokens"]),
            is_address_fresh=False,
            # DTLS sessions do not survive a restart, and only devices can start a new one.
            is_reachable=not row["is_secure"],
        )

    def to_store(self) -> dict[str, object]:
        """Return the row to store, so that the registration survives a restart."""
        return {name: getattr(self, name) for name in _AS_STORED} | {
            "address": self.peer.address,
            "is_secure": int(self.peer.is_secure),
            "identity": self.peer.identity,
            "links_hash": self.links_hash,
            "structured": " ".join(map(str, self.structured)),
            "to_discover": " ".join(self.to_discover),
            "tokens": orjson.dumps(self.tokens).decode(),
        }

    def apply_structure(self, structure: Structure) -> None:
        """Set the attributes that depend on the links of the device."""
        links = structure.links
        self.links_hash, self.to_discover, self.prefix = structure.links_hash, structure.unknown, links.prefix
        self.structured = structured_formats(self.version, links.content_formats)
        self.tokens = {
            each.auto_token.hex(): each.announced.path for each in links.resources if each.auto_token is not None
        }

    def is_awake(self, now: Instant, awake_seconds: float) -> bool:
        """Whether the device listens. In queue mode, it listens only for ``awake_seconds`` after each message."""
        if not (self.is_reachable and self.is_registered(now)):
            return False
        return not self.queue_mode or now < after_seconds(self.last_seen_at, awake_seconds)

    def is_registered(self, now: Instant) -> bool:
        """Whether the registration has not expired."""
        return now < self.expires_at

    def matches(self, peer: Peer) -> bool:
        """Whether a message with an unguessable token of this device may be from a peer.

        Over DTLS the identities must be equal. Over plain CoAP the hosts must be equal: a router may map a device to
        another port at any time.
        """
        # Usually it is the same object, and comparing identities is faster.
        if peer is self.peer or peer == self.peer:
            return True
        if peer.is_secure or self.peer.is_secure:
            return peer.is_secure and self.peer.is_secure and peer.identity == self.peer.identity
        return peer.host == self.peer.host

    def cancel_exchange(self) -> None:
        """Cancel the request in flight, for example because it was sent to a previous address of the device."""
        if self.exchange is not None:
            self.exchange.cancel()


@dataclass(slots=True)
class ObservedResource:
    """An observed resource of a device.

    Attributes:
        device: The device.
        path: The resource.
        token: The token of its notifications.
        is_requested: Whether the server sent an observe request. False for an auto-observed resource.
        sequence: The Observe number of the newest notification, or ``None`` if none had a number.
        sequence_at: The time of that notification.
        is_being_read: Whether its value is about to be read, because it did not fit into a notification.
        buffered: The newest notifications that arrived before the response to the observe request. They are reported
            after it. ``None`` while notifications are not buffered.
        has_value: Whether the mirror has a value from this registration. Only set if ``is_requested`` is false.
    """

    device: RegisteredDevice
    path: str
    token: bytes
    is_requested: bool = True
    sequence: int | None = None
    sequence_at: Instant = 0
    is_being_read: bool = False
    buffered: deque[ObserveNotification] | None = None
    has_value: bool = False

    def start_buffering(self) -> None:
        """Buffer notifications until :meth:`stop_buffering`."""
        self.buffered = deque(maxlen=_MAX_BUFFERED)

    def stop_buffering(self) -> Iterable[ObserveNotification]:
        """Return the buffered notifications in order, and stop to buffer."""
        buffered, self.buffered = self.buffered or (), None
        return buffered

    def advance_sequence(self, sequence: int | None, now: Instant) -> bool:
        """Record the number of a notification if it is newer than all before; return whether it is.

        Source: RFC 7641, 3.4.
        """
        last = self.sequence
        if sequence is not None and last is not None and 0 <= now - self.sequence_at <= _SEQUENCE_LIVES_MILLISECONDS:
            ahead = (sequence - last) % (2 * _HALF_OF_SEQUENCES)
            if not 0 < ahead < _HALF_OF_SEQUENCES:
                return False
        self.sequence, self.sequence_at = sequence, now
        return True


class DeviceRegistry:
    """The registered devices and their observed resources, indexed by several keys."""

    def __init__(self) -> None:
        self._by_id: dict[str, RegisteredDevice] = {}
        self._by_location: dict[str, RegisteredDevice] = {}
        self._by_name: dict[str, RegisteredDevice] = {}
        # Several devices may share one socket, for example that of a gateway.
        self._by_peer: dict[Peer, dict[str, RegisteredDevice]] = {}
        self._by_identity: dict[str, RegisteredDevice] = {}
        # Tokens chosen by the server are unique. Those chosen by devices are short and unique per peer only.
        self._requested: dict[bytes, ObservedResource] = {}
        self._auto_observed: dict[tuple[Peer, bytes], ObservedResource] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[RegisteredDevice]:
        # A copy, because callers remove devices meanwhile.
        return iter(list(self._by_id.values()))

    def add(self, device: RegisteredDevice) -> None:
        """Add a device. The caller has removed any device with the same id or name."""
        self._by_id[device.device_id] = device
        self._by_location[device.location] = device
        self._by_name[device.endpoint_name] = device
        if device.peer.identity is not None:
            self._by_identity[device.peer.identity] = device
        self._by_peer.setdefault(device.peer, {})[device.device_id] = device
        self.expect_auto_observed(device)

    def remove(self, device: RegisteredDevice) -> None:
        """Remove a device and its observations."""
        for observed in device.observed.values():
            self._forget(observed)
        device.observed.clear()
        # A new registration may have replaced it in the indexes.
        if self._by_id.get(device.device_id) is device:
            del self._by_id[device.device_id]
            del self._by_location[device.location]
            if self._by_name.get(device.endpoint_name) is device:
                del self._by_name[device.endpoint_name]
            if self._by_identity.get(device.peer.identity or "") is device:
                del self._by_identity[device.peer.identity or ""]
            self._remove_from_peer(device)

    def rename(self, device: RegisteredDevice, endpoint_name: str) -> None:
        """Change the endpoint name of a device. Another device of that name is then found by id and location only."""
        if self._by_name.get(device.endpoint_name) is device:
            del self._by_name[device.endpoint_name]
        device.endpoint_name = endpoint_name
        self._by_name[endpoint_name] = device

    def move(self, device: RegisteredDevice, peer: Peer) -> None:
        """Change the address of a device. Its observations continue."""
        self._remove_from_peer(device)
        # The keys of auto-observed resources contain the address.
        auto_observed = [observed for observed in device.observed.values() if not observed.is_requested]
        for observed in auto_observed:
            self._forget(observed)
        device.peer = peer
        for observed in auto_observed:
            self._auto_observed[peer, observed.token] = observed
        self._by_peer.setdefault(peer, {})[device.device_id] = device

    def _remove_from_peer(self, device: RegisteredDevice) -> None:
        at_peer = self._by_peer.get(device.peer, {})
        at_peer.pop(device.device_id, None)
        if not at_peer:
            self._by_peer.pop(device.peer, None)

    def by_id(self, device_id: str) -> RegisteredDevice | None:
        """Return the device with this id."""
        return self._by_id.get(device_id)

    def by_location(self, location: str) -> RegisteredDevice | None:
        """Return the device with this registration location."""
        return self._by_location.get(location)

    def by_name(self, endpoint_name: str) -> RegisteredDevice | None:
        """Return the device with this endpoint name."""
        return self._by_name.get(endpoint_name)

    def by_peer(self, peer: Peer) -> RegisteredDevice | None:
        """Return the device that sent a message from a peer.

        Over DTLS that is the device with the identity of the peer, at any address. Over plain CoAP it is the last
        device that registered from the address.
        """
        if peer.identity is not None:
            return self._by_identity.get(peer.identity)
        at_peer = self.at(peer)
        return at_peer[-1] if at_peer else None

    def at(self, peer: Peer) -> list[RegisteredDevice]:
        """Return the devices at the address of a peer, usually one."""
        return list(self._by_peer.get(peer, {}).values())

    def observe(self, device: RegisteredDevice, path: str) -> ObservedResource:
        """Return the observation of a resource. Create it with a new token if there is none."""
        observed = device.observed.get(path)
        if observed is None:
            observed = device.observed[path] = ObservedResource(device, path, secrets.token_bytes(_TOKEN_BYTES))
            self._requested[observed.token] = observed
        return observed

    def expect_auto_observed(self, device: RegisteredDevice) -> None:
        """Accept notifications of the auto-observed resources of a device."""
        for token, path in device.tokens.items():
            self.end_observation(device, path)
            observed = device.observed[path] = ObservedResource(device, path, bytes.fromhex(token), is_requested=False)
            self._auto_observed[device.peer, observed.token] = observed

    def end_observation(self, device: RegisteredDevice, path: str) -> None:
        """Remove the observation of a resource, if there is one."""
        observed = device.observed.pop(path, None)
        if observed is not None:
            self._forget(observed)

    def observed_by(self, notification: ObserveNotification) -> ObservedResource | None:
        """Return the resource of a notification, or ``None`` if its token is unknown or belongs to another peer."""
        peer = notification.peer
        observed = self._requested.get(notification.token)
        if observed is None:
            return self._auto_observed.get((peer, notification.token))
        return observed if observed.device.matches(peer) else None

    def _forget(self, observed: ObservedResource) -> None:
        if observed.is_requested:
            self._requested.pop(observed.token, None)
        elif self._auto_observed.get((observed.device.peer, observed.token)) is observed:
            del self._auto_observed[observed.device.peer, observed.token]
