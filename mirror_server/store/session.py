"""A connection to the database, with the operations that work in a transaction can use.

It also counts changes. The mirror has one counter, the revision, and each device has the revision of its last change.
Code that changes the content of a device object calls :meth:`Session.note_change` in the same transaction. So a reader
can request the devices that changed since a revision, and a cache knows whether its copy is current. The reported and
the desired value of a resource each have the revision of their last change. It determines their order if their times
are equal.

The counter is a row in SQLite. In databases with concurrent transactions it is a sequence, and the revisions of one
device still increase. :meth:`Session.last_revision` returns the revision up to which all changes are visible. Some
later changes may be visible too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from mirror_server.core.timestamps import Instant

T = TypeVar("T")

Row = tuple[Any, ...]

Parameters = Mapping[str, Any] | Sequence[Any]
"""Values of a statement: by name for ``:name``, in order for ``?``."""

_MAX_PARAMETERS = 500
_ROWS_PER_STATEMENT = 40
"""Larger statements are not faster per row, and leave more rows that are inserted one by one."""

COUNT = "UPDATE revisions SET last_revision = last_revision + :count RETURNING last_revision"
# In SQLite, max() of two values is NULL if one of them is. Then the column keeps its value.
_NOTE = (
    "UPDATE devices SET revision = ?, last_contact_at = coalesce(max(last_contact_at, ?), last_contact_at)"
    " WHERE device_id = ?"
)

EXTENSIONS = "extensions"
"""The setting with the names of the last leader's extensions, separated by spaces."""

CLOCK = "clock"
"""The setting with the clock of the last leader: ``system`` or ``manual``."""

MANUAL_CLOCK = "manual_clock_now"
"""The setting with the instant of a manual clock, in milliseconds."""

LEADER = "leader"
"""The setting with the token of the leader, which changes each time a process becomes the leader.

It does not exist if a single process serves the database.
"""

# The kinds of signals that a transaction publishes; see Session.publish.
LOG = "log"
"""The log of an application has a new entry, or ended."""

WAITING = "waiting"
"""A device has pending work."""

AGAIN = "again"
"""A device has pending work, and commands that it did not respond to before are sent again."""

EXPIRY = "expiry"
"""A command expires at an instant."""


_MAX_DEVICES = 100_000


class RecentChanges:
    """The devices that this process changed recently, so that cached copies can be used without a query.

    It has the latest changes without a gap, and the last of them for each device. A change by another process leaves a
    gap in the numbers, and the record restarts after it. Used by any thread.
    """

    def __init__(self) -> None:
        self._since = self._until = 0
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, revision: int, device_ids: Iterable[str], count: int = 1) -> None:
        """Record a committed change of these devices; ``revision`` is the last of its ``count`` numbers."""
        with self._lock:
            if revision != self._until + count or len(self._last) > _MAX_DEVICES:
                self._since = revision - count
                self._last.clear()
            self._until = revision
            self._last.update(dict.fromkeys(device_ids, revision))

    def is_unchanged(self, device_id: str, since: int, until: int) -> bool:
        """Whether the recorded changes prove that a device did not change after ``since`` up to ``until``."""
        with self._lock:
            # A device without an entry did not change between these two numbers.
            is_known = self._since <= since and until <= self._until
            return is_known and self._last.get(device_id, 0) <= since


_MAX_SUBSCRIBERS = 50_000
"""The size at which the cache is cleared. It then takes about 20 MB."""


@dataclass(slots=True)
class Subscribers:
    """The applications that are subscribed to a resource, and further data for its observation events.

    Attributes:
        endpoint_name: The endpoint name of its device.
        app_ids: The applications with a subscription to it, if the device observes it for any of them.
        auto_observed: Whether the device sends it without a subscription.
        changed_at: The device's time in the last observation event; the code that sends another one updates it here.
    """

    endpoint_name: str
    app_ids: list[str]
    auto_observed: bool
    changed_at: Instant | None


