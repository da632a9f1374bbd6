"""Calls from other threads, brought to the event loop together.

One event wakes thousands who wait. To wake the loop for each of them takes about as long as what each does, and what
all of them do at once would keep it from everybody else.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

_MOST_AT_ONCE = 100


class Calls:
    """Calls that are made on an event loop, in their order.

    Args:
        loop: The loop, which others get their turn on between a hundred calls and the next.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_due = False
        self._made = threading.Event()
        self._made.set()

    def soon(self, call: Callable[[], object]) -> None:
        """Make a call soon; from any thread. It must not raise. After the end of the loop nothing is called."""
        # Added before it is looked whether the loop knows, and there looked for the other way round: none is left.
        self._waiting.append(call)
        if not (self._is_due or self.loop.is_closed()):
            self._is_due = True
            self._made.clear()
            self.loop.call_soon_threadsafe(self._make)

    def wait(self, seconds: float) -> None:
        """Wait on another thread, so long at most, until what was asked for is done, and what tasks did for it."""
        self._made.wait(seconds)

    def _make(self) -> None:
        self._is_due = False
        for _ in range(min(len(self._waiting), _MOST_AT_ONCE)):
            self._waiting.popleft()()
        if self._waiting and not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._make)
        else:
            # Behind the tasks that the calls woke.
            self.loop.call_soon(self._made.set)
