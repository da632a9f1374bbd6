"""TLS handshakes, with limits of their number and duration."""

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
    """Accepts connections, and limits their handshakes.

    An event loop that accepts connections itself does not report them before the handshake, and waits a minute for
    that. A client that starts handshakes without end could use up all open files.

    Args:
        listener: The socket that clients connect to; closed at the end.
        context: The TLS context.
        make: Makes the HTTP protocol of a connection after its handshake.
        connections: The connections after their handshake.
        max_connections: Maximum number of connections and handshakes. One more ends the oldest handshake.
        handshake_seconds: Maximum duration of a handshake.
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
        # Oldest first.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        # Not earlier: until then the event loop still uses the socket.
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
                # The client disconnected, or the process has no free files at the moment.
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
            # Clients over the limit up to this number get a response from the HTTP protocol.
            accepted.close()
            return
        task = asyncio.create_task(self._shake_hands(accepted))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._discard, accepted))

    def _discard(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            # The task may not have started, and so may not have closed the socket.
            accepted.close()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        # TLS reports a failed handshake to the client. The server ignores it.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
            )
