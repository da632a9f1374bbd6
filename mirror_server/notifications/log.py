"""The notification log: append entries, read the entries after a number, and wait for new entries.

Source: wire.md 4 and 5.

Each application has one log. A reader of the log has a position. Either the reader stores its own position
(``after``), or the server stores the position of the application's channel.

Read :meth:`NotificationLog.append` and :meth:`NotificationLog.read` first. The other code reduces the cost of
thousands of long polls: polls that are woken together share one :class:`Page`, and entries that were just appended are
not read again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import orjson

from mirror_server.clock import Clock
from mirror_server.core.errors import ApiError
from mirror_server.core.messages import ASYNC_RESPONSES, CURSOR_EXTRAS, LogEntry, compose, first_message
from mirror_server.core.timestamps import Instant
from mirror_server.notifications.waiters import Waiter, Waiters
from mirror_server.store import logs
from mirror_server.store.database import Database
from mirror_server.store.session import LOG, Session

MAX_ENTRIES = 10_000
"""The maximum number of entries in one message. The next poll gets the rest."""

MAX_BYTES = 4 * 1024 * 1024
"""The size limit of one message in bytes. The entry that reaches the limit is the last entry of the message.

The event loop encodes a message in one step, so all other requests wait during this time.
"""

_RETAINED_SHARE = 0.98
"""The fraction of a full log that remains after a deletion.

Without this margin, every new entry would cause a deletion. With a larger one, a deletion would delay other writes.
"""

_LAST_PART_COUNT = 1 << 48
_SHARED_SECONDS = 0.1
"""The time in seconds for which waiters share a page that one of them has read."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Page:
    """The entries of one message, and the position of the reader after the message.

    Attributes:
        entries: The entries. The list is empty if the log has no new entries.
        cursor: The position of the reader after this page.
        gap: The first and the last number of missing entries, which were deleted from the log.
        settled_at: All events before this time are in the log up to ``cursor``. The time is ``None`` if this process
            cannot determine it.
        is_last: Whether the log is known to end at ``cursor``.
    """

    entries: Sequence[LogEntry]
    cursor: int
    gap: tuple[int, int] | None
    settled_at: Instant | None
    is_last: bool
    _cache: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def message(self) -> bytes:
        """The message for readers with their own position. It is encoded once for all readers that share the page."""
        return orjson.dumps(compose(self.entries, CURSOR_EXTRAS))

    def is_next(self, after: int, limit: int) -> bool:
        """Return whether these are all entries after the number ``after``, and at most ``limit`` entries."""
        return self.entries[0].seq == after + 1 and len(self.entries) <= limit

    def once(self, convert: Callable[[Page], T]) -> T:
        """Return ``convert(page)``, which is called once for all readers. The readers must not change the result."""
        if convert not in self._cache:
            self._cache[convert] = convert(self)
        converted: T = self._cache[convert]
        return converted


class _SharedPage(NamedTuple):
    """A page that was read after a number.

    It also has the number of wakes at the time of the read, and the time until which it may be shared.
    """

    after: int
    wakes: int
    until: float
    page: Page


@dataclass(eq=False, slots=True)
class Woken:
    """The result that all waiters of one log receive when they are woken together.

    Attributes:
        added: The page with the appended entries, or ``None`` if they must be read from the log.
        read: The page that one of the waiters read.
    """

    added: Page | None
    read: _SharedPage | None = None


EntryWaiter: TypeAlias = Waiter[Woken]
"""A waiter for new entries. See :meth:`NotificationLog.entry_waiter`."""


