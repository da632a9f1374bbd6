"""The notification log: append, read what follows a number, wait for more. Source: wire.md 4 and 5.

Each application has one log. A long poll is a position in it: the reader's own (``after``), or the one the server
keeps for plain polls.
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
from mirror_server.core.errors import Refusal
from mirror_server.core.instants import Instant
from mirror_server.core.messages import ASYNC_RESPONSES, CURSOR_EXTRAS, LogEntry, compose, first_message
from mirror_server.notifications.waiting import Waiter, Waiters
from mirror_server.store import logs
from mirror_server.store.database import Database
from mirror_server.store.session import LOG, Session

MOST_ENTRIES = 10_000
"""How many entries one message carries at most; the next poll gives the rest."""

MOST_BYTES = 4 * 1024 * 1024
"""How large the entries of one message may be; the one that reaches it is the last. Others wait while it is made."""

_KEPT_SHARE = 0.9
"""How much of a full log is kept, so that not every further entry makes the database delete."""

_LAST_STEMS = 1 << 40
_ENDS = [f"{number:02x}" for number in range(1 << 8)]

_SHARED_SECONDS = 0.1

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Page:
    """What a reader gets: entries for one message, the number it has read up to, and what it missed, if anything.

    ``settled_at`` is the instant before which all that happened is in the log up to this number; ``None`` where this
    process cannot know. ``is_last`` is whether the log is known to have ended there when this was read.
    """

    entries: Sequence[LogEntry]
    cursor: int
    gap: tuple[int, int] | None
    settled_at: Instant | None
    is_last: bool
    _made: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def message(self) -> bytes:
        """The message for a reader with a cursor of its own; made once, however many readers share the page."""
        return orjson.dumps(compose(self.entries, CURSOR_EXTRAS))

    def is_next(self, after: int, most: int) -> bool:
        """Whether it is all that follows a number, in no more than so many entries."""
        return self.entries[0].seq == after + 1 and len(self.entries) <= most

    def once(self, make: Callable[[Page], T]) -> T:
        """What a function makes of the page; made once, however many readers share it. Nobody may change it."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made


class _Read(NamedTuple):
    """What was read behind a number, how often somebody was woken before, and until when others may be given it."""

    after: int
    wakes: int
    until: float
    page: Page


@dataclass(eq=False, slots=True)
class Woken:
    """What those who were woken together share: what was added, where that is at hand, and what one of them read."""

    added: Page | None
    read: _Read | None = None


More: TypeAlias = Waiter[Woken]
"""Done when there is more in a log."""


