"""A connection to PostgreSQL that executes the statements of the store, and the classification of its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors
from psycopg.pq import Escaping, ExecStatus, Format
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg.types.string import StrBinaryDumper, StrDumper

from mirror_server.store.backend import DatabaseError, StorageFailed, redacted
from mirror_server.store.session import Cursor, Parameters, Row

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

CHANNEL = "mirror"
"""The NOTIFY channel for messages between the processes."""

END = "end"
"""The message that a process sends to itself to stop waiting for messages when it ends."""

CONNECT_SECONDS = 5
_VERSION = b"version"
_VERSION_STATEMENT = b"SELECT pg_postmaster_start_time(), pg_current_snapshot()"
_RECOVERED_STATEMENT = b"SELECT pg_stat_get_bgwriter_stat_reset_time()"
"""The statement that returns the time of the last recovery from a crash.

After a recovery, PostgreSQL reuses the numbers of transactions that were not stored.
"""
# Does not match a cast such as ``::text``.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_OPTIONS = {
    "autocommit": True,
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "mirror-server",
    # With these values, a lost connection is noticed within half a minute instead of two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


class _TextDumper(StrDumper):
    """Replaces NUL characters by their symbol, because strings in PostgreSQL cannot contain them."""

    def dump(self, obj: str) -> Any:
        return super().dump(_without_nul(obj))


class _BinaryTextDumper(StrBinaryDumper):
    """Does the same as :class:`_TextDumper` in the binary format, which avoids quoting in large arrays."""

    def dump(self, obj: str) -> Any:
        return super().dump(_without_nul(obj))


class PostgreSQLConnection:
    """A connection that executes the statements of the store. Parameters are written ``:name`` or ``?``."""

    def __init__(self, url: str) -> None:
        try:
            self._raw = psycopg.connect(url, **_OPTIONS)  # type: ignore[arg-type] # options of several types
        except psycopg.Error as error:
            raise unreachable() from error
        # All numbers have one type, so that a statement is prepared only once and not for each size of number.
        self._raw.adapters.register_dumper(int, Int8Dumper)
        self._raw.adapters.register_dumper(int, Int8BinaryDumper)
        self._raw.adapters.register_dumper(str, _TextDumper)
        self._raw.adapters.register_dumper(str, _BinaryTextDumper)
        self._raw.adapters.register_dumper(list, ListBinaryDumper)
        self._numbers = count(1)
        self._recovered_at: bytes | None = None

    def execute(self, statement: str, parameters: Parameters = (), /) -> Cursor:
        """Execute a statement."""
        return self._raw.execute(_translated(statement), parameters, binary=True)

    def each(self, statement: str, size: int, parameters: Mapping[str, Any]) -> Iterator[list[Any]]:
        """Yield the rows of the result in batches. PostgreSQL holds the remaining rows in a cursor."""
        with self._raw.cursor(f"each_{next(self._numbers)}", binary=True) as cursor:
            cursor.execute(_translated(statement), parameters)
            while rows := cursor.fetchmany(size):
                yield rows

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> Cursor:
        """Execute a statement once for each set of parameters."""
        if len(parameters) == 1:
            return self.execute(statement, parameters[0])
        cursor = self._raw.cursor()
        cursor.executemany(_translated(statement), parameters)
        return cursor

    def quoted(self, text: str) -> str:
        """Quote a string for use in a command of :meth:`run`."""
        return Escaping(self._raw.pgconn).escape_literal(_without_nul(text).encode()).decode()

    def run(self, commands: str) -> Row | None:
        """Execute commands without parameters in one message. Return the first row of the last result, if any."""
        # A prepared statement cannot contain several commands.
        cursor = self._raw.execute(commands.encode(), prepare=False)
        while cursor.nextset():
            pass
        return cursor.fetchone() if cursor.description else None

    def version(self) -> tuple[bytes | None, ...]:
        """Return a token of the currently visible transactions. It stays the same until the next commit.

        Almost every request needs the token, so the statement is prepared and its raw result is returned. A cursor
        would need twice the time and four times the CPU time.
        """
        raw = self._raw.pgconn
        if self._recovered_at is None:
            _check(raw.prepare(_VERSION, _VERSION_STATEMENT), ExecStatus.COMMAND_OK)
            # This is read only once, because no connection survives a crash.
            self._recovered_at = _check(raw.exec_(_RECOVERED_STATEMENT), ExecStatus.TUPLES_OK).get_value(0, 0) or b""
        result = _check(raw.exec_prepared(_VERSION, None, None, Format.BINARY), ExecStatus.TUPLES_OK)
        return result.get_value(0, 0), self._recovered_at, result.get_value(0, 1)

    def notifications(self, seconds: float) -> Iterator[str]:
        """Yield the payloads of the NOTIFY messages that arrive within this number of seconds."""
        for notification in self._raw.notifies(timeout=seconds):
            yield notification.payload

    @property
    def server_version(self) -> int:
        """The version of the PostgreSQL server as a number, for example 150004 for 15.4."""
        return self._raw.info.server_version

    @property
    def is_usable(self) -> bool:
        """Whether the connection can still be used, as far as is known."""
        return not self._raw.closed

    def close(self) -> None:
        """Close the connection, even if it is broken."""
        with suppress(psycopg.Error):
            self._raw.close()


def opened(url: str) -> PostgreSQLConnection:
    """Open a connection at the start of a program.

    Raises:
        DatabaseError: The database cannot be reached, does not exist or rejects this user.
    """
    try:
        return PostgreSQLConnection(url)
    except StorageFailed as error:
        # The driver may repeat the URL in its message, including the password.
        reason = reason_of(error).replace(url, redacted(url))
        raise DatabaseError(
            f"cannot open the database {redacted(url)}: {reason}; check that PostgreSQL runs there, and accepts this"
            " user"
        ) from error


def _check(result: PGresult, expected: ExecStatus) -> PGresult:
    """Return the result of a valid statement. If the statement failed, the connection must have failed."""
    if result.status != expected:
        raise psycopg.OperationalError(result.get_error_message())
    return result


def _without_nul(text: str) -> str:
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


@lru_cache(maxsize=4096)
def _translated(statement: str) -> bytes:
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%")).replace("?", "%s").encode()


def is_storage_error(error: BaseException) -> bool:
    """Return whether the disk or the connection caused an error, and not the statement."""
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


def reason_of(error: BaseException) -> str:
    """Return the reason why a connection failed, as one line for the operator."""
    cause = error.__cause__ if isinstance(error, StorageFailed) else error
    return next(iter(str(cause).splitlines()), "no response")


def unreachable() -> StorageFailed:
    """Return the error for applications. The address of the database and the reason appear only in the log."""
    return StorageFailed("cannot reach its database")


@contextmanager
def storage_errors() -> Iterator[None]:
    """Convert errors of the disk or of the connection to :class:`StorageFailed`, the error for applications.

    Raises:
        StorageFailed: The disk or the connection caused an error.
    """
    try:
        yield
    except psycopg.Error as error:
        if is_storage_error(error):
            raise unreachable() from error
        raise
