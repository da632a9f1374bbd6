"""The share of each address: so many messages a second, and so many at once.

The kernel drops messages of any device when the process takes them too slowly. Without shares a device that sent 10,000
notifications a second cost another one 3 to 10 of 20. To drop one unread takes a tenth of the time of taking it: on two
cores with nothing else to do, another device now loses nothing beside 100,000 a second, and over DTLS beside 29,000.
"""

from __future__ import annotations

from collections.abc import Callable

from mirror_server.extensions.lwm2m.coap.settings import Limits


class Shares:
    """A token bucket for each address, kept as the time at which it is full again.

    An address that is not in the table has a full bucket.

    Args:
        limits: Size and rate of a bucket, and how many addresses are kept.
        now: The clock, in seconds.
    """

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
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