class NotificationLog:
    """The logs of all applications.

    Args:
        database: The database that stores the logs.
        clock: The clock of the server.
        max_bytes: The maximum size of one log in bytes.
        is_shared: Whether other processes may use the database.
        is_leader: A function that returns whether this process is the leader, which stores the events.
        monotonic: A function that returns the time of a monotonic clock in seconds. It limits how long a page is
            shared.

    Attributes:
        on_responses: Functions that are called in the transaction that appends async responses; see
            :func:`mirror_server.hooks.responses_added`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        max_bytes: int,
        is_shared: bool,
        is_leader: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_responses: list[Callable[[Session, str, Sequence[Mapping[str, Any]], int, Instant], object]] = []
        self._database = database
        self._is_shared = is_shared
        self._is_leader = is_leader
        self._monotonic = monotonic
        self._clock = clock
        self._max_bytes = max_bytes
        self._uids = _uids()
        self._waiters: Waiters[Woken] = Waiters()
        self._newest_seq: dict[str, int] = {}
        self._read_seq: dict[str, int] = {}
        self._committed_at = clock.now()
        self._created: set[str] = set()
        self._lock = threading.Lock()

    def ensure_log(self, app_id: str) -> None:
        """Create the log of an application, if it does not exist.

        Notifications for the application are stored from this call on.
        """
        if app_id in self._created:
            return
        # The database runs work in order, so the log exists before the next request of the application is processed.
        created = self._database.submit_durable(lambda session: logs.create(session, app_id), by_leader=False)
        created.add_done_callback(lambda done: None if done.exception() else self._created.add(app_id))

    def append(self, session: Session, kind: str, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Append entries of one kind to the logs of applications.

        Each entry consists of the application, the device id and the content.

        Call this method in the transaction of the change that the entries report. Readers are woken after the commit.
        Entries for an application without a log are dropped.
        """
        at = self._clock.now()
        by_application: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for app_id, device_id, body in entries:
            # A copy takes half the time of a new dict with the same items. This matters at thousands of entries per
            # second.
            entry = body.copy()
            entry["uid"] = next(self._uids)
            by_application.setdefault(app_id, []).append((device_id, entry))
        for app_id, added in by_application.items():
            encoded = [(device_id, orjson.dumps(entry)) for device_id, entry in added]
            end = logs.append(session, app_id, encoded, kind=kind, at=at, read_seq=self._read_seq.get(app_id, 0))
            if end is None:
                continue
            if end.stored_bytes > self._max_bytes:
                logs.drop_bytes(session, app_id, end.stored_bytes - int(self._max_bytes * _RETAINED_SHARE))
            # Only readers that currently wait can use the page. Without such readers, no page is created.
            page = None
            if app_id in self._waiters and sum(len(body) for _, body in encoded) <= MAX_BYTES:
                page = self._page_of(kind, [entry for _, entry in added], end.last_seq, at)
            session.publish(LOG, app_id, here=partial(self._added, app_id, end.last_seq, page, at))
            for listener in self.on_responses if kind == ASYNC_RESPONSES else ():
                listener(session, app_id, [entry for _, entry in added], end.last_seq - len(added) + 1, at)

    def append_for_each(
        self,
        session: Session,
        kind: str,
        device_id: str,
        body: dict[str, Any],
        own: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Append an entry to the logs of all applications. ``own`` contains additional members for some applications.

        Source: specification 6.
        """
        app_ids = logs.applications(session)
        self.append(session, kind, ((app_id, device_id, {**body, **own.get(app_id, {})}) for app_id in app_ids))

    def read_new(self, app_id: str, after: int, waiter: EntryWaiter, limit: int = MAX_ENTRIES) -> Page:
        """Return the next message after the number ``after``, for a reader that called :meth:`entry_waiter` before.

        Entries that were just appended are not read again, unless other entries were appended at the same time. In
        that case, all these entries form one message. It is read once for all waiters with the same position.

        Raises:
            ApiError: The key was revoked and its log was deleted while the reader waited (401).
        """
        woken = waiter.result() if waiter.done() else None
        added = woken.added if woken else None
        if added is not None and added.cursor == self._newest_seq[app_id] and added.is_next(after, limit):
            return added
        try:
            if woken is None or limit < MAX_ENTRIES:
                return self.read(app_id, after, limit)
            return self._read_shared(app_id, after, woken)
        except ApiError as api_error:
            message = "this access key was revoked; an operator creates one with 'mirror-server keys create NAME'"
            raise ApiError(401, message) from api_error

    def read(self, app_id: str, after: int, limit: int = MAX_ENTRIES) -> Page:
        """Return the next message after the number ``after``. It has no entries if the log has no new entries.

        Raises:
            ApiError: The number is beyond the end of the log (400).
        """
        # Determined before the entries are read, because the time must not cover entries that are appended after the
        # read.
        settled_at = self._settled_at()
        last_seq, rows = self._database.query(lambda session: logs.read(session, app_id, after, limit, MAX_BYTES))
        if after > last_seq:
            raise beyond_log("after", after, last_seq)
        # The message ends before an erased entry, so that the next message reports the gap.
        adjoining = [row for index, row in enumerate(rows) if row[0] == rows[0][0] + index]
        entries = first_message([LogEntry(seq, kind, orjson.loads(body), at) for seq, kind, body, at in adjoining])
        first_seq = entries[0].seq if entries else last_seq + 1
        gap = (after + 1, first_seq - 1) if first_seq > after + 1 else None
        cursor = entries[-1].seq if entries else last_seq
        if entries and (settled_at is None or cursor < last_seq):
            # Entries are written in the order of their timestamps.
            settled_at = min(settled_at or entries[-1].logged_at, entries[-1].logged_at)
        return Page(entries, cursor, gap, settled_at, is_last=cursor == last_seq)

    def _read_shared(self, app_id: str, after: int, woken: Woken) -> Page:
        """Return a page that another waiter, which was woken at the same time, has just read.

        If waiters have been woken in the meantime, the page is read again. A shared page may lack entries that were
        appended later. This is safe, because the reader called :meth:`entry_waiter` first and is woken for these
        entries. The page is shared only briefly, because an operator may erase entries or revoke the key.
        """
        wakes, found = self._waiters.count_wakes(app_id), woken.read
        if found is not None and (found.after, found.wakes) == (after, wakes) and self._monotonic() < found.until:
            return found.page
        page = self.read(app_id, after)
        woken.read = _SharedPage(after, wakes, self._monotonic() + _SHARED_SECONDS, page)
        return page

    def _settled_at(self) -> Instant | None:
        """Return a time for which a later read of the log includes all events before it.

        Return ``None`` if this process is not the leader.
        """
        if not self._is_leader():
            return None
        now = self._clock.now()
        # Work gets its timestamp when it runs. If no work is waiting, all future events will have later timestamps.
        self._committed_at = now if self._database.count_waiting() == 0 else min(self._committed_at, now)
        return self._committed_at

    def note_read(self, app_id: str, seq: int) -> None:
        """Record that a reader with its own position receives the entries up to this number.

        The position is stored in memory, so that a read does not write to the database. It is stored with the next
        entry, or by :meth:`store_read`. After a crash in between, the last entries count as unread. They might then be
        sent twice, but they are never lost.
        """
        with self._lock:
            if seq <= self._read_seq.get(app_id, 0):
                return
            self._read_seq[app_id] = seq
        if self._is_shared and not self._is_leader():
            # The leader needs the position when it registers a webhook, but knows only the readers of its own process.
            self._database.submit(lambda session: logs.note_read(session, app_id, seq), conflict_keys=(logs.EVERY,))

    def store_read(self) -> None:
        """Store the positions up to which readers with their own positions have read."""
        with self._lock:
            read = list(self._read_seq.items())

        def work(session: Session) -> None:
            for app_id, seq in read:
                logs.note_read(session, app_id, seq)

        self._database.submit_durable(work, by_leader=False)

    def skip_read(self, session: Session, app_id: str) -> None:
        """Move the position of a new channel past the entries that readers with their own positions have received."""
        # The newest positions may only be in memory; see `note_read`.
        logs.note_read(session, app_id, self._read_seq.get(app_id, 0))
        logs.skip_read(session, app_id)

    def last_seq(self, app_id: str) -> int:
        """Return the number of the newest entry, or 0 if the log is empty."""
        state = self._database.query(lambda session: logs.state(session, app_id))
        return state.last_seq if state else 0

    def entry_waiter(self, app_id: str, *, is_poll: bool = True) -> EntryWaiter:
        """Return a waiter that completes when an entry is appended. Cancel the waiter when it is no longer needed.

        Call this method before you read, so that an entry that is appended in between is not missed.

        Args:
            app_id: The id of the application.
            is_poll: Whether the waiter counts as an open poll. The waiter of a webhook does not.
        """
        return self._waiters.add(app_id, is_poll=is_poll)

    @property
    def open_polls(self) -> int:
        """The number of polls and streams that are waiting."""
        return self._waiters.open_polls

    def wake(self, *app_ids: str) -> None:
        """Wake the waiters of these logs, so that they read their log again."""
        for app_id in app_ids:
            self._waiters.wake(app_id, Woken(None))

    def _added(self, app_id: str, last_seq: int, page: Page | None, at: Instant) -> None:
        self._newest_seq[app_id] = last_seq
        self._committed_at = at
        self._waiters.wake(app_id, Woken(page))

    def _page_of(self, kind: str, added: Sequence[dict[str, Any]], last_seq: int, at: Instant) -> Page | None:
        """Return a page with new entries for readers at the previous end of the log.

        Return ``None`` if the entries need several messages.
        """
        if len(added) > MAX_ENTRIES:
            return None
        first_seq = last_seq - len(added) + 1
        entries = [LogEntry(seq, kind, entry, at) for seq, entry in enumerate(added, first_seq)]
        if len(first_message(entries)) < len(entries):
            return None
        # Another process may have appended more entries, of which this process does not know yet.
        return Page(entries, last_seq, None, at, is_last=not self._is_shared)

    def wake_all(self) -> None:
        """Wake the waiters of all logs."""
        self.wake(*self._waiters.names())


def _uids() -> Iterator[str]:
    """Yield UUIDs. The first four groups stay the same, and the last group counts up from a random number.

    A counter costs a twentieth of a new random UUID, which matters at thousands of entries per second.
    """
    front, last = str(uuid.uuid4()).rsplit("-", 1)
    return (f"{front}-{number % _LAST_PART_COUNT:012x}" for number in count(int(last, 16)))


def beyond_log(name: str, position: int, last_seq: int) -> ApiError:
    """Return the error (400) for a position beyond the end of the log.

    ``name`` is the field that contains the position.
    """
    cure = "start again with after=latest" if name == "after" else f"omit {name} to start at the end"
    message = f"{position} is beyond the end of the log, {last_seq}; {cure}"
    return ApiError.of_field(name, message, reason="CURSOR_BEYOND_LOG")
