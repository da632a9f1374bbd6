"""The SQLite file: its connections, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from mirror_server.store import schema
from mirror_server.store.backend import MOST_EXAMPLES, DatabaseError, StorageFailed, Violation
from mirror_server.store.maintenance import found_in
from mirror_server.store.schema import Branch
from mirror_server.store.session import Session
from mirror_server.store.sqlite.checkpoints import LARGEST_LOG_PAGES, Checkpoints
from mirror_server.store.sqlite.log_file import LogFile
from mirror_server.store.sqlite.serving_lock import is_served_by_name, is_served_elsewhere, refuse_other_name

T = TypeVar("T")

_BUSY_SECONDS = 10
_LOOK_AGAIN_SECONDS = 0.01

# What a group of work changes stays in memory until it is committed; the 2 MB of the default are 500 pages.
_WRITER_CACHE_KIB = 32 * 1024
_PAGE_BYTES = 4096

_STORAGE_CODES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM})

_DAMAGED_CURE = "'mirror-server check' tells what is damaged; restore a backup, or name another file"

_LOST = {
    "a row points to a device that is not there": "SELECT \"table\" || ' ' || rowid FROM pragma_foreign_key_check",
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
"""Changes of these decide the subscribers of a resource; see the store's ``subscriptions.subscribers``."""


class _Reader(Session):
    """A session that only reads."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.close = connection.close


class _Writer(Session):
    """The session that writes, which knows whether what decides who hears of a resource was written by anybody."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._writes = 0
        connection.create_function(_NOTE_WRITE, 0, self._note_write)
        for number, what in enumerate(_DECIDING_WRITES):
            connection.execute(f"CREATE TEMP TRIGGER deciding_{number} AFTER {what} BEGIN SELECT {_NOTE_WRITE}(); END")

    def subscribers_version(self) -> Hashable:
        """See :class:`Session`; what this connection undid counts as written."""
        # The number is that of what other connections committed, such as the commands of an operator.
        return self.scalar("PRAGMA data_version"), self._writes

    def _note_write(self) -> None:
        self._writes += 1


