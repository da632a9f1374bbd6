"""Opening a database: its URL, its connections, its schema version."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError

from mirror_server.store.failures import DatabaseError
from mirror_server.store.migrate import upgrade
from mirror_server.store.session import Session
from mirror_server.store.writer import Writer

T = TypeVar("T")

DEFAULT_URL = "sqlite:///mirror.db"
_PREFIX = "sqlite:///"
_BUSY_SECONDS = 10


class Database:
    """An open database: any number of threads read, one writes.

    Args:
        url: ``sqlite:///relative/file.db`` or ``sqlite:////absolute/file.db``. The file is made where there is none,
            and brought to the newest schema.

    Raises:
        DatabaseError: The URL is of another kind, or the file cannot be opened or written.
    """

    def __init__(self, url: str = DEFAULT_URL) -> None:
        self._path = path_of(url)
        try:
            upgrade(self._path)
            self._writer_connection = self._connect()
        except CommandError as error:
            raise DatabaseError(
                f"the database {self._path} was written by a newer version ({error}); install that one, or restore a"
                " backup from before"
            ) from error
        except (sqlite3.Error, DBAPIError, OSError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise DatabaseError(
                f"cannot open the database {self._path}: {cause}; name a file in a folder you may write to"
            ) from error
        self._idle_readers: list[sqlite3.Connection] = []
        self._writer = Writer(Session(self._writer_connection))

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database for as long as it is open."""
        with self._reader() as connection:
            connection.execute("BEGIN")
            try:
                yield Session(connection)
            finally:
                connection.execute("ROLLBACK")

    def submit(self, work: Callable[[Session], T]) -> Future[T]:
        """Run ``work`` in a transaction of its own or a shared one; see :meth:`Writer.submit`."""
        return self._writer.submit(work)

    def insist(self, work: Callable[[Session], T]) -> Future[T]:
        """Run ``work``, and where it cannot be stored, again and again until it can; see :meth:`Writer.submit`."""
        return self._writer.submit(work, insists=True)

    def write(self, work: Callable[[Session], T], timeout_seconds: float = 30) -> T:
        """Run ``work`` and wait until it is on disk. Not for the thread of the web server."""
        return self._writer.submit(work).result(timeout_seconds)

    def settle(self, timeout_seconds: float = 30) -> bool:
        """Wait until all submitted work and what it caused is done; see :meth:`Writer.settle`."""
        return self._writer.settle(timeout_seconds)

    def count_waiting(self) -> int:
        """How many pieces of work wait to be stored."""
        return self._writer.count_waiting()

    def checkpoint(self) -> bool:
        """Bring everything into the database file and empty the log beside it, which still holds what was deleted.

        Returns:
            Whether it could be emptied: false when somebody reads for long, a snapshot for instance.
        """
        with closing(self._connect()) as connection:
            is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    def backup(self, path: Path) -> None:
        """Copy the database, as of one instant, into a new file; others may go on using it meanwhile.

        Raises:
            DatabaseError: The file is there already, or cannot be written.
        """
        with self._reader() as source:
            _copy(source, path)

    def close(self) -> None:
        """Finish the submitted work and close all connections."""
        self._writer.close()
        while self._idle_readers:
            self._idle_readers.pop().close()
        self._writer_connection.close()

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A connection that only reads, taken out of those that are idle; there are as many as read at once."""
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        try:
            yield connection
        finally:
            self._idle_readers.append(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS, cached_statements=512
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # What is deleted may be personal data: overwritten, not only forgotten.
        connection.execute("PRAGMA secure_delete = ON")
        return connection


def copy(source: Path, path: Path) -> None:
    """Copy the database in a file, which is only read, into a new file.

    Raises:
        DatabaseError: It is no database, or the new file is there already or cannot be written.
    """
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            connection.execute("SELECT count(*) FROM alembic_version")
        except sqlite3.Error as error:
            raise DatabaseError(f"{source} is no backup of a mirror: {error}; name one that 'backup' wrote") from error
        _copy(connection, path)


def _copy(source: sqlite3.Connection, path: Path) -> None:
    if path.exists():
        raise DatabaseError(f"{path} is there already; name a file that is not")
    try:
        with closing(sqlite3.connect(path)) as target:
            source.backup(target)
    except (sqlite3.Error, OSError) as error:
        # A part of a database is none.
        path.unlink(missing_ok=True)
        raise DatabaseError(f"cannot write {path}: {error}; make room, or name a file where you may write") from error


def path_of(url: str) -> Path:
    """The file a database URL names.

    Raises:
        DatabaseError: The URL is of another kind.
    """
    if not url.startswith(_PREFIX) or url == _PREFIX:
        raise DatabaseError(f"cannot use the database {url!r}: write it as sqlite:///FILE, like {DEFAULT_URL}")
    return Path(url.removeprefix(_PREFIX))
