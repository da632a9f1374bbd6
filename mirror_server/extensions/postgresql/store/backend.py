"""The store on PostgreSQL. Transactions of several processes are open beside each other where none touches another's.

Each process puts all work that waits into one transaction. Where all of it says what it touches, the transaction shares
the lock of writing with others that touch something else; otherwise it has that lock alone. So that no two wait for
each other, all lock in this order:

1. the lock of writing, shared or alone;
2. what is touched, by its number, all of it at the start;
3. rows, all of what is touched;
4. the lock of counting, for a moment within one statement.

Work that locks a row of what it cannot name has to be alone. Who reads waits for none of these.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from mirror_server.extensions.postgresql.store import processes
from mirror_server.extensions.postgresql.store.connection import (
    CONNECT_SECONDS,
    Connection,
    is_of_storage,
    opened,
    told,
    unreachable,
)
from mirror_server.extensions.postgresql.store.election import PostgresElection
from mirror_server.extensions.postgresql.store.statements import PostgresSession
from mirror_server.store import schema
from mirror_server.store.backend import DatabaseError, StorageFailed, Violation, reason_of, shown
from mirror_server.store.schema import Branch
from mirror_server.store.session import Cursor, Parameters, Row, Session

T = TypeVar("T")

_log = logging.getLogger(__name__)

_SCHEMA_LOCK = 0x6D6972726F7202
# The functions of migration 0001 take this one as well, and the other locks of a transaction that writes.
_UNDER_WAY = 0x4D520000
"""The upper half of a lock that tells a number of changes: its transaction, which holds it, takes larger ones."""
_MOST_TOUCHED = 256
"""The most locks of one transaction: PostgreSQL has room for 64 a connection, and more for one if others have few."""

_ALONE = "NULL"
# In one message each: who waits for a transaction does not wait for the ways of its process to the database.
_BEGIN = "BEGIN; SELECT begin_writing({touched})"
_END = "SELECT end_writing('{process_id}', {group}, {now}, ARRAY[{payloads}]::text[]); COMMIT"
_UNDO = "ROLLBACK; SELECT pg_advisory_unlock_all()"
_BEGIN_READING = "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ"
_LOOK_FOR_NUMBERS = (
    # A transaction lets go of its locks when all that begin to read see it, so these are asked for first. What is not
    # under way yet takes larger numbers than the last that was given before.
    "BEGIN; WITH seen AS MATERIALIZED (SELECT last_value AS given,"
    f" (SELECT min(((CAST(classid AS bigint) - {_UNDER_WAY}) << 32) + CAST(objid AS bigint)) FROM pg_locks"
    " WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    # Names the number, so that it is read before the locks are.
    f" AND CAST(classid AS bigint) BETWEEN {_UNDER_WAY} AND {_UNDER_WAY} + (1 << 21) + 0 * last_value"
    ") AS behind FROM revision_numbers)"
    " SELECT set_config('mirror.given', CAST(given AS text), false),"
    " set_config('mirror.behind', CAST(least(given, behind) AS text), false) FROM seen; COMMIT"
)
# No crash takes back a number that is stored with a transaction. One that ended since the look counted further, maybe.
_BEGIN_READING_NUMBERS = (
    f"{_LOOK_FOR_NUMBERS}; {_BEGIN_READING}; SELECT least(stored, CAST(current_setting('mirror.behind') AS bigint)),"
    " stored <= CAST(current_setting('mirror.given') AS bigint)"
    " FROM (SELECT coalesce(max(last_revision), 0) AS stored FROM processes) AS newest"
)
_BEGIN_AGAIN = f"ROLLBACK; {_BEGIN_READING_NUMBERS}"
_MOST_LOOKS = 20

_OLDEST_VERSION = 140_000
_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid)"
_SESSION = "SELECT current_setting('mirror.session', true)"
_SESSION_CHECKS = 5
_CONNECT_AGAIN_SECONDS = 0.5
_BUSY_SECONDS = 10
_LOOK_AGAIN_SECONDS = 0.1
_SEEN = (
    "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'"
    " AND greatest(age(backend_xmin), age(backend_xid)) > age(CAST(CAST(:now AS text) AS xid)))"
)
_LONGEST_PAYLOAD = 7900
_LONGEST_MESSAGE = 1000
# Where all is found by an index, a plan that was made while the tables were small holds when they have grown. Costs of
# what has none are made up then, and would be reason enough to compile it.
_LOOKING_OPTIONS = "SET enable_seqscan = off; SET jit = off"
# A process that stands still in the middle of a transaction must not hold up all others for ever.
_WRITING_OPTIONS = f"{_LOOKING_OPTIONS}; SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '15s'"


class _WritingSession(PostgresSession):
    """A session that writes, and sends messages to the other processes when its transaction is on disk."""

    def __init__(self, connection: PostgresBackend) -> None:
        super().__init__(connection)
        self.messages: dict[str, None] = {}

    def publish(self, kind: str, what: str = "", *, here: Callable[[], None] | None = None) -> None:
        """See :class:`Session`; messages of work that is undone do no harm."""
        super().publish(kind, what, here=here)
        message = f"{kind} {what}"
        # An id that is that long, or has two lines, came from outside and names nothing.
        if len(message.encode()) <= _LONGEST_MESSAGE and "\n" not in message:
            self.messages[message] = None


class _ReadingSession(PostgresSession):
    """A session that reads, and says so where the database cannot be reached any more."""

    def __init__(self, connection: Connection, revision: int | None = None) -> None:
        super().__init__(connection)
        self._raw = connection
        self._revision = revision

    def last_revision(self) -> int:
        """See :class:`Session`."""
        if self._revision is None:
            raise RuntimeError("which changes it sees is known to a session only that was opened for that")
        return self._revision

    def rows(self, statement: str, **parameters: Any) -> list[Row]:
        """See :class:`Session`."""
        with told():
            return super().rows(statement, **parameters)

    def rows_of(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """See :class:`Session`."""
        with told():
            return super().rows_of(statement, values)

    def row(self, statement: str, **parameters: Any) -> Row | None:
        """See :class:`Session`."""
        with told():
            return super().row(statement, **parameters)

    def each(self, statement: str, size: int, **parameters: Any) -> Iterator[list[Row]]:
        """See :class:`Session`."""
        with told():
            yield from self._raw.each(statement, size, parameters)


class PostgresBackend:
    """A PostgreSQL database; see :class:`mirror_server.store.backend.Backend`.

    Args:
        url: ``postgresql://user:password@host:port/name``, or whatever libpq takes.
        branches: What it is to have the newest schema of, the core first. Nothing is done to tables of others.

    Raises:
        DatabaseError: The database cannot be reached, or is not for this user to write.
    """

    is_shared = True

    def __init__(self, url: str, branches: Sequence[Branch]) -> None:
        self.process_id = uuid.uuid4().hex[:16]
        self.is_leader = True
        self._election: PostgresElection | None = None
        self._url = url
        _bring_to_newest_schema(url, branches)
        self._connection = self._connect_writer()
        self.writing: _WritingSession = _WritingSession(self)
        self._group = 0
        self._mark_work = ""
        self._hurries = threading.Event()
        self._readers: set[Connection] = set()
        self._idle_readers: list[Connection] = []
        self._idle_lookers: list[Connection] = []
        self._connect_again_at = 0.0

    def execute(self, statement: str, parameters: Parameters = (), /) -> Cursor:
        """Execute a statement of the thread that writes, on the connection it has at this moment."""
        return self._connection.execute(statement, parameters)

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> Cursor:
        """Execute a statement of the thread that writes, once for each set of parameters."""
        return self._connection.executemany(statement, parameters)

    def begin(self, touched: Collection[str] | None) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self.writing.messages.clear()
        token = self._begin(_locks_of(touched))
        self._group += 1
        self.is_leader = self._election is None or token == self._election.token
        self._mark_work = "SAVEPOINT work"

    def begin_work(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._connection.run(self._mark_work)
        # One way to the database and back instead of two: the mark is moved by the next part.
        self._mark_work = "RELEASE work; SAVEPOINT work"

    def end_work(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`; the end of the transaction keeps it as well."""

    def undo_work(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._connection.run("ROLLBACK TO work; SELECT pg_advisory_unlock_all()")

    def commit(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        payloads = map(self._connection.quoted, _payloads(self.process_id, list(self.writing.messages)))
        now = time.time_ns() // 1_000_000
        end = _END.format(process_id=self.process_id, group=self._group, now=now, payloads=",".join(payloads))
        try:
            self._connection.run(end)
        except psycopg.OperationalError:
            if self._connection.is_usable or not self._was_committed():
                raise

    def rest(self) -> None:
        """Nothing is left to do here."""

    def undo(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        if self._connection.is_usable:
            self._connection.run(_UNDO)

    def is_of_storage(self, error: BaseException) -> bool:
        """See :class:`~mirror_server.store.backend.Backend`."""
        return is_of_storage(error)

    @contextmanager
    def read(self, *, with_revision: bool = False) -> Iterator[Session]:
        """See :class:`~mirror_server.store.backend.Backend`."""
        connection, found = self._begin_reading(_BEGIN_READING_NUMBERS if with_revision else _BEGIN_READING)
        try:
            yield _ReadingSession(connection, _number_of(connection, found) if found else None)
        finally:
            self._end_reading(connection)

    def version(self) -> Hashable:
        """See :class:`~mirror_server.store.backend.Backend`."""
        return self._on_reader(_version)

    def look(self, statement: Callable[[Session], T]) -> T:
        """See :class:`~mirror_server.store.backend.Backend`."""
        return self._on_reader(lambda connection: statement(_ReadingSession(connection)))

    def purge(self) -> bool:
        """Free the room of what was deleted; what the server's log and backups still hold is the operator's."""
        connection = Connection(self._url)
        try:
            is_unseen = self._wait_until_unseen(connection)
            connection.run("VACUUM")
        finally:
            connection.close()
        return is_unseen

    def election(self) -> PostgresElection:
        """Take part in the election of a leader; what insists is stored only while this process is the leader.

        Raises:
            DatabaseError: The database cannot be opened.
        """
        self._election = PostgresElection(self._url, self.process_id)
        return self._election

    def damage(self, session: Session) -> list[Violation]:  # noqa: ARG002 - other kinds look
        """Nothing: PostgreSQL keeps to its foreign keys, and has pg_amcheck for its files."""
        return []

    def backup(self, path: Path) -> None:
        """Refused: PostgreSQL has its own tools."""
        raise DatabaseError(f"cannot write {path}: use pg_dump for a PostgreSQL database, and pg_restore")

    def is_served(self) -> bool:
        """See :class:`~mirror_server.store.backend.Backend`."""
        with self.read() as session:
            return processes.any_alive(session)

    def hurry(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._hurries.set()

    def close(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        # Also those of answers that nobody has read to their end.
        while self._readers:
            self._readers.pop().close()
        self._connection.close()

    def _wait_until_unseen(self, connection: Connection) -> bool:
        """Wait until nobody sees any more what is deleted by now, which VACUUM has to leave; false if that is long."""
        (now,) = connection.execute("SELECT CAST(CAST(pg_current_xact_id() AS xid) AS text)").fetchone()
        end_at = time.monotonic() + _BUSY_SECONDS
        while connection.execute(_SEEN, {"now": now}).fetchone()[0]:
            if time.monotonic() > end_at:
                return False
            self._hurries.wait(_LOOK_AGAIN_SECONDS)
        return True

    def _begin(self, touched: str) -> str | None:
        """Begin when those are done whom it has to wait for, on a new connection where the one of before is broken."""
        command = _BEGIN.format(touched=touched)
        try:
            found = self._connection.run(command)
        except psycopg.OperationalError:
            if self._connection.is_usable:
                raise
            self._connection = self._connect_writer()
            found = self._connection.run(command)
        return None if found is None else found[0]

    def _was_committed(self) -> bool:
        """Whether the transaction whose end was not answered is on disk; waits until PostgreSQL can tell."""
        while True:
            try:
                # With the lock, the transaction is over, one way or the other.
                self._begin(_ALONE)
                return processes.last_group(self.writing, self.process_id) == self._group
            except (psycopg.Error, StorageFailed):
                _log.debug("PostgreSQL cannot tell yet what it stored", exc_info=True)
            finally:
                with suppress(psycopg.Error):
                    self.undo()
            if self._hurries.wait(_CONNECT_AGAIN_SECONDS):
                return False

    def _connect_writer(self) -> Connection:
        connection = Connection(self._url)
        connection.run(_WRITING_OPTIONS)
        return connection

    def _on_reader(self, ask: Callable[[Connection], T]) -> T:
        """What a single statement gives; connections that broke while they were idle are dropped."""
        for connection in _taken(self._idle_lookers):
            with suppress(StorageFailed):
                return self._answer_on(connection, ask)
        connection = self._new_reader()
        try:
            connection.run(_LOOKING_OPTIONS)
        except psycopg.Error as error:
            self._drop(connection)
            raise unreachable() from error
        return self._answer_on(connection, ask)

    def _answer_on(self, connection: Connection, ask: Callable[[Connection], T]) -> T:
        try:
            answer = ask(connection)
        except StorageFailed:
            self._drop(connection)
            raise
        except Exception:
            self._idle_lookers.append(connection)
            raise
        self._idle_lookers.append(connection)
        return answer

    def _begin_reading(self, command: str) -> tuple[Connection, Row | None]:
        """A connection in a transaction, and what its beginning found; those that broke while idle are dropped."""
        for connection in _taken(self._idle_readers):
            try:
                return connection, connection.run(command)
            except psycopg.Error:
                self._drop(connection)
        connection = self._new_reader()
        try:
            return connection, connection.run(command)
        except psycopg.Error as error:
            self._drop(connection)
            raise unreachable() from error

    def _new_reader(self) -> Connection:
        if time.monotonic() < self._connect_again_at:
            # The thread of the web server must not wait again and again for a database that is not there.
            raise unreachable()
        try:
            connection = Connection(self._url)
        except StorageFailed:
            self._connect_again_at = time.monotonic() + _CONNECT_AGAIN_SECONDS
            raise
        self._readers.add(connection)
        return connection

    def _end_reading(self, connection: Connection) -> None:
        try:
            connection.run("ROLLBACK")
        except psycopg.Error:
            self._drop(connection)
        else:
            self._idle_readers.append(connection)

    def _drop(self, connection: Connection) -> None:
        self._readers.discard(connection)
        connection.close()


def _taken(idle: list[Connection]) -> Iterator[Connection]:
    """The connections that are idle, one after the other, until one of them serves."""
    # Other threads take some too.
    with suppress(IndexError):
        while True:
            yield idle.pop()


def _number_of(connection: Connection, found: Row) -> int:
    """The number up to which it sees all changes, where it can be had that of the newest one that it sees.

    It is smaller where a transaction ended between the two looks, and so it is looked again, a few times.
    """
    number, is_newest = found
    with told():
        for _ in range(_MOST_LOOKS):
            if is_newest:
                break
            number, is_newest = connection.run(_BEGIN_AGAIN) or (number, True)
    return int(number)


def _version(connection: Connection) -> Hashable:
    with told():
        return connection.version()


def _bring_to_newest_schema(url: str, branches: Sequence[Branch]) -> None:
    """Make or change the schema where it is behind, in one transaction; where another process does so, wait for it."""
    connection = opened(url)
    try:
        if connection.server_version < _OLDEST_VERSION:
            raise DatabaseError(
                f"cannot use the database {shown(url)}: PostgreSQL {_OLDEST_VERSION // 10_000} is needed"
            )
        _check_sessions(connection, url)
        if outdated := schema.outdated(shown(url), branches, schema.versions(connection, _TABLES, branches)):
            from mirror_server.store import migrate  # noqa: PLC0415 - takes long to import, and is rarely needed

            migrate.upgrade("postgresql+psycopg", lambda: _connect_for_schema(url), shown(url), outdated)
    except psycopg.Error as error:
        raise DatabaseError(f"cannot prepare the database {shown(url)}: {reason_of(error)}; {_cure(error)}") from error
    finally:
        connection.close()


def _check_sessions(connection: Connection, url: str) -> None:
    """Check that each connection is a session of its own, which locks and LISTEN need.

    A pooler in transaction mode gives a setting of one connection to another, or takes it away. Which of its own
    connections it picks depends on what else it serves, so this is tried a few times.

    Raises:
        DatabaseError: A pooler does not keep them apart.
    """
    other = opened(url)
    try:
        for _ in range(_SESSION_CHECKS):
            mark = uuid.uuid4().hex
            connection.run(f"SET mirror.session = '{mark}'")
            other.run("BEGIN")
            is_shared = other.run(_SESSION) == (mark,) or connection.run(_SESSION) != (mark,)
            other.run("ROLLBACK")
            if is_shared:
                raise DatabaseError(
                    f"cannot use the database {shown(url)} through a pooler in transaction mode, as PgBouncer's"
                    " pool_mode = transaction: locks and LISTEN belong to a session; connect to PostgreSQL itself, or"
                    " set pool_mode = session"
                )
    finally:
        other.close()


def _connect_for_schema(url: str) -> Any:
    raw = psycopg.connect(url, connect_timeout=CONNECT_SECONDS)
    try:
        # Neither for another process nor for a table that is in use does it wait for ever.
        raw.execute(f"SET lock_timeout = '{schema.UPGRADE_SECONDS * 1000:.0f}ms'".encode())
        # Processes that start together must not both change the schema.
        raw.execute("SELECT pg_advisory_lock(%s)", (_SCHEMA_LOCK,))
        raw.commit()
    except psycopg.Error:
        raw.close()
        raise
    return raw


def _cure(error: psycopg.Error) -> str:
    """What to do about a database whose schema could not be changed; nothing was."""
    if isinstance(error, errors.InsufficientPrivilege):
        return "its user must be allowed to make tables in it"
    if isinstance(error, errors.LockNotAvailable):
        return "another process uses it; stop all processes of the earlier version, and start again"
    return "nothing was changed; see PostgreSQL's log, and start again"


def _locks_of(touched: Collection[str] | None) -> str:
    """The numbers of the locks of what is touched, in an order that all keep to; or that it has to be alone."""
    numbers = () if touched is None else sorted({zlib.crc32(each.encode()) - 2**31 for each in touched})
    if touched is None or len(numbers) > _MOST_TOUCHED:
        return _ALONE
    return f"'{{{','.join(map(str, numbers))}}}'"


def _payloads(process_id: str, messages: Sequence[str]) -> Iterator[str]:
    """The messages, in as few notifications as their length allows."""
    lines, size = [process_id], len(process_id)
    for message in messages:
        added = 1 + len(message.encode())
        if size + added > _LONGEST_PAYLOAD:
            yield "\n".join(lines)
            lines, size = [process_id], len(process_id)
        lines.append(message)
        size += added
    if len(lines) > 1:
        yield "\n".join(lines)
