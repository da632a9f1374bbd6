"""The loop that serves an open websocket until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mirror_server.extensions.streams.reader_websockets import UNEXPECTED, Closing, Frame, StreamSocket, stopping
from mirror_server.notifications.log import EntryWaiter
from mirror_server.store.backend import StorageFailed, TooMuchWaiting
from mirror_server.web.asgi_bridge import LoopCallQueue
from mirror_server.web.wsgi_adapter import Message, ResponseReader, Send

CONNECTION = "mirror.websocket"
"""The key in the ASGI scope of a websocket under which its :class:`WebSocketConnection` is stored."""

# The payload of a close frame has at most 125 bytes, 2 of them for the code. Source: RFC 6455, 5.5.
_MOST_REASON_BYTES = 120


class WebSocketConnection(Protocol):
    """A websocket connection, with operations that ASGI lacks.

    Attributes:
        on_end: A callback for the end of the connection.
        on_confirmed: A callback for confirmations. Its argument is the number up to which a pong of the client has
            confirmed all entries.
    """

    on_end: Callable[[], None]
    on_confirmed: Callable[[int], None]

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, so that nothing more can be sent."""
        ...

    def deliver(self, frame: Frame) -> None:
        """Send a message followed by a ping. The pong of the client confirms the message; see ``on_confirmed``."""
        ...

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent, or has disconnected."""
        ...


async def serve(
    scope: Message,
    socket: StreamSocket,
    reader: ResponseReader,
    send: Send,
    *,
    check_seconds: float,
    is_stopping: asyncio.Event,
    loop_calls: LoopCallQueue,
) -> None:
    """Send messages as they arrive, until one side ends the websocket.

    Args:
        scope: The ASGI scope of the handshake.
        socket: The source of the messages.
        reader: The reader of the response, for backpressure.
        send: The ASGI function that sends to the client.
        check_seconds: The interval between checks while there is nothing to send.
        is_stopping: An event that is set when the server stops.
        loop_calls: The queue for calls from other threads.
    """
    connection: WebSocketConnection = scope[CONNECTION]
    wake = asyncio.Event()
    connection.on_end = wake.set
    connection.on_confirmed = socket.confirm

    def wake_soon(_: object = None) -> None:
        loop_calls.submit(wake.set)

    previous: EntryWaiter | None = None
    more: EntryWaiter | None = None
    is_at_end = False
    try:
        await asyncio.wrap_future(socket.connect(wake_soon))
        while not connection.is_over:
            if is_stopping.is_set():
                raise stopping()
            await reader.wait_for_room()
            if wake.is_set():
                wake.clear()
                is_at_end = False
            if more is None or more.done():
                # Create the future before reading. Otherwise an entry that is added in between would not wake this
                # loop.
                previous, more = more, socket.more()
                more.add_done_callback(wake_soon)
                is_at_end = False
            # After the last message of the log there is nothing to read, because a new entry wakes this loop.
            frame = None if is_at_end else socket.next_frame(previous)
            if frame is None and not await _is_set(wake, check_seconds):
                frame = socket.check()
            is_at_end = frame is not None and frame.is_last
            if frame is not None:
                # After the last message of the log, the entries of the previous future are no longer needed.
                previous = None if is_at_end else previous
                with reader.counting(len(frame.text)):
                    connection.deliver(frame)
                    await connection.drain()
                if not is_at_end:
                    # If the client receives everything immediately, sending never waits. This lets other tasks run.
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
    """Wait for the event, at most this number of seconds. Return false if the time is over."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
    return loop.time() < timer.when()


async def close(closing: Closing, send: Send) -> None:
    """Send the code and the reason that close a websocket."""
    # The reason is cut to fit the frame, and the cut may be inside a character.
    reason = closing.reason.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
    await send({"type": "websocket.close", "code": closing.code, "reason": reason})
