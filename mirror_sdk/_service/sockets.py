"""Websockets of readers with positions; the twin of :mod:`mirror_sdk._service.async_sockets`."""

from __future__ import annotations

import socket
import weakref
from contextlib import ExitStack, suppress

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from mirror_sdk._fork import close_in_child, leave_to_parent, tell_in_child
from mirror_sdk._service.deadline import left_of
from mirror_sdk._service.socket_messages import Way, closed_here
from mirror_sdk._service.status import Contact


class Socket:
    """One websocket, of one reader; a reader that is thrown away ends it."""

    def __init__(self, way: Way, connection: ClientConnection, opened: ExitStack) -> None:
        self._way = way
        self._opened = opened
        self._connection: ClientConnection | None = connection
        self._end = weakref.finalize(self, _abandon, connection)
        tell_in_child(self)

    def _begin_in_child(self) -> None:
        """Leave the connection, and the thread that listens to it, to the parent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._end.detach()
        leave_to_parent(connection)
        if connection.socket.fileno() >= 0:
            close_in_child(connection.socket.fileno())

    @property
    def is_usable(self) -> bool:
        """Whether it can be read here: not in a child of the process that made it."""
        return self._connection is not None

    def receive(self, limit_seconds: float) -> str | bytes | None:
        """The next message; ``None`` where none came in time.

        Raises:
            ClientClosed: It was closed here.
            ConnectionFailed: The service closed it, or it broke.
        """
        connection = self._connection
        if connection is None:
            raise closed_here()
        try:
            return connection.recv(timeout=limit_seconds)
        except TimeoutError:
            return None
        except ConnectionClosed as failure:
            raise self._way.failed(failure) from failure

    def close(self) -> None:
        """Close it."""
        connection, self._connection = self._connection, None
        if connection is not None and self._end.detach():
            with suppress(OSError, WebSocketException):
                self._opened.close()


def _abandon(connection: ClientConnection) -> None:
    # Without the goodbye, for which nobody has time here; the thread that listens ends with it.
    with suppress(OSError):
        connection.socket.shutdown(socket.SHUT_RDWR)


class Sockets:
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
        self._open: weakref.WeakSet[Socket] = weakref.WeakSet()
        self._is_closed = False

    def open(self, after: int, within_seconds: float) -> Socket:
        """A websocket that begins behind a position.

        Raises:
            MirrorError: There is none to be had; which error tells whether there may be later.
        """
        if self._is_closed:
            raise closed_here()
        self._way.prepare()
        limit_seconds = min(self._limit_seconds, left_of(within_seconds))
        opened = ExitStack()
        try:
            connection = opened.enter_context(connect(self._way.url(after), **self._way.options(limit_seconds)))
        except (OSError, TimeoutError, WebSocketException, EOFError) as failure:
            error = self._way.failed(failure, within_seconds)
            raise error from failure
        self._contact.answered()
        made = Socket(self._way, connection, opened)
        self._open.add(made)
        return made

    def close(self) -> None:
        """Close them all; none is made any more."""
        self._is_closed = True
        for opened in list(self._open):
            opened.close()
