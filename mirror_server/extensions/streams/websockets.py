"""Websocket channels: messages pushed over a connection that the application opened. Source: wire.md 4.

A channel has one connection at a time, at whichever process it came to. Its position in the log moves when the client
has answered the ping behind a message, and so has the message; what it did not answer is sent again to the next
connection.
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
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.core.messages import CURSOR_EXTRAS, Extras, compose
from mirror_server.extensions.streams import store as websockets
from mirror_server.extensions.streams.sockets import GOING_AWAY, UNEXPECTED, Closing, Frame, read_page, revoked
from mirror_server.extensions.streams.store import WebsocketRow
from mirror_server.hooks import extends
from mirror_server.notifications.channels import Channels, ChannelType
from mirror_server.notifications.log import EntryWaiter, NotificationLog
from mirror_server.store import logs
from mirror_server.store.database import Database
from mirror_server.store.session import Session

SOCKET = "socket"
"""The signal that the channel of an application was changed or ended, or another connection of it opened."""

WEBSOCKET = ChannelType("WEBSOCKET", "a websocket channel", "/v2/notification/websocket", "one to {} a websocket")

_UNUSED_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class ChannelState:
    """How a channel does: whether its connection is open, and how many entries wait."""

    is_connected: bool
    waiting: int


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a connection begins with: the registration of its channel, and the position."""

    registration: str
    position: int


class Websockets:
    """All applications' websocket channels, and the connections that this process has.

    Args:
        database: Where registrations and positions are.
        clock: Domain time.
        log: What is delivered.
        channels: The types of channels, of which this is one.
        is_alive: Whether another process, which has a connection, still is there.
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
        """How the channel of an application does; ``None`` where there is none."""
        with self._database.read() as session:
            row = websockets.find(session, app_id)
            log = logs.state(session, app_id)
        if row is None:
            return None
        return ChannelState(self._is_connected(app_id, row), log.waiting if log else 0)

    def register(self, app_id: str, registration: WebsocketRegistration) -> Future[bool]:
        """Register a channel, or change the one there is; gives whether it is new.

        The future raises a ApiError (400): the key has a channel of another type.
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
                self._tell(session, app_id)
            return is_new

        return self._database.submit(work)

    def delete(self, app_id: str) -> Future[bool]:
        """Remove the channel, whose connection ends; gives false if there is none."""

        def work(session: Session) -> bool:
            was_there = websockets.delete(session, app_id)
            self._tell(session, app_id)
            return was_there

        return self._database.submit(work)

    def connect(self, app_id: str, is_admitted: Callable[[], bool]) -> ChannelSocket:
        """A connection of the channel, which begins when it is told to.

        Args:
            app_id: The application.
            is_admitted: Whether the key it was opened with is good still.
        """
        return ChannelSocket(self, self._log, app_id, is_admitted)

    def look_again(self, *app_ids: str) -> None:
        """These channels may have been changed: end the connections that are not the one each has."""
        for app_id in app_ids:
            # Before the query: a connection that begins after it is newer than the result, and must not end because of
            # it.
            with self._lock:
                begun = [socket for socket in self._open.get(app_id, ()) if socket.has_begun]
            if begun:
                _apply(begun, self._database.query(partial(websockets.find, app_id=app_id)))

    @extends
    def every_hour(self, now: Instant) -> None:
        """Remove the channels that have had no connection for a day."""
        self._database.submit_durable(partial(self._expire, unused_since=after_seconds(now, -_UNUSED_SECONDS)))

    def _expire(self, session: Session, unused_since: Instant) -> None:
        # A connection that is stored of a process that is gone ended with it.
        for app_id, row in websockets.connected(session):
            if row.connection is not None and not self._is_connected(app_id, row):
                websockets.disconnect(session, app_id, row.connection, self._clock.now())
        websockets.delete_unused(session, unused_since)

    @extends(specname="resync")
    def look_at_all(self) -> None:
        """Messages of other processes may have been missed."""
        with self._lock:
            applications = list(self._open)
        self.look_again(*applications)

    def _is_connected(self, app_id: str, row: WebsocketRow) -> bool:
        if row.connection is None or row.process_id is None:
            return False
        if row.process_id != self._database.process_id:
            return self._is_alive(row.process_id)
        # One that is stored and not open here is of this process's predecessor.
        with self._lock:
            return any(socket.token == row.connection for socket in self._open.get(app_id, ()))

    def _tell(self, session: Session, app_id: str) -> None:
        """Have this process and the others act on what is stored of a channel."""
        # On what is stored when it is told: a connection that was passed over, since it had not begun, has by then, and
        # may not be the newest any more.
        session.publish(SOCKET, app_id)

    def begin(self, socket: ChannelSocket) -> Future[_Begun]:
        """Make this connection the one of its channel; see :meth:`ChannelSocket.begin`."""
        app_id = socket.app_id

        def work(session: Session) -> _Begun:
            now = self._clock.now()
            if not websockets.connect(session, app_id, socket.token, self._database.process_id, now):
                raise Closing(UNEXPECTED, "this key has no websocket channel; PUT /v2/notification/websocket makes one")
            row = websockets.find(session, app_id)
            state = logs.state(session, app_id)
            self._tell(session, app_id)
            return _Begun(row.registration if row else "{}", state.position if state else 0)

        with self._lock:
            self._open.setdefault(app_id, set()).add(socket)
        future = self._database.submit(work)
        # Before whoever waits for the future takes the first message: an effect of the transaction may come later.
        future.add_done_callback(socket.began)
        return future

    def ended(self, socket: ChannelSocket) -> None:
        """This connection is open no more."""
        with self._lock:
            opened = self._open.get(socket.app_id, set())
            opened.discard(socket)
            if not opened:
                self._open.pop(socket.app_id, None)
        self._database.submit_durable(
            lambda session: websockets.disconnect(session, socket.app_id, socket.token, self._clock.now()),
            by_leader=False,
        )

    def confirm(self, socket: ChannelSocket, seq: int) -> Future[None]:
        """Store that all up to this number arrived by this connection."""
        return self._database.submit_durable(
            lambda session: websockets.confirm(session, socket.app_id, socket.token, seq), by_leader=False
        )


