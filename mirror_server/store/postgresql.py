"""A PostgreSQL database: its connections, and what its errors mean."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg
from alembic.util import CommandError
from psycopg import errors
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg.types.string import StrDumper
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from mirror_server.store.failures import DatabaseError, StorageFailed
from mirror_server.store.migrate import newer_version, upgrade
from mirror_server.store.session import Cursor, Session

_WRITING_LOCK = 0x6D6972726F7201
_SCHEMA_LOCK = 0x6D6972726F7202
_SERVING_LOCK = 0x6D6972726F7203

_CONNECT_SECONDS = 5
_CONNECT_AGAIN_SECONDS = 0.5
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_OPTIONS = {
    "autocommit": True,
    "connect_timeout": _CONNECT_SECONDS,
    "application_name": "mirror-server",
    # A machine that is gone is noticed within half a minute, not after two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
# A process that stands still in the middle of a transaction must not hold up all others for ever.
_WRITING_OPTIONS = (
    "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s';"
    " SET client_connection_check_interval = '1s'"
)


class _TextDumper(StrDumper):
    """PostgreSQL has no NUL in texts; its picture stands for it."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\N{SYMBOL FOR NULL}"))


class Connection:
    """A connection that takes the statements of the store, with their parameters written as ``:name``."""

    def __init__(self, url: str) -> None:
        try:
            self._raw = psycopg.connect(url, **_OPTIONS)  # type: ignore[arg-type] # options of several types
        except psycopg.Error as error:
            raise _unreachable(error) from error
        # One type for all numbers, so that a statement is prepared once and not for each size of number.
        self._raw.adapters.register_dumper(int, Int8Dumper)
        self._raw.adapters.register_dumper(int, Int8BinaryDumper)
        self._raw.adapters.register_dumper(str, _TextDumper)

    def execute(self, statement: str, parameters: Mapping[str, Any] = {}, /) -> Cursor:
        """Execute a statement."""
        return self._raw.execute(_translated(statement), parameters, binary=True)

    def executemany(self, statement: str, parameters: Sequence[Mapping[str, Any]], /) -> None:
        """Execute a statement once for each set of parameters."""
        self._raw.cursor().executemany(_translated(statement), parameters)

    def run(self, command: str) -> None:
        """Execute commands that have neither parameters nor a result."""
        self._raw.execute(command.encode(), prepare=False)

    @property
    def is_usable(self) -> bool:
        """Whether the connection has not been found broken."""
        return not self._raw.closed

    def close(self) -> None:
        """Close it, broken or not."""
        with suppress(psycopg.Error):
            self._raw.close()


