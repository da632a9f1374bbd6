"""Conditions and workers for the tasks of an event loop; the counterpart of ``_workers``.

Between two awaits no other task runs, so tasks need no lock where threads do. A thread can only be requested to end,
and completes its current wait; a task is cancelled while it waits.
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
    """A condition that tasks can wait for, like ``threading.Condition`` for threads. It locks nothing."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    async def wait_for(self, holds: Callable[[], bool], timeout: float) -> bool:
        """Wait until the condition holds, up to ``timeout`` seconds; return whether it does."""
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
        """Wake all waiting tasks to check their conditions."""
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)


class AsyncWorker:
    """A task that works until it is stopped. In a child process it is stopped: the task stays with the parent's loop.

    Attributes:
        step: Entered for each step of the work; it locks nothing.
        end: Lock for the cleanup after the work, which one task at a time does.
        is_stopped: Whether it was stopped.
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
        """Stop it here, without touching the event loop of the parent."""
        self._is_of_parent = self.is_stopped = True
        self.end = asyncio.Lock()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start to work, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(work(), name=self._name)

    @property
    def is_running(self) -> bool:
        """Whether it works."""
        return self._task is not None and not self._is_of_parent and not self._task.done()

    def request_stop(self) -> None:
        """Cancel the task, even if it belongs to another event loop or has ended with that loop."""
        self.is_stopped = True
        if self.is_running and self._task is not None and not (loop := self._task.get_loop()).is_closed():
            loop.call_soon_threadsafe(self._task.cancel)

    async def stop(self, timeout_seconds: float) -> None:
        """Cancel the task and wait for its end up to ``timeout_seconds``, unless it is the calling task."""
        self.request_stop()
        # A callback may stop its own watch, and a task cannot wait for its own end.
        if self._task is not asyncio.current_task():
            await self.ended(timeout_seconds)

    async def ended(self, timeout_seconds: float | None = None) -> None:
        """Wait until the task has ended, up to ``timeout_seconds``. Do not wait for a task of another event loop."""
        if self._task is not None and self.is_running and self._task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._task], timeout=timeout_seconds)


async def finish_call(made: object) -> None:
    """Wait for the result of a callback if it is an ``async`` function."""
    if inspect.isawaitable(made):
        await made
