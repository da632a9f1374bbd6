"""The deadline of a call, which covers all attempts, pauses, pages and response bodies."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from mirror_sdk._arguments import seconds

PROGRESS_BYTES = 64 * 1024
"""The time limit of a long response restarts each time this number of bytes has arrived."""
_LEAST_SECONDS = 0.001
_EARLY_SECONDS = 0.01
"""The tolerance for timers that end too early, in seconds. Without it, a loop would have to wait a second time."""


class Deadline(float):
    """The time limit of a call in seconds. The object also computes the remaining time.

    As a number, a deadline is the total duration, so it can be passed as any timeout, including those of httpx. Each
    method passes its deadline on, so that all requests of a call end at the same time.

    Args:
        limit_seconds: The maximum duration of the call in seconds.
        clock: A monotonic clock in seconds.
    """

    __slots__ = ("_clock", "_ends_at")

    _clock: Callable[[], float]
    _ends_at: float

    def __new__(cls, limit_seconds: float, clock: Callable[[], float] = time.monotonic) -> Self:
        made = super().__new__(cls, limit_seconds)
        made._clock = clock
        made._ends_at = clock() + limit_seconds
        return made

    @property
    def left(self) -> float:
        """The remaining time in seconds."""
        return max(0.0, self._ends_at - self._clock())

    @property
    def is_over(self) -> bool:
        """Whether the deadline has been reached, except for a small tolerance."""
        return self.left <= _EARLY_SECONDS

    def to_connect(self, longest_seconds: float) -> Deadline:
        """Return the deadline for opening a connection."""
        return Deadline(min(longest_seconds, self.left), self._clock)

    @property
    def max_pause(self) -> float:
        """The maximum pause before another attempt, in seconds."""
        return self.left

    @property
    def overrun(self) -> str:
        """The error message for a call that took too long."""
        return f"the whole call took longer than timeout={self:g} s; pass a longer timeout="

    def begin_attempt(self) -> None:
        """Start an attempt. The limit of a whole call continues, unlike that of a :class:`Pace`."""

    def begin_wait(self) -> None:
        """Start to wait for a chunk of the response."""

    def arrived(self, byte_count: int) -> None:
        """Record that bytes of the response have arrived."""


def wait_of(timeout: object) -> Deadline | None:
    """Return the deadline of a wait that starts now, or ``None`` for the default duration.

    With 0, the caller only reads entries that have already arrived. With infinity, it waits forever.

    Raises:
        InvalidValue: ``timeout`` is not a valid number of seconds.
    """
    return None if timeout is None else Deadline(seconds("timeout", timeout))


def left_of(limit_seconds: float) -> float:
    """Return the remaining seconds of a time limit. If the limit is a plain number, return that number."""
    return limit_seconds.left if isinstance(limit_seconds, Deadline) else limit_seconds


def rest_of(wait: float) -> float:
    """Return the remaining seconds of a wait. The result is 0 only if the wait is 0, which has a special meaning."""
    return max(left_of(wait), _LEAST_SECONDS) if wait else wait


class Pace(Deadline):
    """The deadline of a response of any length. It limits the waiting time for each 64 KiB of the response.

    The time that the reader spends on processing does not count.
    """

    __slots__ = ("_arrived", "_left")

    _arrived: int
    _left: float

    @property
    def max_pause(self) -> float:
        """The maximum pause before another attempt, in seconds."""
        return float(self)

    @property
    def overrun(self) -> str:
        """The error message for a response that was too slow."""
        return (
            f"less than {PROGRESS_BYTES // 1024} KiB of the response arrived within {self:g} s; create the client with"
            " a larger timeout=. Or pass timeout= to this call: it then limits the whole call instead of each"
            f" {PROGRESS_BYTES // 1024} KiB"
        )

    def begin_attempt(self) -> None:
        """Restart the limit at the start of an attempt."""
        self._arrived, self._left = 0, float(self)
        self.begin_wait()

    def begin_wait(self) -> None:
        """Continue the limit of the current part of the response."""
        self._ends_at = self._clock() + self._left

    def arrived(self, byte_count: int) -> None:
        """Record that bytes have arrived, and restart the limit after each 64 KiB."""
        self._arrived += byte_count
        if self._arrived >= PROGRESS_BYTES:
            self._arrived, self._left = 0, float(self)
        else:
            self._left = self.left
