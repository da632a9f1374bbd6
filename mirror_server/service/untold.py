"""Requests whose async-id the service made, until who placed them was told it: no device gets one before.

A program that learns the id from the 202 passes over an answer that comes sooner, and waits for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mirror_server.clock import Clock, Timer
from mirror_server.core.instants import after_seconds

_LONGEST_SECONDS = 1


class Untold:
    """What is held back, in this process and in others on its database.

    It is in memory alone: after a restart nobody can be told any more, and all that waits is delivered.

    Args:
        clock: Domain time.
        wake: Called with a device id when something that waits for it is held no longer.
    """

    def __init__(self, clock: Clock, wake: Callable[[str], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._held: dict[str, Timer | None] = {}
        self._lock = threading.Lock()

    def hold(self, async_id: str) -> None:
        """Hold back a request that is about to be stored."""
        with self._lock:
            self._held[async_id] = None

    def stored(self, device_id: str, async_id: str) -> None:
        """It is on disk: from now on it is held for a second at most, whatever becomes of its client or process."""
        due_at = after_seconds(self._clock.now(), _LONGEST_SECONDS)
        timer = self._clock.call_at(due_at, lambda: self._give_up(device_id, async_id))
        with self._lock:
            if async_id in self._held:
                self._held[async_id] = timer
                return
        timer.cancel()

    def hold_of_other(self, device_id: str, async_id: str) -> None:
        """Hold back a request that another process has stored."""
        self.hold(async_id)
        self.stored(device_id, async_id)

    def release(self, async_id: str) -> None:
        """Hold it no longer; its device is yet to be woken."""
        with self._lock:
            timer = self._held.pop(async_id, None)
        if timer is not None:
            timer.cancel()

    def is_held(self, async_id: str) -> bool:
        """Whether the device is not to get it yet."""
        return async_id in self._held

    def _give_up(self, device_id: str, async_id: str) -> None:
        self.release(async_id)
        self._wake(device_id)
