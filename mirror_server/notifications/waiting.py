"""Who waits for more in a log: thousands at once, who are told together.

A future of :mod:`concurrent.futures` has a lock and a queue of its own, for threads that wait for it. To make, to set
and to keep thousands of them costs as much as half of what each is answered, and few threads wait here.
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
    """One who waits; made by :meth:`Waiters.add`.

    Attributes:
        name: Of which log.
        is_poll: Whether it is counted among the open polls.
        prepare: Called with what it is perhaps to be told in a moment; of those who wait together, for one alone. It is
            no secret from this process, but nobody else is to be told.
    """

    __slots__ = ("__weakref__", "_among", "_callbacks", "_failure", "_is_done", "_told", "is_poll", "name", "prepare")

    def __init__(self, among: Waiters[T], name: str, *, is_poll: bool) -> None:
        self.name = name
        self.is_poll = is_poll
        self.prepare: Callable[[T], object] | None = None
        self._among = among
        self._callbacks: tuple[Callable[[Waiter[T]], object], ...] = ()
        self._is_done = False
        self._told: T | None = None
        self._failure: Exception | None = None

    def done(self) -> bool:
        """Whether it was told something; of one who waits no more nothing is known."""
        return self._is_done

    def result(self) -> T:
        """What it was told; it is to be done.

        Raises:
            Exception: It is to wait for nothing any more, because of this.
        """
        if self._failure is not None:
            raise self._failure
        told: T = self._told  # type: ignore[assignment] # it is done
        return told

    def add_done_callback(self, callback: Callable[[Waiter[T]], object]) -> None:
        """Have this called when it is told, in the thread that tells; now, where it was."""
        with self._among.lock:
            if not self._is_done:
                self._callbacks += (callback,)
                return
        callback(self)

    def cancel(self) -> None:
        """Wait no more; nothing is called."""
        with self._among.lock:
            self._among.forget(self)
            self._callbacks = ()

    def fail(self, failure: Exception) -> None:
        """Have it wait for nothing any more, unless it was told something at this moment."""
        with self._among.lock:
            if self._is_done:
                return
            self._among.forget(self)
            self._failure = failure
            self._is_done = True
        self.call()

    def tell(self, told: T) -> None:
        """Tell it; under the lock of all, and :meth:`call` is called behind that."""
        self._told = told
        self._is_done = True

    def call(self) -> None:
        """Call what is to be called when it is done."""
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("who waits for more in a log could not be told")


class Waiters(Generic[T]):
    """All who wait, by the name of their log; used by any thread.

    Attributes:
        lock: Held for moments; nothing is called under it.
        open_polls: How many polls wait.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open_polls = 0
        self._waiting: dict[str, set[Waiter[T]]] = {}
        self._told: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def add(self, name: str, *, is_poll: bool) -> Waiter[T]:
        """One more; to be cancelled when it is not wanted any more."""
        waiter: Waiter[T] = Waiter(self, name, is_poll=is_poll)
        with self.lock:
            self._waiting.setdefault(name, set()).add(waiter)
            self.open_polls += is_poll
        return waiter

    def forget(self, waiter: Waiter[T]) -> None:
        """It waits no more; under the lock."""
        waiting = self._waiting.get(waiter.name)
        if waiting and waiter in waiting:
            self.open_polls -= waiter.is_poll
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[waiter.name]

    def announce(self, name: str, told: T) -> None:
        """Let one of those who wait prepare for what they are told if all goes well."""
        with self.lock:
            prepare = next((waiter.prepare for waiter in self._waiting.get(name, ())), None)
        if prepare is not None:
            prepare(told)

    def tell(self, name: str, told: T) -> None:
        """Tell all who wait."""
        with self.lock:
            waiting = self._waiting.pop(name, set())
            self._told[name] += 1
            for waiter in waiting:
                waiter.tell(told)
                self.open_polls -= waiter.is_poll
        for waiter in waiting:
            waiter.call()

    def count_told(self, name: str) -> int:
        """How often those were told who waited."""
        return self._told[name]

    def names(self) -> list[str]:
        """The logs for which somebody waits."""
        with self.lock:
            return list(self._waiting)
