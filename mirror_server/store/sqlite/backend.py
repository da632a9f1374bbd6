"""The SQLite backend, which opens connections to a file that one process serves."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mirror_server.store import schema
from mirror_server.store.backend import (
    AlreadyServed,
    Backend,
    DatabaseError,
    Location,
    StorageFailed,
    Violation,
    path_of,
)
from mirror_server.store.maintenance import found_in
from mirror_server.store.schema import Branch
from mirror_server.store.session import Row, Session
from mirror_server.store.sqlite.files import (
    BUSY_SECONDS,
    DAMAGED,
    DAMAGED_CURE,
    IN_USE,
    STORAGE_CODES,
    ServingLock,
    code_of,
    complaints_of,
    copy_of,
    damaged_tables,
    identity_of,
    is_served_by_name,
    is_served_elsewhere,
    note_checked,
    reject_other_name,
    take_note,
    unopened,
)

T = TypeVar("T")

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.01

# The cache holds all pages that a group of work changes until the commit. SQLite's default of 2 MB is only 500
# pages. With it, SQLite would write changed pages to disk before the commit.
_WRITER_CACHE_KIB = 32 * 1024

# SQLite makes a checkpoint after each 32 MB of the write-ahead log. So a page that changes often is copied to the
# database file only once for many changes.
_CHECKPOINT_PAGES = 8000


_LOST = {
    "a row points to a device that does not exist": "SELECT \"table\" || ' ' || rowid FROM pragma_foreign_key_check",
}


_NOTE_WRITE = "note_deciding_write"
_DECIDING_WRITES = (
    "INSERT ON main.subscriptions",
    "UPDATE ON main.subscriptions",
    "DELETE ON main.subscriptions",
    "INSERT ON main.resources",
    "UPDATE OF subscribed, auto_observed ON main.resources",
    "DELETE ON main.resources",
    "UPDATE OF endpoint_name ON main.devices",
    "DELETE ON main.devices",
)
"""The changes that can affect the subscribers of a resource; see the store's ``subscriptions.subscribers``."""


class _Reader(Session):
    """A session that reads. ``damage_reported`` is a context manager for errors of the file."""

    def __init__(
        self, connection: sqlite3.Connection, damage_reported: Callable[[], AbstractContextManager[None]]
    ) -> None:
        super().__init__(connection)
        self.close = connection.close
        self._damage_reported = damage_reported

    def each(self, statement: str, size: int, **parameters: Any) -> Iterator[list[Row]]:
        # A download reads the rows later than in the ``with`` statement of its session.
        with self._damage_reported():
            yield from super().each(statement, size, **parameters)


