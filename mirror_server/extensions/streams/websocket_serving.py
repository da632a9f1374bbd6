"""What is sent through a websocket that is open, to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mirror_server.extensions.streams.sockets import UNEXPECTED, Closing, Frame, StreamSocket, stopping
from mirror_server.notifications.log import EntryWaiter
from mirror_server.store.backend import StorageFailed, TooMuchWaiting
from mirror_server.web.asgi import Message, ResponseReader, Send
from mirror_server.web.bridge import LoopCallQueue

CONNECTION = "mirror.websocket"
"""Key of a websocket's ASGI scope with its :class:`WebSocketConnection`."""

_MOST_REASON_BYTES = 120


class WebSocketConnection(Protocol):
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
    socket: StreamSocket,
    reader: ResponseReader,
    send: Send,
    *,
    look_seconds: float,
    is_stopping: asyncio.Event,
    calls: LoopCallQueue,
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
    connection: WebSocketConnection = scope[CONNECTION]
    wake = asyncio.Event()
    connection.on_end = wake.set
    connection.on_confirmed = socket.confirmed

    def wake_soon(_: object = None) -> None:
        calls.submit(wake.set)

    before: EntryWaiter | None = None
    more: EntryWaiter | None = None
    is_at_end = False
    try:
        await asyncio.wrap_future(socket.begin(wake_soon))
        while not connection.is_over:
            if is_stopping.is_set():
                raise stopping()
            await reader.wait_for_room()
            if wake.is_set():
                wake.clear()
                is_at_end = False
            if more is None or more.done():
                # Asked for before looking, so that what is added in between is not waited for.
                before, more = more, socket.more()
                more.add_done_callback(wake_soon)
                is_at_end = False
            # Behind the last message there is nothing to look for: what is added now wakes it.
            frame = None if is_at_end else socket.take(before)
            if frame is None and not await _is_set(wake, look_seconds):
                frame = socket.look()
            is_at_end = frame is not None and frame.is_last
            if frame is not None:
                # Behind the last one what was added then is not kept any longer either.
                before = None if is_at_end else before
                with reader.counting(len(frame.text)):
                    connection.deliver(frame)
                    await connection.drain()
                if not is_at_end:
                    # To a client that takes all at once, sending waits for nothing.
                    await asyncio.sleep(0)
    except Closing as closing:
        await close(closing, send)
    except (StorageFailed, TooMuchWaiting) as failure:
        await close(Closing(UNEXPECTED, f"the server {failure}; connect again later"), send)
    finally:
        if more is not None:
            more.cancel()
        socket.close()


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, so long at most; gives whether it came in time."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
    return loop.time() < timer.when()


async def close(closing: Closing, send: Send) -> None:
    """Close a websocket."""
    reason = closing.reason.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
    await send({"type": "websocket.close", "code": closing.code, "reason": reason})
