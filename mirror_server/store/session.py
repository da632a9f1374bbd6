"""One connection to the database, and what a piece of work inside a transaction can do with it.

It also counts the changes: one counter for the mirror, and on each device where it stood at its own last change.
Whatever changes what a device object shows notes it with :meth:`Session.note_change`, in the same transaction. So a
reader that knows a number can ask for the devices that have changed since, and who holds what was made of a device
knows whether it still holds. What was reported of a resource, and what is desired of it, each bear the number of the
change that made them what they are, so that it can be told which came first where their times are the same.

The counter looks like a row. Where several transactions write beside each other it is a sequence that all take from. A
device has its numbers in the order in which they were given all the same; :meth:`Session.last_revision` gives the
number up to which all changes are seen, and some of those behind it may be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from mirror_server.core.instants import Instant

T = TypeVar("T")

Row = tuple[Any, ...]

Parameters = Mapping[str, Any] | Sequence[Any]
"""Values of a statement: by name for ``:name``, in order for ``?``."""

_MOST_PARAMETERS = 500
_ROWS_OF_A_STATEMENT = 40
"""More cost as much for each row, and leave more that are inserted one by one."""

COUNT = "UPDATE revisions SET last_revision = last_revision + :count RETURNING last_revision"
_NOTE = (
    "UPDATE devices SET revision = ?, last_contact_at = coalesce(max(last_contact_at, ?), last_contact_at)"
    " WHERE device_id = ?"
)

EXTENSIONS = "extensions"
"""The setting that names the extensions that the last server to lead had, with blanks between."""

MANUAL_CLOCK = "manual_clock_now"
"""The setting that holds the instant of a manual clock, in milliseconds."""

LEADER = "leader"
"""The setting that holds the token of the leader, which is new each time a process takes over.

There is none where one process serves alone.
"""

# The kinds of signals that a transaction publishes; see Session.publish.
LOG = "log"
"""The log of an application has a new entry, or ended."""

WAITING = "waiting"
"""Something waits for a device."""

AGAIN = "again"
"""A device is to be asked what waits for it, also what it left unanswered before."""

EXPIRY = "expiry"
"""A command expires at an instant."""


_MOST_DEVICES = 100_000


class RecentChanges:
    """The devices that this process changed lately, so that a copy of one can be used without asking the database.

    It has the last changes without a gap, and of each device the last of them. A change that another process made is a
    number that is missing here; from the next one on it is counted anew. Used by any thread.
    """

    def __init__(self) -> None:
        self._since = self._until = 0
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, revision: int, device_ids: Iterable[str], count: int = 1) -> None:
        """Note a change of these devices that is on disk; ``revision`` is the last of its ``count`` numbers."""
        with self._lock:
            if revision != self._until + count or len(self._last) > _MOST_DEVICES:
                self._since = revision - count
                self._last.clear()
            self._until = revision
            self._last.update(dict.fromkeys(device_ids, revision))

    def is_unchanged(self, device_id: str, since: int, until: int) -> bool:
        """Whether a device is known not to have changed after the change ``since`` up to the change ``until``."""
        with self._lock:
            is_known = self._since <= since and until <= self._until
            return is_known and self._last.get(device_id, 0) <= since


_MOST_SUBSCRIBERS = 50_000
"""So many take some 20 MB; beyond that all are forgotten."""


@dataclass(slots=True)
class Subscribers:
    """The applications that are subscribed to a resource, and what else an observation event of it needs.

    Attributes:
        endpoint_name: The endpoint name of its device.
        app_ids: The applications with a subscription of it, while the device observes it for any of them.
        auto_observed: Whether the device sends it without a subscription.
        changed_at: The device's time in the last observation event; the code that sends another one updates it here.
    """

    endpoint_name: str
    app_ids: list[str]
    auto_observed: bool
    changed_at: Instant | None


class SubscriberCache:
    """A cache of the subscribers of each resource, by device id and path. Lookups are frequent, changes are rare.

    Only the thread that writes uses it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Subscribers] = {}
        self._version: Hashable | None = None

    def as_of(self, version: Hashable | None) -> dict[tuple[str, str], Subscribers]:
        """What is known at this version, to be added to; with ``None``, or another version than before, nothing."""
        if version is None or version != self._version or len(self._known) > _MOST_SUBSCRIBERS:
            self._known, self._version = {}, version
        return self._known

    def forget(self) -> None:
        """Forget all, because what was noted was undone."""
        self._known, self._version = {}, None


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """The next row, or ``None``."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """So many of the next rows, or fewer at the end."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""


