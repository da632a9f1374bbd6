# Made from async_socket_reader.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""Reading the notification log over a websocket, from a position of its own. Source: wire.md 4."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.log_reader import LogReader, Send
from mirror_sdk._protocol.operations import Poll
from mirror_sdk._protocol.socket_messages import read_message
from mirror_sdk._protocol.sockets import Socket, Sockets
from mirror_sdk.errors import MirrorError


class SocketReader(LogReader):
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
        send: Send,
        sockets: Sockets,
        *,
        after: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(send, after=after, clock=clock, sleep=sleep, backoff=backoff)
        self._sockets = sockets
        self._socket: Socket | None = None

    def open(self, within_seconds: float) -> None:
        """Make the websocket, so that it is known that there is one to be had.

        Raises:
            MirrorError: There is none.
        """
        self.go_to_end(within_seconds)
        self._socket = self._sockets.open(self._cursor.seq or 0, within_seconds)

    def beside(self, position: int | None) -> Self:
        """Another reader of the same log, from this position."""
        return type(self)(self._send, self._sockets, after=position, clock=self._clock, sleep=self._sleep)

    def _ask(self, hold_seconds: float, within_seconds: float) -> Poll:
        if self._cursor.seq is None or hold_seconds <= 0:
            return super()._ask(hold_seconds, within_seconds)
        try:
            told = self._receive(self._cursor.seq, hold_seconds, within_seconds)
        except MirrorError:
            ended, self._socket = self._socket, None
            if ended is None:
                raise
            # It was there, and was closed: a key that is good no more is told by the poll.
            ended.close()
            super()._ask(0, within_seconds)
            raise
        return told or super()._ask(0, within_seconds)

    def _receive(self, after: int, hold_seconds: float, within_seconds: float) -> Poll | None:
        """What the next message tells that is new; ``None`` where none came in time."""
        until = self._clock() + hold_seconds
        if self._socket is None or not self._socket.is_usable:
            self._socket = self._sockets.open(after, within_seconds)
        while (left_seconds := until - self._clock()) > 0:
            message = self._socket.receive(left_seconds)
            if message is None:
                return None
            told = read_message(after, message)
            if told is not None:
                return told
        return None
