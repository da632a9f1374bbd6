"""The types of notification channels, and the plain poll, which is one of them. Source: wire.md 4.

A key can have only one channel at a time, of any type.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mirror_server.core.errors import ApiError
from mirror_server.notifications.log import EntryWaiter, NotificationLog, Page
from mirror_server.notifications.waiters import Waiter, Waiters
from mirror_server.store import logs
from mirror_server.store.database import Database
from mirror_server.store.session import Session


class ChannelType(NamedTuple):
    """A type of channel.

    Attributes:
        mechanism: The value for this type in ``delivery_mechanism``.
        name: The name of the type, as it is used in error messages.
        path: The route whose DELETE ends the channel.
        opened_by: A clause that describes the request to this route (``{}``) that opens the channel.
    """

    mechanism: str
    name: str
    path: str
    opened_by: str


class Channels:
    """A registry of all types of channels.

    Args:
        database: The database that stores the channels.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._types: dict[ChannelType, Callable[[Session, str], bool]] = {}

    def add(self, channel: ChannelType, exists: Callable[[Session, str], bool]) -> None:
        """Add a type of channel, with a function that returns whether an application has a channel of this type."""
        self._types[channel] = exists

    def of(self, app_id: str) -> ChannelType:
        """Return the channel of an application.

        Raises:
            ApiError: The application has no channel (404).
        """
        found = self._database.query(lambda session: self._find(session, app_id, None))
        if found is None:
            cures = ", ".join(channel.opened_by.format(channel.path) for channel in self._types)
            raise ApiError(404, f"this key has no notification channel; {cures}")
        return found

    def other(self, session: Session, app_id: str, own: ChannelType) -> ApiError | None:
        """Return the error (400) if an application has a channel of another type, and ``None`` otherwise."""
        other = self._find(session, app_id, own)
        if other is None:
            return None
        message = f"this key has {other.name}, and can have only one type of channel; DELETE {other.path} ends it"
        return ApiError(400, message, reason="OTHER_CHANNEL")

    def check(self, app_id: str, own: ChannelType) -> None:
        """Check that an application has no channel of another type.

        Raises:
            ApiError: The application has a channel of another type (400).
        """
        api_error = self._database.query(lambda session: self.other(session, app_id, own))
        if api_error is not None:
            raise api_error

    def _find(self, session: Session, app_id: str, own: ChannelType | None) -> ChannelType | None:
        types = self._types.items()
        return next((channel for channel, exists in types if channel != own and exists(session, app_id)), None)


POLL = ChannelType("LONG_POLLING", "a poll channel", "/v2/notification/pull", "a GET of {} opens one to poll")


