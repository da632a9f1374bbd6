"""Websockets of readers with positions. Source: wire.md 4."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from mirror_sdk._fork import abandon_in_child, close_in_child, register_fork_handler
from mirror_sdk._protocol.async_connection import abort, open_connection, receive, socket_of
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk._protocol.socket_messages import Way, closed_here
from mirror_sdk._protocol.status import Contact
from mirror_sdk._run_in_thread import run_in_thread


class AsyncSocket:
    """One websocket, of one reader; a reader that is thrown away ends it."""

    def __init__(self, way: Way, connection: ClientConnection) -> None:
        self._way = way
        self._connection: ClientConnection | None = connection
        self._end = weakref.finalize(self, abort, connection)
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Leave the connection, and the task or thread that listens to it, to the parent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._end.detach()
        abandon_in_child(connection)
        sock = socket_of(connection)
        if sock is not None and sock.fileno() >= 0:
            close_in_child(sock.fileno())

    @property
    def is_usable(self) -> bool:
        """Whether it can be read here: not in a child of the process that made it."""
        return self._connection is not None

    async def receive(self, limit_seconds: float) -> str | bytes | None:
        """The next message; ``None`` where none came in time.

        Raises:
            ClientClosed: It was closed here.
            ConnectionFailed: The service closed it, or it broke.
        """
        # A thread may close it meanwhile.
        connection = self._connection
        if connection is None:
            raise closed_here()
        try:
            return await receive(connection, limit_seconds)
        except TimeoutError:
            return None
        except ConnectionClosed as failure:
            raise self._way.failed(failure) from failure

    async def aclose(self) -> None:
        """Close it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.loop is not asyncio.get_running_loop():  # asynchronous alone: no other loop can wait for it
            self._end()
        if self._end.detach():
            with suppress(OSError, WebSocketException):
                await connection.close()


class AsyncSockets:
    """Makes the websockets of a client's readers.

    Args:
        way: How they are made.
        contact: Is told whether the service answered.
        limit_seconds: How long making one may take.
    """

    def __init__(self, way: Way, contact: Contact, limit_seconds: float) -> None:
        self._way = way
        self._contact = contact
        self._limit_seconds = limit_seconds
        self._open: weakref.WeakSet[AsyncSocket] = weakref.WeakSet()
        self._is_closed = False

    async def open(self, after: int, within_seconds: float) -> AsyncSocket:
        """A websocket that begins behind a position.

        Raises:
            MirrorError: There is none to be had; which error tells whether there may be later.
        """
        if self._is_closed:
            raise closed_here()
        await run_in_thread(self._way.prepare)
        limit_seconds = min(self._limit_seconds, left_of(within_seconds))
        try:
            connection = await open_connection(self._way.url(after), self._way.options(limit_seconds))
        except (OSError, TimeoutError, WebSocketException, EOFError) as failure:
            error = self._way.failed(failure, within_seconds)
            raise error from failure
        self._contact.answered()
        made = AsyncSocket(self._way, connection)
        self._open.add(made)
        return made

    async def aclose(self) -> None:
        """Close them all; none is made any more."""
        self._is_closed = True
        for opened in list(self._open):
            await opened.aclose()
