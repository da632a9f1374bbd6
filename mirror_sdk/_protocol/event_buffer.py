"""A buffer of received events that the program has not read yet, and the program's position in the log.

This module does not wait and performs no I/O.
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
    """The limits of a wait for an event. One applies while the service responds, the other one during an outage.

    An outage does not count as time without events. When the outage ends, the waiting time starts again.

    Args:
        idle_seconds: The maximum waiting time in seconds while the service responds.
        outage_seconds: The maximum duration of an outage in seconds. ``None`` means no limit, or 0 if ``idle_seconds``
            is 0.
        clock: A function that returns the current time in seconds.
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
        """The seconds until the current limit is reached. The number is negative after that."""
        return self._ends_at - self._clock()

    def poll_limit_seconds(self, hold_seconds: float) -> float:
        """Return the maximum duration of a poll that the service may hold for ``hold_seconds``."""
        usual_seconds = poll_limit(self._idle_seconds, self.left_seconds)
        # A step that only reads the current entries is limited by an outage alone.
        if not self._idle_seconds:
            return self._outage_seconds or usual_seconds
        # A poll without a response must not last longer than an outage is allowed to.
        return min(usual_seconds, poll_limit(hold_seconds, hold_seconds) + self._outage_seconds)

    def note(self, failure: MirrorError | None, began_at: float) -> None:
        """Record whether a read that started at ``began_at`` failed.

        Raises:
            MirrorError: The outage has lasted too long. The error is the failure of the last read.
        """
        if failure is None:
            if self._is_outage:
                self._is_outage, self._ends_at = False, self._clock() + self._idle_seconds
            return
        if not self._is_outage:
            # The outage began with the failed read, because the service did not respond during that time either.
            self._is_outage, self._ends_at = True, began_at + self._outage_seconds
        if self.left_seconds <= 0:
            raise failure


class EventBuffer:
    """A buffer of received events, which applies a filter.

    Args:
        position: The number of the entry after which the events start, or ``None`` until it is known.
        limit: The maximum number of events to return.
        accepts: The filter, which returns whether to include an event.
        called_from: The line at which warnings point if no line of the program is calling this package at the moment.

    Attributes:
        position: The number of the entry to continue after. It is exact after each event, and includes events that
            filters leave out.
        skipped: A function that is called with each event that the filter leaves out, or ``None``.
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
        """Whether ``limit`` events have been returned."""
        return self._left == 0

    def end(self) -> None:
        """End the buffer, so that it returns no more events."""
        self._left = 0

    def add(self, batch: Batch, received_at: datetime) -> None:
        """Add a batch after all events of the previous one have been returned, and warn if there is a gap."""
        self._events, self._warned = read_positions(batch, self.position, received_at), set()
        self._end = batch.seq
        warn_of_gap(batch.gap, (), self._called_from)

    def pop(self) -> Event | None:
        """Return the next event, or ``None`` if the buffer is empty."""
        # The iterator continues where the previous call stopped.
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
        """Warn if the event is an unreadable entry, once for each list of the message."""
        unreadable = unreadable_keys([event]) - self._warned
        if unreadable:
            # If the program turns warnings into errors, the next step returns the event.
            self._events = chain([(event, position)], self._events)
            self._warned |= unreadable
            warn_of_gap(None, unreadable, self._called_from)
            next(self._events)
