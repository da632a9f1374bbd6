"""A SQLite file and its companion files: the lock of its server, checks for damage, and copies."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
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

DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM})

LARGE_BYTES = 64 * 2**20
"""The size from which a file is not checked again if it is as its last process left it. The check takes 5 s per GB."""

_CHECKED_AGAIN_SECONDS = 7 * 86_400

DAMAGED_CURE = "'mirror-server check' lists the damage; restore a backup, or use another file"


_served_here: set[Path] = set()


class ServingLock:
    """The lock of a server on its database. The operating system releases the lock when the process ends.

    The lock consists of two locks. One locks a separate file, which only its owner may lock. The other locks the
    database file itself, which is the same file under all its hard links. Both locks follow symbolic links, and do not
    affect SQLite's own locks.

    Args:
        database_path: The path of the database file. The file is created if it does not exist.

    Raises:
        AlreadyServed: Another process serves the database.
        DatabaseError: The lock cannot be created.
    """

    def __init__(self, database_path: Path) -> None:
        path = database_path.resolve()
        cure = "use a file in a folder that you can write to"
        if not path.parent.is_dir():
            # The lock would create the folder, although its name may be mistyped.
            raise DatabaseError(f"cannot open the database {database_path}: there is no such folder; {cure}")
        lock = _named_lock(path)
        try:
            with ExitStack() as stack:
                lock_file = Path(lock.lock_file)
                # If other users could lock this file, they could prevent the server from starting.
                if lock_file.exists() and lock_file.stat().st_mode & 0o777 != _OWNER_ALONE:
                    lock_file.chmod(_OWNER_ALONE)
                stack.enter_context(lock)
                stack.callback(os.close, _file_lock(path))
                self._locks = stack.pop_all()
        except Timeout:
            raise AlreadyServed(
                f"another process serves the database {database_path}; stop that process first, or use another database"
            ) from None
        except OSError as error:
            raise DatabaseError(f"cannot open the database {database_path}: {error}; {cure}") from error
        _served_here.add(path)
        self._locks.callback(_served_here.discard, path)

    def release(self) -> None:
        """Release the lock. Close the database first, because this call also releases SQLite's own locks."""
        self._locks.close()


def is_served_by_name(database_path: Path) -> bool:
    """Return whether a process, possibly this one, serves the file under this name."""
    lock = _named_lock(database_path.resolve())
    # Trying to acquire the lock would create its file.
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock:
            return False
    except Timeout:
        return True


def is_served_elsewhere(database_path: Path) -> bool:
    """Return whether another process serves the file."""
    return database_path.resolve() not in _served_here and is_served_by_name(database_path)


def reject_other_name(database_path: Path) -> None:
    """Reject a file that is in use under another name, which is a hard link.

    SQLite keeps a separate log for each name, so writes under two names damage the file.

    Raises:
        DatabaseError: The file is served under another name, or the log of another name still contains changes.
    """
    if not database_path.exists() or database_path.stat().st_nlink == 1:
        return
    if not is_served_by_name(database_path):
        try:
            os.close(_file_lock(database_path))
        except Timeout:
            raise DatabaseError(
                f"another process serves the database {database_path} under another name of the same file (a hard"
                " link); use that name"
            ) from None
    path = database_path.resolve()
    for log in path.parent.glob("*-wal"):
        name = log.with_name(log.name.removesuffix("-wal"))
        if name.name != path.name and log.stat().st_size and name.exists() and name.samefile(path):
            raise DatabaseError(
                f"some changes to the database {path} are in the log of {name.name}, another name of the same file (a"
                f" hard link); open it by that name first: mirror-server check --database sqlite:///{name}"
            )


def _named_lock(path: Path) -> FileLock:
    # The thread that releases the lock may differ from the thread that acquired it.
    return FileLock(path.with_name(f"{path.name}.lock"), timeout=0, mode=_OWNER_ALONE, thread_local=False)


