"""Who placed a device request and waits for its answer with the request still open. Source: wire.md 2, an extension."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeAlias

from mirror_server.core.messages import LogEntry

Answered: TypeAlias = Future[LogEntry | None]
"""Done with the async response as it stands in the log; ``None`` where it is not waited for any more."""

_Name: TypeAlias = tuple[str, str]


class AwaitedAnswers:
    """The answers that are awaited, by application and async-id; more than one may wait for the same."""

    def __init__(self) -> None:
        self._waiting: dict[_Name, set[Answered]] = {}
        self._lock = threading.Lock()

    def expect(self, app_id: str, async_id: str) -> Answered:
        """What is done when the answer is on disk; cancel it when it is not wanted any more."""
        name, future = (app_id, async_id), Answered()
        with self._lock:
            self._waiting.setdefault(name, set()).add(future)
        # Not under the lock, which the callback takes.
        future.add_done_callback(lambda done: self._forget(name, done))
        return future

    def among(self, app_id: str, async_ids: Iterable[str]) -> set[str]:
        """Which of these answers somebody waits for."""
        with self._lock:
            return {async_id for async_id in async_ids if (app_id, async_id) in self._waiting}

    def tell(self, app_id: str, async_id: str, answer: LogEntry | None) -> None:
        """Tell those who wait for an answer; ``None`` that none is to be waited for."""
        with self._lock:
            waiting = self._waiting.pop((app_id, async_id), set())
        for future in waiting:
            # It may have been cancelled at this moment.
            with suppress(InvalidStateError):
                future.set_result(answer)

    def _forget(self, name: _Name, future: Answered) -> None:
        with self._lock:
            waiting = self._waiting.get(name, set())
            waiting.discard(future)
            if not waiting:
                self._waiting.pop(name, None)
