"""What the simulator has to tell the service, told in the order in which it was decided."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 30.0


class Outbox:
    """Calls to the service, made one after another by one thread at a time.

    Two threads that called the service by themselves could overtake each other, and the mirror would keep the older of
    two values. So whoever comes first makes all calls that wait, while no lock is held.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._drainer: int | None = None
        self._added = 0
        self._called = 0

    def add(self, calls: Iterable[Callable[[], object]]) -> int:
        """Put calls at the end; gives the number of the last one, for :meth:`wait_until_called`."""
        with self._changed:
            before = len(self._waiting)
            self._waiting.extend(calls)
            self._added += len(self._waiting) - before
            return self._added

    def drain(self) -> None:
        """Make the calls that wait, unless another thread is at it, or this one further up its stack."""
        with self._changed:
            if self._drainer is not None:
                return
            self._drainer = threading.get_ident()
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:
                _log.exception("the service failed to take what a simulated device told it")
            except BaseException:
                self._stop_draining()
                raise

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            self._called = self._added - len(self._waiting)
            self._changed.notify_all()
            if self._waiting:
                return self._waiting.popleft()
            self._drainer = None
            return None

    def _stop_draining(self) -> None:
        with self._changed:
            self._drainer = None

    def wait_until_called(self, number: int) -> None:
        """Wait, at most half a minute, until another thread has made this call; the one that drains never waits."""
        with self._changed:
            if self._drainer == threading.get_ident():
                return
            if not self._changed.wait_for(lambda: self._called >= number, _WAIT_SECONDS):
                _log.warning("the service did not take what a simulated device told it within %s s", _WAIT_SECONDS)
