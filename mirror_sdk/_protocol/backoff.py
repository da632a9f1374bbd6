"""The pauses after failures. The caller has the clock and does the waiting."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
_RANDOM = random.SystemRandom()
"""A separate generator, because a program that seeds the shared one expects the same numbers again."""
_DOUBLINGS = 6
"""Enough to pass ``LONGEST_SECONDS``; more would only make the power overflow one day."""


class Backoff:
    """The next delay: it doubles with each failure and resets after a success.

    The second half of each delay is random, so that many clients do not return at the same moment.

    Args:
        rng: Returns a number from 0 to 1 for each delay.
        first_seconds: The longest first delay.
    """

    def __init__(self, rng: Callable[[], float] = _RANDOM.random, first_seconds: float = FIRST_SECONDS) -> None:
        self._rng = rng
        self._first_seconds = first_seconds
        self._failures = 0

    def succeeded(self) -> None:
        """Reset the delay."""
        self._failures = 0

    def failed(self, retry_after_seconds: float | None = None) -> float:
        """Return the seconds to wait now; never less than the service requested."""
        longest = min(LONGEST_SECONDS, self._first_seconds * 2.0 ** min(self._failures, _DOUBLINGS))
        self._failures += 1
        return max(longest * (1 + self._rng()) / 2, retry_after_seconds or 0.0)
