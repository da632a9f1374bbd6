"""When something is to be read again: on its own rhythm, sooner after an event, and never twice at a time."""

from __future__ import annotations

from collections.abc import Callable


class Reload:
    """Keeps when a reading is due and which one is the newest.

    Args:
        clock: Seconds.
        every_seconds: How long after one reading the next is due.
    """

    def __init__(self, clock: Callable[[], float], every_seconds: float) -> None:
        self._clock = clock
        self._every_seconds = every_seconds
        self._due_at: float | None = None
        self._number = 0
        self.is_running = False

    def within(self, seconds: float) -> None:
        """Something changed: read again in so many seconds at the latest."""
        due_at = self._clock() + seconds
        self._due_at = due_at if self._due_at is None else min(due_at, self._due_at)

    @property
    def is_due(self) -> bool:
        """Whether a reading is to begin now."""
        return self._due_at is not None and not self.is_running and self._clock() >= self._due_at

    def begin(self) -> int:
        """A reading begins; gives its number."""
        self._number += 1
        self._due_at = None
        self.is_running = True
        return self._number

    def end(self, number: int) -> bool:
        """A reading ended. ``False`` for one that was overtaken by a newer one: what it brought is old."""
        if number != self._number:
            return False
        self.is_running = False
        self.within(self._every_seconds)
        return True
