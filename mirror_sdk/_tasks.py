"""How tasks of an event loop wait for each other and are stopped; the counterpart of ``_threads``.

Between two awaits no other task runs, so that tasks need no lock where threads do. A thread can only be asked to end,
and goes on with what it waits for; a task is cancelled where it waits.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

from mirror_sdk._fork import register_fork_handler


class AsyncCondition:
    """Lets tasks wait until something holds, as ``threading.Condition`` does for threads. It locks nothing."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, *_: object) -> None:
        """Nothing."""

    async def wait_for(self, holds: Callable[[], bool], timeout: float) -> bool:
        """Wait until it holds, at most so many seconds; gives whether it does."""
        ends_at = time.monotonic() + timeout
        while not (is_so := holds()) and (left := ends_at - time.monotonic()) > 0:
            told = asyncio.get_running_loop().create_future()
            self._waiting.add(told)
            try:
                await asyncio.wait([told], timeout=left)
            finally:
                self._waiting.discard(told)
        return is_so

    def notify_all(self) -> None:
        """Have all that wait look again."""
        for told in self._waiting:
            if not told.done():
                told.set_result(None)


class AsyncWorker:
    """A task that works until it is stopped. In a child process it is stopped: the task stays with the parent's loop.

    Attributes:
        step: Entered for each step of the work; it holds nothing.
        end: Held while what follows the work is done, by one task at a time.
        is_stopped: Whether it is to work no more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._is_of_parent = False
        self.step = nullcontext()
        self.end = asyncio.Lock()
        self.is_stopped = False
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """It is stopped here, and nothing is done to the loop of the parent."""
        self._is_of_parent = self.is_stopped = True
        self.end = asyncio.Lock()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin to work, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(work(), name=self._name)

    @property
    def is_running(self) -> bool:
        """Whether it works."""
        return self._task is not None and not self._is_of_parent and not self._task.done()

    def ask_to_stop(self) -> None:
        """Cancel the task, also one of another event loop, which may have ended with it."""
        self.is_stopped = True
        if self.is_running and self._task is not None and not (loop := self._task.get_loop()).is_closed():
            loop.call_soon_threadsafe(self._task.cancel)

    async def stop(self, timeout_seconds: float) -> None:
        """Cancel the task, and give it so long to end, unless it is the one that calls this."""
        self.ask_to_stop()
        if self._task is not asyncio.current_task():
            await self.ended(timeout_seconds)

    async def ended(self, timeout_seconds: float | None = None) -> None:
        """Wait until the task has ended, at most so long; one of another event loop is not waited for."""
        if self._task is not None and self.is_running and self._task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._task], timeout=timeout_seconds)


async def finish_call(made: object) -> None:
    """Wait for what a callback gave, where it is an ``async`` function."""
    if inspect.isawaitable(made):
        await made
