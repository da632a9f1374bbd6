"""Websockets of readers with positions, on an event loop; the twin of :mod:`mirror_sdk._service.sockets`."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from mirror_sdk._fork import close_in_child, leave_to_parent, tell_in_child
from mirror_sdk._off_loop import off_loop
from mirror_sdk._service.deadline import left_of
from mirror_sdk._service.socket_messages import Way, closed_here
from mirror_sdk._service.status import Contact


class AsyncSocket:
    """One websocket, of one reader; a reader that is thrown away ends it."""

    def __init__(self, way: Way, connection: ClientConnection) -> None:
        self._way = way
        self._connection: ClientConnection | None = connection
        self._end = weakref.finalize(self, _abandon, connection, asyncio.get_running_loop())
        tell_in_child(self)

    def _begin_in_child(self) -> None:
        """Leave the connection to the parent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._end.detach()
        leave_to_parent(connection)
        sock = connection.transport.get_extra_info("socket")
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
        if self._connection is None:
            raise closed_here()
        try:
            async with asyncio.timeout(limit_seconds):
                return await self._connection.recv()
        except TimeoutError:
            return None
        except ConnectionClosed as failure:
            raise self._way.failed(failure) from failure

    async def aclose(self) -> None:
        """Close it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.loop is not asyncio.get_running_loop():
            self._end()
        elif self._end.detach():
            with suppress(OSError, WebSocketException):
                await connection.close()


def _abandon(connection: ClientConnection, loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(connection.transport.abort)


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
        await off_loop(self._way.prepare)
        limit_seconds = min(self._limit_seconds, left_of(within_seconds))
        try:
            connection = await connect(self._way.url(after), **self._way.options(limit_seconds))
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
