"""A SQLite file and the files beside it: who serves it, what is damaged, and copies of it."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from filelock import FileLock, Timeout

from mirror_server.store import schema
from mirror_server.store.backend import MOST_EXAMPLES, AlreadyServed, DatabaseError, StorageFailed, Violation
from mirror_server.store.schema import Branch

if sys.platform != "win32":
    import fcntl

_log = logging.getLogger(__name__)

BUSY_SECONDS = 10
_OWNER_ALONE = 0o600

STORAGE_CODES = frozenset(
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
IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM})

DAMAGED_CURE = "'mirror-server check' lists the damage; restore a backup, or name another file"


_served_here: set[Path] = set()


class ServingLock:
    """Held from the start of a server to its end; the system lets go of it when the process dies.

    It is two locks. One is on a file beside the database's own, which only its owner may lock. The other one is on the
    database's file, whatever it is called, so that it is the same for all its hard links; SQLite's own locks, of
    another kind, go on beside it. Symbolic links are followed for both.

    Args:
        database_path: The database's file, which is made where there is none.

    Raises:
        AlreadyServed: Another process serves the database.
        DatabaseError: The lock cannot be made.
    """

    def __init__(self, database_path: Path) -> None:
        path = database_path.resolve()
        cure = "name a file in a folder you may write to"
        if not path.parent.is_dir():
            # The lock would make the folder, which may be one nobody meant.
            raise DatabaseError(f"cannot open the database {database_path}: there is no such folder; {cure}")
        lock = _lock_beside(path)
        try:
            with ExitStack() as held:
                lock_file = Path(lock.lock_file)
                # Whoever else could lock it could keep the server from starting.
                if lock_file.exists() and lock_file.stat().st_mode & 0o777 != _OWNER_ALONE:
                    lock_file.chmod(_OWNER_ALONE)
                held.enter_context(lock)
                held.callback(os.close, _lock_itself(path))
                self._held = held.pop_all()
        except Timeout:
            raise AlreadyServed(
                f"another process serves the database {database_path}; stop that one first, or name another database"
            ) from None
        except OSError as error:
            raise DatabaseError(f"cannot open the database {database_path}: {error}; {cure}") from error
        _served_here.add(path)
        self._held.callback(_served_here.discard, path)

    def release(self) -> None:
        """Let another process serve the database; it is to be closed before, as this ends SQLite's locks on it too."""
        self._held.close()


def is_served_by_name(database_path: Path) -> bool:
    """Whether a process, perhaps this one, serves the file under this name."""
    lock = _lock_beside(database_path.resolve())
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock:
            return False
    except Timeout:
        return True


def is_served_elsewhere(database_path: Path) -> bool:
    """Whether another process serves the file."""
    return database_path.resolve() not in _served_here and is_served_by_name(database_path)


def reject_other_name(database_path: Path) -> None:
    """Refuse a file that is used under another one of its names, hard links.

    SQLite keeps a log beside the file for each name: who writes by two of them damages the file.

    Raises:
        DatabaseError: It is served by another name than this, or was, and the log in the same folder holds changes.
    """
    if not database_path.exists() or database_path.stat().st_nlink == 1:
        return
    if not is_served_by_name(database_path):
        try:
            os.close(_lock_itself(database_path))
        except Timeout:
            raise DatabaseError(
                f"the database {database_path} is served under another name of the same file, a hard link; use that"
                " name"
            ) from None
    path = database_path.resolve()
    for log in path.parent.glob("*-wal"):
        name = log.with_name(log.name.removesuffix("-wal"))
        if name.name != path.name and log.stat().st_size and name.exists() and name.samefile(path):
            raise DatabaseError(
                f"changes of the database {path} are in the log of {name.name}, another name of the same file; open it"
                f" by that name first: mirror-server check --database sqlite:///{name}"
            )


def _lock_beside(path: Path) -> FileLock:
    # Whoever closes the server may be another thread than the one that opened it.
    return FileLock(path.with_name(f"{path.name}.lock"), timeout=0, mode=_OWNER_ALONE, thread_local=False)


