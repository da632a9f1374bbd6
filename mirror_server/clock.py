"""Domain time: what timestamps, expiry, retention, back-off and device rhythms follow.

``SystemClock`` is wall time. ``ManualClock`` stands still until it is advanced, so that a test or a stored notebook
sees the same times on every run.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from mirror_server.core.instants import Instant

_log = logging.getLogger(__name__)


def wall_time() -> Instant:
    """The present by the clock of the system."""
    return time.time_ns() // 1_000_000


class Timer:
    """A call that is due at an instant; ``cancel`` makes it never happen."""

    def __init__(self, due_at: Instant, action: Callable[[], None]) -> None:
        self.due_at = due_at
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Forget the call; harmless when it has happened."""
        self._action = None

    def fire(self) -> None:
        """Make the call, once. An error in it is logged: one timer must not stop the others."""
        action, self._action = self._action, None
        if action is None:
            return
        try:
            action()
        except Exception:
            _log.exception("a timer's action failed")


class _Agenda:
    """Timers in the order of their instants, those of one instant in the order they were made."""

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


_LOOK_SECONDS = 1
"""How long it may go unnoticed that the clock of the system was set."""

_JUMP_MILLISECONDS = 60_000
"""What is less is no jump: clocks are kept right in small steps."""
_DOUBT_MILLISECONDS = 3_600_000


def _clocks() -> tuple[Instant, int]:
    return wall_time(), time.monotonic_ns() // 1_000_000


class SystemClock:
    """Wall time; one daemon thread makes the calls.

    The clock of the system jumps: when it is set, and when the machine slept. A jump ahead makes due what it passes.
    A jump back makes nothing wait longer than it would have: what is called then too early looks at the clock itself.

    Args:
        clocks: Reads the clock of the system, and one that runs on whatever is done to that; both in milliseconds.
        last_known_at: The latest instant that is known from before; it jumped from there if it is later than that.
    """

    is_manual = False

    def __init__(
        self, clocks: Callable[[], tuple[Instant, int]] = _clocks, *, last_known_at: Instant | None = None
    ) -> None:
        self._clocks = clocks
        wall, steady = clocks()
        # How far it is ahead of the one that runs steadily, and each jump ahead with the time until which it is
        # doubted, by that one.
        self._ahead = wall - steady
        self._doubts: list[tuple[int, int]] = []
        if last_known_at is not None:
            self._doubt(wall - last_known_at, steady)
        # Each timer is in both, and is called by the clock that comes to its end first.
        self._by_wall = _Agenda()
        self._by_steady = _Agenda()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
        self._thread.start()

    def now(self) -> Instant:
        """Wall time in milliseconds."""
        return self._clocks()[0]

    def sure_now(self) -> Instant:
        """The present without what the clock jumped ahead within the last hour.

        What is deleted for its age, and cannot be had back, is deleted by this: a clock that was set wrong may be set
        right until then, and who comes back after a long sleep of the machine has the time to.
        """
        with self._changed:
            wall, steady = self._clocks()
            self._look(wall, steady)
            return wall - sum(jump for jump, _ in self._doubts)

    def call_at(self, due_at: Instant, action: Callable[[], None]) -> Timer:
        """Call ``action`` once when ``due_at`` is reached, on a thread of the clock; it must not block."""
        timer = Timer(due_at, action)
        with self._changed:
            wall, steady = self._clocks()
            left = due_at - wall
            self._by_wall.add(timer, due_at)
            # One more, because either clock is cut to the millisecond: nothing is called before its instant.
            self._by_steady.add(timer, steady + (left + 1 if left > 0 else 0))
            self._changed.notify()
        return timer

    def close(self) -> None:
        """Stop the thread; calls that are not due yet never happen."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                wall, steady = self._clocks()
                self._look(wall, steady)
                due = [*self._by_wall.pop_due(wall), *self._by_steady.pop_due(steady)]
                if not due:
                    self._changed.wait(self._wait_seconds(wall, steady))
            for timer in due:
                timer.fire()

    def _look(self, wall: Instant, steady: int) -> None:
        """Note a jump, and tell the operator of it."""
        jump = wall - steady - self._ahead
        self._ahead += jump
        self._doubts = [(ahead, until) for ahead, until in self._doubts if until > steady]
        if abs(jump) < _JUMP_MILLISECONDS:
            return
        where = "ahead (or the machine slept)" if jump > 0 else "back"
        _log.warning("the clock of the system was set %s by %s", where, timedelta(seconds=abs(jump) // 1000))
        if jump > 0:
            self._doubt(jump, steady)
        while jump < 0 and self._doubts:
            # It is right again, or less wrong.
            ahead, until = self._doubts.pop()
            jump += ahead
            if jump > 0:
                self._doubts.append((jump, until))

    def _doubt(self, jump: int, steady: int) -> None:
        if jump >= _JUMP_MILLISECONDS:
            self._doubts.append((jump, steady + _DOUBT_MILLISECONDS))

    def _wait_seconds(self, wall: Instant, steady: int) -> float | None:
        """How long nothing will be due; for ever where nothing waits."""
        at_wall, at_steady = self._by_wall.next_due_at(), self._by_steady.next_due_at()
        left = [at_wall - wall] if at_wall is not None else []
        left += [at_steady - steady] if at_steady is not None else []
        return min(*left, _LOOK_SECONDS * 1000) / 1000 if left else None


class ManualClock:
    """Stands still until it is advanced."""

    is_manual = True

    def __init__(self, now: Instant) -> None:
        self._now = now
        self._agenda = _Agenda()
        self._lock = threading.Lock()
        self._advancing = threading.Lock()

    def now(self) -> Instant:
        """The instant the clock was set or advanced to."""
        return self._now

    def sure_now(self) -> Instant:
        """The same: it moves when it is told to."""
        return self._now

    def call_at(self, due_at: Instant, action: Callable[[], None]) -> Timer:
        """See :class:`SystemClock`; a call that is due already is made at the next ``advance``."""
        timer = Timer(due_at, action)
        with self._lock:
            self._agenda.add(timer, due_at)
        return timer

    def close(self) -> None:
        """Nothing runs by itself here, so there is nothing to stop."""

    def advance(self, milliseconds: int, settle: Callable[[], object] = lambda: None) -> Instant:
        """Move on, stopping at every instant at which a call is due.

        Args:
            milliseconds: How far to move on, at least 0.
            settle: Called after the calls of each instant; returns when all they caused is done, so that what
                follows sees it.

        Returns:
            The new present.
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
            next_due_at = self._agenda.next_due_at()
            if next_due_at is None or next_due_at > end_at:
                self._now = end_at
                return None
            self._now = max(self._now, next_due_at)
            return self._agenda.pop_due(self._now)


Clock = SystemClock | ManualClock
"""Tells the instant and makes calls at later ones."""
