"""Conditions and workers for threads; the counterpart of ``_async_workers``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from mirror_sdk._fork import register_fork_handler

Condition: TypeAlias = threading.Condition


class Worker:
    """A thread that works until it is stopped. In a child process it is stopped: the thread stays with the parent.

    Attributes:
        step: Lock for each step of the work. After acquiring it, check ``is_stopped``.
        end: Lock for the cleanup after the work: the same lock, because the thread may still be in a step.
        is_stopped: Whether it was stopped.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        # A step may stop its own worker.
        self.step = self.end = threading.RLock()
        self.is_stopped = False
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Stop it here, in any state of its thread."""
        self.is_stopped = True
        self.step = self.end = threading.RLock()

    def start(self, work: Callable[[], None]) -> None:
        """Start to work; not in the constructor, because the work uses its worker."""
        self._thread = threading.Thread(target=work, name=self._name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it works."""
        return self._thread is not None and self._thread.is_alive() and not self.is_stopped

    def request_stop(self) -> None:
        """Start no other step. The thread completes its current wait, and then ends."""
        self.is_stopped = True

    def stop(self, timeout_seconds: float) -> None:
        """Start no other step, and wait for a running one up to ``timeout_seconds``."""
        self.request_stop()
        if self.step.acquire(timeout=timeout_seconds):
            self.step.release()
