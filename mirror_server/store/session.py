"""A session: a connection to the database, with the operations that a transaction can use.

A session also counts changes. The mirror has one change counter, the revision. Each device has the revision of its
last change. Code that changes the content of a device object calls :meth:`Session.note_change` in the same
transaction. So a reader can request the devices that changed after a revision, and a cache can determine whether its
copy is current. The reported and the desired value of a resource each have the revision of their last change. If two
values have equal times, their revisions determine their order.

In SQLite the counter is a row. In databases with concurrent transactions the counter is a sequence, and the revisions
of one device still increase. :meth:`Session.last_revision` returns the revision up to which all changes are visible.
Some later changes may be visible too.
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
"""The parameters of a statement: a mapping for ``:name``, or a sequence for ``?``."""

_MAX_PARAMETERS = 500
_ROWS_PER_STATEMENT = 40
"""The number of rows in one INSERT statement.

Larger statements are not faster per row, and leave more rows that must be inserted one by one.
"""

COUNT = "UPDATE revisions SET last_revision = last_revision + :count RETURNING last_revision"
# In SQLite, max() of two values is NULL if one of the values is NULL. Then coalesce keeps the value of the column.
_NOTE = (
    "UPDATE devices SET revision = ?, last_contact_at = coalesce(max(last_contact_at, ?), last_contact_at)"
    " WHERE device_id = ?"
)

EXTENSIONS = "extensions"
"""The setting with the names of the last leader's extensions, separated by spaces."""

CLOCK = "clock"
"""The setting with the type of the last leader's clock: ``system`` or ``manual``."""

NEWEST_CONTACT = "newest_contact"
"""The setting with the time of the last contact with any device. It is stored only while no server is running."""

OLDEST_CONTACT = "oldest_contact"
"""The setting with a time before the last contact with each device."""

MANUAL_CLOCK = "manual_clock_now"
"""The setting with the time of a manual clock, in milliseconds since 1970."""

LEADER = "leader"
"""The setting with the token of the leader, which changes each time a process becomes the leader.

It does not exist if a single process serves the database.
"""

# The kinds of signals that a transaction publishes; see Session.publish.
LOG = "log"
"""The signal that the log of an application has a new entry, or has ended."""

WAITING = "waiting"
"""The signal that a device has pending work."""

AGAIN = "again"
"""The signal that a device has pending work, and that commands without a response are sent again."""

EXPIRY = "expiry"
"""The signal that a command expires at a given time."""


_MAX_DEVICES = 100_000


class RecentChanges:
    """The devices that this process changed recently. They allow using cached copies without a query.

    The record contains the latest changes without a gap, and the last change of each device. A change by another
    process leaves a gap in the revisions, and the record restarts after the gap. The methods are thread-safe.
    """

    def __init__(self) -> None:
        self._since = self._until = 0
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, revision: int, device_ids: Iterable[str], count: int = 1) -> None:
        """Record a committed change of these devices.

        Args:
            revision: The last revision of the change.
            device_ids: The ids of the devices.
            count: The number of revisions of the change.
        """
        with self._lock:
            if revision != self._until + count or len(self._last) > _MAX_DEVICES:
                self._since = revision - count
                self._last.clear()
            self._until = revision
            self._last.update(dict.fromkeys(device_ids, revision))

    def is_unchanged(self, device_id: str, since: int, until: int) -> bool:
        """Return whether the recorded changes prove that a device is unchanged after ``since`` up to ``until``."""
        with self._lock:
            # A device without an entry did not change in the recorded interval.
            is_known = self._since <= since and until <= self._until
            return is_known and self._last.get(device_id, 0) <= since


_MAX_SUBSCRIBERS = 50_000
"""The number of entries above which the cache is cleared. At this size it uses about 20 MB."""


@dataclass(slots=True)
class Subscribers:
    """The applications that are subscribed to a resource, and further data for the observation events of the resource.

    Attributes:
        endpoint_name: The endpoint name of the device.
        app_ids: The applications with a subscription to the resource, if the device observes it for any of them.
        auto_observed: Whether the device sends the resource without a subscription.
        changed_at: The device's time in the last observation event. The code that sends a later event updates it.
    """

    endpoint_name: str
    app_ids: list[str]
    auto_observed: bool
    changed_at: Instant | None


