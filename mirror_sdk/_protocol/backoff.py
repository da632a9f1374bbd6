"""The lengths of the pauses after failures. The caller measures the time and waits."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
_RANDOM = random.SystemRandom()
"""A separate random generator, because a program that seeds the shared one expects the same numbers again."""
_DOUBLINGS = 6
"""The maximum number of doublings. The delay then exceeds ``LONGEST_SECONDS``, and the power cannot overflow."""


class Backoff:
    """The delay before the next attempt, which doubles with each failure and is reset after a success.

    The second half of each delay is random, so that many clients do not retry at the same moment.

    Args:
        rng: A function that returns a random number from 0 to 1 for each delay.
        first_seconds: The maximum of the first delay in seconds.
    """

    def __init__(self, rng: Callable[[], float] = _RANDOM.random, first_seconds: float = FIRST_SECONDS) -> None:
        self._rng = rng
        self._first_seconds = first_seconds
        self._failures = 0

    def succeeded(self) -> None:
        """Reset the delay after a success."""
        self._failures = 0

    def failed(self, retry_after_seconds: float | None = None) -> float:
        """Return how many seconds to wait after a failure, at least as many as the service requested."""
        longest = min(LONGEST_SECONDS, self._first_seconds * 2.0 ** min(self._failures, _DOUBLINGS))
        self._failures += 1
        return max(longest * (1 + self._rng()) / 2, retry_after_seconds or 0.0)
