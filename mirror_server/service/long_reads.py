"""Bounds on what takes long: slots for open responses, and threads for reads that would hold up the event loop."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from mirror_server.core.errors import Refusal
from mirror_server.store.conditions import Condition

T = TypeVar("T")

# An application has one read at a time, so that one thread is left for the others however long that takes.
_THREADS = 2
_MOST_WAITING = 256
_MOST_DOWNLOADS = 8
_AGAIN_SECONDS = 1

# Measured on one core of a small virtual machine.
_LONG_MICROSECONDS = 4000
_COUNTED_MICROSECONDS = 0.01
_ROW_MICROSECONDS = 0.1
_COMPARISON_MICROSECONDS = 0.05
_CONDITION_MICROSECONDS = 40
_VALUE_MICROSECONDS = 10
_RETURNED_MICROSECONDS = 25


def takes_long(conditions: Sequence[Condition], *, rows: int, returned: int = 0, counts: bool = False) -> bool:
    """Whether a list is expected to hold an event loop for longer than other requests should wait.

    Args:
        conditions: What is selected.
        rows: How many rows there are to select from.
        returned: How many of them the response has at most.
        counts: Whether all that are selected are counted too.
    """
    if any(condition.is_looked_up for condition in conditions):
        return True
    values = sum(len(condition.values) for condition in conditions)
    named = [len(each.values) for each in conditions if each.comparison == "IN" and each.is_unique]
    scanned = min(rows, *named) if named else rows
    returned = min(returned, scanned)
    microseconds: float = returned * _RETURNED_MICROSECONDS + values * _VALUE_MICROSECONDS
    microseconds += len(conditions) * _CONDITION_MICROSECONDS
    if conditions:
        scan = scanned * (_ROW_MICROSECONDS + len(conditions) * _COMPARISON_MICROSECONDS)
        microseconds += scan * (1 + counts)
    elif counts:
        microseconds += rows * _COUNTED_MICROSECONDS
    return microseconds > _LONG_MICROSECONDS


class Slots:
    """Slots that any thread may acquire and release.

    Args:
        most: How many there are.
        share: Which part of them one application may have, up to 1; one slot it may have in any case.
        what: What takes them, for a message: ``polls, streams and websockets are open``.
        reason: The error word where there is none.
        again_seconds: When it may be tried again then.
    """

    def __init__(self, most: int, share: float, *, what: str, reason: str, again_seconds: int) -> None:
        self._most = most
        self._most_of_one = max(1, math.ceil(most * share))
        self._what = what
        self._reason = reason
        self._again_seconds = again_seconds
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def of_polls(cls, most: int, share: float) -> Slots:
        """Those of polls, event streams and websockets."""
        return cls(most, share, what="polls, streams and websockets are open", reason="TOO_MANY_POLLS", again_seconds=5)

    @classmethod
    def of_downloads(cls, share: float) -> Slots:
        """Those of what keeps a connection to the database for as long as it is sent."""
        what = "snapshots and histories are being sent"
        return cls(_MOST_DOWNLOADS, share, what=what, reason="TOO_MANY_SNAPSHOTS", again_seconds=2)

    @property
    def in_use(self) -> bool:
        """Whether any is taken."""
        return bool(self._taken)

    def acquire(self, app_id: str) -> Refusal | None:
        """Acquire a slot for an application; what is given says why none is free (429)."""
        with self._lock:
            own = self._taken.get(app_id, 0)
            if own >= self._most_of_one:
                return self._refusal(f"{own} {self._what} with this key, as many as one may have; end one first")
            if self._taken.total() >= self._most:
                return self._refusal(f"{self._most} {self._what} on this server, as many as there can be")
            self._taken[app_id] += 1
        return None

    def release(self, app_id: str) -> None:
        """Release a slot of the application."""
        with self._lock:
            self._taken[app_id] -= 1
            if not self._taken[app_id]:
                del self._taken[app_id]

    def _refusal(self, message: str) -> Refusal:
        cure = "or try again in a moment"
        return Refusal(429, f"{message}, {cure}", reason=self._reason, retry_after_seconds=self._again_seconds)


class LongRead(Future[T]):
    """One read of an application."""

    def __init__(self, app_id: str, read: Callable[[], T]) -> None:
        super().__init__()
        self.app_id = app_id
        self.read = read
        self.has_run = False
        self.is_released = False


class LongReads:
    """Reads for requests that wait for them; the applications take turns, and each has its reads in order.

    The next read of an application begins when the result of the one before was released: what its clients do not take
    is not read, and takes no memory.

    Args:
        share: Which part of those that may wait at once one application may have.
    """

    def __init__(self, share: float) -> None:
        what = "questions that take long are being answered"
        self._slots = Slots(_MOST_WAITING, share, what=what, reason="TOO_MANY_QUESTIONS", again_seconds=_AGAIN_SECONDS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="long-reads")
        # The application whose turn is next comes first.
        self._waiting: dict[str, deque[LongRead[Any]]] = {}
        # The applications with a read that has begun and was not released.
        self._begun: set[str] = set()
        self._running = 0
        self._lock = threading.Lock()

    def begin(self, app_id: str, read: Callable[[], T]) -> LongRead[T]:
        """Read when it is the turn of this; :meth:`release` it in any case.

        Raises:
            Refusal: Too many wait (429).
        """
        refusal = self._slots.acquire(app_id)
        if refusal is not None:
            raise refusal
        begun = LongRead(app_id, read)
        with self._lock:
            self._waiting.setdefault(app_id, deque()).append(begun)
            self._start_next()
        return begun

    def release(self, read: LongRead[Any]) -> None:
        """Nobody needs its result any more; what has not begun is not read. A second time nothing happens."""
        with self._lock:
            if read.is_released:
                return
            read.is_released = True
            reads = self._waiting.get(read.app_id, deque())
            with suppress(ValueError):
                reads.remove(read)
            if not reads:
                self._waiting.pop(read.app_id, None)
            if read.has_run:
                self._end(read.app_id)
        read.cancel()
        self._slots.release(read.app_id)

    def close(self) -> None:
        """Begin no more, and wait for those that have begun."""
        with self._lock:
            waiting = [each for reads in self._waiting.values() for each in reads]
            self._waiting.clear()
        for each in waiting:
            each.cancel()
        self._threads.shutdown()

    def _start_next(self) -> None:
        """Begin what may begin; under the lock."""
        while self._running < _THREADS:
            app_id = next((each for each in self._waiting if each not in self._begun), None)
            if app_id is None:
                return
            reads = self._waiting.pop(app_id)
            read = reads.popleft()
            if reads:
                # Behind the others.
                self._waiting[app_id] = reads
            self._begun.add(app_id)
            self._running += 1
            self._threads.submit(self._run, read)

    def _run(self, read: LongRead[Any]) -> None:
        try:
            if read.set_running_or_notify_cancel():
                read.set_result(read.read())
        except Exception as error:  # for whoever waits for it
            read.set_exception(error)
        finally:
            with self._lock:
                read.has_run = True
                self._running -= 1
                if read.is_released:
                    self._end(read.app_id)
                self._start_next()

    def _end(self, app_id: str) -> None:
        """It is the turn of the next; under the lock."""
        self._begun.discard(app_id)
        self._start_next()
