"""The limit on a call: on all its attempts, the pauses between them, every page and the body of each answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from mirror_sdk._arguments import seconds

STEP_BYTES = 64 * 1024
"""What has to come of a long answer before its time begins anew."""
_LEAST_SECONDS = 0.001
_EARLY_SECONDS = 0.01
"""Timers may end so much before their time."""


class Deadline(float):
    """The seconds a call may take, growing fewer.

    As a number it is the whole limit, so that it can stand wherever a time-out is given, in httpx too. What is left now
    it knows itself: each method passes on the one it was given, and all of them end at one time.

    Args:
        limit_seconds: How long the call may take.
        clock: Seconds, never set back.
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
        """How many seconds are left."""
        return max(0.0, self._ends_at - self._clock())

    @property
    def is_over(self) -> bool:
        """Whether hardly any are."""
        return self.left <= _EARLY_SECONDS

    def to_connect(self, longest_seconds: float) -> Deadline:
        """The end of the time in which a connection is to be made."""
        return Deadline(min(longest_seconds, self.left), self._clock)

    @property
    def longest_pause(self) -> float:
        """How many seconds may pass before another attempt begins."""
        return self.left

    @property
    def overrun(self) -> str:
        """What took too long."""
        return f"the whole call took longer than timeout={self:g} s; give a longer timeout="

    def begin_attempt(self) -> None:
        """An attempt begins, before anything is waited for."""

    def begin_wait(self) -> None:
        """The wait for a piece of the answer begins."""

    def arrived(self, byte_count: int) -> None:
        """So much of the answer came."""


def wait_of(timeout: object) -> Deadline | None:
    """A wait that begins now, and may be endless or no more than a look; ``None`` is the usual one.

    Raises:
        InvalidValue: It is no span of time.
    """
    return None if timeout is None else Deadline(seconds("timeout", timeout))


def left_of(limit_seconds: float) -> float:
    """What is left of a limit that may be a deadline."""
    return limit_seconds.left if isinstance(limit_seconds, Deadline) else limit_seconds


def rest_of(wait: float) -> float:
    """What is left of a wait; never nothing, which would make it a look, unless it is one."""
    return max(left_of(wait), _LEAST_SECONDS) if wait else wait


class Pace(Deadline):
    """The limit on an answer that may be of any length: so many seconds of waiting for each step of it.

    What is done with a step before more is wanted takes none of its time.
    """

    __slots__ = ("_arrived", "_left")

    _arrived: int
    _left: float

    @property
    def longest_pause(self) -> float:
        """How many seconds may pass before another attempt begins."""
        return float(self)

    @property
    def overrun(self) -> str:
        """What took too long."""
        return (
            f"less than {STEP_BYTES // 1024} KiB of the answer came within timeout={self:g} s; give the client a longer"
            " timeout=, or this call one for the whole"
        )

    def begin_attempt(self) -> None:
        """The answer is waited for anew."""
        self._arrived, self._left = 0, float(self)
        self.begin_wait()

    def begin_wait(self) -> None:
        """Go on with the step."""
        self._ends_at = self._clock() + self._left

    def arrived(self, byte_count: int) -> None:
        """A step that is whole begins anew."""
        self._arrived += byte_count
        if self._arrived >= STEP_BYTES:
            self._arrived, self._left = 0, float(self)
        else:
            self._left = self.left