class SqliteBackend:
    """A database in a file; see :class:`mirror_server.store.backend.Backend`.

    Args:
        path: The file, which is made where there is none.
        branches: What it is to have the newest schema of, the core first. Nothing is done to tables of others.
        must_exist: Whether none is made.
        as_it_is: Whether its schema stays that of an older version, to be copied.

    Raises:
        DatabaseError: The file cannot be opened or written, or is not there though it must be, or another process
            serves it with an older schema.
    """

    def __init__(
        self, path: Path, branches: Sequence[Branch], *, must_exist: bool = False, as_it_is: bool = False
    ) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        if must_exist and not path.exists():
            raise DatabaseError(f"there is no database {path}; name with --database the one that is served")
        if must_exist and not path.stat().st_size:
            raise DatabaseError(f"there is no database in {path}: it is empty; name another file, or restore a backup")
        try:
            refuse_other_name(path)
            with suppress(FileExistsError):
                _make_private(path)
            _bring_to_newest_schema(path, branches, as_it_is=as_it_is)
            self._connection = self._connect()
            self._connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
            self._file = _identity(path)
        except (sqlite3.Error, OSError) as error:
            raise _unopened(path, error) from error
        self._checkpoints = Checkpoints(self._connection, self._connect)
        self._log_file = LogFile(path, self._connection, largest_bytes=LARGEST_LOG_PAGES * _PAGE_BYTES)
        self.writing = Session(self._connection) if as_it_is else _Writer(self._connection)
        self._idle_readers: list[_Reader] = []

    process_id = "the only one"
    is_shared = False
    is_leader = True

    def begin(self, touched: Collection[str] | None) -> None:  # noqa: ARG002 - one process writes, and one thread of it
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._connection.execute("BEGIN IMMEDIATE")

    def begin_work(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._connection.execute("SAVEPOINT work")

    def end_work(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._connection.execute("RELEASE work")

    def undo_work(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._connection.execute("ROLLBACK TO work")
        self._connection.execute("RELEASE work")

    def commit(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._refuse_other_file()
        self._connection.execute("COMMIT")
        self._checkpoints.look()

    def rest(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        with suppress(StorageFailed):
            # The log beside another file is that of another database.
            self._refuse_other_file()
            self._log_file.look()

    def undo(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def is_of_storage(self, error: BaseException) -> bool:
        """See :class:`~mirror_server.store.backend.Backend`."""
        return _code(error) in _STORAGE_CODES or isinstance(error, StorageFailed)

    @contextmanager
    def read(self, *, with_revision: bool = False) -> Iterator[Session]:  # noqa: ARG002 - it always knows
        """See :class:`~mirror_server.store.backend.Backend`."""
        session = self._take_reader()
        try:
            session.run("BEGIN")
            try:
                yield session
            finally:
                session.run("ROLLBACK")
        finally:
            self._idle_readers.append(session)

    def version(self) -> Hashable:
        """See :class:`~mirror_server.store.backend.Backend`."""
        session = self._take_reader()
        try:
            # Each connection counts for itself what others committed.
            return id(session), session.scalar("PRAGMA data_version")
        finally:
            self._idle_readers.append(session)

    def look(self, statement: Callable[[Session], T]) -> T:
        """See :class:`~mirror_server.store.backend.Backend`."""
        session = self._take_reader()
        try:
            return statement(session)
        finally:
            self._idle_readers.append(session)

    def purge(self) -> bool:
        """Bring everything into the database file and empty the log beside it, which still holds what was deleted."""
        with closing(self._connect()) as connection:
            is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    def damage(self, session: Session) -> list[Violation]:
        """See :class:`~mirror_server.store.backend.Backend`."""
        return list(found_in(session, _LOST))

    def backup(self, path: Path) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        with closing(self._connect()) as source:
            _copy(source, path)

    def is_served(self) -> bool:
        """See :class:`~mirror_server.store.backend.Backend`."""
        return is_served_by_name(self._path)

    def hurry(self) -> None:
        """Nothing is waited for here."""

    def close(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        while self._idle_readers:
            self._idle_readers.pop().close()
        self._checkpoints.close()
        self._connection.close()

    def _take_reader(self) -> _Reader:
        """A session that only reads, out of those that are idle; there are as many as read at once."""
        try:
            return self._idle_readers.pop()
        except IndexError:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            return _Reader(connection)

    def _refuse_other_file(self) -> None:
        """Refuse to go on with a file that has lost its name: what is written there is gone when it is closed.

        Raises:
            StorageFailed: It was removed, or another one is in its place, or that cannot be found out.
        """
        if self._file is not None and self._file != (found := _identity(self._path)):
            happened, else_ = "removed", "restore a backup"
            if found is not None:
                # Who put a copy there means it, and would start on it without telling readers that numbers are lost.
                happened, else_ = "replaced by another one", "restore a backup, or keep the other one by 'went-back'"
            # Applications are told too, and are not to know where it is.
            raise StorageFailed(
                f"cannot use its database, whose file was {happened} while it is served; its operator has to put the"
                f" file back under its name, or to stop the server and {else_}"
            )

    def _connect(self) -> sqlite3.Connection:
        self._refuse_other_file()
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS, cached_statements=512
        )
        _keep_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # What is deleted may be personal data: overwritten, not only forgotten.
        connection.execute("PRAGMA secure_delete = ON")
        return connection


def damaged_tables(path: Path) -> list[Violation]:
    """Which tables of a file SQLite calls damaged; the file is only read.

    Raises:
        DatabaseError: It cannot be read at all, or is served under another name.
    """
    refuse_other_name(path)
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA query_only = ON")
            whole = _complaints(connection, "integrity_check")
            return list(_complaints_by_table(connection)) or _told_of("the file is damaged", whole)
    except sqlite3.Error as error:
        if _code(error) not in _DAMAGED:
            raise _unopened(path, error) from error
        return _told_of("the file is damaged", [str(error)])


def _complaints_by_table(connection: sqlite3.Connection) -> Iterator[Violation]:
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        yield from _told_of(f"the table {table} is damaged", _complaints(connection, f"integrity_check({table!r})"))


def _complaints(connection: sqlite3.Connection, check: str) -> list[str]:
    """What SQLite says is wrong, a line for each; it stops at a hundred."""
    try:
        said = connection.execute(f"PRAGMA {check}").fetchall()
    except sqlite3.DatabaseError as error:
        if _code(error) not in _DAMAGED:
            raise
        return [str(error)]
    lines = [line for (text,) in said for line in text.splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def _told_of(kind: str, complaints: list[str]) -> list[Violation]:
    return [Violation(kind, len(complaints), complaints[:MOST_EXAMPLES])] if complaints else []


def _bring_to_newest_schema(path: Path, branches: Sequence[Branch], *, as_it_is: bool) -> None:
    """Make the schema in a new file, or change that of an older one; where others do so now, wait for them.

    Either is one transaction from the look at what is there, so that whatever interrupts it changes nothing.
    """
    with closing(sqlite3.connect(path, isolation_level=None, timeout=schema.UPGRADE_SECONDS)) as connection:
        # Going on with a file that is damaged would damage it more, and spoil the next backup.
        if complaints := _complaints(connection, "quick_check(1)"):
            raise DatabaseError(f"cannot open the database {path}: {complaints[0]}; {_DAMAGED_CURE}")
        found = _versions(connection)
        if not schema.outdated(str(path), branches, found) or (as_it_is and found):
            return
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("BEGIN IMMEDIATE")
        found = _versions(connection)
        outdated = schema.outdated(str(path), branches, found)
        if branches[0].name not in found and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise DatabaseError(
                f"cannot use the database {path}: its tables are not a mirror's, so another program may have made it;"
                " nothing was changed; name another file, or restore a backup"
            )
        # A server that runs without an extension is not disturbed by its tables.
        if any(branch.name in found for branch in outdated) and is_served_elsewhere(path):
            raise DatabaseError(
                f"the database {path} has the schema of an older version, whose server runs; stop that one first"
                " ('mirror-server backup' copies it as it is)"
            )
        schema.upgrade(partial(_run_script, connection), outdated, found)
        connection.execute("COMMIT")


def _versions(connection: sqlite3.Connection) -> dict[str, str]:
    """The version that a file has of each branch."""
    is_there = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (schema.TABLE,)).fetchone()[0]
    return dict(connection.execute(schema.VERSIONS).fetchall()) if is_there else {}


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Execute statements in the transaction that is open, which sqlite3's own way to do so would end first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def _keep_log(connection: sqlite3.Connection) -> None:
    """Write changes to a log beside the file first.

    For the change to that SQLite itself waits for readers, but not for a writer, who may be about to do the same.
    """
    end_at = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _code(error) not in _IN_USE or time.monotonic() > end_at:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)
        else:
            return


def _code(error: BaseException) -> int:
    """The kind of an error of SQLite; 0 of any other."""
    # The lowest byte is the kind of error, the others tell more of it.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0


def _unopened(path: Path, error: sqlite3.Error | OSError) -> DatabaseError:
    return DatabaseError(f"cannot open the database {path}: {error}; {_cure(error)}")


def _cure(error: sqlite3.Error | OSError) -> str:
    """What to do about a file that cannot be opened; nothing was changed."""
    if _code(error) in _DAMAGED:
        return _DAMAGED_CURE
    if _code(error) in _IN_USE:
        return "another program holds it; stop that one, or try again when it is done"
    if _code(error) in _NO_ROOM:
        return "nothing was changed; make room on its disk, and start again"
    if isinstance(error, OSError) or _code(error) in _STORAGE_CODES:
        return "name a file in a folder you may write to"
    return "nothing was changed; keep the file for a report, and restore a backup"


def copy(source: Path, path: Path, branches: Sequence[Branch]) -> None:
    """Copy the database in a file, which is only read, into a new file.

    Raises:
        DatabaseError: It is no database, a damaged one or one of a version that is not known, or the new file is there
            already or cannot be written.
    """
    refuse_other_name(source)
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            schema.outdated(str(source), branches, dict(connection.execute(schema.VERSIONS).fetchall()))
            if complaints := _complaints(connection, "quick_check(1)"):
                raise DatabaseError(f"{source} is damaged: {complaints[0]}; name another backup")
            _copy(connection, path)
    except sqlite3.Error as error:
        raise DatabaseError(f"{source} is no backup of a mirror: {error}; name one that 'backup' wrote") from error


def _copy(source: sqlite3.Connection, path: Path) -> None:
    """Copy the database into a new file, which has its name only when it is whole."""
    _refuse_taken(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    os.close(descriptor)
    part = Path(name)
    try:
        with closing(sqlite3.connect(part)) as target:
            source.backup(target)
        _refuse_taken(path)
        part.rename(path)
    except (sqlite3.Error, OSError) as error:
        raise _unwritable(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def _refuse_taken(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise DatabaseError(f"{path} is there already; name a file that is not")


def _unwritable(path: Path, error: Exception) -> DatabaseError:
    return DatabaseError(f"cannot write {path}: {error}; make room, or name a file where you may write")


def _identity(path: Path) -> tuple[int, int] | None:
    """Tells a file from all others, whatever its name; ``None`` where there is none.

    Raises:
        StorageFailed: That cannot be found out.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageFailed(f"cannot find its database: {error.strerror}") from error
    return found.st_dev, found.st_ino


def _make_private(path: Path) -> None:
    """Make the empty file that SQLite fills; nobody else may read it, nor the files SQLite puts beside it."""
    path.touch(mode=0o600, exist_ok=False)
