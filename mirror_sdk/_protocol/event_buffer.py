"""Events that a reader delivered and the program has not yet received, and the position after those it received.

Nothing in here waits or does I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain

from mirror_sdk._protocol.gap_warnings import warn_of_gap
from mirror_sdk._protocol.log_cursor import poll_limit
from mirror_sdk._warnings import SourceLine
from mirror_sdk.errors import MirrorError
from mirror_sdk.events import Event, every_event, read_positions, unreadable_keys
from mirror_sdk.wire.log_entries import Batch


class Patience:
    """The maximum wait of a step for an event: the limit while the service responds, and the limit during an outage.

    An outage does not count as time without events, which restarts after it.

    Args:
        idle_seconds: How long to wait while the service responds.
        outage_seconds: How long an outage may last; ``None`` for no limit, or 0 if ``idle_seconds`` is 0.
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
        """The seconds that are left of the current limit; negative when it is over."""
        return self._ends_at - self._clock()

    def poll_limit_seconds(self, hold_seconds: float) -> float:
        """Return how long a poll may take that the service may hold for ``hold_seconds``."""
        usual_seconds = poll_limit(self._idle_seconds, self.left_seconds)
        # A step that only reads the present entries has no limit of its own.
        if not self._idle_seconds:
            return usual_seconds
        # A poll without a response must not last longer than an outage may.
        return min(usual_seconds, poll_limit(hold_seconds, hold_seconds) + self._outage_seconds)

    def note(self, failure: MirrorError | None, began_at: float) -> None:
        """Note whether a read that started at ``began_at`` failed.

        Raises:
            MirrorError: The failure, if the outage has lasted too long.
        """
        if failure is None:
            if self._is_outage:
                self._is_outage, self._ends_at = False, self._clock() + self._idle_seconds
            return
        if not self._is_outage:
            # From the start of the read that failed: the service did not respond during that time either.
            self._is_outage, self._ends_at = True, began_at + self._outage_seconds
        if self.left_seconds <= 0:
            raise failure


class EventBuffer:
    """A buffer of events, filtered.

    Args:
        position: Number of the entry after which they start; ``None`` while it is not known.
        limit: The maximum number of events to return.
        accepts: The filter.
        called_from: The line that warnings point at if no line of the program calls.

    Attributes:
        position: Number of the entry to continue after, exact after each event. It also counts events
            that filters leave out.
        skipped: Called with each event that the filter omits; ``None`` by default.
    """

    def __init__(
        self,
        position: int | None,
        limit: int | None,
        accepts: Callable[[Event], bool] = every_event,
        called_from: SourceLine | None = None,
    ) -> None:
        self._called_from = called_from
        self.position = position
        self.accepts = accepts
        self.skipped: Callable[[Event], object] | None = None
        self._left = limit
        self._events: Iterator[tuple[Event, int | None]] = iter(())
        self._end = position
        self._warned: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether ``limit`` events were returned."""
        return self._left == 0

    def end(self) -> None:
        """Let the buffer return no more events."""
        self._left = 0

    def add(self, batch: Batch, received_at: datetime) -> None:
        """Add a batch, once all events of the previous one were returned, and warn of a gap."""
        self._events, self._warned = read_positions(batch, self.position, received_at), set()
        self._end = batch.seq
        warn_of_gap(batch.gap, (), self._called_from)

    def pop(self) -> Event | None:
        """Return the next event; ``None`` if there is none."""
        # The iterator continues where the previous call returned.
        for event, position in self._events:
            if self.accepts(event):
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
        """Warn of unreadable entries, once for each list."""
        unreadable = unreadable_keys([event]) - self._warned
        if unreadable:
            # If warnings are errors, the event comes at the next step.
            self._events = chain([(event, position)], self._events)
            self._warned |= unreadable
            warn_of_gap(None, unreadable, self._called_from)
            next(self._events)
