# Made from async_log_websockets.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""Websockets of readers with positions. Source: wire.md 4."""

from __future__ import annotations

import weakref
from contextlib import suppress

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection

from mirror_sdk._fork import abandon_in_child, close_in_child, register_fork_handler
from mirror_sdk._protocol.client_status import Contact
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk._protocol.websocket_connection import abort, open_connection, receive, socket_of
from mirror_sdk._protocol.websocket_messages import WebsocketEndpoint, closed_error


class LogWebsocket:
    """The websocket of a reader. It ends with the reader."""

    def __init__(self, endpoint: WebsocketEndpoint, connection: ClientConnection) -> None:
        self._endpoint = endpoint
        self._connection: ClientConnection | None = connection
        # If a reader is dropped without being closed, the library's own task or thread would keep the connection open.
        self._end = weakref.finalize(self, abort, connection)
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Leave the connection, and the task or thread that receives from it, to the parent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # The finalizer would end the connection for the parent, too.
        self._end.detach()
        abandon_in_child(connection)
        sock = socket_of(connection)
        if sock is not None and sock.fileno() >= 0:
            close_in_child(sock.fileno())

    @property
    def is_usable(self) -> bool:
        """Whether this process can read the websocket. A child of the process that made it cannot."""
        return self._connection is not None

    def receive(self, limit_seconds: float) -> str | bytes | None:
        """Return the next message, or ``None`` after a timeout.

        Raises:
            ClientClosed: It was closed here.
            ConnectionFailed: The service closed it, or it broke.
        """
        # Another thread may close it concurrently.
        connection = self._connection
        if connection is None:
            raise closed_error()
        try:
            return receive(connection, limit_seconds)
        except TimeoutError:
            return None
        except ConnectionClosed as failure:
            raise self._endpoint.failed(failure) from failure

    def close(self) -> None:
        """Close it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # Unless the finalizer has ended it already.
        if self._end.detach():
            with suppress(OSError, WebSocketException):
                connection.close()


class LogWebsockets:
    """Opens the websockets of a client's readers.

    Args:
        endpoint: The address and the options of a connection.
        contact: Notes whether the service responded.
        limit_seconds: How long opening one may take.
    """

    def __init__(self, endpoint: WebsocketEndpoint, contact: Contact, limit_seconds: float) -> None:
        self._endpoint = endpoint
        self._contact = contact
        self._limit_seconds = limit_seconds
        self._open: weakref.WeakSet[LogWebsocket] = weakref.WeakSet()
        self._is_closed = False

    def open(self, after: int, within_seconds: float) -> LogWebsocket:
        """Open a websocket that starts after a position.

        Raises:
            MirrorError: The websocket could not be opened. The class of the error shows whether a retry may help.
        """
        if self._is_closed:
            raise closed_error()
        self._endpoint.prepare()
        limit_seconds = min(self._limit_seconds, left_of(within_seconds))
        try:
            connection = open_connection(self._endpoint.url(after), self._endpoint.options(limit_seconds))
        except (OSError, TimeoutError, WebSocketException, EOFError) as failure:
            error = self._endpoint.failed(failure, within_seconds)
            raise error from failure
        self._contact.succeeded()
        made = LogWebsocket(self._endpoint, connection)
        self._open.add(made)
        return made

    def close(self) -> None:
        """Close them all, and open no more."""
        self._is_closed = True
        for opened in list(self._open):
            opened.close()
