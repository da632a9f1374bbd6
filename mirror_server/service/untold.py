"""Requests whose async-id the service made, until who placed them was told it: no device gets one before.

A program that learns the id from the 202 passes over an answer that comes sooner, and waits for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from mirror_server.clock import Clock, Timer
from mirror_server.core.instants import after_seconds

_LONGEST_SECONDS = 1


@dataclass(slots=True)
class _Held:
    """A request that is held, and what ends that at the latest, once it is stored."""

    device_id: str
    timer: Timer | None = None


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
        # By async-id, the oldest first.
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def hold(self, device_id: str, async_id: str) -> None:
        """Hold back a request that is about to be stored."""
        with self._lock:
            self._held[async_id] = _Held(device_id)

    def stored(self, device_id: str, async_id: str) -> None:
        """It is on disk: from now on it is held for a second at most, whatever becomes of its client or process."""
        due_at = after_seconds(self._clock.now(), _LONGEST_SECONDS)
        timer = self._clock.call_at(due_at, lambda: self._give_up(device_id, async_id))
        with self._lock:
            held = self._held.get(async_id)
            if held is not None:
                held.timer = timer
                return
        timer.cancel()

    def hold_of_other(self, *requests: str) -> None:
        """Hold back requests that another process has stored, each given as device id, a space and async-id."""
        for request in requests:
            device_id, async_id = request.split(" ")
            self.hold(device_id, async_id)
            self.stored(device_id, async_id)

    def release(self, *async_ids: str) -> None:
        """Hold them no longer; their devices are yet to be woken."""
        for async_id in async_ids:
            with self._lock:
                held = self._held.pop(async_id, None)
            if held is not None and held.timer is not None:
                held.timer.cancel()

    def is_held(self, async_id: str) -> bool:
        """Whether the device is not to get it yet."""
        return async_id in self._held

    def oldest(self, device_id: str) -> str | None:
        """The async-id of the request that has been held back longest of those for a device."""
        with self._lock:
            return next((async_id for async_id, held in self._held.items() if held.device_id == device_id), None)

    def _give_up(self, device_id: str, async_id: str) -> None:
        self.release(async_id)
        self._wake(device_id)
