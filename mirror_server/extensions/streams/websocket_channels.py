"""Websocket channels, which push messages over a connection that the application opened. Source: wire.md 4.

A channel has at most one connection at a time, at any of several processes. The server sends a ping after each message.
The pong of the client confirms the message and advances the position in the log. Messages that were not confirmed are
sent again over the next connection.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import orjson

from mirror_sdk.wire.channel import Serialization, WebsocketRegistration
from mirror_server.clock import Clock
from mirror_server.core.messages import CURSOR_EXTRAS, MessageExtras, compose
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.extensions.streams import store as websockets
from mirror_server.extensions.streams.reader_websockets import (
    GOING_AWAY,
    UNEXPECTED,
    Closing,
    Frame,
    read_page,
    revoked,
)
from mirror_server.extensions.streams.store import WebsocketRow
from mirror_server.hooks import extends
from mirror_server.notifications.channels import Channels, ChannelType
from mirror_server.notifications.log import EntryWaiter, NotificationLog
from mirror_server.store import logs
from mirror_server.store.database import Database
from mirror_server.store.session import Session

SOCKET = "socket"
"""The signal that the channel of an application was changed or deleted, or that it has a new connection."""

WEBSOCKET = ChannelType("WEBSOCKET", "a websocket channel", "/v2/notification/websocket", "one to {} a websocket")

_UNUSED_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class ChannelState:
    """The state of a channel: whether it is connected, and the number of entries that wait for delivery."""

    is_connected: bool
    waiting: int


@dataclass(frozen=True, slots=True)
class _ChannelStart:
    """The registration and the log position of a channel at the time at which a connection opens."""

    registration: str
    position: int


class WebsocketChannels:
    """The websocket channels of all applications, and the connections of this process.

    Args:
        database: The database with the registrations and positions.
        clock: The clock of the server.
        log: The log to deliver.
        channels: The registry of channel types.
        is_alive: A function that returns whether another process is still running.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        log: NotificationLog,
        channels: Channels,
        *,
        is_alive: Callable[[str], bool],
    ) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._channels = channels
        channels.add(WEBSOCKET, lambda session, app_id: websockets.find(session, app_id) is not None)
        self._is_alive = is_alive
        self._open: dict[str, set[ChannelSocket]] = {}
        self._lock = threading.Lock()

    def state(self, app_id: str) -> ChannelState | None:
        """Return the state of an application's channel, or ``None`` if the application has no channel."""
        with self._database.read() as session:
            row = websockets.find(session, app_id)
            log = logs.state(session, app_id)
        if row is None:
            return None
        return ChannelState(self._is_connected(app_id, row), log.waiting if log else 0)

    def register(self, app_id: str, registration: WebsocketRegistration) -> Future[bool]:
        """Register a channel, or change the existing one. The result of the future is whether the channel is new.

        The future raises an ApiError (400) if the key has a channel of another type.
        """

        def work(session: Session) -> bool:
            other = self._channels.other(session, app_id, WEBSOCKET)
            if other is not None:
                raise other
            text = orjson.dumps(registration.to_wire()).decode()
            is_new = websockets.put(session, app_id, text, self._clock.now())
            if is_new:
                self._log.skip_read(session, app_id)
            else:
                self._publish_change(session, app_id)
            return is_new

        return self._database.submit(work)

    def delete(self, app_id: str) -> Future[bool]:
        """Remove the channel and end its connection. The result of the future is whether the channel existed."""

        def work(session: Session) -> bool:
            existed = websockets.delete(session, app_id)
            self._publish_change(session, app_id)
            return existed

        return self._database.submit(work)

    def connect(self, app_id: str, is_admitted: Callable[[], bool]) -> ChannelSocket:
        """Return a new connection of the channel. The caller starts it with :meth:`ChannelSocket.connect`.

        Args:
            app_id: The application of the channel.
            is_admitted: A function that returns whether the access key is still valid.
        """
        return ChannelSocket(self, self._log, app_id, is_admitted)

    def refresh(self, *app_ids: str) -> None:
        """Apply changes of the channels of these applications. End connections that are no longer the current one."""
        for app_id in app_ids:
            # Copy the connections before the query. A connection that opens after the query is newer than the result,
            # so the result must not end it.
            with self._lock:
                connected = [socket for socket in self._open.get(app_id, ()) if socket.is_connected]
            if connected:
                _apply(connected, self._database.query(partial(websockets.find, app_id=app_id)))

    @extends
    def every_hour(self, now: Instant) -> None:
        """Remove the channels that have had no connection for a day."""
        self._database.submit_durable(partial(self._expire, unused_since=after_seconds(now, -_UNUSED_SECONDS)))

    def _expire(self, session: Session, unused_since: Instant) -> None:
        # The connection of a process that no longer runs has ended too, although it is still stored.
        for app_id, row in websockets.connected(session):
            if row.connection is not None and not self._is_connected(app_id, row):
                websockets.disconnect(session, app_id, row.connection, self._clock.now())
        websockets.delete_unused(session, unused_since)

    @extends(specname="resync")
    def refresh_all(self) -> None:
        """Refresh all channels, because messages of other processes may have been missed."""
        with self._lock:
            applications = list(self._open)
        self.refresh(*applications)

    def _is_connected(self, app_id: str, row: WebsocketRow) -> bool:
        if row.connection is None or row.process_id is None:
            return False
        if row.process_id != self._database.process_id:
            return self._is_alive(row.process_id)
        # A stored connection that is not open here belonged to the predecessor of this process, so it has ended.
        with self._lock:
            return any(socket.token == row.connection for socket in self._open.get(app_id, ()))

    def _publish_change(self, session: Session, app_id: str) -> None:
        """Signal all processes to apply the stored state of a channel."""
        # They read the state when the signal arrives. By then another connection may have opened and replaced this one.
        session.publish(SOCKET, app_id)

    def connect_socket(self, socket: ChannelSocket) -> Future[_ChannelStart]:
        """Make a connection the current one of its channel. See :meth:`ChannelSocket.connect`."""
        app_id = socket.app_id

        def work(session: Session) -> _ChannelStart:
            now = self._clock.now()
            if not websockets.connect(session, app_id, socket.token, self._database.process_id, now):
                raise Closing(
                    UNEXPECTED, "this key has no websocket channel; register it with PUT /v2/notification/websocket"
                )
            row = websockets.find(session, app_id)
            state = logs.state(session, app_id)
            self._publish_change(session, app_id)
            return _ChannelStart(row.registration if row else "{}", state.position if state else 0)

        with self._lock:
            # Add the connection before it is stored, because a stored connection that is not open here counts as ended.
            self._open.setdefault(app_id, set()).add(socket)
        future = self._database.submit(work)
        # Add this callback before all others. The connection must be ready when its task reads the first message. Other
        # effects of the transaction may come later.
        future.add_done_callback(socket.on_connected)
        return future

    def disconnect(self, socket: ChannelSocket) -> None:
        """Remove a connection that has ended."""
        with self._lock:
            opened = self._open.get(socket.app_id, set())
            opened.discard(socket)
            if not opened:
                self._open.pop(socket.app_id, None)
        self._database.submit_durable(
            lambda session: websockets.disconnect(session, socket.app_id, socket.token, self._clock.now()),
            # Any process can serve websockets, not only the leader.
            by_leader=False,
        )

    def confirm(self, socket: ChannelSocket, seq: int) -> Future[None]:
        """Store that this connection has delivered all entries up to this number."""
        return self._database.submit_durable(
            lambda session: websockets.confirm(session, socket.app_id, socket.token, seq), by_leader=False
        )


