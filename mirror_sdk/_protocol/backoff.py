"""How long to wait after a failure. No clock and no sleep in here: whoever asks does the waiting."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
_CHANCE = random.SystemRandom()
"""Not the generator that all of a program share: who seeds that one wants the same numbers again."""
_DOUBLINGS = 6
"""Enough to pass ``LONGEST_SECONDS``; more would only make the power overflow one day."""


class Backoff:
    """The next delay, from the last outcomes: it doubles from failure to failure and begins anew after a success.

    The second half of each delay is left to chance, so that many clients do not come back in the same moment.

    Args:
        chance: Gives a number from 0 to 1 for each delay.
        first_seconds: The longest first delay.
    """

    def __init__(self, chance: Callable[[], float] = _CHANCE.random, first_seconds: float = FIRST_SECONDS) -> None:
        self._chance = chance
        self._first_seconds = first_seconds
        self._failures = 0

    def succeeded(self) -> None:
        """Begin anew."""
        self._failures = 0

    def failed(self, retry_after_seconds: float | None = None) -> float:
        """Seconds to wait now; never less than the service asked for."""
        longest = min(LONGEST_SECONDS, self._first_seconds * 2.0 ** min(self._failures, _DOUBLINGS))
        self._failures += 1
        return max(longest * (1 + self._chance()) / 2, retry_after_seconds or 0.0)