def _file_lock(path: Path) -> int:
    """Lock the database file itself. Return the descriptor, which the caller has to close.

    Raises:
        Timeout: Another process has locked the file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, _OWNER_ALONE)
    # On Windows, this lock would prevent SQLite from opening the file.
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Timeout(str(path)) from None
    return descriptor


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return an identifier of a file that does not depend on its name, or ``None`` if the file does not exist.

    Raises:
        StorageFailed: The file cannot be checked.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageFailed(f"cannot find its database: {error.strerror}") from error
    return found.st_dev, found.st_ino


def note_checked(path: Path, checked_at: float) -> None:
    """Note the state of a large file that was checked at this time, so that it is not checked again too soon.

    The caller has closed its connections. A file that another process still uses is not noted.
    """
    path = path.resolve()
    # Without the note, the file is checked again.
    with suppress(OSError):
        if path.stat().st_size >= LARGE_BYTES and not _has_log(path):
            note = _note_of(path)
            note.touch(mode=_OWNER_ALONE)
            note.write_text(f"{checked_at} {_state_of(path)}", encoding="ascii")


def take_note(path: Path) -> float | None:
    """Remove the note of :func:`note_checked`, and return when the file was checked.

    A process that is killed therefore leaves no note. The result is ``None`` if the file has changed since the note was
    written, or if the check was long ago: the disk may have damaged the file without a change of its state.
    """
    path = path.resolve()
    note = _note_of(path)
    try:
        noted = note.read_bytes().decode(errors="replace")
        note.unlink()
        checked_at, _, state = noted.partition(" ")
        is_recent = 0 <= time.time() - float(checked_at) < _CHECKED_AGAIN_SECONDS
        return float(checked_at) if is_recent and state == _state_of(path) and not _has_log(path) else None
    except (OSError, ValueError):
        return None


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _state_of(path: Path) -> str:
    found = path.stat()
    # A copy has another inode, and a changed file another time of change, which programs cannot set.
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _has_log(path: Path) -> bool:
    """Return whether changes may be in the write-ahead log, which the last connection deletes when it closes."""
    return path.with_name(f"{path.name}-wal").exists()


def damaged_tables(path: Path) -> list[Violation]:
    """Return the tables that SQLite reports as damaged. The file is not changed.

    Raises:
        DatabaseError: The file cannot be read, or is served under another name.
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
                # The check of the complete file does not name the tables.
                found = of_tables
    except sqlite3.Error as error:
        if code_of(error) not in DAMAGED:
            raise unopened(path, error) from error
        found = {kind: [str(error)]}
    if any(found.values()):
        _note_of(path.resolve()).unlink(missing_ok=True)
    return [Violation(each, len(lines), lines[:MOST_EXAMPLES]) for each, lines in found.items() if lines]


def complaints_of(connection: sqlite3.Connection, check: str) -> list[str]:
    """Return the findings of an SQLite check, one per line. SQLite reports at most a hundred findings."""
    try:
        said = connection.execute(f"PRAGMA {check}").fetchall()
    except sqlite3.DatabaseError as error:
        if code_of(error) not in DAMAGED:
            raise
        return [str(error)]
    lines = [line for (text,) in said for line in text.splitlines()]
    # Lines with asterisks are headings.
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def code_of(error: BaseException) -> int:
    """Return the primary code of an SQLite error, or 0 for any other error."""
    # The lowest byte is the primary code. The other bytes contain details.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0


def unopened(path: Path, error: sqlite3.Error | OSError) -> DatabaseError:
    """Return the error for a file that cannot be opened."""
    return DatabaseError(f"cannot open the database {path}: {error}; {_cure(error)}")


def _cure(error: sqlite3.Error | OSError) -> str:
    """Return a suggested fix for a file that cannot be opened."""
    if code_of(error) in DAMAGED:
        return DAMAGED_CURE
    if code_of(error) in IN_USE:
        return "another program has locked it; stop that program, or try again when it has finished"
    if code_of(error) in _NO_ROOM:
        return "nothing was changed; free space on its disk, and start again"
    if isinstance(error, OSError) or code_of(error) in STORAGE_CODES:
        return "use a file in a folder that you can write to"
    return "nothing was changed; keep the file for a bug report, and restore a backup"


def copy(source: Path, path: Path, branches: Sequence[Branch]) -> None:
    """Copy the database in a file into a new file. The source is only read.

    Raises:
        DatabaseError: The source is not a database, is damaged, or has an unsupported version. The new file already
            exists or cannot be written.
    """
    reject_other_name(source)
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            # Rejects a database of a newer version.
            schema.outdated(str(source), branches, dict(connection.execute(schema.VERSIONS).fetchall()))
            if complaints := complaints_of(connection, "quick_check(1)"):
                raise DatabaseError(f"{source} is damaged: {complaints[0]}; use another backup")
            copy_of(connection, path)
    except sqlite3.Error as error:
        cure = "use a file that 'mirror-server backup' wrote"
        raise DatabaseError(f"{source} is not a backup of a mirror: {error}; {cure}") from error


def copy_of(source: sqlite3.Connection, path: Path) -> None:
    """Copy a database into a new file. The file receives its final name when it is complete."""
    _reject_locked(path)
    # The temporary file is in the same folder, so that it can be renamed.
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    os.close(descriptor)
    part = Path(name)
    try:
        with closing(sqlite3.connect(part)) as target:
            source.backup(target)
        # A rename would overwrite a file that was created in the meantime.
        _reject_locked(path)
        part.rename(path)
    except (sqlite3.Error, OSError) as error:
        raise _unwritable(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def _reject_locked(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise DatabaseError(f"{path} already exists; choose a new file name")


def _unwritable(path: Path, error: Exception) -> DatabaseError:
    return DatabaseError(f"cannot write {path}: {error}; free disk space, or choose a folder that you can write to")