class _Writer(Session):
    """The session that writes. It detects changes by any process that can affect the subscribers of a resource."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._writes = 0
        # Triggers also fire for cascaded deletes, and for code that does not use the cache. The triggers are
        # temporary, so that only this connection has them.
        connection.create_function(_NOTE_WRITE, 0, self._note_write)
        for number, change in enumerate(_DECIDING_WRITES):
            connection.execute(
                f"CREATE TEMP TRIGGER deciding_{number} AFTER {change} BEGIN SELECT {_NOTE_WRITE}(); END"
            )

    def subscribers_version(self) -> Hashable:
        """Return a token that changes with the subscribers. Changes that this connection rolled back count too."""
        # ``data_version`` changes with the commits of other connections, such as the commands of an operator.
        return self.scalar("PRAGMA data_version"), self._writes

    def _note_write(self) -> None:
        self._writes += 1


class SqliteBackend:
    """A database in a file. See :class:`mirror_server.store.backend.Backend`.

    Args:
        path: The path of the file. The file is created if it does not exist.
        branches: The branches to upgrade to their newest schema. The core is the first. Other tables are not changed.
        must_exist: Whether a missing file is an error.
        keep_schema: Whether to keep the schema of an older version. Used to copy a database.

    Raises:
        DatabaseError: The file cannot be opened or written, a required file does not exist, the file is damaged, or
            another process serves the file with an older schema.
    """

    def __init__(
        self, path: Path, branches: Sequence[Branch], *, must_exist: bool = False, keep_schema: bool = False
    ) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        # Whether the log already says that the file was removed or replaced.
        self._is_misplaced = False
        self._misplaced_lock = threading.Lock()
        self._is_damaged = self._is_damage_logged = False
        if must_exist and not path.exists():
            raise DatabaseError(f"there is no database {path}; pass the server's database with --database")
        if must_exist and not path.stat().st_size:
            raise DatabaseError(f"the database file {path} is empty; use another file, or restore a backup")
        try:
            reject_other_name(path)
            with suppress(FileExistsError):
                # The file is created before SQLite opens it, so that only its owner can read it and the files that
                # SQLite adds.
                path.touch(mode=0o600, exist_ok=False)
            self._checked_at = _bring_to_newest_schema(path, branches, keep_schema=keep_schema)
            self._connection = self._connect()
            self._connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            self._file = identity_of(path)
        except (sqlite3.Error, OSError) as error:
            raise unopened(path, error) from error
        self.writing = Session(self._connection) if keep_schema else _Writer(self._connection)
        self._idle_readers: list[_Reader] = []
        self._has_savepoint = False

    process_id = "the only one"
    is_shared = False
    is_leader = True

    def begin(self, conflict_keys: Collection[str] | None) -> None:  # noqa: ARG002 - there is one writing thread
        """Begin a write transaction. SQLite allows only one at a time, so the conflict keys are not needed."""
        # If another process writes after a transaction started with a read, the transaction fails when it writes.
        self._connection.execute("BEGIN IMMEDIATE")
        self._has_savepoint = False

    def begin_work(self) -> None:
        """Begin a part of the transaction that can be rolled back separately."""
        # The savepoint of the previous work is released first. In a nested savepoint, SQLite would keep a copy of
        # every page that changes afterwards.
        if self._has_savepoint:
            self._connection.execute("RELEASE work")
        self._connection.execute("SAVEPOINT work")
        self._has_savepoint = True

    def undo_work(self) -> None:
        """Roll back the current part of the transaction."""
        self._connection.execute("ROLLBACK TO work")

    def commit(self) -> None:
        """Commit the transaction to disk, unless the file was removed or replaced."""
        self._reject_other_file()
        self._connection.execute("COMMIT")

    def undo(self) -> None:
        """Roll back the transaction, if one is open."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def is_storage_error(self, error: BaseException) -> bool:
        """Return whether the disk or the file caused an error, and not the SQL statement."""
        self._is_damaged |= code_of(error) in DAMAGED
        return code_of(error) in STORAGE_CODES or isinstance(error, StorageFailed)

    @contextmanager
    def read(self, *, with_revision: bool = False) -> Iterator[Session]:  # noqa: ARG002 - it always knows
        """Return a session that sees one state of the database while it is open."""
        session = self._take_reader()
        try:
            with self._damage_reported():
                session.run("BEGIN")
                try:
                    yield session
                finally:
                    session.run("ROLLBACK")
        finally:
            self._idle_readers.append(session)

    def version(self) -> Hashable:
        """Return a token that changes with every commit of any process."""
        # A connection counts the commits of other connections, so the token must also identify the connection.
        return self.query(lambda session: (id(session), session.scalar("PRAGMA data_version")))

    def query(self, statement: Callable[[Session], T]) -> T:
        """Run one read-only statement outside a transaction."""
        session = self._take_reader()
        try:
            with self._damage_reported():
                return statement(session)
        finally:
            self._idle_readers.append(session)

    def purge(self) -> bool:
        """Write all data to the database file and empty the write-ahead log, which still contains deleted data."""
        # This uses a separate connection, because a checkpoint fails in a transaction, and the writer may have one
        # open.
        end_at = time.monotonic() + BUSY_SECONDS
        with closing(self._connect()) as connection:
            while True:
                is_busy, pages, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                # There is no number of pages while another checkpoint is running.
                if pages >= 0 or time.monotonic() > end_at:
                    return not is_busy
                time.sleep(_RETRY_SECONDS)

    def damage(self, session: Session) -> list[Violation]:
        """Return the rows that refer to a device that does not exist."""
        return list(found_in(session, _LOST))

    def backup(self, path: Path) -> None:
        """Copy the database, in its state at one time, into a new file."""
        with closing(self._connect()) as source:
            copy_of(source, path)

    def is_served(self) -> bool:
        """Return whether any process, including this one, serves the database."""
        return is_served_by_name(self._path)

    def hurry(self) -> None:
        """Do nothing, because this backend never waits."""

    def close(self) -> None:
        """Close all connections."""
        while self._idle_readers:
            self._idle_readers.pop().close()
        self._connection.close()
        with suppress(StorageFailed):
            if self._checked_at is not None and not self._is_damaged and identity_of(self._path) == self._file:
                note_checked(self._path, self._checked_at)

    @contextmanager
    def _damage_reported(self) -> Iterator[None]:
        """Report damage that a read finds, once, with the fix."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if code_of(error) not in DAMAGED:
                raise
            if not self._is_damage_logged:
                _log.error("cannot read the database %s: %s; %s", self._path, error, DAMAGED_CURE)
            self._is_damaged = self._is_damage_logged = True
            # Applications receive this message, and must not learn the path.
            raise StorageFailed(f"cannot read its database: {error}") from error

    def _take_reader(self) -> _Reader:
        """Return an idle read-only session, or a new one. There is one session for each concurrent reader."""
        try:
            # No lock is needed, because append() and pop() of a list are atomic.
            return self._idle_readers.pop()
        except IndexError:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            return _Reader(connection, self._damage_reported)

    def _reject_other_file(self) -> None:
        """Reject a damaged file, and one that has lost its name, because changes to it are lost when it is closed.

        Raises:
            StorageFailed: The file was removed or replaced, or this cannot be checked.
        """
        if self._file is not None and self._file != (found := identity_of(self._path)):
            happened, cure = "removed", "restore a backup"
            if found is not None:
                # The other file is probably a copy. Without mark-restored, readers would not notice lost numbers.
                happened, cure = (
                    "replaced by another file",
                    "restore a backup, or keep the other file with 'mark-restored'",
                )
            reason = f"the file was {happened} after the server started"
            with self._misplaced_lock:
                is_logged, self._is_misplaced = self._is_misplaced, True
            if not is_logged:
                _log.error(
                    "cannot use the database %s, because %s; put the file back, or stop the server and %s",
                    self._path,
                    reason,
                    cure,
                )
            # Applications receive this message, and must not learn the path.
            raise StorageFailed(f"cannot use its database, because {reason}")
        self._is_misplaced = False

    def _connect(self) -> sqlite3.Connection:
        self._reject_other_file()
        # The isolation level is None, because sqlite3 would otherwise begin transactions automatically. Any thread
        # may use an idle connection.
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS, cached_statements=512
        )
        _keep_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # Deleted data may be personal, so SQLite overwrites it.
        connection.execute("PRAGMA secure_delete = ON")
        return connection


def _bring_to_newest_schema(path: Path, branches: Sequence[Branch], *, keep_schema: bool) -> float | None:
    """Create the schema in a new file, or upgrade an older schema. Wait for other processes that do the same.

    One transaction checks the version and applies the changes, so an interruption changes nothing.

    Returns:
        When the file was checked for damage, or ``None`` if it was not, because another process serves it.
    """
    checked_at = take_note(path)
    with closing(sqlite3.connect(path, isolation_level=None, timeout=schema.UPGRADE_SECONDS)) as connection:
        # Using a damaged file would damage it further. A running server has checked its file. A backup must be usable.
        if keep_schema or (checked_at is None and not is_served_elsewhere(path)):
            if complaints := complaints_of(connection, "quick_check(1)"):
                raise DatabaseError(f"cannot open the database {path}: {complaints[0]}; {DAMAGED_CURE}")
            checked_at = time.time()
        found = _versions(connection)
        if not schema.outdated(str(path), branches, found) or (keep_schema and found):
            return checked_at
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have upgraded the schema before this transaction began.
        found = _versions(connection)
        outdated = schema.outdated(str(path), branches, found)
        if branches[0].name not in found and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise DatabaseError(
                f"cannot use the database {path}: its tables are not those of this server, so another program may have"
                " created it; nothing was changed; use another file, or restore a backup"
            )
        # New tables of an extension do not affect a server that runs without the extension.
        older = [branch.name for branch in outdated if branch.name in found]
        if older and is_served_elsewhere(path):
            raise DatabaseError(
                f"the database {path} has {_reason_to_stop(older, branches[0].name)}"
                " ('mirror-server backup' copies the database without an upgrade)"
            )
        schema.upgrade(partial(_run_script, connection), outdated, found)
        connection.execute("COMMIT")
        return checked_at


def _reason_to_stop(older: Sequence[str], core: str) -> str:
    """Return the reason why the running server must stop before these branches are upgraded."""
    if core in older:
        return "the schema of an older version, and a server of that version is running; stop that server first"
    # The server may have the newest version and run without these extensions, so only a command upgrades their tables.
    return (
        f"an older schema of {' and '.join(older)}, which a running server may use; stop that server, repeat this"
        " command, and start the server again"
    )


def _versions(connection: sqlite3.Connection) -> dict[str, str]:
    is_there = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (schema.TABLE,)).fetchone()[0]
    return dict(connection.execute(schema.VERSIONS).fetchall()) if is_there else {}


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Execute statements in the open transaction.

    ``executescript`` of sqlite3 cannot be used, because it commits the transaction first.
    """
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def _keep_log(connection: sqlite3.Connection) -> None:
    """Switch the database to the write-ahead log.

    SQLite itself waits for readers before this change. It does not wait for a writer, which may be making the same
    change, so this function retries.
    """
    end_at = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if code_of(error) not in IN_USE or time.monotonic() > end_at:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


class SqliteLocation(Location):
    """The location of a database file."""

    is_file = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._path = path_of(url)

    def open(self, branches: Sequence[Branch], *, must_exist: bool, keep_schema: bool) -> Backend:
        """Open the database."""
        return SqliteBackend(self._path, branches, must_exist=must_exist, keep_schema=keep_schema)

    def file(self) -> Path:
        """Return the path of the database file."""
        return self._path

    def begin_serving(self) -> Callable[[], None]:
        """Lock the file for this process, and return a function that releases the lock."""
        return ServingLock(self._path).release

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Lock the file, and return a context manager with whether no server runs on it."""
        lock = None
        if self._path.exists():
            with suppress(AlreadyServed):
                lock = ServingLock(self._path)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def damage(self) -> list[Violation]:
        """Return the damage that prevents opening the file. A missing file has no damage."""
        return damaged_tables(self._path) if self._path.exists() else []
