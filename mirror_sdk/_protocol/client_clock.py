"""When things happen here, as far as tables tell it, and under which ids; a cassette tells those of its recording."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime


class ClientClock:
    """The clocks of this machine, and chance."""

    def new_async_id(self) -> str:
        """An id that no other request has."""
        return uuid.uuid4().hex

    def now(self) -> datetime:
        """When the last answer arrived, which is now."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        """A clock that nobody sets."""
        return time.monotonic()

    def begun_seconds(self, begun: float, async_id: str) -> float:  # noqa: ARG002 - a cassette goes by it
        """When a device request began, of which that was told by :meth:`seconds`."""
        return begun

    def received_seconds(self) -> float:
        """When the last answer arrived, by the same clock."""
        return time.monotonic()

    def waiting_seconds(self) -> float:
        """By which clock events are waited for."""
        return time.monotonic()
