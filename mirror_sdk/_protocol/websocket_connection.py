"""Calls of the websockets library in threads. ``async_websocket_connection`` is the asynchronous counterpart."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from websockets.sync.client import ClientConnection, connect

from mirror_sdk._protocol.tls_socket import TwoThreadTLSSocket


def open_connection(url: str, options: dict[str, Any]) -> ClientConnection:
    """Open a websocket. ``options`` are the arguments of the library's ``connect``."""
    if options["ssl"] is not None:
        # The library receives in a thread of its own.
        options["ssl"].sslsocket_class = TwoThreadTLSSocket
    # The connection is entered as a context, because the library would otherwise issue a warning.
    connection: ClientConnection = connect(url, **options).__enter__()
    return connection


def receive(connection: ClientConnection, limit_seconds: float) -> str | bytes:
    """Receive the next message of a websocket.

    Raises:
        TimeoutError: No message arrived in time.
    """
    return connection.recv(timeout=limit_seconds)


def abort(connection: ClientConnection) -> None:
    """End a websocket without a closing handshake, and end the thread that receives from it."""
    with suppress(OSError):
        connection.socket.shutdown(socket.SHUT_RDWR)


def socket_of(connection: ClientConnection) -> socket.socket | None:
    """Return the socket of a websocket."""
    return connection.socket
