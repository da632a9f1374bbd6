"""Calls of the websockets library that differ with threads; the counterpart of ``async_websocket_connection``."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from websockets.sync.client import ClientConnection, connect


def open_connection(url: str, options: dict[str, Any]) -> ClientConnection:
    """Open a websocket; ``options`` are those of ``connect`` of the library."""
    # Without entering it the library warns that it was not connected in a context.
    connection: ClientConnection = connect(url, **options).__enter__()
    return connection


def receive(connection: ClientConnection, limit_seconds: float) -> str | bytes:
    """Receive the next message.

    Raises:
        TimeoutError: No message came in time.
    """
    return connection.recv(timeout=limit_seconds)


def abort(connection: ClientConnection) -> None:
    """End a websocket without a closing handshake, and end the thread that listens to it."""
    with suppress(OSError):
        connection.socket.shutdown(socket.SHUT_RDWR)


def socket_of(connection: ClientConnection) -> socket.socket | None:
    """Return the socket of a connection."""
    return connection.socket