class PostgresBackend:
    """A PostgreSQL database; see :class:`mirror_server.store.backend.Backend`.

    Args:
        url: ``postgresql://user:password@host:port/name``, or whatever libpq takes.

    Raises:
        DatabaseError: The database cannot be reached, or is not for this user to write.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        _bring_to_newest_schema(url)
        self._connection = self._connect_writer()
        self.writing = Session(self)
        self._idle_readers: list[Connection] = []
        self._connect_again_at = 0.0

    def execute(self, statement: str, parameters: Mapping[str, Any] = {}, /) -> Cursor:
        """Execute a statement of the thread that writes, on the connection it has at this moment."""
        return self._connection.execute(statement, parameters)

    def executemany(self, statement: str, parameters: Sequence[Mapping[str, Any]], /) -> None:
        """Execute a statement of the thread that writes, once for each set of parameters."""
        self._connection.executemany(statement, parameters)

    def begin(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        if not self._connection.is_usable:
            self._connection = self._connect_writer()
        self._connection.run("BEGIN")
        # Whoever writes holds this lock to the end of the transaction: all processes together write as one would.
        self._connection.execute("SELECT pg_advisory_xact_lock(:lock)", {"lock": _WRITING_LOCK})

    def commit(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        self._connection.run("COMMIT")

    def undo(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        if self._connection.is_usable:
            self._connection.run("ROLLBACK")

    def is_of_storage(self, error: BaseException) -> bool:
        """See :class:`~mirror_server.store.backend.Backend`."""
        return _is_of_storage(error)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """See :class:`~mirror_server.store.backend.Backend`."""
        connection = self._begin_reading()
        try:
            yield Session(connection)
        except psycopg.Error as error:
            if _is_of_storage(error):
                raise _unreachable(error) from error
            raise
        finally:
            self._end_reading(connection)

    def purge(self) -> None:
        """Free the room of what was deleted; what the server's log and backups still hold is the operator's."""
        connection = Connection(self._url)
        try:
            connection.run("VACUUM")
        finally:
            connection.close()

    def damage(self, session: Session) -> list[str]:  # noqa: ARG002 - other kinds look
        """Nothing: PostgreSQL keeps to its foreign keys, and has pg_amcheck for its files."""
        return []

    def backup(self, path: Path) -> None:
        """Refused: PostgreSQL has its own tools."""
        raise DatabaseError(f"cannot write {path}: use pg_dump for a PostgreSQL database, and pg_restore")

    def close(self) -> None:
        """See :class:`~mirror_server.store.backend.Backend`."""
        while self._idle_readers:
            self._idle_readers.pop().close()
        self._connection.close()

    def _connect_writer(self) -> Connection:
        connection = Connection(self._url)
        connection.run(_WRITING_OPTIONS)
        return connection

    def _begin_reading(self) -> Connection:
        """A connection in a transaction; those that broke while they were idle are dropped."""
        while self._idle_readers:
            connection = self._idle_readers.pop()
            with suppress(psycopg.Error):
                connection.run("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
                return connection
            connection.close()
        if time.monotonic() < self._connect_again_at:
            # The thread of the web server must not wait again and again for a database that is not there.
            raise StorageFailed("cannot reach its database")
        try:
            connection = Connection(self._url)
        except StorageFailed:
            self._connect_again_at = time.monotonic() + _CONNECT_AGAIN_SECONDS
            raise
        connection.run("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        return connection

    def _end_reading(self, connection: Connection) -> None:
        try:
            connection.run("ROLLBACK")
        except psycopg.Error:
            connection.close()
        else:
            self._idle_readers.append(connection)


class ServingSession:
    """The right to serve a database; PostgreSQL takes it back when the process dies.

    Raises:
        DatabaseError: Another process serves the database, or it cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self._connection = _opened(url)
        row = self._connection.execute("SELECT pg_try_advisory_lock(:lock)", {"lock": _SERVING_LOCK}).fetchone()
        if not row[0]:
            self._connection.close()
            raise DatabaseError(
                f"another process serves the database {shown(url)}; stop that one first, or name another database"
            )

    def release(self) -> None:
        """Let another process serve the database."""
        with suppress(psycopg.Error):
            # PostgreSQL would do it by itself, but a moment after the connection is closed.
            self._connection.execute("SELECT pg_advisory_unlock(:lock)", {"lock": _SERVING_LOCK})
        self._connection.close()


def shown(url: str) -> str:
    """The URL without its password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1@", re.sub(r"([?&]password=)[^&]*", r"\1...", url))


def _opened(url: str) -> Connection:
    try:
        return Connection(url)
    except StorageFailed as error:
        cause = error.__cause__
        reason = next(iter(str(cause).splitlines()), "no answer")
        raise DatabaseError(
            f"cannot open the database {shown(url)}: {reason}; check that PostgreSQL runs there and takes this user"
        ) from cause


def _bring_to_newest_schema(url: str) -> None:
    _opened(url).close()

    def connect() -> Any:
        raw = psycopg.connect(url, connect_timeout=_CONNECT_SECONDS)
        # Processes that start together must not both change the schema.
        raw.execute("SELECT pg_advisory_lock(%s)", (_SCHEMA_LOCK,))
        raw.commit()
        return raw

    try:
        upgrade(URL.create("postgresql+psycopg"), connect=connect)
    except CommandError as error:
        raise newer_version(shown(url), error) from error
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = next(iter(str(cause).splitlines()), "")
        raise DatabaseError(
            f"cannot prepare the database {shown(url)}: {reason}; its user must be allowed to make tables in it"
        ) from error


@lru_cache(maxsize=4096)
def _translated(statement: str) -> bytes:
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%")).encode()


def _is_of_storage(error: BaseException) -> bool:
    return isinstance(
        error,
        (
            StorageFailed,
            psycopg.OperationalError,
            psycopg.InterfaceError,
            errors.ReadOnlySqlTransaction,
            errors.IdleInTransactionSessionTimeout,
        ),
    )


def _unreachable(error: psycopg.Error) -> StorageFailed:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return StorageFailed(f"cannot reach its database ({reason})")
