"""Applies migrations. Loaded only where a schema is behind: Alembic and SQLAlchemy take long to import.

``python -m mirror_server.store.migrate`` writes ``migrations/schema.sql``, from which new SQLite files are made; to be
run after any change of a migration.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mirror_server.store import schema
from mirror_server.store.failures import DatabaseError

_log = logging.getLogger(__name__)

_IS_DONE = re.compile(r"(table|index) \S+ already exists|duplicate column name: .*|no such index: .*")
_TABLES_AND_INDEXES = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'index')"

_HEAD = """\
-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
"""


class _Finishing(sqlite3.Cursor):
    """Passes over what was done already.

    Earlier versions of this program put each statement of an upgrade on disk by itself, so that an interruption left
    some of a migration's statements done and its number not written. Nothing was stored in such a file since: none of
    them opened it.
    """

    connection: _FinishingConnection

    def execute(self, statement: str, parameters: Any = (), /) -> Self:
        """Execute a statement that may have been done."""
        try:
            return super().execute(statement, parameters)
        except sqlite3.OperationalError as error:
            if not _IS_DONE.fullmatch(str(error)):
                raise
            self.connection.found_done = True
            return self


class _FinishingConnection(sqlite3.Connection):
    """A connection whose cursors pass over what was done already."""

    found_done = False

    def cursor(self, factory: Any = _Finishing) -> Any:
        """A cursor."""
        return super().cursor(factory)


def upgrade_file(path: Path, revision: str = "head") -> None:
    """Apply, in order, the migrations up to ``revision`` that a SQLite file lacks, in one transaction.

    Of a file that was left in the middle of a migration, what is missing is done.

    Raises:
        DatabaseError: A newer version wrote the file, or it has tables that are not a mirror's.
        sqlite3.Error: It could not be changed; nothing was.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=schema.UPGRADE_SECONDS, factory=_FinishingConnection
    )
    with closing(connection), _engine("sqlite", lambda: connection) as engine:
        # By itself the driver begins a transaction with the first INSERT only, and each change of the schema before
        # that is on disk at once.
        event.listen(engine, "begin", lambda begun: begun.exec_driver_sql("BEGIN IMMEDIATE"))
        with engine.begin() as begun:
            connection.execute("PRAGMA secure_delete = ON")
            try:
                _run(begun, revision, str(path))
            except DBAPIError as error:
                # Not the disk: a statement does not fit what was passed over.
                if connection.found_done and getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR:
                    _refuse_strange_tables(connection, path)
                raise
            if connection.found_done:
                _refuse_strange_tables(connection, path)
                _log.warning("finished an upgrade of the database %s that had been interrupted", path)


def upgrade_postgresql(connect: Callable[[], Any], name: str, revision: str = "head") -> None:
    """Apply, in order, the migrations up to ``revision`` that a PostgreSQL database lacks, in one transaction.

    Args:
        connect: Makes the connection.
        name: The database, for a message.
        revision: The migration to end with.

    Raises:
        DatabaseError: A newer version wrote the database.
        psycopg.Error: It could not be changed; nothing was.
    """
    with _engine("postgresql+psycopg", connect) as engine, engine.begin() as begun:
        _run(begun, revision, name)


def script() -> str:
    """The statements that make the newest schema in an empty SQLite file, as the migrations make it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        upgrade_file(path)
        with closing(sqlite3.connect(path)) as connection:
            lines = "\n".join(connection.iterdump()).splitlines()
    kept = [line.rstrip().replace("\t", "  ") for line in lines if line not in {"BEGIN TRANSACTION;", "COMMIT;"}]
    return _HEAD + "\n".join(kept) + "\n"


@contextmanager
def _engine(dialect: str, connect: Callable[[], Any]) -> Iterator[Engine]:
    """SQLAlchemy on a connection; the errors are the driver's own."""
    try:
        yield create_engine(f"{dialect}://", creator=connect, poolclass=NullPool)
    except DBAPIError as error:
        raise error.orig or error from error


def _run(connection: Connection, revision: str, name: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, revision)
    except CommandError as error:
        raise schema.newer_version(name, error) from error


def _refuse_strange_tables(connection: sqlite3.Connection, path: Path) -> None:
    """What was passed over may have been no migration's, but another program's."""
    with closing(sqlite3.connect(":memory:")) as newest:
        schema.make(newest)
        strange = sorted(_columns(newest) - _columns(connection))
    if strange:
        names = ", ".join(sorted({table for table, *_ in strange}))
        raise DatabaseError(
            f"cannot use the database {path}: its tables are not all a mirror's ({names}), so another program may have"
            " made it; nothing was changed; name another file, or restore a backup"
        )


def _columns(connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    """Each column, of tables and of indexes, with all that is said of it."""
    return {
        (table, *map(repr, column))
        for table, kind in connection.execute(_TABLES_AND_INDEXES).fetchall()
        for column in connection.execute(f"SELECT * FROM pragma_{kind}_info(?)", (table,))
    }


if __name__ == "__main__":
    schema.SCRIPT.write_text(script(), encoding="utf-8")
