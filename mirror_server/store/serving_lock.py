"""One process only serves a database: two would deliver everything twice."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from mirror_server.store.failures import AlreadyServed, DatabaseError


class ServingLock:
    """Held from the start of a server to its end; the system lets go of it when the process dies.

    It is a file beside the database's own: SQLite's locks would be dropped by opening and closing that one.

    Args:
        database_path: The database's file.

    Raises:
        AlreadyServed: Another process serves the database.
        DatabaseError: The lock cannot be made.
    """

    def __init__(self, database_path: Path) -> None:
        path = database_path.with_name(f"{database_path.name}.lock")
        # Whoever closes the server may be another thread than the one that opened it.
        self._lock = FileLock(path, timeout=0, thread_local=False)
        if not path.parent.is_dir():
            # The lock would make the folder, which may be one nobody meant.
            raise DatabaseError(
                f"cannot open the database {database_path}: there is no such folder; name a file in a folder you may"
                " write to"
            )
        try:
            self._lock.acquire()
        except Timeout:
            raise AlreadyServed(
                f"another process serves the database {database_path}; stop that one first, or name another database"
            ) from None
        except OSError as error:
            raise DatabaseError(
                f"cannot open the database {database_path}: {error}; name a file in a folder you may write to"
            ) from error

    def release(self) -> None:
        """Let another process serve the database."""
        self._lock.release()