class PlainPolls:
    """The poll channel of the public API. It allows one open poll for each key, and the server stores its position.

    The position moves when a poll gets its response. It is stored when the next poll arrives, because that poll
    confirms the response. If the server restarts before that, it sends the same entries again, so no entry is lost.
    The same applies if a process that forwarded a poll ends.

    Args:
        database: The database that stores the positions.
        log: The log to read.
        channels: The registry of channel types, to which this type is added.
        is_alive: A function that returns whether a process that forwarded a poll still runs.
    """

    def __init__(
        self, database: Database, log: NotificationLog, channels: Channels, *, is_alive: Callable[[str], bool]
    ) -> None:
        self._database = database
        self._log = log
        self._channels = channels
        self._is_alive = is_alive
        self._positions: dict[str, tuple[int, str | None]] = {}
        self._open: dict[str, tuple[EntryWaiter, str | None]] = {}
        # The keys are weak references, because `advance` may never be called for an ended poll.
        self._ended: WeakKeyDictionary[EntryWaiter, ApiError] = WeakKeyDictionary()
        self._closings: Waiters[None] = Waiters()
        self._lock = threading.Lock()
        channels.add(POLL, self.exists)

    def open(self, app_id: str, process_id: str | None = None) -> EntryWaiter:
        """Open a poll and return a waiter for new entries.

        Args:
            app_id: The id of the application.
            process_id: The id of the process that forwarded the poll, or ``None`` if the poll arrived at this process.

        Raises:
            ApiError: Another poll of this key is open (409).
        """
        self._forget_dead(app_id)
        # The waiter is created before the log is read, so that an entry that is appended in between is not missed.
        waiter = self._log.entry_waiter(app_id)
        with self._lock:
            if app_id in self._open:
                waiter.cancel()
                raise ApiError(
                    409,
                    "a long poll of this key is already open; wait for its response, or store the position yourself and"
                    " pass after=SEQ",
                )
            self._open[app_id] = (waiter, process_id)
            position, _ = self._positions.get(app_id, (None, None))
            # Submitted while the lock is acquired, so that the changes are stored in the same order.
            self._database.submit_durable(lambda session: self._open_channel(session, app_id, waiter, position))
        return waiter

    def closing(self, app_id: str) -> Waiter[None] | None:
        """Return a waiter that completes when the open poll of a key is closed, or ``None`` if no poll is open.

        Cancel the waiter when it is no longer needed.
        """
        with self._lock:
            return self._closings.add(app_id, is_poll=False) if app_id in self._open else None

    def count_waiting(self, app_id: str) -> int:
        """Return the number of entries after the position. Deleted entries are counted, too."""
        return self._log.last_seq(app_id) - self._position(app_id)

    def read(self, app_id: str, waiter: EntryWaiter) -> Page:
        """Return the page after the position, without moving the position. Any thread may call this method.

        Raises:
            ApiError: The key was revoked and its log was deleted while the poll was open (401).
        """
        return self._log.read_new(app_id, self._position(app_id), waiter)

    def advance(self, app_id: str, waiter: EntryWaiter, page: Page) -> None:
        """Move the position to the end of a page. Call this before the page is sent in the response to this poll.

        Raises:
            ApiError: The poll was ended while it was open, for example by deleting its channel (410). The position
                does not change.
        """
        with self._lock:
            open_poll, process_id = self._open.get(app_id, (None, None))
            if open_poll is not waiter:
                raise self._ended[waiter]
            self._positions[app_id] = (page.cursor, process_id)

    def close(self, app_id: str, waiter: EntryWaiter) -> None:
        """Close this poll, so that the key may open another poll."""
        with self._lock:
            if self._open.get(app_id, (None, None))[0] is waiter:
                del self._open[app_id]
        waiter.cancel()
        self._closings.wake(app_id, None)

    def delete(self, app_id: str) -> Future[None]:
        """Delete the channel and immediately end its open poll (410)."""
        with self._lock:
            open_poll = self._end(app_id, _deleted())
            position, _ = self._positions.pop(app_id, (None, None))
            # Submitted while the lock is acquired, so that the changes are stored in the same order.
            deleted = self._database.submit(lambda session: self._store(session, app_id, position, polled=False))
        if open_poll is not None:
            self._notify_ended(open_poll)
        return deleted

    def forget(self) -> None:
        """End the open polls, because another process now serves the positions."""
        with self._lock:
            ended_polls = [self._end(app_id, _moved_to_other_process()) for app_id in list(self._open)]
            self._positions.clear()
        for ended_poll in filter(None, ended_polls):
            self._notify_ended(ended_poll)

    def exists(self, session: Session, app_id: str) -> bool:
        """Return whether the application has opened a poll channel and has not deleted it."""
        with self._lock:
            # The newly opened channel may not be on disk yet.
            if app_id in self._open or app_id in self._positions:
                return True
        state = logs.state(session, app_id)
        return bool(state and state.polled)

    def _open_channel(self, session: Session, app_id: str, waiter: EntryWaiter, position: int | None) -> None:
        """Store that the application has a poll channel.

        If a channel of another type was registered after the poll arrived, end the poll instead.
        """
        other = self._channels.other(session, app_id, POLL)
        if other is None:
            self._store(session, app_id, position, polled=True)
            return
        session.after_commit(lambda: self._end_for_other_channel(app_id, waiter, other))

    def _end_for_other_channel(self, app_id: str, waiter: EntryWaiter, other: ApiError) -> None:
        with self._lock:
            self._positions.pop(app_id, None)
            if self._open.get(app_id, (None, None))[0] is not waiter:
                return
            self._end(app_id, other)
        self._notify_ended(waiter)

    def _forget_dead(self, app_id: str) -> None:
        """Forget the open poll and the unconfirmed position that belong to a process that has ended.

        The response to the poll may be lost.
        """
        with self._lock:
            open_poll, forwarder = self._open.get(app_id, (None, None))
            _, last_forwarder = self._positions.get(app_id, (None, None))
        # The lock is not acquired here, because this may be slow. The code below checks that the poll is still the
        # same.
        forwarders = {forwarder, last_forwarder} - {None}
        dead = {process_id for process_id in forwarders if not self._is_alive(str(process_id))}
        with self._lock:
            if last_forwarder in dead:
                self._positions.pop(app_id, None)
            if open_poll is None or forwarder not in dead or self._open.get(app_id, (None, None))[0] is not open_poll:
                return
            self._end(app_id, _moved_to_other_process())
        self._notify_ended(open_poll)

    def _end(self, app_id: str, api_error: ApiError) -> EntryWaiter | None:
        """End the open poll, if there is one. The caller must have acquired the lock.

        Call :meth:`_notify_ended` afterwards, without the lock.
        """
        open_poll, _ = self._open.pop(app_id, (None, None))
        if open_poll is not None:
            self._ended[open_poll] = api_error
        return open_poll

    def _notify_ended(self, ended_poll: EntryWaiter) -> None:
        # If the poll was woken at the same time, `advance` raises its error.
        ended_poll.fail(self._ended[ended_poll])
        self._closings.wake(ended_poll.name, None)

    @staticmethod
    def _store(session: Session, app_id: str, position: int | None, *, polled: bool) -> None:
        logs.set_polled(session, app_id, polled=polled)
        if position is not None:
            logs.set_position(session, app_id, position)

    def _position(self, app_id: str) -> int:
        with self._lock:
            position, _ = self._positions.get(app_id, (None, None))
        if position is not None:
            return position
        state = self._database.query(lambda session: logs.state(session, app_id))
        return state.position if state else 0


def _deleted() -> ApiError:
    return ApiError(410, "the poll channel was deleted while this poll was open; poll again to open a new one")


def _moved_to_other_process() -> ApiError:
    return ApiError(503, "another process now serves this channel; poll again")
