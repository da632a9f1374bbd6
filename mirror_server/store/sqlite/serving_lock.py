"""One process only serves a database: two would deliver everything twice."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from filelock import FileLock, Timeout

from mirror_server.store.backend import AlreadyServed, DatabaseError

if sys.platform != "win32":
    import fcntl

_OWNER_ALONE = 0o600

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
        if not database_path.resolve().parent.is_dir():
            # The lock would make the folder, which may be one nobody meant.
            raise DatabaseError(
                f"cannot open the database {database_path}: there is no such folder; name a file in a folder you may"
                " write to"
            )
        self._lock = _lock_beside(database_path)
        try:
            self._acquire(database_path)
        except Timeout:
            raise AlreadyServed(
                f"another process serves the database {database_path}; stop that one first, or name another database"
            ) from None
        except OSError as error:
            raise DatabaseError(
                f"cannot open the database {database_path}: {error}; name a file in a folder you may write to"
            ) from error
        self._path = database_path.resolve()
        _served_here.add(self._path)

    def release(self) -> None:
        """Let another process serve the database; it is to be closed before, as this ends SQLite's locks on it too."""
        _served_here.discard(self._path)
        _close(self._descriptor)
        self._lock.release()

    def _acquire(self, database_path: Path) -> None:
        _withdraw_rights(Path(self._lock.lock_file))
        self._lock.acquire()
        try:
            self._descriptor = _lock_itself(database_path)
        except BaseException:
            self._lock.release()
            raise


def is_served_elsewhere(database_path: Path) -> bool:
    """Whether another process serves the file."""
    return database_path.resolve() not in _served_here and is_served_by_name(database_path)


def refuse_other_name(database_path: Path) -> None:
    """Refuse a file that is used under another one of its names, hard links.

    SQLite keeps a log beside the file for each name: who writes by two of them damages the file.

    Raises:
        DatabaseError: It is served by another name than this, or was, and the log in the same folder holds changes.
    """
    if not database_path.exists() or database_path.stat().st_nlink == 1:
        return
    if not is_served_by_name(database_path):
        _refuse_served(database_path)
    _refuse_other_log(database_path.resolve())


def _refuse_served(database_path: Path) -> None:
    try:
        _close(_lock_itself(database_path))
    except Timeout:
        raise DatabaseError(
            f"the database {database_path} is served under another name of the same file, a hard link; use that name"
        ) from None


def _refuse_other_log(path: Path) -> None:
    for log in path.parent.glob("*-wal"):
        name = log.with_name(log.name.removesuffix("-wal"))
        if name.name != path.name and log.stat().st_size and name.exists() and name.samefile(path):
            raise DatabaseError(
                f"changes of the database {path} are in the log of {name.name}, another name of the same file; open it"
                f" by that name first: mirror-server check --database sqlite:///{name}"
            )


def is_served_by_name(database_path: Path) -> bool:
    """Whether a process, perhaps this one, serves the file under this name."""
    lock = _lock_beside(database_path)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock:
            return False
    except Timeout:
        return True


def _lock_beside(database_path: Path) -> FileLock:
    path = database_path.resolve()
    # Whoever closes the server may be another thread than the one that opened it.
    return FileLock(path.with_name(f"{path.name}.lock"), timeout=0, mode=_OWNER_ALONE, thread_local=False)


def _withdraw_rights(lock_file: Path) -> None:
    """Leave a lock that is there to its owner alone: whoever else could lock it could keep the server from starting."""
    if lock_file.exists() and lock_file.stat().st_mode & 0o777 != _OWNER_ALONE:
        lock_file.chmod(_OWNER_ALONE)


if sys.platform == "win32":

    def _lock_itself(database_path: Path) -> int | None:
        """Nothing: a lock of Windows would keep SQLite from the file."""

else:

    def _lock_itself(database_path: Path) -> int | None:
        """Lock the database's own file; gives the descriptor to close.

        Raises:
            Timeout: Another process has locked it.
        """
        descriptor = os.open(database_path, os.O_RDONLY | os.O_CREAT, _OWNER_ALONE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Timeout(str(database_path)) from None
        return descriptor


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
