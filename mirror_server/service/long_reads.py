"""Bounds on what takes long: slots for open responses, and threads for reads that would hold up the event loop."""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from mirror_server.core.errors import ApiError
from mirror_server.store.conditions import Condition, is_subquery

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
    if any(is_subquery(condition.column) for condition in conditions):
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

    def acquire(self, app_id: str) -> ApiError | None:
        """Acquire a slot for an application; what is given says why none is free (429)."""
        with self._lock:
            own = self._taken.get(app_id, 0)
            if own >= self._most_of_one:
                return self._api_error(f"{own} {self._what} with this key, as many as one may have; end one first")
            if self._taken.total() >= self._most:
                return self._api_error(f"{self._most} {self._what} on this server, as many as there can be")
            self._taken[app_id] += 1
        return None

    def release(self, app_id: str) -> None:
        """Release a slot of the application."""
        with self._lock:
            self._taken[app_id] -= 1
            if not self._taken[app_id]:
                del self._taken[app_id]

    def _api_error(self, message: str) -> ApiError:
        cure = "or try again in a moment"
        return ApiError(429, f"{message}, {cure}", reason=self._reason, retry_after_seconds=self._again_seconds)


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

    The next read of an application starts when the result of the one before was released. So results that clients do
    not take need no memory.

    Args:
        share: The share of all waiting reads that one application may have.
    """

    def __init__(self, share: float) -> None:
        what = "questions that take long are being answered"
        self._slots = Slots(_MOST_WAITING, share, what=what, reason="TOO_MANY_QUESTIONS", again_seconds=_AGAIN_SECONDS)
        # Each application is in the queue of the threads once at most.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="long-reads")
        self._waiting: defaultdict[str, deque[LongRead[Any]]] = defaultdict(deque)
        # The applications that are in this queue, or have a read that was not released.
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, app_id: str, read: Callable[[], T]) -> LongRead[T]:
        """Start a read as soon as it is its turn; :meth:`release` it in any case.

        Raises:
            ApiError: Too many wait (429).
        """
        api_error = self._slots.acquire(app_id)
        if api_error is not None:
            raise api_error
        begun = LongRead(app_id, read)
        with self._lock:
            self._waiting[app_id].append(begun)
            self._start_next(app_id)
        return begun

    def release(self, read: LongRead[Any]) -> None:
        """Drop a read whose result is not needed any more, started or not. A second call does nothing."""
        with self._lock:
            if read.is_released:
                return
            read.is_released = True
            with suppress(ValueError):
                self._waiting[read.app_id].remove(read)
            if read.has_run:
                self._end(read.app_id)
        read.cancel()
        self._slots.release(read.app_id)

    def close(self) -> None:
        """Start no more reads, and wait for those that have started."""
        with self._lock:
            waiting = [each for reads in self._waiting.values() for each in reads]
            self._waiting.clear()
        for each in waiting:
            each.cancel()
        self._threads.shutdown()

    def _start_next(self, app_id: str) -> None:
        """Queue an application that has a read to start; under the lock."""
        if app_id in self._busy:
            return
        if self._waiting[app_id]:
            self._busy.add(app_id)
            self._threads.submit(self._run, app_id)
        else:
            del self._waiting[app_id]

    def _run(self, app_id: str) -> None:
        with self._lock:
            if not self._waiting[app_id]:
                self._end(app_id)
                return
            read = self._waiting[app_id].popleft()
        try:
            if read.set_running_or_notify_cancel():
                read.set_result(read.read())
        except Exception as error:  # for whoever waits for it
            read.set_exception(error)
        with self._lock:
            read.has_run = True
            if read.is_released:
                self._end(app_id)

    def _end(self, app_id: str) -> None:
        """Let the next read of an application start; under the lock."""
        self._busy.discard(app_id)
        self._start_next(app_id)
