"""Repeated reads of the mirror."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mirror_sdk.widgets.models.model import Model

T = TypeVar("T")

RETRY_SECONDS = 10.0
"""The time from a failed read to the next attempt; each further failure doubles it."""
_MOST_DOUBLINGS = 12


class PeriodicRead:
    """A read that is repeated after some time, and earlier after an event. Only the newest read counts.

    Args:
        model: The model that makes the calls and displays the notices.
        subject: The subject of the notice if a read fails.
        every_seconds: The time from the end of a read to the start of the next one, in seconds. With ``math.inf``, the
            read is not repeated.
    """

    def __init__(self, model: Model, subject: str, every_seconds: float) -> None:
        self._model = model
        self._subject = subject
        self._every_seconds = every_seconds
        self._due_at: float | None = None
        self._number = 0
        self._failures = 0
        self.is_running = False
        self.has_succeeded = False

    def within(self, seconds: float) -> None:
        """Schedule a read within this number of seconds, because of a change."""
        due_at = self._model.clock() + seconds
        # The earliest scheduled time counts, so that a stream of events cannot postpone the read forever.
        self._due_at = due_at if self._due_at is None else min(due_at, self._due_at)

    @property
    def is_due(self) -> bool:
        """Whether a read is due."""
        return self._due_at is not None and not self.is_running and self._model.clock() >= self._due_at

    def start(
        self,
        action: str,
        read: Callable[[], T],
        accept: Callable[[T], object],
        failed: Callable[[Exception], object] = lambda _: None,
    ) -> None:
        """Start a read. If another read is still running, its result is ignored.

        Args:
            action: The name of the read in the notice of a failure, such as ``Reading the fleet``.
            read: A function that makes the client calls.
            accept: A function that is called with the result.
            failed: A function that is called with the error before the notice is added.
        """
        self.cancel()
        self.is_running = True
        number = self._number

        def on_result(result: T) -> None:
            if self._ends(number):
                self._failures = 0
                self.has_succeeded = True
                self._model.notices.clear(self._subject)
                accept(result)
                self._model.changed()

        def on_error(error: Exception) -> None:
            if self._ends(number):
                self.within(RETRY_SECONDS * 2**self._failures)
                self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
                failed(error)
                self._model.report(self._subject, action, error)
                self._model.changed()

        self._model.run(read, on_result, on_error)

    def cancel(self) -> None:
        """Ignore the result of the running read.

        The next read starts only after :meth:`start` or :meth:`within` is called.
        """
        self._number += 1
        self._due_at = None
        self.is_running = False

    def _ends(self, number: int) -> bool:
        if number != self._number:
            return False
        self.is_running = False
        self.within(self._every_seconds)
        return True


def empty_directory_text(directory: PeriodicRead) -> str:
    """Return a sentence that explains why no devices of the directory are displayed."""
    if directory.is_running:
        return "reading the directory …"
    return "the directory lists no device" if directory.has_succeeded else "the directory could not be read"
