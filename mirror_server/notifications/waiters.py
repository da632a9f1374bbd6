"""Waiters for new entries of a log. Thousands of waiters are woken together.

A waiter resembles a future of :mod:`concurrent.futures`, but does not have its own lock and queue. Thousands of real
futures would cost half as much as the responses themselves.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Waiter(Generic[T]):
    """A waiter for one log, which is created by :meth:`Waiters.add`.

    Attributes:
        name: The name of the log.
        is_poll: Whether the waiter is counted as an open poll.
    """

    __slots__ = ("__weakref__", "_callbacks", "_failure", "_is_done", "_value", "_waiters", "is_poll", "name")

    def __init__(self, waiters: Waiters[T], name: str, *, is_poll: bool) -> None:
        self.name = name
        self.is_poll = is_poll
        self._waiters = waiters
        self._callbacks: tuple[Callable[[Waiter[T]], object], ...] = ()
        self._is_done = False
        self._value: T | None = None
        self._failure: Exception | None = None

    def done(self) -> bool:
        """Return whether the waiter has a value or has failed. This is false after :meth:`cancel`."""
        return self._is_done

    def result(self) -> T:
        """Return the value. Call this method only if the waiter is done.

        Raises:
            Exception: The failure that ended the wait.
        """
        if self._failure is not None:
            raise self._failure
        value: T = self._value  # type: ignore[assignment] # it is done
        return value

    def add_done_callback(self, callback: Callable[[Waiter[T]], object]) -> None:
        """Call ``callback`` in the thread that completes the waiter, or immediately if the waiter is already done."""
        with self._waiters.lock:
            if not self._is_done:
                self._callbacks += (callback,)
                return
        callback(self)

    def cancel(self) -> None:
        """Stop waiting without calling any callback."""
        with self._waiters.lock:
            self._waiters.forget(self)
            # Another thread may already have removed this waiter and be about to call the callbacks.
            self._callbacks = ()

    def fail(self, failure: Exception) -> None:
        """End the wait with a failure, unless the waiter is already done."""
        with self._waiters.lock:
            if self._is_done:
                return
            self._waiters.forget(self)
            self._failure = failure
            self._is_done = True
        self.call()

    def set_value(self, value: T) -> None:
        """Set the value. The caller has acquired the lock of all waiters, releases it, and then calls :meth:`call`."""
        self._value = value
        self._is_done = True

    def call(self) -> None:
        """Call all callbacks."""
        for callback in self._callbacks:
            # A failed callback must not prevent the other callbacks.
            try:
                callback(self)
            except Exception:
                _log.exception("a callback for new log entries failed")


class Waiters(Generic[T]):
    """All waiters by the name of their log. The methods are thread-safe.

    Attributes:
        lock: The lock for all waiters. It is acquired only briefly, and never while a callback runs.
        open_polls: The number of polls that are waiting.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open_polls = 0
        self._waiting: dict[str, set[Waiter[T]]] = {}
        self._wakes: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def add(self, name: str, *, is_poll: bool) -> Waiter[T]:
        """Add a waiter. Cancel the waiter when it is no longer needed."""
        waiter: Waiter[T] = Waiter(self, name, is_poll=is_poll)
        with self.lock:
            self._waiting.setdefault(name, set()).add(waiter)
            self.open_polls += is_poll
        return waiter

    def forget(self, waiter: Waiter[T]) -> None:
        """Remove a waiter. The caller must have acquired the lock."""
        waiting = self._waiting.get(waiter.name)
        if waiting and waiter in waiting:
            self.open_polls -= waiter.is_poll
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[waiter.name]

    def wake(self, name: str, value: T) -> None:
        """Complete all waiters for a log with a value."""
        with self.lock:
            waiting = self._waiting.pop(name, set())
            self._wakes[name] += 1
            for waiter in waiting:
                waiter.set_value(value)
                self.open_polls -= waiter.is_poll
        # The lock is released, because the callbacks may need it.
        for waiter in waiting:
            waiter.call()

    def count_wakes(self, name: str) -> int:
        """Return the number of times that the waiters for a log were woken."""
        return self._wakes[name]

    def names(self) -> list[str]:
        """Return the names of the logs that have waiters."""
        with self.lock:
            return list(self._waiting)