class ChannelSocket:
    """One connection of a websocket channel.

    Args:
        parts: The channels.
        log: What is sent.
        app_id: The application.
        is_admitted: Whether the key it was opened with is good still.
    """

    def __init__(self, parts: Websockets, log: NotificationLog, app_id: str, is_admitted: Callable[[], bool]) -> None:
        self.app_id = app_id
        self.token = uuid.uuid4().hex
        self.has_begun = False
        self._parts = parts
        self._log = log
        self._is_admitted = is_admitted
        self._closing: Closing | None = None
        self._wake: Callable[[], None] = lambda: None
        self._extras = Extras()
        self._most = 1
        self._position = 0
        self._confirmed = 0
        self._is_storing = False
        self._lock = threading.Lock()

    def begin(self, wake: Callable[[], None]) -> Future[_Begun]:
        """Take the place of the channel's connection; ``wake`` is called when it is to end.

        The future raises :class:`Closing` where there is no such channel.
        """
        self._wake = wake
        return self._parts.begin(self)

    def began(self, stored: Future[_Begun]) -> None:
        """It is the channel's connection now, if that could be stored, and goes on behind the channel's position."""
        if stored.cancelled() or stored.exception() is not None:
            return
        begun = stored.result()
        self._position = self._confirmed = begun.position
        self.take_over(begun.registration)
        self.has_begun = True

    def take_over(self, registration: str) -> None:
        """Write messages as the registration says from now on."""
        read = WebsocketRegistration.model_validate_json(registration).serialization or Serialization()
        self._extras, self._most = Extras(**read.cfg.model_dump()), read.max_chunk_size

    def end(self, closing: Closing) -> None:
        """Have it closed."""
        self._closing = closing
        self._wake()

    def more(self) -> EntryWaiter:
        """See :class:`~mirror_server.extensions.streams.sockets.Socket`."""
        return self._log.entry_waiter(self.app_id)

    def look(self) -> None:
        """See :class:`~mirror_server.extensions.streams.sockets.Socket`."""
        if self._closing is not None:
            raise self._closing
        if not self._is_admitted():
            raise revoked()

    def take(self, more: EntryWaiter | None) -> Frame | None:
        """See :class:`~mirror_server.extensions.streams.sockets.Socket`."""
        if self._closing is not None:
            raise self._closing
        page = read_page(self._log, self.app_id, self._position, more, self._most)
        if not page.entries:
            self._position = page.cursor
            return None
        # Nothing is told to a key that is good no more.
        self.look()
        self._position = page.cursor
        text = page.message if self._extras == CURSOR_EXTRAS else orjson.dumps(compose(page.entries, self._extras))
        return Frame(text, page.cursor, page.is_last)

    def confirmed(self, seq: int) -> None:
        """The client has all up to this number; what it confirms while that is stored is stored together."""
        with self._lock:
            self._confirmed = seq
            if self._is_storing:
                return
            self._is_storing = True
        self._store(seq)

    def close(self) -> None:
        """It is open no more."""
        self._parts.ended(self)

    def _store(self, seq: int) -> None:
        self._parts.confirm(self, seq).add_done_callback(lambda _: self._stored(seq))

    def _stored(self, seq: int) -> None:
        with self._lock:
            newest = self._confirmed
            self._is_storing = newest > seq
        if newest > seq:
            self._store(newest)


def _apply(begun: list[ChannelSocket], row: WebsocketRow | None) -> None:
    """Apply the stored channel to the connections that had begun before it was read."""
    for socket in begun:
        if row is None:
            socket.end(Closing(GOING_AWAY, "the channel was deleted"))
        elif row.connection == socket.token:
            socket.take_over(row.registration)
        else:
            socket.end(Closing(GOING_AWAY, "another connection of this channel was opened"))