class ChannelSocket:
    """One connection of a websocket channel.

    Args:
        channels: The websocket channels.
        log: The log to deliver.
        app_id: The application of the channel.
        is_admitted: A function that returns whether the access key is still valid.
    """

    def __init__(
        self, channels: WebsocketChannels, log: NotificationLog, app_id: str, is_admitted: Callable[[], bool]
    ) -> None:
        self.app_id = app_id
        self.token = uuid.uuid4().hex
        self.is_connected = False
        self._channels = channels
        self._log = log
        self._is_admitted = is_admitted
        self._closing: Closing | None = None
        self._wake: Callable[[], None] = lambda: None
        self._extras = MessageExtras()
        self._most = 1
        self._position = 0
        self._confirmed = 0
        self._is_storing = False
        self._lock = threading.Lock()

    def connect(self, wake: Callable[[], None]) -> Future[_ChannelStart]:
        """Become the current connection of the channel. ``wake`` is called when this connection must end.

        The future raises :class:`Closing` if the channel does not exist.
        """
        self._wake = wake
        return self._channels.connect_socket(self)

    def on_connected(self, stored: Future[_ChannelStart]) -> None:
        """Start after the position of the channel, unless the connection could not be stored."""
        if stored.cancelled() or stored.exception() is not None:
            return
        start = stored.result()
        self._position = self._confirmed = start.position
        self.configure(start.registration)
        self.is_connected = True

    def configure(self, registration: str) -> None:
        """Apply the message format of a registration to all later messages."""
        read = WebsocketRegistration.model_validate_json(registration).serialization or Serialization()
        self._extras, self._most = MessageExtras(**read.cfg.model_dump()), read.max_chunk_size

    def end(self, closing: Closing) -> None:
        """Wake the task of the connection, which then closes the websocket for this reason."""
        self._closing = closing
        self._wake()

    def more(self) -> EntryWaiter:
        """See :class:`~mirror_server.extensions.streams.reader_websockets.StreamSocket`."""
        return self._log.entry_waiter(self.app_id)

    def check(self) -> None:
        """See :class:`~mirror_server.extensions.streams.reader_websockets.StreamSocket`."""
        if self._closing is not None:
            raise self._closing
        if not self._is_admitted():
            raise revoked()

    def next_frame(self, more: EntryWaiter | None) -> Frame | None:
        """See :class:`~mirror_server.extensions.streams.reader_websockets.StreamSocket`."""
        if self._closing is not None:
            raise self._closing
        page = read_page(self._log, self.app_id, self._position, more, self._most)
        if not page.entries:
            self._position = page.cursor
            return None
        # Check that the key is still valid before the client gets data.
        self.check()
        self._position = page.cursor
        text = page.message if self._extras == CURSOR_EXTRAS else orjson.dumps(compose(page.entries, self._extras))
        return Frame(text, page.cursor, page.is_last)

    def confirm(self, seq: int) -> None:
        """See :class:`~mirror_server.extensions.streams.reader_websockets.StreamSocket`.

        If several numbers arrive while one is being stored, only the last of them is stored next.
        """
        with self._lock:
            self._confirmed = seq
            if self._is_storing:
                return
            self._is_storing = True
        self._store(seq)

    def close(self) -> None:
        """See :class:`~mirror_server.extensions.streams.reader_websockets.StreamSocket`."""
        self._channels.disconnect(self)

    def _store(self, seq: int) -> None:
        self._channels.confirm(self, seq).add_done_callback(lambda _: self._stored(seq))

    def _stored(self, seq: int) -> None:
        with self._lock:
            newest = self._confirmed
            # Other confirmations arrived while this one was being stored. They are stored next, in one transaction.
            self._is_storing = newest > seq
        if newest > seq:
            self._store(newest)


def _apply(connected: list[ChannelSocket], row: WebsocketRow | None) -> None:
    """Apply the stored channel to the connections that were open before the channel was read."""
    for socket in connected:
        if row is None:
            socket.end(Closing(GOING_AWAY, "the channel was deleted"))
        elif row.connection == socket.token:
            socket.configure(row.registration)
        else:
            socket.end(Closing(GOING_AWAY, "another connection of this channel was opened"))
