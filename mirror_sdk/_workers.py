"""Conditions and workers for threads. The module ``_async_workers`` contains the same classes for asyncio tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from mirror_sdk._fork import register_fork_handler

Condition: TypeAlias = threading.Condition


class Worker:
    """A thread that runs until it is stopped. After a fork, it counts as stopped in the child process.

    Attributes:
        step: The lock for each step of the work. After acquiring it, check ``is_stopped``.
        end: The lock for the cleanup after the work. It is the same lock, because the thread may still be in a step.
        is_stopped: Whether the worker was stopped.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        # A reentrant lock, because a step may stop its own worker.
        self.step = self.end = threading.RLock()
        self.is_stopped = False
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Mark the worker as stopped in the child process, in any state of its thread."""
        self.is_stopped = True
        self.step = self.end = threading.RLock()

    def start(self, work: Callable[[], None]) -> None:
        """Start the thread. The constructor cannot do this, because the work needs the finished worker."""
        self._thread = threading.Thread(target=work, name=self._name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive() and not self.is_stopped

    def request_stop(self) -> None:
        """Prevent further steps. The thread completes its current wait, and then ends."""
        self.is_stopped = True

    def stop(self, timeout_seconds: float) -> None:
        """Prevent further steps, and wait up to ``timeout_seconds`` until the current step has ended."""
        self.request_stop()
        if self.step.acquire(timeout=timeout_seconds):
            self.step.release()
