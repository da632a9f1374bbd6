"""The websockets of log readers, each of which has its own position. Source: wire.md 4."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from mirror_sdk._fork import abandon_in_child, close_in_child, register_fork_handler
from mirror_sdk._protocol.async_websocket_connection import abort, open_connection, receive, socket_of
from mirror_sdk._protocol.client_status import Contact
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk._protocol.websocket_messages import WebsocketEndpoint, closed_error
from mirror_sdk._run_in_thread import run_in_thread


class AsyncLogWebsocket:
    """A websocket that belongs to one reader and ends with it."""

    def __init__(self, endpoint: WebsocketEndpoint, connection: ClientConnection) -> None:
        self._endpoint = endpoint
        self._connection: ClientConnection | None = connection
        # If a reader is deleted without being closed, the task or thread of the library would keep the connection open.
        self._end = weakref.finalize(self, abort, connection)
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Leave the connection, and the task or thread that receives from it, to the parent process."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # The finalizer would also end the connection of the parent process.
        self._end.detach()
        abandon_in_child(connection)
        sock = socket_of(connection)
        if sock is not None and sock.fileno() >= 0:
            close_in_child(sock.fileno())

    @property
    def is_usable(self) -> bool:
        """Whether the websocket can be read in this process, which must be the one that opened it."""
        return self._connection is not None

    async def receive(self, limit_seconds: float) -> str | bytes | None:
        """Return the next message, or ``None`` after a timeout.

        Raises:
            ClientClosed: This program has closed the websocket.
            ConnectionFailed: The service has closed the websocket, or the connection was lost.
        """
        # A local variable, because another thread may close the websocket concurrently.
        connection = self._connection
        if connection is None:
            raise closed_error()
        try:
            return await receive(connection, limit_seconds)
        except TimeoutError:
            return None
        except ConnectionClosed as failure:
            raise self._endpoint.failed(failure) from failure

    async def aclose(self) -> None:
        """Close the websocket."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.loop is not asyncio.get_running_loop():  # asynchronous alone: no other loop can wait for it
            self._end()
        # Does nothing if the finalizer has already ended the connection.
        if self._end.detach():
            with suppress(OSError, WebSocketException):
                await connection.close()


class AsyncLogWebsockets:
    """The open websockets of a client's readers.

    Args:
        endpoint: The address and the connection options of the websockets.
        contact: A record of whether the service responds.
        limit_seconds: The maximum time in seconds for opening a websocket.
    """

    def __init__(self, endpoint: WebsocketEndpoint, contact: Contact, limit_seconds: float) -> None:
        self._endpoint = endpoint
        self._contact = contact
        self._limit_seconds = limit_seconds
        self._open: weakref.WeakSet[AsyncLogWebsocket] = weakref.WeakSet()
        self._is_closed = False

    async def open(self, after: int, within_seconds: float) -> AsyncLogWebsocket:
        """Open a websocket that sends the entries after a position.

        Raises:
            MirrorError: The websocket could not be opened. The class of the error shows whether a retry may help.
        """
        if self._is_closed:
            raise closed_error()
        await run_in_thread(self._endpoint.prepare)
        limit_seconds = min(self._limit_seconds, left_of(within_seconds))
        try:
            connection = await open_connection(self._endpoint.url(after), self._endpoint.options(limit_seconds))
        except (OSError, TimeoutError, WebSocketException, EOFError) as failure:
            error = self._endpoint.failed(failure, within_seconds)
            raise error from failure
        self._contact.succeeded()
        made = AsyncLogWebsocket(self._endpoint, connection)
        self._open.add(made)
        return made

    async def aclose(self) -> None:
        """Close all websockets, and prevent that new ones are opened."""
        self._is_closed = True
        for opened in list(self._open):
            await opened.aclose()
