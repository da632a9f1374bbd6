"""The limits of the exchange with devices: times, memory, and the share of each address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """When a message is sent again, and when nobody waits for an answer any longer. In seconds.

    With three retransmissions an attempt ends after 30 to 45 s, four sendings reach a device that loses every second
    datagram in fifteen cases of sixteen, and a command has its end long before the service's own limit of 120 s. The
    four retransmissions of RFC 7252 would take up to 93 s.

    Attributes:
        ack_timeout_seconds: The first wait for an acknowledgement, at least; each next one is twice as long.
        ack_random_factor: The first wait is longer by up to this factor, so that not all speak at the same time.
        retransmissions: How often a message is sent again.
        separate_response_seconds: How long the answer may take that a device announced by an empty acknowledgement.
        empty_ack_seconds: After how long a request is acknowledged whose answer takes its time; before the 2 s after
            which it would be sent again.
        answer_seconds: How long a request may take in all, with all its blocks.
        exchange_lifetime_seconds: For how long a request is known when it comes again, so that it is not done twice. A
            device sends it for 93 s at most; RFC 7252 adds 154 s for a slow network, in which one that was started
            anew and counts its messages from the same number again would get an answer to what it asked before.
        handshake_seconds: How long a DTLS handshake of :mod:`mirror_server.extensions.lwm2m.device` may take.
    """

    ack_timeout_seconds: float = 2.0
    ack_random_factor: float = 1.5
    retransmissions: int = 3
    separate_response_seconds: float = 45.0
    empty_ack_seconds: float = 1.0
    response_seconds: float = 100.0
    exchange_lifetime_seconds: float = 100.0
    handshake_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class CoapLimits:
    """How much memory strangers can take.

    Attributes:
        payload_bytes: The longest payload, in blocks or not.
        requests_in_hand: Requests of devices that are being answered, of all of them; as many as register at once.
        requests_in_hand_of_peer: The same, of one device.
        messages_per_second_of_peer: What one device may send for long; the rest is dropped. A device that notifies of
            a hundred resources each second needs half of it.
        burst_of_peer: What one device may send at once, besides.
        remembered_messages: Requests that are known when they come again.
        remembered_addresses: Addresses whose way back is known, and whose share is counted.
        uploads: Transfers in blocks that are not complete.
        uploads_bytes: What these hold together.
        upload_idle_seconds: After how long without a block an upload is given up.
        handshakes: DTLS handshakes that have begun with a proven address and are not done.
        handshake_seconds: How long one may take.
        sessions: DTLS sessions; the one that was silent for the longest goes for a new one.
        sessions_of_identity: The same of one identity, which comes from a new address now and then.
        receive_buffer_bytes: What the kernel keeps of a burst.
    """

    payload_bytes: int = 256 * 1024
    requests_in_hand: int = 16_384
    requests_in_hand_of_peer: int = 16
    messages_per_second_of_peer: int = 200
    burst_of_peer: int = 1_000
    remembered_messages: int = 50_000
    remembered_addresses: int = 50_000
    uploads: int = 1_000
    uploads_bytes: int = 16 * 1024 * 1024
    upload_idle_seconds: float = 60.0
    handshakes: int = 1_000
    handshake_seconds: float = 20.0
    sessions: int = 20_000
    sessions_of_identity: int = 4
    receive_buffer_bytes: int = 4 * 1024 * 1024


DEFAULT_TUNING = Tuning()
DEFAULT_LIMITS = CoapLimits()


class AddressShares:
    """The share of each address: so many messages a second, and so many at once.

    The kernel drops messages of any device when the process takes them too slowly. Without shares a device that sent
    10,000 notifications a second cost another one 3 to 10 of 20. To drop one unread takes a tenth of the time of
    reading it: on two cores with nothing else to do, another device now loses nothing beside 100,000 a second, and over
    DTLS beside 29,000.

    It is a token bucket for each address, stored as the time at which it is full again. An address that is not in the
    table has a full bucket.

    Args:
        limits: Size and rate of a bucket, and how many addresses are kept.
        now: The clock, in seconds.
    """

    def __init__(self, limits: CoapLimits, now: Callable[[], float]) -> None:
        self._now = now
        self._seconds_each = 1 / limits.messages_per_second_of_peer
        self._seconds_of_burst = limits.burst_of_peer * self._seconds_each
        self._most = limits.remembered_addresses
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def is_used_up(self, address: str) -> bool:
        """Whether an address would get no message through now; takes nothing."""
        full_at = self._full_at.get(address)
        return full_at is not None and full_at - self._now() > self._seconds_of_burst - self._seconds_each

    def take(self, address: str) -> bool:
        """Count a message of an address; ``False`` where it is more than its share, and is not counted."""
        now = self._now()
        full_at = self._full_at.get(address)
        if full_at is None:
            if len(self._full_at) >= self._most:
                del self._full_at[next(iter(self._full_at))]
            full_at = now
        full_at = max(full_at, now) + self._seconds_each
        if full_at - now > self._seconds_of_burst:
            return False
        self._full_at[address] = full_at
        return True
