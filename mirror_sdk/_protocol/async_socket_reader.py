"""Reading the notification log over a websocket, from a position of its own. Source: wire.md 4."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Self

from mirror_sdk._protocol.async_log_reader import AsyncLogReader, AsyncSend
from mirror_sdk._protocol.async_sockets import AsyncSocket, AsyncSockets
from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.operations import Poll
from mirror_sdk._protocol.socket_messages import read_message
from mirror_sdk.errors import MirrorError


class AsyncSocketReader(AsyncLogReader):
    """Reads the log as it comes over a websocket, and asks for what is there at this moment.

    A websocket tells what comes, and not that nothing has: what is not waited for is asked by a poll that is answered
    at once, and so is a service that closed the websocket, for the reason.

    Args:
        send: Sends those polls.
        sockets: Makes the websocket, and another one where it ended.
        after: Position to go on from; without one, :meth:`go_to_end` finds it.
        clock: Seconds, for the pauses after failures.
        sleep: Waits that many seconds, or less.
        backoff: How long those pauses are.
    """

    def __init__(
        self,
        send: AsyncSend,
        sockets: AsyncSockets,
        *,
        after: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(send, after=after, clock=clock, sleep=sleep, backoff=backoff)
        self._sockets = sockets
        self._socket: AsyncSocket | None = None

    async def open(self, within_seconds: float) -> None:
        """Make the websocket, so that it is known that there is one to be had.

        Raises:
            MirrorError: There is none.
        """
        await self.go_to_end(within_seconds)
        self._socket = await self._sockets.open(self._cursor.seq or 0, within_seconds)

    def beside(self, position: int | None) -> Self:
        """Another reader of the same log, from this position."""
        return type(self)(self._send, self._sockets, after=position, clock=self._clock, sleep=self._sleep)

    async def _ask(self, hold_seconds: float, within_seconds: float) -> Poll:
        if self._cursor.seq is None or hold_seconds <= 0:
            return await super()._ask(hold_seconds, within_seconds)
        try:
            told = await self._receive(self._cursor.seq, hold_seconds, within_seconds)
        except MirrorError:
            ended, self._socket = self._socket, None
            if ended is None:
                raise
            # It was there, and was closed: a key that is good no more is told by the poll.
            await ended.aclose()
            await super()._ask(0, within_seconds)
            raise
        return told or await super()._ask(0, within_seconds)

    async def _receive(self, after: int, hold_seconds: float, within_seconds: float) -> Poll | None:
        """What the next message tells that is new; ``None`` where none came in time."""
        until = self._clock() + hold_seconds
        if self._socket is None or not self._socket.is_usable:
            self._socket = await self._sockets.open(after, within_seconds)
        while (left_seconds := until - self._clock()) > 0:
            message = await self._socket.receive(left_seconds)
            if message is None:
                return None
            told = read_message(after, message)
            if told is not None:
                return told
        return None
