"""What devices are asked for before a plan is made, some at a time. Nothing in here waits or does I/O."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from mirror_sdk._protocol.accepted_request import AcceptedRequest
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk.errors import CallTimeout, MirrorError
from mirror_sdk.plan.checks import Place
from mirror_sdk.plan.ledger import check_about_one
from mirror_sdk.plan.report import DEFAULT_CONCURRENCY

R = TypeVar("R", bound=AcceptedRequest)

READ_EXPIRY_SECONDS = 20
"""How long a read waits for its device, which is one that stays connected."""
LOOK_SECONDS = 1.0
"""How long one wait for an answer lasts, before the others are looked at."""
_LATE_SECONDS = READ_EXPIRY_SECONDS + 5.0


class Reads(Generic[R]):
    """The reads that are to be made, and why some brought nothing.

    Args:
        places: What is to be read.
        timeout: Seconds for all of them.
        clock: Seconds, never set back.

    Attributes:
        failures: Why nothing came from a place.
    """

    def __init__(
        self, places: Iterable[Place], timeout: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.failures: dict[Place, str] = {}
        self._todo = deque(places)
        self._flying: dict[Place, tuple[R, float]] = {}
        self._clock = clock
        self._timeout = timeout
        self._ends_at = math.inf if timeout is None else clock() + left_of(timeout)

    @property
    def is_open(self) -> bool:
        """Whether something is to be read yet, or is being read."""
        return bool(self._todo or self._flying)

    @property
    def first(self) -> R | None:
        """The read that has been under way for longest."""
        return next((request for request, _ in self._flying.values()), None)

    def next_places(self) -> list[Place]:
        """What to read now, as many as may be under way at once."""
        free = DEFAULT_CONCURRENCY - len(self._flying)
        return [self._todo.popleft() for _ in range(min(free, len(self._todo)))]

    def began(self, place: Place, request: R) -> None:
        """The service accepted it."""
        self._flying[place] = request, self._clock() + _LATE_SECONDS

    def not_taken(self, place: Place, error: MirrorError) -> None:
        """The service did not accept it.

        Raises:
            MirrorError: The error itself, when it would be the same for every other read.
        """
        check_about_one(error)
        self.failures[place] = str(error)

    def sweep(self) -> int:
        """Let go of what was answered, or will not be; gives how many those are.

        Raises:
            CallTimeout: The time for all of them is over.
        """
        now = self._clock()
        ended = [place for place, (request, late_at) in self._flying.items() if request.answer or now >= late_at]
        for place in ended:
            request, _ = self._flying.pop(place)
            failure = request.read_failure(request.answer) if request.answer else None
            if request.answer is None:
                self.failures[place] = "no answer"
            elif failure is not None:
                self.failures[place] = failure.category
        if self.is_open and now >= self._ends_at:
            raise CallTimeout(
                f"what is read first took longer than timeout={self._timeout:g} s; give a longer timeout=, or plan"
                " without read_first"
            )
        return len(ended)
