"""The requests of one key share an event loop with those of the others, and wait for their turn where they are many."""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from _typeshed.wsgi import WSGIEnvironment

_MOST_SECONDS = 0.002
_CALLED_AT_ONCE = 16
"""One at a time would take a turn of the loop for each; where these are too many, the last of them wait again."""


class Shares:
    """Shares of one event loop: in each of its turns a key has two milliseconds, and at least one request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weakly: the bridge keeps these for as long as the loop is there.
        self._loop: asyncio.AbstractEventLoop = weakref.proxy(loop)
        self._seconds: dict[str, float] = {}
        self._queues: dict[str, _Queue] = {}
        self._has_rests = True

    async def turn(self, environ: WSGIEnvironment) -> None:
        """Wait behind the requests of the same key that wait already, and while it has had its share."""
        key = _key(environ)
        queue = self._queues.get(key)
        if queue is None:
            return
        waiting = queue.new
        while waiting is queue.new or self._has_had_its_share(key, queue):
            turn = self._loop.create_future()
            waiting.append(turn)
            waiting = queue.called
            await turn

    def count(self, environ: WSGIEnvironment, seconds: float, *, rest_seconds: float = 0) -> None:
        """Count the time that a request took of this turn of the loop, for whatever reason: others wait for it alike.

        The next request of its key is served after ``rest_seconds``, or with the next turn where the key has had its
        share of this one.
        """
        key = _key(environ)
        if not self._seconds:
            self._loop.call_soon(self._seconds.clear)
        self._seconds[key] = self._seconds.get(key, 0) + seconds
        if rest_seconds or self._seconds[key] > _MOST_SECONDS:
            self.rest(environ, rest_seconds)

    def rest(self, environ: WSGIEnvironment, seconds: float = 0) -> None:
        """Serve others for so long, or once, before the next request of the same key."""
        key = _key(environ)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
            self._loop.call_soon(self._call, key)
        queue.rests_until = max(queue.rests_until, self._loop.time() + seconds)

    def end_rests(self) -> None:
        """Let no key rest any more: the server stops, and what waits has little time."""
        self._has_rests = False
        # The loop may be that of another thread, and over.
        for key in list(self._queues):
            with suppress(RuntimeError, ReferenceError):
                self._loop.call_soon_threadsafe(self._call, key)

    def _call(self, key: str) -> None:
        """Call the next requests of a key, and in the next turn of the loop those behind them."""
        queue = self._queues.get(key)
        if queue is None:
            return
        if self._rests(queue):
            self._loop.call_at(queue.rests_until, self._call, key)
        elif waiting := queue.called or queue.new:
            for _ in range(min(len(waiting), _CALLED_AT_ONCE)):
                turn = waiting.popleft()
                # Its client may be gone.
                if not turn.done():
                    turn.set_result(None)
            self._loop.call_soon(self._call, key)
        else:
            del self._queues[key]

    def _has_had_its_share(self, key: str, queue: _Queue) -> bool:
        return self._seconds.get(key, 0) > _MOST_SECONDS or self._rests(queue)

    def _rests(self, queue: _Queue) -> bool:
        return self._has_rests and self._loop.time() < queue.rests_until


class _Queue:
    """The requests of a key that wait, the oldest first; before the new ones, those that were called too early."""

    def __init__(self) -> None:
        self.called: deque[asyncio.Future[None]] = deque()
        self.new: deque[asyncio.Future[None]] = deque()
        self.rests_until = 0.0


def _key(environ: WSGIEnvironment) -> str:
    """The access key, however its header is written; where there is none, whoever asks without one."""
    authorization: str = environ.get("HTTP_AUTHORIZATION", "")
    return authorization.rstrip().rpartition(" ")[2] or str(environ.get("REMOTE_ADDR", ""))
