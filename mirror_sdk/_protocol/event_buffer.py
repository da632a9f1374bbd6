"""What a reader brought and nobody has taken yet, one event after another, and the position behind what was taken.

Nothing in here waits or does I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain

from mirror_sdk._caller import SourceLine
from mirror_sdk._protocol.cursor import poll_limit
from mirror_sdk._protocol.gaps import warn_of
from mirror_sdk.errors import MirrorError
from mirror_sdk.events import Event, every_event, read_positions, unreadable_keys
from mirror_sdk.wire.log_entries import Batch


class Patience:
    """How long a step waits for an event: one limit while the service responds, another one during an outage.

    An outage does not count as time without events, which begins again after it.

    Args:
        idle_seconds: How long to wait while the service responds.
        outage_seconds: How long an outage may last; ``None`` for any time, or none at all where nothing is waited for.
        clock: Seconds.
    """

    def __init__(self, idle_seconds: float, outage_seconds: float | None, clock: Callable[[], float]) -> None:
        self._idle_seconds = idle_seconds
        usual_seconds = math.inf if idle_seconds else 0.0
        self._outage_seconds = usual_seconds if outage_seconds is None else outage_seconds
        self._clock = clock
        self._is_outage = False
        self._ends_at = clock() + idle_seconds

    @property
    def left_seconds(self) -> float:
        """How much of the limit that counts now is left; negative when it is over."""
        return self._ends_at - self._clock()

    def poll_limit_seconds(self, hold_seconds: float) -> float:
        """How long a poll may take that the service may hold for so long."""
        usual_seconds = poll_limit(self._idle_seconds, self.left_seconds)
        if not self._idle_seconds:
            return usual_seconds
        return min(usual_seconds, poll_limit(hold_seconds, hold_seconds) + self._outage_seconds)

    def note(self, failure: MirrorError | None, began_at: float) -> None:
        """Take whether a read that began then has failed.

        Raises:
            MirrorError: The failure, where the outage has lasted for too long.
        """
        if failure is None:
            if self._is_outage:
                self._is_outage, self._ends_at = False, self._clock() + self._idle_seconds
            return
        if not self._is_outage:
            self._is_outage, self._ends_at = True, began_at + self._outage_seconds
        if self.left_seconds <= 0:
            raise failure


class EventBuffer:
    """Events to be taken, of those that are wanted.

    Args:
        position: Number of the entry behind which they begin; ``None`` while it is not known.
        limit: How many are taken at most.
        wants: Which ones are wanted.
        called_from: The line that warnings point at where none of a program calls.

    Attributes:
        position: Number of the entry to go on behind, exact after each event; what is not wanted is passed over.
        skipped: Called with each event that is not wanted; ``None`` by default.
    """

    def __init__(
        self,
        position: int | None,
        limit: int | None,
        wants: Callable[[Event], bool] = every_event,
        called_from: SourceLine | None = None,
    ) -> None:
        self._called_from = called_from
        self.position = position
        self.wants = wants
        self.skipped: Callable[[Event], object] | None = None
        self._left = limit
        self._events: Iterator[tuple[Event, int | None]] = iter(())
        self._end = position
        self._told: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether as many were taken as were wanted."""
        return self._left == 0

    def end(self) -> None:
        """Have no more taken."""
        self._left = 0

    def add(self, batch: Batch, received_at: datetime) -> None:
        """Take what a look into the log gave, once all of the one before is taken; a loss is said aloud."""
        self._events, self._told = read_positions(batch, self.position, received_at), set()
        self._end = batch.seq
        warn_of(batch.gap, (), self._called_from)

    def take(self) -> Event | None:
        """The next event; ``None`` where there is none."""
        for event, position in self._events:
            if self.wants(event):
                self._warn(event, position)
                self._left = None if self._left is None else self._left - 1
                self.position = position
                return event
            if self.skipped is not None:
                self.skipped(event)
            self.position = position
        if self._end is not None:
            self.position = self._end
        return None

    def _warn(self, event: Event, position: int | None) -> None:
        """Say once of a list that something in it could not be read."""
        unreadable = unreadable_keys([event]) - self._told
        if unreadable:
            # It comes at the next step where a warning is an error.
            self._events = chain([(event, position)], self._events)
            self._told |= unreadable
            warn_of(None, unreadable, self._called_from)
            next(self._events)
