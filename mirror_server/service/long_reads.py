"""What is read for longer than an event loop may be held is read on threads of its own."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from mirror_server.service.slots import Slots
from mirror_server.store import descriptions
from mirror_server.store.conditions import Condition

T = TypeVar("T")

_THREADS = 2
# One is left for the others, however long a read of this application takes.
_THREADS_OF_ONE = _THREADS - 1
_MOST_WAITING = 256
_AGAIN_SECONDS = 1

# Measured on one core of a small virtual machine.
_LONG_MICROSECONDS = 4000
_COUNTED_MICROSECONDS = 0.01
_ROW_MICROSECONDS = 0.1
_COMPARISON_MICROSECONDS = 0.05
_CONDITION_MICROSECONDS = 40
_VALUE_MICROSECONDS = 10
_RETURNED_MICROSECONDS = 25
_INDEXED = frozenset({"device_id", "endpoint_name", "query_id", "e.revision"})


def takes_long(conditions: Sequence[Condition], *, rows: int, returned: int = 0, counts: bool = False) -> bool:
    """Whether a list is expected to hold an event loop for longer than other requests should wait.

    Args:
        conditions: What is selected.
        rows: How many rows there are to select from.
        returned: How many of them the response has at most.
        counts: Whether all that are selected are counted too.
    """
    if descriptions.count_looked_up(conditions):
        return True
    values = sum(len(condition.values) for condition in conditions)
    named = [len(each.values) for each in conditions if each.comparison == "IN" and each.column in _INDEXED]
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


class _Read(NamedTuple):
    future: Future[Any]
    read: Callable[[], Any]


class LongReads:
    """Reads for requests that wait for them; the applications take turns, and each has its reads in order.

    Args:
        share: Which part of those that may wait at once one application may have.
    """

    def __init__(self, share: float) -> None:
        what = "questions that take long are being answered"
        self._slots = Slots(_MOST_WAITING, share, what=what, reason="TOO_MANY_QUESTIONS", again_seconds=_AGAIN_SECONDS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="long-reads")
        # The application whose turn is next comes first.
        self._waiting: dict[str, deque[_Read]] = {}
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    def begin(self, app_id: str, read: Callable[[], T]) -> Future[T]:
        """Read when it is the turn of this; to cancel what has not begun spares it.

        Raises:
            Refusal: Too many wait (429).
        """
        refusal = self._slots.acquire(app_id)
        if refusal is not None:
            raise refusal
        waiting = _Read(Future(), read)
        with self._lock:
            self._waiting.setdefault(app_id, deque()).append(waiting)
            self._start_next()
        waiting.future.add_done_callback(lambda _: self._ended(app_id, waiting))
        return waiting.future

    def close(self) -> None:
        """Begin no more, and wait for those that have begun."""
        with self._lock:
            waiting = [each.future for reads in self._waiting.values() for each in reads]
        for future in waiting:
            future.cancel()
        self._threads.shutdown()

    def _start_next(self) -> None:
        """Begin what may begin; under the lock."""
        while self._running.total() < _THREADS:
            app_id = next((each for each in self._waiting if self._running[each] < _THREADS_OF_ONE), None)
            if app_id is None:
                return
            reads = self._waiting.pop(app_id)
            begun = reads.popleft()
            if reads:
                # Behind the others.
                self._waiting[app_id] = reads
            self._running[app_id] += 1
            self._threads.submit(self._run, app_id, begun)

    def _run(self, app_id: str, begun: _Read) -> None:
        try:
            if begun.future.set_running_or_notify_cancel():
                begun.future.set_result(begun.read())
        except Exception as error:  # for whoever waits for it
            begun.future.set_exception(error)
        finally:
            with self._lock:
                self._running[app_id] -= 1
                if not self._running[app_id]:
                    del self._running[app_id]
                self._start_next()

    def _ended(self, app_id: str, ended: _Read) -> None:
        """A read has ended, or was canceled before it began, and waits no more."""
        self._slots.release(app_id)
        with self._lock:
            reads = self._waiting.get(app_id, deque())
            with suppress(ValueError):
                reads.remove(ended)
            if not reads:
                self._waiting.pop(app_id, None)