class SubscriberCache:
    """A cache of the subscribers of each resource, by device id and path. Lookups are frequent, changes are rare.

    Only the writing thread uses it.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Subscribers] = {}
        self._version: Hashable | None = None

    def as_of(self, version: Hashable | None) -> dict[tuple[str, str], Subscribers]:
        """Return the cached entries, to which the caller may add. A new version, or ``None``, clears them first."""
        if version is None or version != self._version or len(self._entries) > _MAX_SUBSCRIBERS:
            self._entries, self._version = {}, version
        return self._entries

    def clear(self) -> None:
        """Clear the cache, because changes that it reflects were rolled back."""
        self._entries, self._version = {}, None


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """Return the next row, or ``None``."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return up to ``size`` of the next rows."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""


class DatabaseConnection(Protocol):
    """A connection of ``sqlite3``, or one that takes the same statements."""

    def execute(self, statement: str, parameters: Parameters = ..., /) -> Cursor:
        """Execute a statement."""

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> Cursor:
        """Execute a statement once for each set of parameters."""


class Session:
    """Runs statements. Named parameters are written ``:name``.

    Statements with many parameters use ``?``, because SQLite searches all names for each parameter.

    Attributes:
        changes: The devices that it changed recently.
        subscribers: The cached subscribers of resources.
        handlers: The handler of each kind of signal, called with the subjects of one or more signals. Signals of other
            processes that arrive together are handled kind by kind, in the order of this mapping.
    """

    def __init__(self, connection: DatabaseConnection) -> None:
        self._connection = connection
        self._effects: list[Callable[[], None]] = []
        self.changes = RecentChanges()
        self.subscribers = SubscriberCache()
        self.handlers: dict[str, Callable[..., None]] = {}

    def subscribers_version(self) -> Hashable | None:
        """Return a token that changes whenever subscribers may have changed, in this transaction or before.

        ``None`` if the database has no cheap way to know.
        """
        return None

    def rows(self, statement: str, **parameters: Any) -> list[Row]:
        """Return all rows of the result."""
        return self._connection.execute(statement, parameters).fetchall()

    def rows_of(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """Return all rows of the result of a statement with a ``?`` for each value."""
        return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, size: int, **parameters: Any) -> Iterator[list[Row]]:
        """Yield the rows of the result in batches of ``size``, so that they are not all in memory at once."""
        cursor = self._connection.execute(statement, parameters)
        while rows := cursor.fetchmany(size):
            yield rows

    def row(self, statement: str, **parameters: Any) -> Row | None:
        """Return the first row of the result, or ``None``."""
        row: Row | None = self._connection.execute(statement, parameters).fetchone()
        return row

    def scalar(self, statement: str, **parameters: Any) -> Any:
        """Return the first column of the first row, or ``None``."""
        row = self.row(statement, **parameters)
        return None if row is None else row[0]

    def run(self, statement: str, **parameters: Any) -> int:
        """Execute a statement and return the number of changed rows."""
        return self._connection.execute(statement, parameters).rowcount

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a statement with ``?`` once for each row of values. Return the total number of changed rows."""
        return self._connection.executemany(statement, rows).rowcount if rows else 0

    def last_revision(self) -> int:
        """Return the revision up to which all changes are visible to this transaction."""
        return int(self.scalar("SELECT last_revision FROM revisions"))

    def note_change(self, device_ids: Iterable[str], *, contact_at: Instant | None = None, count: int = 1) -> int:
        """Record a change of the device objects of these devices, and optionally a contact with them.

        Args:
            device_ids: The devices; empty for an event that is not visible in any device object.
            contact_at: The instant of the contact.
            count: How many revisions to allocate, for as many successive changes.

        Returns:
            The revision of the change; the last one of several.
        """
        changed = dict.fromkeys(device_ids)
        revision = int(self.scalar(COUNT, count=count))
        # Row by row: SQLite copies each page for a statement that updates several rows. Without the copies, such a
        # statement is faster only while these devices are adjacent.
        self.run_many(_NOTE, [(revision, contact_at, device_id) for device_id in changed])
        self.after_commit(partial(self.changes.note, revision, changed, count))
        return revision

    def note_change_with(
        self,
        device_ids: Sequence[str],
        change: str,
        rows: Callable[[int], Sequence[Row]],
        *,
        contact_at: Instant | None = None,
    ) -> tuple[int, int]:
        """Record a change like :meth:`note_change`, with a revision for each device in order, and run its update.

        Args:
            device_ids: The devices. One may occur several times.
            change: An update of one row, with ``?`` for each value; a column ending in ``revision`` gets the revision.
            rows: Returns the values of each row, given the first revision.
            contact_at: The instant of a contact with the devices.

        Returns:
            The first revision, and the number of changed rows.
        """
        count = len(device_ids)
        first = self.note_change(device_ids, contact_at=contact_at, count=count) - count + 1
        return first, self.run_many(change, rows(first))

    def setting(self, name: str) -> str | None:
        """Return a stored setting, or ``None`` if it is not set."""
        value: str | None = self.scalar("SELECT value FROM settings WHERE name = :name", name=name)
        return value

    def put_setting(self, name: str, value: str) -> None:
        """Store a setting, which survives a restart."""
        self.run(
            "INSERT INTO settings (name, value) VALUES (:name, :value)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name=name,
            value=value,
        )

    def probe(self) -> None:
        """Write something, to check that the disk accepts writes.

        The value changes each time, because SQLite does not write a page for an unchanged value.
        """
        self.run(
            "INSERT INTO settings (name, value) VALUES ('probe', 'odd') ON CONFLICT (name) DO UPDATE"
            " SET value = CASE settings.value WHEN 'odd' THEN 'even' ELSE 'odd' END"
        )

    def rows_of_each(self, statement: str, each: Sequence[Mapping[str, Any]], **common: Any) -> list[list[Row]]:
        """Return the rows of the result for each set of parameters; ``common`` is added to each set."""
        return [self.rows(statement, **own, **common) for own in each]

    def insert_many(self, into: str, common: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, many per statement.

        Args:
            into: The table with its columns. The columns with common values come first.
            common: The values that all rows share, which are passed once for many rows.
            rows: The other values of each row.
        """
        begin = 0
        # Only two sizes, because each size is a separate prepared statement.
        for size in (_ROWS_PER_STATEMENT, 1):
            end = len(rows) - (len(rows) - begin) % size
            if begin < end:
                self._connection.executemany(
                    f"INSERT INTO {into} VALUES {_placeholders(len(common), len(rows[0]), size)}",
                    [[*common, *chain.from_iterable(rows[each : each + size])] for each in range(begin, end, size)],
                )
                begin = end

    def after_commit(self, effect: Callable[[], None]) -> None:
        """Call ``effect`` after the commit, and not at all after a rollback. It must not block."""
        self._effects.append(effect)

    def publish(self, kind: str, subject: str = "", *, here: Callable[[], None] | None = None) -> None:
        """Publish a signal after the commit. Its handler is called in every process on the database.

        Args:
            kind: The kind of the signal, which selects the handler; such as :data:`LOG`.
            subject: The subject of the signal, in one line.
            here: Called in this process instead of the handler, if this process knows more than the signal contains.
        """
        if here is None and kind in self.handlers:
            here = partial(self.handlers[kind], subject)
        if here is not None:
            self.after_commit(here)

    def mark(self) -> int:
        """Return the number of effects so far, for :meth:`discard_effects`."""
        return len(self._effects)

    def discard_effects(self, mark: int) -> None:
        """Discard the effects after the mark and the cached subscribers, because the work was rolled back."""
        del self._effects[mark:]
        self.subscribers.clear()

    def take_effects(self) -> list[Callable[[], None]]:
        """Remove and return all effects."""
        effects, self._effects = self._effects, []
        return effects


@lru_cache
def _placeholders(common: int, own: int, size: int) -> str:
    """Return numbered placeholders for ``size`` rows of ``common`` shared values and ``own`` values of each row."""
    shared = "".join(f"?{number}, " for number in range(1, common + 1))
    firsts = range(common + 1, common + size * own + 1, own)
    return ", ".join(f"({shared}{', '.join(f'?{first + index}' for index in range(own))})" for first in firsts)


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in batches that are small enough for the parameters of one statement."""
    for begin in range(0, len(values), _MAX_PARAMETERS):
        yield values[begin : begin + _MAX_PARAMETERS]
