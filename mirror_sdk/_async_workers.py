"""Conditions and workers for asyncio tasks. The module ``_workers`` contains the same classes for threads.

Unlike threads, tasks need no locks here, because no other task can run between two ``await`` expressions. A task can be
cancelled while it waits. A thread can only be requested to stop, and first completes its current wait.
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
    """A condition that tasks can wait for, like ``threading.Condition`` for threads, but without a lock."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __enter__(self) -> None:
        """Do nothing, because tasks need no lock."""

    def __exit__(self, *_: object) -> None:
        """Do nothing, because tasks need no lock."""

    async def wait_for(self, holds: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``holds`` returns true, for at most ``timeout`` seconds, and return its last result."""
        ends_at = time.monotonic() + timeout
        while not (is_so := holds()) and (left := ends_at - time.monotonic()) > 0:
            changed = asyncio.get_running_loop().create_future()
            self._waiting.add(changed)
            try:
                await asyncio.wait([changed], timeout=left)
            finally:
                self._waiting.discard(changed)
        return is_so

    def notify_all(self) -> None:
        """Wake all waiting tasks, so that they check their conditions."""
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)


class AsyncWorker:
    """A task that runs until it is stopped. After a fork, it counts as stopped in the child process.

    Attributes:
        step: The context manager that surrounds each step of the work. It locks nothing, because tasks need no lock.
        end: The lock for the cleanup after the work, which only one task at a time performs.
        is_stopped: Whether the worker was stopped.
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
        """Mark the worker as stopped in the child process, without touching the event loop of the parent."""
        self._is_of_parent = self.is_stopped = True
        self.end = asyncio.Lock()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the work in a task of the running event loop."""
        self._task = asyncio.get_running_loop().create_task(work(), name=self._name)

    @property
    def is_running(self) -> bool:
        """Whether the task is running."""
        return self._task is not None and not self._is_of_parent and not self._task.done()

    def request_stop(self) -> None:
        """Cancel the task, even if it belongs to another event loop or to one that has been closed."""
        self.is_stopped = True
        if self.is_running and self._task is not None and not (loop := self._task.get_loop()).is_closed():
            loop.call_soon_threadsafe(self._task.cancel)

    async def stop(self, timeout_seconds: float) -> None:
        """Cancel the task and wait up to ``timeout_seconds`` for its end, unless it is the calling task."""
        self.request_stop()
        # A callback may stop its own watch. The current task is then the worker's task, which cannot wait for itself.
        if self._task is not asyncio.current_task():
            await self.ended(timeout_seconds)

    async def ended(self, timeout_seconds: float | None = None) -> None:
        """Wait up to ``timeout_seconds`` until the task has ended. A task of another event loop is not awaited."""
        if self._task is not None and self.is_running and self._task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._task], timeout=timeout_seconds)


async def finish_call(made: object) -> None:
    """Await the result of a callback if it is awaitable, for example because the callback is an ``async`` function."""
    if inspect.isawaitable(made):
        await made
