"""Handshakes of TLS: how many may be under way, and for how long."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sized
from contextlib import suppress
from functools import partial

_MAX_LOGGED = 100
_PAUSE_SECONDS = 0.1


class TlsListener:
    """Accepts connections, and bounds their handshakes as the others bound what they send.

    An event loop that accepts them by itself tells nobody of a connection before its handshake, and waits for that a
    minute: who begins handshakes without an end would take all files there may be.

    Args:
        listener: Where clients connect; closed at the end.
        context: With what it is spoken.
        make: Makes what speaks HTTP, when a handshake is over.
        connections: Those whose handshake is over.
        max_connections: How many there may be of both. One more ends the oldest handshake, which has had its time.
        handshake_seconds: How long one may take.
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
        # By age.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        # Not before: the event loop looks at it until then.
        self._accepting.add_done_callback(lambda _: listener.close())

    def close(self) -> None:
        """Accept no more, and end the handshakes that are not over."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until that is done."""
        await asyncio.wait([self._accepting, *self._handshakes])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:
                # Of the client, which is gone; or of the system, which has no more files for a while.
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._take(accepted)

    def _take(self, accepted: socket.socket) -> None:
        excess = len(self._connections) + len(self._handshakes) - self._max_connections
        if excess >= 0 and self._handshakes:
            oldest = next(iter(self._handshakes))
            self._handshakes.pop(oldest)
            oldest.cancel()
        elif excess >= _MAX_LOGGED:
            # The others are told why, by what speaks HTTP.
            accepted.close()
            return
        task = asyncio.create_task(self._shake_hands(accepted))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._note_over, accepted))

    def _note_over(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            # It may not have begun.
            accepted.close()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        # A client whose handshake fails learns of it by TLS, and to the server it is nothing.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
            )
