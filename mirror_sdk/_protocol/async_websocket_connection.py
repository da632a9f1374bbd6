"""Calls of the websockets library on an event loop. ``websocket_connection`` is the synchronous counterpart."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from websockets.asyncio.client import ClientConnection, connect


async def open_connection(url: str, options: dict[str, Any]) -> ClientConnection:
    """Open a websocket. ``options`` are the arguments of the library's ``connect``."""
    return await connect(url, **options)


async def receive(connection: ClientConnection, limit_seconds: float) -> str | bytes:
    """Receive the next message of a websocket.

    Raises:
        TimeoutError: No message arrived in time.
    """
    async with asyncio.timeout(limit_seconds):
        return await connection.recv()


def abort(connection: ClientConnection) -> None:
    """End a websocket without a closing handshake. This may be called from any thread."""
    if not connection.loop.is_closed():
        connection.loop.call_soon_threadsafe(connection.transport.abort)


def socket_of(connection: ClientConnection) -> socket.socket | None:
    """Return the socket of a websocket, or ``None`` if it has no socket."""
    found: socket.socket | None = connection.transport.get_extra_info("socket")
    return found