def _lock_itself(path: Path) -> int:
    """Lock the database's own file; gives the descriptor to close.

    Raises:
        Timeout: Another process has locked it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, _OWNER_ALONE)
    # A lock of Windows would keep SQLite from the file.
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Timeout(str(path)) from None
    return descriptor


def identity_of(path: Path) -> tuple[int, int] | None:
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


def damaged_tables(path: Path) -> list[Violation]:
    """Find the tables that SQLite calls damaged; the file is only read.

    Raises:
        DatabaseError: It cannot be read at all, or is served under another name.
    """
    reject_other_name(path)
    kind = "the file is damaged"
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            connection.execute("PRAGMA query_only = ON")
            found = {kind: complaints_of(connection, "integrity_check")}
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            of_tables = {
                f"the table {table} is damaged": complaints_of(connection, f"integrity_check({table!r})")
                for (table,) in tables
            }
            if any(of_tables.values()):
                found = of_tables
    except sqlite3.Error as error:
        if code_of(error) not in _DAMAGED:
            raise unopened(path, error) from error
        found = {kind: [str(error)]}
    return [Violation(each, len(told), told[:MOST_EXAMPLES]) for each, told in found.items() if told]


def complaints_of(connection: sqlite3.Connection, check: str) -> list[str]:
    """Return what a check of SQLite finds wrong, one per line; it stops at a hundred."""
    try:
        said = connection.execute(f"PRAGMA {check}").fetchall()
    except sqlite3.DatabaseError as error:
        if code_of(error) not in _DAMAGED:
            raise
        return [str(error)]
    lines = [line for (text,) in said for line in text.splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def code_of(error: BaseException) -> int:
    """The kind of an error of SQLite; 0 of any other."""
    # The lowest byte is the kind of error, the others tell more of it.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0


def unopened(path: Path, error: sqlite3.Error | OSError) -> DatabaseError:
    """The error for a file that cannot be opened."""
    return DatabaseError(f"cannot open the database {path}: {error}; {_cure(error)}")


def _cure(error: sqlite3.Error | OSError) -> str:
    """Say what to do about a file that cannot be opened; nothing was changed."""
    if code_of(error) in _DAMAGED:
        return DAMAGED_CURE
    if code_of(error) in IN_USE:
        return "another program holds it; stop that one, or try again when it is done"
    if code_of(error) in _NO_ROOM:
        return "nothing was changed; make room on its disk, and start again"
    if isinstance(error, OSError) or code_of(error) in STORAGE_CODES:
        return "name a file in a folder you may write to"
    return "nothing was changed; keep the file for a report, and restore a backup"


def copy(source: Path, path: Path, branches: Sequence[Branch]) -> None:
    """Copy the database in a file, which is only read, into a new file.

    Raises:
        DatabaseError: It is not a database, a damaged one or one of a version that is not known, or the new file
            exists already or cannot be written.
    """
    reject_other_name(source)
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            schema.outdated(str(source), branches, dict(connection.execute(schema.VERSIONS).fetchall()))
            if complaints := complaints_of(connection, "quick_check(1)"):
                raise DatabaseError(f"{source} is damaged: {complaints[0]}; name another backup")
            copy_of(connection, path)
    except sqlite3.Error as error:
        raise DatabaseError(f"{source} is not a backup of a mirror: {error}; name one that 'backup' wrote") from error


def copy_of(source: sqlite3.Connection, path: Path) -> None:
    """Copy the database into a new file, which has its name only when it is whole."""
    _reject_locked(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    os.close(descriptor)
    part = Path(name)
    try:
        with closing(sqlite3.connect(part)) as target:
            source.backup(target)
        _reject_locked(path)
        part.rename(path)
    except (sqlite3.Error, OSError) as error:
        raise _unwritable(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def _reject_locked(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise DatabaseError(f"{path} exists already; name a new file")


def _unwritable(path: Path, error: Exception) -> DatabaseError:
    return DatabaseError(f"cannot write {path}: {error}; make room, or name a file where you may write")
