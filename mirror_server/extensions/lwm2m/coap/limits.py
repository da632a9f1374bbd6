"""Limits for the communication with devices, which are timeouts, memory limits and rate limits per address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Timeouts and retransmissions.

    With three retransmissions, an attempt ends after 30 to 45 s. So a command ends long before the service's limit of
    120 s. If a device loses every second datagram, one of the four transmissions reaches it in 15 of 16 cases. The four
    retransmissions of RFC 7252 would take up to 93 s.

    Attributes:
        ack_timeout_seconds: The minimum of the first wait for an acknowledgement. Each further wait is twice as long.
        ack_random_factor: The maximum factor by which the first wait is longer, so that devices do not all retransmit
            at the same time.
        retransmissions: The maximum number of retransmissions of a message.
        separate_response_seconds: The time limit for a response after an empty acknowledgement.
        empty_ack_seconds: The time after which a request that has no response yet gets an empty acknowledgement. It is
            less than the 2 s after which the device would retransmit the request.
        response_seconds: The time limit for a request with all of its blocks.
        exchange_lifetime_seconds: The time for which a request is remembered, so that a duplicate is not handled twice.
            A device retransmits for at most 93 s. The 154 s that RFC 7252 adds for slow networks are left out. In that
            time, a restarted device that reuses its message ids would get the response to an earlier request.
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
        payload_bytes: The maximum length of a payload, including all of its blocks.
        requests_in_progress: The maximum number of requests in progress from all devices. It is also the maximum number
            of concurrent registrations.
        requests_in_progress_of_peer: The maximum number of requests in progress from one device.
        messages_per_second_of_peer: The sustained rate limit of one device. Messages above the limit are dropped. A
            device that sends notifications for a hundred resources per second needs half of that rate.
        burst_of_peer: The number of messages that one device may send in a burst, in addition to the sustained rate.
        remembered_messages: The maximum number of messages that are remembered to recognize duplicates.
        remembered_addresses: The maximum number of addresses with a cached local address and a rate limit.
        uploads: The maximum number of incomplete block-wise transfers.
        uploads_bytes: The maximum number of bytes in the incomplete block-wise transfers.
        upload_idle_seconds: The time without a block after which a transfer is dropped.
        handshakes: The maximum number of DTLS handshakes in progress from verified addresses.
        handshake_seconds: The time limit for a handshake.
        sessions: The maximum number of DTLS sessions. A new session replaces the session that has been idle for the
            longest time.
        sessions_of_identity: The maximum number of sessions of one identity, which may change its address now and then.
        receive_buffer_bytes: The size of the kernel's receive buffer, which absorbs bursts.
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
    """Rate limits per address. Each allows a number of messages per second, plus a burst.

    If the process reads messages too slowly, the kernel drops messages of any device. Without limits, a device that
    sent 10,000 notifications per second made another device lose 3 to 10 of 20 messages. Dropping a message unread
    takes a tenth of the time of parsing it. On two otherwise idle cores, another device loses nothing next to 100,000
    messages per second, and over DTLS next to 29,000.

    Each address has a token bucket, which is stored as the time at which it will be full again. An address that is not
    in the table has a full bucket.

    Args:
        limits: The size and the rate of a bucket, and the maximum number of addresses.
        now: A function that returns the current time of a clock in seconds.
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
        """Return whether the next message of an address would be above the limit. This does not count a message."""
        full_at = self._full_at.get(address)
        return full_at is not None and full_at - self._now() > self._seconds_of_burst - self._seconds_per_message

    def consume(self, address: str) -> bool:
        """Count a message of an address. If it is above the limit, return ``False`` and do not count it."""
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
