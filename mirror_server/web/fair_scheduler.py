"""Fair division of the event loop between access keys: a key with many requests waits for its turn."""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from _typeshed.wsgi import WSGIEnvironment

_MAX_SECONDS = 0.002
"""The share of a key in one turn of the loop."""

_WOKEN_PER_TURN = 16
"""The number of requests of a key that are woken in one turn of the loop.

Waking one at a time would need a turn for each. If these use up the share of the key, the last of them wait again.
"""


class FairScheduler:
    """Divides the time of one event loop. In each turn a key gets two milliseconds, and at least one request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, because the bridge stores this object for as long as the loop exists.
        self._loop: asyncio.AbstractEventLoop = weakref.proxy(loop)
        self._seconds: dict[str, float] = {}
        self._queues: dict[str, _Queue] = {}
        self._has_pauses = True

    async def turn(self, environ: WSGIEnvironment) -> None:
        """Wait until the earlier requests of the same key have run, and the key has time left in this turn."""
        key = _key(environ)
        queue = self._queues.get(key)
        if queue is None:
            return
        waiting = queue.new
        while waiting is queue.new or self._has_used_share(key, queue):
            turn = self._loop.create_future()
            waiting.append(turn)
            waiting = queue.woken
            await turn

    def count(self, environ: WSGIEnvironment, seconds: float, *, pause_seconds: float = 0) -> None:
        """Count the time that a request took of this turn of the loop, including the time it was blocked.

        The next request of the same key is served after ``pause_seconds``. If the key has used its share, it is served
        in the next turn.
        """
        key = _key(environ)
        # The first request of a turn. The counted times are reset when this turn of the loop ends.
        if not self._seconds:
            self._loop.call_soon(self._seconds.clear)
        self._seconds[key] = self._seconds.get(key, 0) + seconds
        if pause_seconds or self._seconds[key] > _MAX_SECONDS:
            self.pause(environ, pause_seconds)

    def pause(self, environ: WSGIEnvironment, seconds: float = 0) -> None:
        """Serve other keys for this long, or for one turn, before the next request of the same key."""
        key = _key(environ)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
            self._loop.call_soon(self._wake, key)
        queue.paused_until = max(queue.paused_until, self._loop.time() + seconds)

    def end_pauses(self) -> None:
        """End all pauses, because the server stops and waiting requests have little time left."""
        self._has_pauses = False
        # The loop may belong to another thread, and may be closed.
        for key in list(self._queues):
            with suppress(RuntimeError, ReferenceError):
                self._loop.call_soon_threadsafe(self._wake, key)

    def _wake(self, key: str) -> None:
        """Wake the next requests of a key. In the next turn of the loop, wake the requests after these."""
        queue = self._queues.get(key)
        if queue is None:
            return
        if self._is_paused(queue):
            self._loop.call_at(queue.paused_until, self._wake, key)
        elif waiting := queue.woken or queue.new:
            for _ in range(min(len(waiting), _WOKEN_PER_TURN)):
                turn = waiting.popleft()
                # The task that waits may have been cancelled.
                if not turn.done():
                    turn.set_result(None)
            self._loop.call_soon(self._wake, key)
        else:
            del self._queues[key]

    def _has_used_share(self, key: str, queue: _Queue) -> bool:
        return self._seconds.get(key, 0) > _MAX_SECONDS or self._is_paused(queue)

    def _is_paused(self, queue: _Queue) -> bool:
        return self._has_pauses and self._loop.time() < queue.paused_until


class _Queue:
    """The waiting requests of a key, oldest first: requests that were woken too early, and new requests."""

    def __init__(self) -> None:
        self.woken: deque[asyncio.Future[None]] = deque()
        self.new: deque[asyncio.Future[None]] = deque()
        self.paused_until = 0.0


def _key(environ: WSGIEnvironment) -> str:
    """Return the access key, however its header is written, or the client's address if there is none."""
    authorization: str = environ.get("HTTP_AUTHORIZATION", "")
    return authorization.rstrip().rpartition(" ")[2] or str(environ.get("REMOTE_ADDR", ""))