class SubscriberCache:
    """A cache of the subscribers of each resource, by device id and path.

    The cache saves queries, because lookups are frequent and changes are rare. Only the writer thread uses it.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Subscribers] = {}
        self._version: Hashable | None = None

    def as_of(self, version: Hashable | None) -> dict[tuple[str, str], Subscribers]:
        """Return the cached entries, to which the caller may add entries.

        If the version changed or is ``None``, the cache is cleared first.
        """
        if version is None or version != self._version or len(self._entries) > _MAX_SUBSCRIBERS:
            self._entries, self._version = {}, version
        return self._entries

    def clear(self) -> None:
        """Clear the cache, because the changes that it reflects were rolled back."""
        self._entries, self._version = {}, None


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """Return the next row, or ``None`` if there are no more rows."""

    def fetchmany(self, size: int, /) -> list[Any]:
        """Return up to ``size`` of the next rows."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""


class DatabaseConnection(Protocol):
    """A connection of ``sqlite3``, or a connection that supports the same statements."""

    def execute(self, statement: str, parameters: Parameters = ..., /) -> Cursor:
        """Execute a statement."""

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> Cursor:
        """Execute a statement once for each set of parameters."""


class Session:
    """A connection that runs statements. Named parameters are written ``:name``.

    Statements with many parameters use ``?``, because SQLite searches all names for each named parameter.

    Attributes:
        changes: The devices that this session changed recently.
        subscribers: The cache of the subscribers of resources.
        handlers: The handler for each kind of signal. Its arguments are the subjects of one or more signals. Signals
            from other processes that arrive together are handled kind by kind, in the order of this mapping.
    """

    def __init__(self, connection: DatabaseConnection) -> None:
        self._connection = connection
        self._effects: list[Callable[[], None]] = []
        self.changes = RecentChanges()
        self.subscribers = SubscriberCache()
        self.handlers: dict[str, Callable[..., None]] = {}

    def subscribers_version(self) -> Hashable | None:
        """Return a token that changes whenever subscribers may have changed, in this transaction or an earlier one.

        Return ``None`` if the database has no cheap way to detect such changes.
        """
        return None

    def rows(self, statement: str, **parameters: Any) -> list[Row]:
        """Return all rows of the result."""
        return self._connection.execute(statement, parameters).fetchall()

    def rows_of(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """Return all rows of the result of a statement that has one ``?`` for each value."""
        return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, size: int, **parameters: Any) -> Iterator[list[Row]]:
        """Yield the rows of the result in batches of ``size``, so that they are not all in memory at once."""
        cursor = self._connection.execute(statement, parameters)
        while rows := cursor.fetchmany(size):
            yield rows

    def row(self, statement: str, **parameters: Any) -> Row | None:
        """Return the first row of the result, or ``None`` if there are no rows."""
        row: Row | None = self._connection.execute(statement, parameters).fetchone()
        return row

    def scalar(self, statement: str, **parameters: Any) -> Any:
        """Return the first column of the first row, or ``None`` if there are no rows."""
        row = self.row(statement, **parameters)
        return None if row is None else row[0]

    def run(self, statement: str, **parameters: Any) -> int:
        """Execute a statement and return the number of changed rows."""
        return self._connection.execute(statement, parameters).rowcount

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a statement with ``?`` once for each row of values. Return the total number of changed rows."""
        return self._connection.executemany(statement, rows).rowcount if rows else 0

    def last_revision(self) -> int:
        """Return the revision up to which this transaction can see all changes."""
        return int(self.scalar("SELECT last_revision FROM revisions"))

    def note_change(self, device_ids: Iterable[str], *, contact_at: Instant | None = None, count: int = 1) -> int:
        """Record a change of the device objects of these devices, and optionally a contact with the devices.

        Args:
            device_ids: The ids of the devices. Pass none for an event that is not visible in any device object.
            contact_at: The time of the contact.
            count: The number of revisions to allocate, one for each of several successive changes.

        Returns:
            The revision of the change. If several are allocated, it is the last one.
        """
        changed = dict.fromkeys(device_ids)
        revision = int(self.scalar(COUNT, count=count))
        # The rows are updated one by one, because SQLite copies each page for a statement that updates several rows.
        # Without the copies, such a statement is faster only while these devices are adjacent.
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
        """Record changes as :meth:`note_change` does, with one revision per device, and update the changed rows.

        Args:
            device_ids: The ids of the devices, in the order of their revisions. An id may occur several times.
            change: The statement that updates one row, with ``?`` for each value. A column whose name ends in
                ``revision`` receives the revision.
            rows: A function that returns the values of each row. Its argument is the first revision.
            contact_at: The time of a contact with the devices.

        Returns:
            The first revision, and the number of changed rows.
        """
        count = len(device_ids)
        first = self.note_change(device_ids, contact_at=contact_at, count=count) - count + 1
        return first, self.run_many(change, rows(first))

    def setting(self, name: str) -> str | None:
        """Return the value of a stored setting, or ``None`` if it is not set."""
        value: str | None = self.scalar("SELECT value FROM settings WHERE name = :name", name=name)
        return value

    def put_setting(self, name: str, value: str) -> None:
        """Store a setting. Its value survives a restart of the server."""
        self.run(
            "INSERT INTO settings (name, value) VALUES (:name, :value)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name=name,
            value=value,
        )

    def probe(self) -> None:
        """Write a test record to check that the disk accepts writes.

        The value changes each time, because SQLite does not write a page if a value stays the same.
        """
        self.run(
            "INSERT INTO settings (name, value) VALUES ('probe', 'odd') ON CONFLICT (name) DO UPDATE"
            " SET value = CASE settings.value WHEN 'odd' THEN 'even' ELSE 'odd' END"
        )

    def rows_of_each(self, statement: str, each: Sequence[Mapping[str, Any]], **common: Any) -> list[list[Row]]:
        """Return the rows of the result for each set of parameters.

        The parameters in ``common`` are added to each set.
        """
        return [self.rows(statement, **own, **common) for own in each]

    def insert_many(self, into: str, common: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, with many rows per statement.

        Args:
            into: The table with its columns. The columns with common values come first.
            common: The values that all rows share. They are passed once for many rows.
            rows: The other values of each row.
        """
        begin = 0
        # Only two sizes are used, because each size needs a separate prepared statement.
        for size in (_ROWS_PER_STATEMENT, 1):
            end = len(rows) - (len(rows) - begin) % size
            if begin < end:
                self._connection.executemany(
                    f"INSERT INTO {into} VALUES {_placeholders(len(common), len(rows[0]), size)}",
                    [[*common, *chain.from_iterable(rows[each : each + size])] for each in range(begin, end, size)],
                )
                begin = end

    def after_commit(self, effect: Callable[[], None]) -> None:
        """Call ``effect`` after the commit. It is not called after a rollback. It must not block."""
        self._effects.append(effect)

    def publish(self, kind: str, subject: str = "", *, here: Callable[[], None] | None = None) -> None:
        """Publish a signal after the commit. Its handler is called in every process that uses the database.

        Args:
            kind: The kind of the signal, which selects the handler, such as :data:`LOG`.
            subject: The subject of the signal, in one line.
            here: A function to call in this process instead of the handler. Pass it if this process has more
                information than the signal contains.
        """
        if here is None and kind in self.handlers:
            here = partial(self.handlers[kind], subject)
        if here is not None:
            self.after_commit(here)

    def mark(self) -> int:
        """Return the current number of effects, for :meth:`discard_effects`."""
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
    """Return numbered placeholders for ``size`` rows.

    Each has ``common`` shared values and ``own`` values of the row.
    """
    shared = "".join(f"?{number}, " for number in range(1, common + 1))
    firsts = range(common + 1, common + size * own + 1, own)
    return ", ".join(f"({shared}{', '.join(f'?{first + index}' for index in range(own))})" for first in firsts)


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in batches that are small enough to be the parameters of one statement."""
    for begin in range(0, len(values), _MAX_PARAMETERS):
        yield values[begin : begin + _MAX_PARAMETERS]
