"""A reader of the notification log over a websocket, which has its own position. Source: wire.md 4."""

from __future__ import annotations

from typing import Self

from mirror_sdk._protocol.async_log_reader import AsyncLogReader, AsyncSend
from mirror_sdk._protocol.async_log_websockets import AsyncLogWebsocket, AsyncLogWebsockets
from mirror_sdk._protocol.operations import Poll
from mirror_sdk._protocol.websocket_messages import read_message
from mirror_sdk.errors import MirrorError


class AsyncWebsocketLogReader(AsyncLogReader):
    """A reader of the notification log over a websocket.

    A websocket only sends entries, and does not report the end of the log. To read only the current entries, the reader
    therefore uses a poll with an immediate response. If the service closed the websocket, such a poll also shows the
    reason.

    Args:
        send: A function that sends the polls.
        sockets: Opens the websocket, and opens a new one when it has ended.
        after: The position to start after. By default, :meth:`go_to_end` determines it.
    """

    def __init__(self, send: AsyncSend, sockets: AsyncLogWebsockets, *, after: int | None = None) -> None:
        super().__init__(send, after=after)
        self._sockets = sockets
        self._socket: AsyncLogWebsocket | None = None

    async def open(self, within_seconds: float) -> None:
        """Open the websocket now, to check that the service supports it.

        Raises:
            MirrorError: The websocket could not be opened.
        """
        await self.go_to_end(within_seconds)
        self._socket = await self._sockets.open(self.position or 0, within_seconds)

    def at(self, position: int | None) -> Self:
        """Return a separate reader of the same log that starts after this position."""
        return type(self)(self._send, self._sockets, after=position)

    async def _poll(self, hold_seconds: float, within_seconds: float) -> Poll:
        if self.position is None or hold_seconds <= 0:
            return await super()._poll(hold_seconds, within_seconds)
        try:
            poll = await self._receive(self.position, hold_seconds, within_seconds)
        except MirrorError:
            ended, self._socket = self._socket, None
            if ended is None:
                raise
            # The service closed the websocket. If the access key is no longer valid, this poll raises the error.
            await ended.aclose()
            await super()._poll(0, within_seconds)
            raise
        return poll or await super()._poll(0, within_seconds)

    async def _receive(self, after: int, hold_seconds: float, within_seconds: float) -> Poll | None:
        """Return the first message with new entries, or ``None`` if none arrives within ``hold_seconds``."""
        until = self._clock() + hold_seconds
        if self._socket is None or not self._socket.is_usable:
            self._socket = await self._sockets.open(after, within_seconds)
        while (left_seconds := until - self._clock()) > 0:
            message = await self._socket.receive(left_seconds)
            if message is None:
                return None
            poll = read_message(after, message)
            if poll is not None:
                return poll
        return None
