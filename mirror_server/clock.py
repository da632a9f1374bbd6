"""Domain time, used for timestamps, expiry, retention, back-off and reporting intervals.

``SystemClock`` is wall time. ``ManualClock`` stands still until it is advanced, so that a test or a stored notebook
has the same times in every run.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from mirror_server.core.timestamps import Instant

_log = logging.getLogger(__name__)


def wall_time() -> Instant:
    """Return the current instant by the clock of the system."""
    return time.time_ns() // 1_000_000


class Timer:
    """A call that is scheduled for an instant and can be canceled."""

    def __init__(self, due_at: Instant, action: Callable[[], None]) -> None:
        self.due_at = due_at
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Cancel the call. Has no effect after the call."""
        self._action = None

    def fire(self) -> None:
        """Make the call, once. An error is logged, because one timer must not stop the others."""
        action, self._action = self._action, None
        if action is None:
            return
        try:
            action()
        except Exception:
            _log.exception("the callback of a timer failed")


class _TimerQueue:
    """A queue of timers, ordered by instant and then by creation."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Timer]] = []
        self._numbers = itertools.count()

    def add(self, timer: Timer, due_at: Instant) -> None:
        heapq.heappush(self._heap, (due_at, next(self._numbers), timer))

    def next_due_at(self) -> Instant | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: Instant) -> list[Timer]:
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        return due


_CHECK_SECONDS = 1
"""The interval at which the system clock is checked for jumps."""

_JUMP_MILLISECONDS = 60_000
"""Smaller differences do not count as jumps, because clocks are adjusted in small steps."""

_DOUBT_MILLISECONDS = 3_600_000
"""The time for which :meth:`SystemClock.steady_now` ignores a jump forward."""


def _clocks() -> tuple[Instant, int]:
    return wall_time(), time.monotonic_ns() // 1_000_000


class SystemClock:
    """Wall time. One daemon thread makes the calls.

    The system clock jumps when someone sets it or when the machine wakes up. After a jump forward, every call that was
    scheduled for the skipped time is due. A jump back does not delay calls. A scheduled function may then be called too
    early, so it has to check the time itself.

    Args:
        clocks: Returns the times of the system clock and of a monotonic clock, in milliseconds.
        newest_stored_at: The newest instant from before the start. If the clock is much later, that counts as a jump.
    """

    is_manual = False

    def __init__(
        self, clocks: Callable[[], tuple[Instant, int]] = _clocks, *, newest_stored_at: Instant | None = None
    ) -> None:
        self._clocks = clocks
        wall, steady = clocks()
        # The difference between the system clock and the monotonic clock, at the last check.
        self._ahead = wall - steady
        # Recent jumps forward, and the monotonic time from which on each of them is trusted.
        self._doubts: list[tuple[int, int]] = []
        if newest_stored_at is not None:
            self._add_doubt(wall - newest_stored_at, steady)
        # Each timer is in both queues, and fires by the clock that reaches it first.
        self._by_wall = _TimerQueue()
        self._by_steady = _TimerQueue()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def now(self) -> Instant:
        """Return wall time in milliseconds."""
        return self._clocks()[0]

    def steady_now(self) -> Instant:
        """Return the current instant, ignoring jumps forward in the last hour.

        Use this to delete data by age, because a deletion cannot be undone. It leaves an operator an hour to correct a
        clock that was set wrong. After a long sleep of the machine, clients have that time to return.
        """
        with self._changed:
            wall, steady = self._clocks()
            self._check(wall, steady)
            return wall - sum(jump for jump, _ in self._doubts)

    def call_at(self, due_at: Instant, action: Callable[[], None]) -> Timer:
        """Call ``action`` once when ``due_at`` is reached, on the thread of the clock. It must not block."""
        timer = Timer(due_at, action)
        with self._changed:
            wall, steady = self._clocks()
            left = due_at - wall
            self._by_wall.add(timer, due_at)
            # Both clocks are truncated to milliseconds. One more ensures that nothing is called before its instant.
            self._by_steady.add(timer, steady + (left + 1 if left > 0 else 0))
            self._changed.notify()
        return timer

    def close(self) -> None:
        """Stop the thread. Calls that are not due yet never happen."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        # A thread cannot join itself, and an action of a timer may close the clock.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                wall, steady = self._clocks()
                self._check(wall, steady)
                due = [*self._by_wall.pop_due(wall), *self._by_steady.pop_due(steady)]
                if not due:
                    self._changed.wait(self._wait_seconds(wall, steady))
            # Without the lock, so that other threads can set timers meanwhile.
            for timer in due:
                timer.fire()

    def _check(self, wall: Instant, steady: int) -> None:
        """Record and log a jump of the clock."""
        jump = wall - steady - self._ahead
        self._ahead += jump
        self._doubts = [(ahead, until) for ahead, until in self._doubts if until > steady]
        if abs(jump) < _JUMP_MILLISECONDS:
            return
        direction = "forward (or the machine slept)" if jump > 0 else "back"
        _log.warning("the system clock was set %s by %s", direction, timedelta(seconds=abs(jump) // 1000))
        if jump > 0:
            self._add_doubt(jump, steady)
        while jump < 0 and self._doubts:
            # The clock was corrected, at least in part.
            ahead, until = self._doubts.pop()
            jump += ahead
            if jump > 0:
                self._doubts.append((jump, until))

    def _add_doubt(self, jump: int, steady: int) -> None:
        if jump >= _JUMP_MILLISECONDS:
            self._doubts.append((jump, steady + _DOUBT_MILLISECONDS))

    def _wait_seconds(self, wall: Instant, steady: int) -> float | None:
        at_wall, at_steady = self._by_wall.next_due_at(), self._by_steady.next_due_at()
        left = [at_wall - wall] if at_wall is not None else []
        left += [at_steady - steady] if at_steady is not None else []
        return min(*left, _CHECK_SECONDS * 1000) / 1000 if left else None


class ManualClock:
    """A clock that stands still until it is advanced."""

    is_manual = True

    def __init__(self, now: Instant) -> None:
        self._now = now
        self._timers = _TimerQueue()
        self._lock = threading.Lock()
        # Held for the whole of `advance`. The calls that it makes set timers, for which the other lock is free.
        self._advancing = threading.Lock()

    def now(self) -> Instant:
        """Return the instant to which the clock was set or advanced."""
        return self._now

    def steady_now(self) -> Instant:
        """Return the same as :meth:`now`, because this clock never jumps."""
        return self._now

    def call_at(self, due_at: Instant, action: Callable[[], None]) -> Timer:
        """See :class:`SystemClock`. A call that is due already is made at the next ``advance``."""
        timer = Timer(due_at, action)
        with self._lock:
            self._timers.add(timer, due_at)
        return timer

    def close(self) -> None:
        """Do nothing, because there is no thread to stop."""

    def advance(self, milliseconds: int, settle: Callable[[], object] = lambda: None) -> Instant:
        """Advance the clock, stopping at every instant at which a call is due.

        Args:
            milliseconds: How far to advance, at least 0.
            settle: Called after the calls of each instant. It returns when all their effects are done, so that later
                calls see them.

        Returns:
            The new current instant.
        """
        with self._advancing:
            end_at = self._now + milliseconds
            while (due := self._step(end_at)) is not None:
                for timer in due:
                    timer.fire()
                settle()
            return self._now

    def _step(self, end_at: Instant) -> list[Timer] | None:
        with self._lock:
            next_due_at = self._timers.next_due_at()
            if next_due_at is None or next_due_at > end_at:
                self._now = end_at
                return None
            self._now = max(self._now, next_due_at)
            return self._timers.pop_due(self._now)


Clock = SystemClock | ManualClock
"""Returns the current instant, and calls functions at later instants."""
