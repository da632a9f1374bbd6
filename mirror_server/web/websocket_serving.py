"""What is sent through a websocket that is open, to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mirror_server.notifications.log import More
from mirror_server.notifications.sockets import UNEXPECTED, Closing, Frame, Socket, stopping
from mirror_server.store.failures import StorageFailed, TooMuchWaiting
from mirror_server.web.calls import Calls
from mirror_server.web.unread import Reader
from mirror_server.web.wsgi_call import Message, Send

CONNECTION = "mirror.websocket"
"""Key of a websocket's ASGI scope with its :class:`Connection`."""

_MOST_REASON_BYTES = 120


class Connection(Protocol):
    """The websocket itself, beside what ASGI knows of it.

    Attributes:
        on_end: Called when the connection is over.
        on_confirmed: Called with the number up to which all was delivered before a ping that the client has answered.
    """

    on_end: Callable[[], None]
    on_confirmed: Callable[[int], None]

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    def deliver(self, frame: Frame) -> None:
        """Send a message and, by a ping behind it, ask the client to confirm it; see ``on_confirmed``."""
        ...

    async def drain(self) -> None:
        """Wait until the client took most of what was sent, or is gone."""
        ...


async def serve(
    scope: Message,
    socket: Socket,
    reader: Reader,
    send: Send,
    *,
    look_seconds: float,
    is_stopping: asyncio.Event,
    calls: Calls,
) -> None:
    """Send messages as they come, until one side ends it.

    Args:
        scope: That of the handshake.
        socket: What is sent.
        reader: Its client, for what waits to be taken.
        send: Sends to it.
        look_seconds: How often is looked whether it is to go on where nothing happens.
        is_stopping: Set when the server stops.
        calls: Brings calls of other threads to this loop.
    """
    connection: Connection = scope[CONNECTION]
    wake = asyncio.Event()
    connection.on_end = wake.set
    connection.on_confirmed = socket.confirmed
    sending = _Sending(connection, socket, reader, calls, wake)
    try:
        await asyncio.wrap_future(socket.begin(sending.wake_soon))
        while not connection.is_over:
            if is_stopping.is_set():
                raise stopping()
            await sending.next(look_seconds)
    except Closing as closing:
        await close(closing, send)
    except (StorageFailed, TooMuchWaiting) as failure:
        await close(Closing(UNEXPECTED, f"the server {failure}; connect again later"), send)
    finally:
        sending.end()
        socket.close()


class _Sending:
    """Sends what there is, or waits for it."""

    def __init__(
        self, connection: Connection, socket: Socket, reader: Reader, calls: Calls, wake: asyncio.Event
    ) -> None:
        self._connection = connection
        self._socket = socket
        self._reader = reader
        self._calls = calls
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._before: More | None = None
        self._more: More | None = None
        self._is_at_end = False

    def wake_soon(self) -> None:
        """Have it look again; from any thread."""
        self._calls.soon(self._wake.set)

    def end(self) -> None:
        """Nothing is waited for any more."""
        if self._more is not None:
            self._more.cancel()

    async def next(self, look_seconds: float) -> None:
        """Send the next message; where there is none, wait for one, for the end, or for so long."""
        await self._reader.room()
        if self._wake.is_set():
            self._wake.clear()
            self._is_at_end = False
        if self._more is None or self._more.done():
            # Asked for before looking, so that what is added in between is not waited for.
            self._before, self._more = self._more, self._socket.more()
            self._more.add_done_callback(lambda _: self.wake_soon())
            self._is_at_end = False
        # Behind the last message there is nothing to look for: what is added now wakes it.
        frame = None if self._is_at_end else self._socket.take(self._before)
        if frame is None:
            frame = await self._wait(look_seconds)
        if frame is not None:
            self._is_at_end = frame.is_last
            # Nor is what was added then kept any longer.
            self._before = None if frame.is_last else self._before
            await self._deliver(frame)
            if not frame.is_last:
                # To a client that takes all at once, sending waits for nothing.
                await asyncio.sleep(0)

    async def _wait(self, look_seconds: float) -> Frame | None:
        self._is_at_end = False
        timer = self._loop.call_later(look_seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        return self._socket.look() if self._loop.time() >= timer.when() else None

    async def _deliver(self, frame: Frame) -> None:
        with self._reader.waiting(len(frame.text)):
            self._connection.deliver(frame)
            await self._connection.drain()


async def close(closing: Closing, send: Send) -> None:
    """Close a websocket."""
    reason = closing.reason.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
    await send({"type": "websocket.close", "code": closing.code, "reason": reason})
