"""A reader of the notification log over HTTP, which has its own position. Source: wire.md 4."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, Self, TypeVar

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.log_cursor import LogCursor
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk._protocol.operations import Poll
from mirror_sdk.errors import MirrorError
from mirror_sdk.wire.log_entries import NOTHING, Batch

T = TypeVar("T")


class AsyncSend(Protocol):
    """A function that sends an operation and returns the result."""

    async def __call__(self, operation: Operation[T], /) -> T: ...


class AsyncLogReader(LogCursor):
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
        send: AsyncSend,
        *,
        after: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(after, clock, backoff)
        self._send = send
        self._sleep = sleep

    async def go_to_end(self, within_seconds: float = math.inf) -> None:
        """Move to the current end of the log, so that the next read starts with the first entry after this call.

        Raises:
            MirrorError: The end could not be requested.
        """
        self.accept(await self._send(self.opening_poll(within_seconds)))

    async def read(self, hold_seconds: float, within_seconds: float = math.inf) -> Batch:
        """Wait up to ``hold_seconds`` for entries after the position. After a recent failure, pause instead.

        A cancelled read leaves the position unchanged.

        Raises:
            MirrorError: The poll failed for a reason that another poll would not fix.
        """
        pause_seconds = self.pause_seconds
        if pause_seconds > 0:
            # The pause is not longer than the caller waits. The caller's next read continues the pause.
            await self._sleep(min(pause_seconds, hold_seconds))
            return NOTHING
        started_at = self._clock()
        try:
            poll = await self._poll(hold_seconds, within_seconds)
        except MirrorError as error:
            return self.failed(error, self._clock() - started_at)
        return self.accept(poll)

    def at(self, position: int | None) -> Self:
        """Return a separate reader of the same log that starts after this position."""
        return type(self)(self._send, after=position, clock=self._clock, sleep=self._sleep)

    async def _poll(self, hold_seconds: float, within_seconds: float) -> Poll:
        return await self._send(self.next_poll(hold_seconds, within_seconds))
