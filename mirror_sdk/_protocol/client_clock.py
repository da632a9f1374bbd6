"""The source of times and ids of a client. A cassette replays the recorded times and ids."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime


class ClientClock:
    """The clocks of this machine, and random ids."""

    def new_async_id(self) -> str:
        """Return an id that no other request has."""
        return uuid.uuid4().hex

    def now(self) -> datetime:
        """Return when the last response arrived, which is now."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        """Return the time of a monotonic clock."""
        return time.monotonic()

    def started_seconds(self, started: float, async_id: str) -> float:  # noqa: ARG002 - a cassette goes by it
        """Return when a device request started; ``started`` is that time by :meth:`seconds`."""
        return started

    def received_seconds(self) -> float:
        """Return when the last response arrived, by the same clock."""
        return time.monotonic()

    def waiting_seconds(self) -> float:
        """Return the time of the clock for waits."""
        return time.monotonic()
