"""Limits for slow work: slots for open responses, and a thread pool for reads that would block the event loop."""

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

# Each application runs one read at a time, so that a slow read leaves a thread for the other applications.
_THREADS = 2
_MAX_WAITING = 256
_MAX_DOWNLOADS = 8
_RETRY_SECONDS = 1

# Measured on one core of a small virtual machine.
_LONG_MICROSECONDS = 4000
_COUNTED_MICROSECONDS = 0.01
_ROW_MICROSECONDS = 0.1
_COMPARISON_MICROSECONDS = 0.05
_CONDITION_MICROSECONDS = 40
_VALUE_MICROSECONDS = 10
_RETURNED_MICROSECONDS = 25


def is_slow_read(conditions: Sequence[Condition], *, rows: int, returned: int = 0, counts: bool = False) -> bool:
    """Return whether a query for a list is expected to block the event loop for too long.

    Args:
        conditions: The conditions that select the rows.
        rows: The number of rows to select from.
        returned: The maximum number of rows in the response.
        counts: Whether the query also counts all selected rows.
    """
    if any(is_subquery(condition.column) for condition in conditions):
        return True
    values = sum(len(condition.values) for condition in conditions)
    indexed = [len(each.values) for each in conditions if each.comparison == "IN" and each.is_unique]
    scanned = min(rows, *indexed) if indexed else rows
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
    """A limited number of slots, which any thread may acquire and release.

    Args:
        limit: The number of slots.
        share: The share of the slots that one application may use, up to 1. Every application may use at least one.
        usage: The name of the work that uses the slots, for an error message: ``open polls, streams and websockets``.
        reason: The ``reason`` of the error if no slot is free.
        retry_seconds: The time in seconds after which to retry after that error.
    """

    def __init__(self, limit: int, share: float, *, usage: str, reason: str, retry_seconds: int) -> None:
        self._limit = limit
        self._application_limit = max(1, math.ceil(limit * share))
        self._usage = usage
        self._reason = reason
        self._retry_seconds = retry_seconds
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def of_polls(cls, limit: int, share: float) -> Slots:
        """Return slots for polls, event streams and websockets."""
        usage = "open polls, streams and websockets"
        return cls(limit, share, usage=usage, reason="TOO_MANY_POLLS", retry_seconds=5)

    @classmethod
    def of_downloads(cls, share: float) -> Slots:
        """Return slots for downloads, which use a connection to the database while they are sent."""
        usage = "open snapshots and histories"
        return cls(_MAX_DOWNLOADS, share, usage=usage, reason="TOO_MANY_SNAPSHOTS", retry_seconds=2)

    @property
    def in_use(self) -> bool:
        """Whether any slot is in use."""
        return bool(self._used)

    def acquire(self, app_id: str) -> ApiError | None:
        """Acquire a slot for an application. Return the error (429) if no slot is free."""
        with self._lock:
            own = self._used.get(app_id, 0)
            if own >= self._application_limit:
                return self._api_error(f"this key has {own} {self._usage}, which is the limit of a key; end one first")
            if self._used.total() >= self._limit:
                return self._api_error(f"this server has {self._limit} {self._usage}, which is its limit; end one")
            self._used[app_id] += 1
        return None

    def release(self, app_id: str) -> None:
        """Release a slot of the application."""
        with self._lock:
            self._used[app_id] -= 1
            if not self._used[app_id]:
                del self._used[app_id]

    def _api_error(self, message: str) -> ApiError:
        cure = "or try again in a moment"
        return ApiError(429, f"{message}, {cure}", reason=self._reason, retry_after_seconds=self._retry_seconds)


class SlowRead(Future[T]):
    """A read of an application, which runs in the :class:`SlowReadPool`. The future has the result."""

    def __init__(self, app_id: str, read: Callable[[], T]) -> None:
        super().__init__()
        self.app_id = app_id
        self.read = read
        self.has_run = False
        self.is_released = False


class SlowReadPool:
    """A thread pool for slow reads, in which applications take turns.

    The reads of one application run in order, one at a time. The next read of an application starts after the previous
    result was released. So a client that does not consume its responses cannot fill the memory with results.

    Args:
        share: The share of all waiting reads that one application may have.
    """

    def __init__(self, share: float) -> None:
        usage = "slow reads waiting or running"
        self._slots = Slots(_MAX_WAITING, share, usage=usage, reason="TOO_MANY_QUESTIONS", retry_seconds=_RETRY_SECONDS)
        # Each application is in the queue of the threads at most once.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="slow-reads")
        self._waiting: defaultdict[str, deque[SlowRead[Any]]] = defaultdict(deque)
        # The applications in the queue of the threads, or with a read that is not released.
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def submit(self, app_id: str, read: Callable[[], T]) -> SlowRead[T]:
        """Queue a read. The caller must always :meth:`release` the read, even after an error.

        Raises:
            ApiError: Too many reads are waiting (429).
        """
        api_error = self._slots.acquire(app_id)
        if api_error is not None:
            raise api_error
        submitted = SlowRead(app_id, read)
        with self._lock:
            self._waiting[app_id].append(submitted)
            self._start_next(app_id)
        return submitted

    def release(self, read: SlowRead[Any]) -> None:
        """Release a read whose result is no longer needed. The read may be waiting, running or finished.

        Further calls have no effect.
        """
        with self._lock:
            if read.is_released:
                return
            read.is_released = True
            with suppress(ValueError):
                self._waiting[read.app_id].remove(read)
            # If the read is still running, `_run` starts the next read when this one ends.
            if read.has_run:
                self._end(read.app_id)
        read.cancel()
        self._slots.release(read.app_id)

    def close(self) -> None:
        """Cancel the waiting reads, and wait until the running reads have finished."""
        with self._lock:
            waiting = [each for reads in self._waiting.values() for each in reads]
            self._waiting.clear()
        for each in waiting:
            each.cancel()
        self._threads.shutdown()

    def _start_next(self, app_id: str) -> None:
        """Queue an application that has a read to start. The caller must have acquired the lock."""
        if app_id in self._busy:
            return
        if self._waiting[app_id]:
            self._busy.add(app_id)
            self._threads.submit(self._run, app_id)
        else:
            del self._waiting[app_id]

    def _run(self, app_id: str) -> None:
        with self._lock:
            # All reads of the application may have been released before its turn.
            if not self._waiting[app_id]:
                self._end(app_id)
                return
            read = self._waiting[app_id].popleft()
        try:
            if read.set_running_or_notify_cancel():
                read.set_result(read.read())
        except Exception as error:  # raised where the result is awaited
            read.set_exception(error)
        with self._lock:
            read.has_run = True
            if read.is_released:
                self._end(app_id)

    def _end(self, app_id: str) -> None:
        """Start the next read of an application. The caller must have acquired the lock."""
        self._busy.discard(app_id)
        self._start_next(app_id)
