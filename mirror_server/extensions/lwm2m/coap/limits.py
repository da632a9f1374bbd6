"""The limits of the exchange with devices: times, memory, and rate limits per address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Timeouts and retransmissions.

    With three retransmissions, an attempt ends after 30 to 45 s, so a command ends long before the service's limit of
    120 s. If half of all datagrams are lost, at least one of four transmissions arrives in 15 of 16 cases. The four
    retransmissions of RFC 7252 would take up to 93 s.

    Attributes:
        ack_timeout_seconds: The minimum of the first wait for an acknowledgement. Each further wait is twice as long.
        ack_random_factor: The first wait is longer by up to this factor, so that devices do not all retransmit at once.
        retransmissions: The maximum number of retransmissions of a message.
        separate_response_seconds: The time limit for a response after an empty acknowledgement.
        empty_ack_seconds: The time after which a request without a response gets an empty acknowledgement. Less than
            the 2 s after which the device would retransmit it.
        response_seconds: The time limit for a request with all its blocks.
        exchange_lifetime_seconds: How long a request is remembered, so that a duplicate is not handled twice. A device
            retransmits for at most 93 s. RFC 7252 adds 154 s for slow networks. This server does not: within that time,
            a device that restarted and reuses message ids would get the response to an earlier request.
        handshake_seconds: The time limit for a DTLS handshake of :mod:`mirror_server.extensions.lwm2m.device`.
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
    """Limits of the memory that unauthenticated clients can use.

    Attributes:
        payload_bytes: The maximum length of a payload, all blocks together.
        requests_in_progress: The maximum number of requests in progress of all devices. It allows that many concurrent
            registrations.
        requests_in_progress_of_peer: The same for one device.
        messages_per_second_of_peer: The sustained rate limit of one device. Messages above it are dropped. A device
            that notifies of a hundred resources per second needs half of it.
        burst_of_peer: The number of messages that one device may additionally send in a burst.
        remembered_messages: The maximum number of messages remembered to recognize duplicates.
        remembered_addresses: The maximum number of addresses with a cached local address and a rate limit.
        uploads: The maximum number of incomplete block-wise transfers.
        uploads_bytes: The maximum number of bytes in these transfers.
        upload_idle_seconds: The time without a block after which a transfer is dropped.
        handshakes: The maximum number of DTLS handshakes in progress from verified addresses.
        handshake_seconds: The time limit for a handshake.
        sessions: The maximum number of DTLS sessions. If the limit is reached, a new session replaces the session that
            was idle for the longest time.
        sessions_of_identity: The same for one identity. A device with this identity may change its address now and
            then.
        receive_buffer_bytes: The size of the kernel's receive buffer, for bursts.
    """

    payload_bytes: int = 256 * 1024
    requests_in_progress: int = 16_384
    requests_in_progress_of_peer: int = 16
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


class AddressRateLimiter:
    """Rate limits per address: a number of messages per second, plus a burst.

    The kernel drops messages of any device when the process reads them too slowly. Without limits, a device that sent
    10,000 notifications per second made another one lose 3 to 10 of 20. To drop a message unread takes a tenth of the
    time of parsing it. On two otherwise idle cores, another device loses nothing next to 100,000 messages per second,
    and over DTLS next to 29,000.

    Each address has a token bucket, stored as the time at which it is full again. An address that is not in the table
    has a full bucket.

    Args:
        limits: Size and rate of a bucket, and the maximum number of addresses.
        now: The clock, in seconds.
    """

    def __init__(self, limits: CoapLimits, now: Callable[[], float]) -> None:
        self._now = now
        self._seconds_per_message = 1 / limits.messages_per_second_of_peer
        self._seconds_of_burst = limits.burst_of_peer * self._seconds_per_message
        self._max_addresses = limits.remembered_addresses
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def is_exhausted(self, address: str) -> bool:
        """Whether the next message of an address would be above the limit. Does not count a message."""
        full_at = self._full_at.get(address)
        return full_at is not None and full_at - self._now() > self._seconds_of_burst - self._seconds_per_message

    def consume(self, address: str) -> bool:
        """Count a message of an address. Return ``False``, and do not count it, if it is above the limit."""
        now = self._now()
        full_at = self._full_at.get(address)
        if full_at is None:
            if len(self._full_at) >= self._max_addresses:
                del self._full_at[next(iter(self._full_at))]
            full_at = now
        full_at = max(full_at, now) + self._seconds_per_message
        if full_at - now > self._seconds_of_burst:
            return False
        self._full_at[address] = full_at
        return True