class DatabaseConnection(Protocol):
    """A connection of ``sqlite3``, or one that takes the same statements."""

    def execute(self, statement: str, parameters: Parameters = ..., /) -> Cursor:
        """Execute a statement."""

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> Cursor:
        """Execute a statement once for each set of parameters."""


class Session:
    """Runs statements; named parameters stand in the statement as ``:name``.

    Where there are many, they stand as ``?`` and are given in order: SQLite looks for each name among all.

    Attributes:
        changes: Which devices it changed lately.
        subscribers: The subscribers of resources that were looked up.
        handlers: What is called when a signal of a kind is published, given what each of several is about. Signals of
            other processes that arrive together are handled kind by kind, in the order in which the kinds stand here.
    """

    def __init__(self, connection: DatabaseConnection) -> None:
        self._connection = connection
        self._effects: list[Callable[[], None]] = []
        self.changes = RecentChanges()
        self.subscribers = SubscriberCache()
        self.handlers: dict[str, Callable[..., None]] = {}

    def subscribers_version(self) -> Hashable | None:
        """Return a token that changes when the subscribers of a resource may have, in this transaction or before.

        ``None`` where that is not to be had cheaply.
        """
        return None

    def rows(self, statement: str, **parameters: Any) -> list[Row]:
        """All rows of the result."""
        return self._connection.execute(statement, parameters).fetchall()

    def rows_of(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """All rows of the result of a statement with a ``?`` for each of the values."""
        return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, size: int, **parameters: Any) -> Iterator[list[Row]]:
        """The rows of the result, ``size`` of them at a time, so that they need not all be held at once."""
        cursor = self._connection.execute(statement, parameters)
        while rows := cursor.fetchmany(size):
            yield rows

    def row(self, statement: str, **parameters: Any) -> Row | None:
        """The first row of the result, or ``None``."""
        row: Row | None = self._connection.execute(statement, parameters).fetchone()
        return row

    def scalar(self, statement: str, **parameters: Any) -> Any:
        """The first column of the first row, or ``None``."""
        row = self.row(statement, **parameters)
        return None if row is None else row[0]

    def run(self, statement: str, **parameters: Any) -> int:
        """Execute the statement; gives the number of rows it changed."""
        return self._connection.execute(statement, parameters).rowcount

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a statement with ``?`` once for each row of values; gives the number of rows they changed."""
        return self._connection.executemany(statement, rows).rowcount if rows else 0

    def last_revision(self) -> int:
        """The number of the last change it sees; it sees all before that one too."""
        return int(self.scalar("SELECT last_revision FROM revisions"))

    def note_change(self, device_ids: Iterable[str], *, contact_at: Instant | None = None, count: int = 1) -> int:
        """Note that the device objects of these devices are not what they were, and perhaps that they were heard of.

        Args:
            device_ids: The devices; without any, what happened shows on none of them.
            contact_at: When they were heard of.
            count: How many numbers this takes, for as many things that happened one after the other.

        Returns:
            The number of the change, the last one of these.
        """
        known = dict.fromkeys(device_ids)
        revision = int(self.scalar(COUNT, count=count))
        # One by one: for a statement that changes several rows SQLite keeps a copy of each page, and where it is kept
        # from that, it is faster only as long as these devices stand side by side.
        self.run_many(_NOTE, [(revision, contact_at, device_id) for device_id in known])
        self.after_commit(partial(self.changes.note, revision, known, count))
        return revision

    def note_change_with(
        self,
        device_ids: Sequence[str],
        change: str,
        rows: Callable[[int], Sequence[Row]],
        *,
        contact_at: Instant | None = None,
    ) -> tuple[int, int]:
        """Note a change as :meth:`note_change` does, with a number for each of the devices as they stand, and make it.

        Args:
            device_ids: The devices, some perhaps several times.
            change: An update of one row, with ``?`` for each value; a column ending in ``revision`` gets a number.
            rows: Gives the values of each row, given the first of the numbers.
            contact_at: When they were heard of.

        Returns:
            The first of the numbers, and how many rows the update changed.
        """
        count = len(device_ids)
        first = self.note_change(device_ids, contact_at=contact_at, count=count) - count + 1
        return first, self.run_many(change, rows(first))

    def setting(self, name: str) -> str | None:
        """A single value that outlives a restart."""
        value: str | None = self.scalar("SELECT value FROM settings WHERE name = :name", name=name)
        return value

    def put_setting(self, name: str, value: str) -> None:
        """Store a single value that outlives a restart."""
        self.run(
            "INSERT INTO settings (name, value) VALUES (:name, :value)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name=name,
            value=value,
        )

    def probe(self) -> None:
        """Write something: only what is really written shows that the disk takes it.

        Another value each time, because SQLite writes no page for one that stays what it is.
        """
        self.run(
            "INSERT INTO settings (name, value) VALUES ('probe', 'odd') ON CONFLICT (name) DO UPDATE"
            " SET value = CASE settings.value WHEN 'odd' THEN 'even' ELSE 'odd' END"
        )

    def rows_of_each(self, statement: str, each: Sequence[Mapping[str, Any]], **common: Any) -> list[list[Row]]:
        """All rows of the result for each of several sets of parameters of the same names, and those common to all."""
        return [self.rows(statement, **own, **common) for own in each]

    def insert_many(self, into: str, common: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, many with one statement.

        Args:
            into: The table with its columns; those that are the same in all rows come first.
            common: The values of these, which are handed over once for many rows.
            rows: The other values of each row.
        """
        begin = 0
        # Of few sizes, because a statement of each is prepared.
        for size in (_ROWS_OF_A_STATEMENT, 1):
            whole = len(rows) - (len(rows) - begin) % size
            if begin < whole:
                self._connection.executemany(
                    f"INSERT INTO {into} VALUES {_numbered(len(common), len(rows[0]), size)}",
                    [[*common, *chain.from_iterable(rows[each : each + size])] for each in range(begin, whole, size)],
                )
                begin = whole

    def after_commit(self, effect: Callable[[], None]) -> None:
        """Have ``effect`` called when the transaction is on disk; never when it is rolled back. It must not block."""
        self._effects.append(effect)

    def publish(self, kind: str, what: str = "", *, here: Callable[[], None] | None = None) -> None:
        """Signal a change when the transaction is on disk: its handler is called, in every process on the database.

        Args:
            kind: The kind of the signal, which selects the handler; such as :data:`LOG`.
            what: What the signal is about, in one line.
            here: Called in this process in place of the handler, when this process knows more than the signal says.
        """
        if here is None and kind in self.handlers:
            here = partial(self.handlers[kind], what)
        if here is not None:
            self.after_commit(here)

    def mark(self) -> int:
        """The number of effects so far, for :meth:`forget_effects`."""
        return len(self._effects)

    def forget_effects(self, mark: int) -> None:
        """Drop the effects that were added after the mark, and what was noted meanwhile: the work was undone."""
        del self._effects[mark:]
        self.subscribers.forget()

    def take_effects(self) -> list[Callable[[], None]]:
        """All effects, which are then forgotten."""
        effects, self._effects = self._effects, []
        return effects


@lru_cache
def _numbered(common: int, own: int, size: int) -> str:
    """The parameters of so many rows by their numbers, of which so many are the same in each."""
    shared = "".join(f"?{number}, " for number in range(1, common + 1))
    firsts = range(common + 1, common + size * own + 1, own)
    return ", ".join(f"({shared}{', '.join(f'?{first + place}' for place in range(own))})" for first in firsts)


def parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """The values in parts that are small enough to be parameters of one statement."""
    for begin in range(0, len(values), _MOST_PARAMETERS):
        yield values[begin : begin + _MOST_PARAMETERS]
