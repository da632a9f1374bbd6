"""Reading the notification log over HTTP, from a position of its own. Source: wire.md 4."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, Self, TypeVar

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.cursor import LogCursor
from mirror_sdk._protocol.operation import Operation
from mirror_sdk._protocol.operations import Poll
from mirror_sdk.errors import MirrorError
from mirror_sdk.wire.log_entries import NOTHING, Batch

T = TypeVar("T")


class AsyncSend(Protocol):
    """Sends an operation and reads its answer."""

    async def __call__(self, operation: Operation[T], /) -> T: ...


class AsyncReader(Protocol):
    """Reads notifications from a position of its own, whichever channel brings them."""

    @property
    def is_placed(self) -> bool: ...
    @property
    def last_failure(self) -> MirrorError | None: ...
    @property
    def position(self) -> int | None: ...
    @property
    def pause_seconds(self) -> float: ...
    async def go_to_end(self, within_seconds: float = math.inf, /) -> None: ...
    async def read(self, hold_seconds: float, within_seconds: float = math.inf, /) -> Batch: ...
    def beside(self, position: int | None, /) -> Self: ...
    def pass_over(self, seq: int | None, /) -> bool: ...


class AsyncLogReader:
    """Reads the log from a position of its own.

    Args:
        send: Sends the polls.
        after: Position to go on from; without one, :meth:`go_to_end` finds it.
        clock: Seconds, for the pauses after failures.
        sleep: Waits that many seconds, or less.
        backoff: How long those pauses are.
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
        self._send = send
        self._cursor = LogCursor(after, backoff or Backoff())
        self._clock = clock
        self._sleep = sleep
        self._resume_at = clock()

    @property
    def is_placed(self) -> bool:
        """Whether it has a position."""
        return self._cursor.seq is not None

    @property
    def last_failure(self) -> MirrorError | None:
        """Why the last poll failed; ``None`` when it did not."""
        return self._cursor.last_failure

    @property
    def position(self) -> int | None:
        """Number of the last entry that was read; ``None`` until the end of the log is known."""
        return self._cursor.seq

    @property
    def served_at(self) -> datetime | None:
        """The instant before which all stands up to the position, by the service's clock; see :class:`Batch`."""
        return self._cursor.served_at

    @property
    def pause_seconds(self) -> float:
        """How long the next poll is put off, because the last one failed."""
        return 0.0 if self._cursor.is_lost else max(0.0, self._resume_at - self._clock())

    async def go_to_end(self, within_seconds: float = math.inf) -> None:
        """Take the present end of the log as the position: what comes after this call will be read.

        Raises:
            MirrorError: The end could not be asked for.
        """
        self._cursor.answered(await self._send(self._cursor.opening_poll(within_seconds)))

    async def read(self, hold_seconds: float, within_seconds: float = math.inf) -> Batch:
        """Wait for what follows the position, at most so long; pause instead while a failure is too fresh.

        A read that is cancelled leaves the position where it was.

        Raises:
            MirrorError: A failure that asking again would not mend.
        """
        pause_seconds = self.pause_seconds
        if pause_seconds > 0:
            await self._sleep(min(pause_seconds, hold_seconds))
            return NOTHING
        asked_at = self._clock()
        try:
            poll = await self._ask(hold_seconds, within_seconds)
        except MirrorError as error:
            batch, delay_seconds = self._cursor.failed(error, self._clock() - asked_at)
            self._resume_at = self._clock() + delay_seconds
            return batch
        return self._cursor.answered(poll)

    def pass_over(self, seq: int | None) -> bool:
        """Move on behind an entry that was told elsewhere, where it is the next one; gives whether it was."""
        return self._cursor.pass_over(seq)

    def beside(self, position: int | None) -> Self:
        """Another reader of the same log, from this position."""
        return type(self)(self._send, after=position, clock=self._clock, sleep=self._sleep)

    async def _ask(self, hold_seconds: float, within_seconds: float) -> Poll:
        return await self._send(self._cursor.next_poll(hold_seconds, within_seconds))
