"""TLS handshakes, with limits on their number and duration."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sized
from contextlib import suppress
from functools import partial

_MAX_REJECTED_WITH_RESPONSE = 100
_PAUSE_SECONDS = 0.1


class TlsListener:
    """A listener that accepts connections and limits their TLS handshakes.

    If an event loop itself accepts connections, it does not report them before the handshake, for which it waits up to
    a minute. A client that starts many handshakes could then use up all open files.

    Args:
        listener: The socket to which clients connect. It is closed at the end.
        context: The TLS context.
        make: A function that creates the HTTP protocol of a connection after its handshake.
        connections: The connections that have completed their handshake.
        max_connections: The maximum number of connections and handshakes. A further connection ends the oldest
            handshake.
        handshake_seconds: The maximum duration of a handshake in seconds.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        connections: Sized,
        *,
        max_connections: int,
        handshake_seconds: float,
    ) -> None:
        self._listener = listener
        self._context = context
        self._make = make
        self._connections = connections
        self._max_connections = max_connections
        self._handshake_seconds = handshake_seconds
        # Ordered by age, oldest first.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        # Closed when the task has ended, because the event loop uses the socket until then.
        self._accepting.add_done_callback(lambda _: listener.close())

    def close(self) -> None:
        """Stop accepting connections, and cancel the handshakes in progress."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all handshakes have ended."""
        await asyncio.wait([self._accepting, *self._handshakes])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:
                # The client disconnected, or the process currently has no free files.
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._start_handshake(accepted)

    def _start_handshake(self, accepted: socket.socket) -> None:
        excess = len(self._connections) + len(self._handshakes) - self._max_connections
        if excess >= 0 and self._handshakes:
            oldest = next(iter(self._handshakes))
            self._handshakes.pop(oldest)
            oldest.cancel()
        elif excess >= _MAX_REJECTED_WITH_RESPONSE:
            # Up to this number, clients above the limit get a response from the HTTP protocol.
            accepted.close()
            return
        task = asyncio.create_task(self._shake_hands(accepted))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._discard, accepted))

    def _discard(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            # If the task never started, it has not closed the socket.
            accepted.close()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        # TLS reports a failed handshake to the client, so the server ignores it.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
            )
