# Made from async_log_reader.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""A reader of the notification log over HTTP, which has its own position. Source: wire.md 4."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.log_cursor import LogCursor
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk._protocol.operations import Poll
from mirror_sdk.errors import MirrorError
from mirror_sdk.wire.log_entries import NOTHING, Batch

T = TypeVar("T")


class Send(Protocol):
    """A function that sends an operation and returns the result."""

    def __call__(self, operation: Operation[T], /) -> T: ...


class LogReader(LogCursor):
    """A reader of the notification log with its own position.

    Args:
        send: A function that sends the polls.
        after: The position to start after. By default, :meth:`go_to_end` determines it.
        clock: A clock in seconds, which measures the pauses after failures.
        sleep: A function that waits for a number of seconds, or less.
        backoff: The lengths of the pauses after failures.
    """

    def __init__(
        self,
        send: Send,
        *,
        after: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(after, clock, backoff)
        self._send = send
        self._sleep = sleep

    def go_to_end(self, within_seconds: float = math.inf) -> None:
        """Move to the current end of the log, so that the next read starts with the first entry after this call.

        Raises:
            MirrorError: The end could not be requested.
        """
        self.accept(self._send(self.opening_poll(within_seconds)))

    def read(self, hold_seconds: float, within_seconds: float = math.inf) -> Batch:
        """Wait up to ``hold_seconds`` for entries after the position. After a recent failure, pause instead.

        Raises:
            MirrorError: The poll failed for a reason that another poll would not fix.
        """
        pause_seconds = self.pause_seconds
        if pause_seconds > 0:
            # The pause is not longer than the caller waits. The caller's next read continues the pause.
            self._sleep(min(pause_seconds, hold_seconds))
            return NOTHING
        started_at = self._clock()
        try:
            poll = self._poll(hold_seconds, within_seconds)
        except MirrorError as error:
            return self.failed(error, self._clock() - started_at)
        return self.accept(poll)

    def at(self, position: int | None) -> Self:
        """Return a separate reader of the same log that starts after this position."""
        return type(self)(self._send, after=position, clock=self._clock, sleep=self._sleep)

    def _poll(self, hold_seconds: float, within_seconds: float) -> Poll:
        return self._send(self.next_poll(hold_seconds, within_seconds))
