"""The clocks and ids of a client. A subclass replays the ones in a cassette."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime


class ClientClock:
    """The clocks of this machine, and a generator of random ids."""

    def new_async_id(self) -> str:
        """Return a unique async-id for a request."""
        return uuid.uuid4().hex

    def now(self) -> datetime:
        """Return the time at which the last response arrived, which is the current time."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        """Return the time of a monotonic clock in seconds."""
        return time.monotonic()

    def started_seconds(self, started: float, async_id: str) -> float:  # noqa: ARG002 - a cassette goes by it
        """Return the time at which a device request started. ``started`` is that time according to :meth:`seconds`."""
        return started

    def received_seconds(self) -> float:
        """Return the time at which the last response arrived, by the monotonic clock."""
        return time.monotonic()

    def waiting_seconds(self) -> float:
        """Return the time of the clock that measures waits, in seconds."""
        return time.monotonic()
