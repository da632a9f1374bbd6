"""The time limit of a call: of all its attempts, the pauses between them, each page and the body of each response."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from mirror_sdk._arguments import seconds

PROGRESS_BYTES = 64 * 1024
"""Number of bytes of a long response that have to arrive before its limit restarts."""
_LEAST_SECONDS = 0.001
_EARLY_SECONDS = 0.01
"""The time by which a timer may end too early. A loop that waits for the exact end would then wait again."""


class Deadline(float):
    """The seconds that a call may take, and those that are left.

    As a number it is the total limit, so it can be passed as any timeout, also to httpx. Each method passes its
    deadline on, so that all requests of a call end at one time.

    Args:
        limit_seconds: How long the call may take.
        clock: A monotonic clock, in seconds.
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
        """The seconds that are left."""
        return max(0.0, self._ends_at - self._clock())

    @property
    def is_over(self) -> bool:
        """Whether hardly any time is left."""
        return self.left <= _EARLY_SECONDS

    def to_connect(self, longest_seconds: float) -> Deadline:
        """Return the deadline for making a connection."""
        return Deadline(min(longest_seconds, self.left), self._clock)

    @property
    def max_pause(self) -> float:
        """The longest pause before another attempt, in seconds."""
        return self.left

    @property
    def overrun(self) -> str:
        """The message of a time-out."""
        return f"the whole call took longer than timeout={self:g} s; pass a longer timeout="

    def begin_attempt(self) -> None:
        """Note that an attempt starts. A limit for the whole call continues; see :class:`Pace`."""

    def begin_wait(self) -> None:
        """Note that the wait for a chunk of the response starts."""

    def arrived(self, byte_count: int) -> None:
        """Note that bytes of the response arrived."""


def wait_of(timeout: object) -> Deadline | None:
    """Return the deadline of a wait that starts now, or ``None`` for the default wait.

    With 0 the caller only reads what has arrived. With infinity it waits forever.

    Raises:
        InvalidValue: ``timeout`` is not a valid number of seconds.
    """
    return None if timeout is None else Deadline(seconds("timeout", timeout))


def left_of(limit_seconds: float) -> float:
    """Return what is left of a limit, which may be a deadline."""
    return limit_seconds.left if isinstance(limit_seconds, Deadline) else limit_seconds


def rest_of(wait: float) -> float:
    """Return what is left of a wait. It is never 0 unless the wait is 0, because 0 has a special meaning."""
    return max(left_of(wait), _LEAST_SECONDS) if wait else wait


class Pace(Deadline):
    """The limit of a response of any length: the seconds of waiting for each step of it.

    The time that the reader spends on a step does not count.
    """

    __slots__ = ("_arrived", "_left")

    _arrived: int
    _left: float

    @property
    def max_pause(self) -> float:
        """The longest pause before another attempt, in seconds."""
        return float(self)

    @property
    def overrun(self) -> str:
        """The message of a time-out."""
        return (
            f"less than {PROGRESS_BYTES // 1024} KiB of the response arrived within {self:g} s; create the client with"
            " a larger timeout=. Or pass timeout= to this call: it then limits the whole call instead of each"
            f" {PROGRESS_BYTES // 1024} KiB"
        )

    def begin_attempt(self) -> None:
        """Restart the limit."""
        self._arrived, self._left = 0, float(self)
        self.begin_wait()

    def begin_wait(self) -> None:
        """Continue the step."""
        self._ends_at = self._clock() + self._left

    def arrived(self, byte_count: int) -> None:
        """Restart the limit after a complete step."""
        self._arrived += byte_count
        if self._arrived >= PROGRESS_BYTES:
            self._arrived, self._left = 0, float(self)
        else:
            self._left = self.left