class NotificationLog:
    """All applications' logs.

    Args:
        database: Where they are.
        clock: Domain time.
        most_bytes: How large one of them may be.
        is_shared: Whether other processes may be on the database.
        is_leader: Whether this process is the one that writes what happens.
        monotonic: Seconds of a clock that never goes back, for how long a page that was read is shared.

    Attributes:
        on_responses: Called in the transaction that adds async responses; see
            :func:`mirror_server.hooks.responses_added`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        most_bytes: int,
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
        self._most_bytes = most_bytes
        self._uids = _uids()
        self._waiters: Waiters[Woken] = Waiters()
        self._newest_seq: dict[str, int] = {}
        self._read_seq: dict[str, int] = {}
        self._committed_at = clock.now()
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def keep_for(self, app_id: str) -> None:
        """Keep the notifications of this application from now on."""
        if app_id in self._known:
            return
        # Work is done in order, so that whatever the application causes next finds its log.
        created = self._database.insist(lambda session: logs.create(session, app_id), by_leader=False)
        created.add_done_callback(lambda done: None if done.exception() else self._known.add(app_id))

    def append(self, session: Session, kind: str, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Add entries of one kind, each as application, device id and content, in the transaction of what they tell.

        Their readers wake when that is on disk.
        """
        at = self._clock.now()
        by_application: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for app_id, device_id, body in entries:
            # A copy takes half the time of a display, and counts at thousands of entries a second.
            entry = body.copy()
            entry["uid"] = next(self._uids)
            by_application.setdefault(app_id, []).append((device_id, entry))
        for app_id, added in by_application.items():
            encoded = [(device_id, orjson.dumps(entry)) for device_id, entry in added]
            end = logs.append(session, app_id, encoded, kind=kind, at=at, read_seq=self._read_seq.get(app_id, 0))
            if end is None:
                continue
            if end.stored_bytes > self._most_bytes:
                logs.drop_bytes(session, app_id, end.stored_bytes - int(self._most_bytes * _KEPT_SHARE))
            page = None
            if app_id in self._waiters and sum(len(body) for _, body in encoded) <= MOST_BYTES:
                page = self._page_of(kind, [entry for _, entry in added], end.last_seq, at)
            if page is not None:
                session.before_commit(partial(self._waiters.announce, app_id, Woken(page)))
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
        """Add an entry to the log of every application, with the members that an application's own has besides.

        Source: specification 6.
        """
        app_ids = logs.applications(session)
        self.append(session, kind, ((app_id, device_id, {**body, **own.get(app_id, {})}) for app_id in app_ids))

    def read_more(self, app_id: str, after: int, more: More, most: int = MOST_ENTRIES) -> Page:
        """What follows the number ``after``, where :meth:`more` was called before, whether it is done or not.

        What was added is taken as it came from who added it, unless others added to the log at the same moment: then
        all of it makes one message, which is read once for all who were woken and have read as far.

        Raises:
            Refusal: The key was revoked meanwhile (401), and its log went with it.
        """
        woken = more.result() if more.done() else None
        added = woken.added if woken else None
        if added is not None and added.cursor == self._newest_seq[app_id] and added.is_next(after, most):
            return added
        try:
            if woken is None or most < MOST_ENTRIES:
                return self.read(app_id, after, most)
            return self._read_together(app_id, after, woken)
        except Refusal as refusal:
            message = (
                "this access key was revoked meanwhile; an operator makes one with 'mirror-server keys create NAME'"
            )
            raise Refusal(401, message) from refusal

    def read(self, app_id: str, after: int, most: int = MOST_ENTRIES) -> Page:
        """What follows the number ``after``: the entries of the next message, none if there is nothing new.

        Raises:
            Refusal: The log never reached that number.
        """
        # Before anything is read, so that nothing is told to be there that comes after.
        settled_at = self._settled_at()
        last_seq, rows = self._read(app_id, after, most)
        if after > last_seq:
            raise beyond_log("after", after, last_seq)
        # An entry that was erased ends the message, so that the next one tells of the gap.
        adjoining = [row for index, row in enumerate(rows) if row[0] == rows[0][0] + index]
        entries = first_message([LogEntry(seq, kind, orjson.loads(body), at) for seq, kind, body, at in adjoining])
        first_kept = entries[0].seq if entries else last_seq + 1
        gap = (after + 1, first_kept - 1) if first_kept > after + 1 else None
        cursor = entries[-1].seq if entries else last_seq
        if entries and (settled_at is None or cursor < last_seq):
            # Entries are written in the order of their times.
            settled_at = min(settled_at or entries[-1].logged_at, entries[-1].logged_at)
        return Page(entries, cursor, gap, settled_at, is_last=cursor == last_seq)

    def _read_together(self, app_id: str, after: int, woken: Woken) -> Page:
        """What follows a number, as another one read it who was woken too, a moment ago.

        Unless others were woken since: so whoever asked for more before this call is woken by all that the page lacks.
        For a moment only, as what is erased or revoked meanwhile is not to be told.
        """
        wakes, found = self._waiters.count_told(app_id), woken.read
        if found is not None and (found.after, found.wakes) == (after, wakes) and self._monotonic() < found.until:
            return found.page
        page = self.read(app_id, after)
        woken.read = _Read(after, wakes, self._monotonic() + _SHARED_SECONDS, page)
        return page

    def _read(self, app_id: str, after: int, most: int) -> tuple[int, list[logs.Entry]]:
        """The last number, and what follows another one."""
        found = self._database.look(lambda session: logs.last_seq_and_entries(session, app_id, after, most, MOST_BYTES))
        if found is not None:
            return found
        with self._database.read() as session:
            state = logs.state(session, app_id)
            return state.last_seq if state else 0, logs.entries(session, app_id, after, most, MOST_BYTES)

    def _settled_at(self) -> Instant | None:
        """The instant before which all that happened is on disk, for who reads after this call."""
        if not self._is_leader():
            return None
        now = self._clock.now()
        # Work takes the time when it is done: with none at hand, what is still to come happens from now on.
        self._committed_at = now if self._database.count_waiting() == 0 else min(self._committed_at, now)
        return self._committed_at

    def note_read(self, app_id: str, seq: int) -> None:
        """Note that a reader with a position of its own is given what is up to this number.

        It is stored with the next entry, so that reading is not writing, and by :meth:`store_read`. After a kill in
        between, what was read last counts as not read: it may come twice, and is never lost.
        """
        with self._lock:
            if seq <= self._read_seq.get(app_id, 0):
                return
            self._read_seq[app_id] = seq
        if self._is_shared and not self._is_leader():
            # The leader registers webhooks, and has to know; what it gave itself it knows.
            self._database.submit(lambda session: logs.note_read(session, app_id, seq), touched=(logs.EVERY,))

    def store_read(self) -> None:
        """Store what was read."""
        with self._lock:
            read = list(self._read_seq.items())

        def work(session: Session) -> None:
            for app_id, seq in read:
                logs.note_read(session, app_id, seq)

        self._database.insist(work, by_leader=False)

    def pass_over_read(self, session: Session, app_id: str) -> None:
        """Have a new channel of the server begin behind what readers with positions of their own were given."""
        logs.note_read(session, app_id, self._read_seq.get(app_id, 0))
        logs.pass_over_read(session, app_id)

    def last_seq(self, app_id: str) -> int:
        """The number of the newest entry, 0 in an empty log."""
        state = self._database.look(lambda session: logs.state(session, app_id))
        return state.last_seq if state else 0

    def more(self, app_id: str, *, is_poll: bool = True) -> More:
        """One who is told as soon as an entry is added; cancel it when it is not wanted any more.

        Args:
            app_id: The application whose log it is.
            is_poll: Whether a poll or a stream waits, which are counted; a webhook is neither.
        """
        return self._waiters.add(app_id, is_poll=is_poll)

    @property
    def open_polls(self) -> int:
        """How many polls and streams wait for more."""
        return self._waiters.open_polls

    def wake(self, *app_ids: str) -> None:
        """Let those who wait for more in these logs look again."""
        for app_id in app_ids:
            self._waiters.tell(app_id, Woken(None))

    def _added(self, app_id: str, last_seq: int, page: Page | None, at: Instant) -> None:
        self._newest_seq[app_id] = last_seq
        self._committed_at = at
        self._waiters.tell(app_id, Woken(page))

    def _page_of(self, kind: str, added: Sequence[dict[str, Any]], last_seq: int, at: Instant) -> Page | None:
        """What was added as the page of who has read all before it, where it makes one message."""
        if len(added) > MOST_ENTRIES:
            return None
        first_seq = last_seq - len(added) + 1
        entries = [LogEntry(seq, kind, entry, at) for seq, entry in enumerate(added, first_seq)]
        if len(first_message(entries)) < len(entries):
            return None
        # What another process adds behind it is told to this one in its own time.
        return Page(entries, last_seq, None, at, is_last=not self._is_shared)

    def wake_all(self) -> None:
        """Let all who wait for more look again."""
        self.wake(*self._waiters.names())


def _uids() -> Iterator[str]:
    """UUIDs without end: what stands in front is random, the last part counts on from a random number.

    They cost a twentieth of what a random one each does, which counts at thousands of entries a second.
    """
    front, last = str(uuid.uuid4()).rsplit("-", 1)
    # What is but for the end the same is made once.
    stems = (f"{front}-{number % _LAST_STEMS:010x}" for number in count(int(last[:-2], 16)))
    return (stem + end for stem in stems for end in _ENDS)


def beyond_log(name: str, position: int, last_seq: int) -> Refusal:
    """The 400 of a position that the log never reached, given in the field of this name."""
    cure = "start again with after=latest" if name == "after" else "leave it out to start again at the end"
    message = f"{position} is beyond the end of the log, {last_seq}; {cure}"
    return Refusal.of_field(name, message, reason="CURSOR_BEYOND_LOG")
