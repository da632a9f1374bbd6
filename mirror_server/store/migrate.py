"""Applies migrations. Loaded only where a schema is behind: Alembic and SQLAlchemy take long to import.

``python -m mirror_server.store.migrate`` writes the ``schema.sql`` of each branch, from which new SQLite files are
made. Run it after any change of a migration; with ``NAME FOLDER`` behind it for that of another package's extension.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mirror_server.store import schema
from mirror_server.store.schema import Branch

_HEAD = """\
-- The newest schema of a SQLite file, made from the migrations beside it by
--     python -m mirror_server.store.migrate
-- which is to be run again after any change of a migration.
"""


def upgrade_file(path: Path, branches: Iterable[Branch]) -> None:
    """Apply, in order, the migrations of these branches that a SQLite file lacks, all in one transaction.

    Raises:
        DatabaseError: A newer version wrote the file.
        sqlite3.Error: It could not be changed; nothing was.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=schema.UPGRADE_SECONDS)
    with closing(connection), _engine("sqlite", lambda: connection) as engine:
        # By itself the driver begins a transaction with the first INSERT only, and each change of the schema before
        # that is on disk at once.
        event.listen(engine, "begin", lambda begun: begun.exec_driver_sql("BEGIN IMMEDIATE"))
        with engine.begin() as begun:
            connection.execute("PRAGMA secure_delete = ON")
            _run(begun, branches, str(path))


def upgrade(dialect: str, connect: Callable[[], Any], name: str, branches: Iterable[Branch]) -> None:
    """Apply, in order, the migrations of these branches that a database lacks, all in one transaction.

    Args:
        dialect: What it is for SQLAlchemy, with the driver.
        connect: Makes the connection.
        name: The database, for a message.
        branches: Those to bring to their newest versions.

    Raises:
        DatabaseError: A newer version wrote the database.
        Exception: It could not be changed, as the driver says; nothing was.
    """
    with _engine(dialect, connect) as engine, engine.begin() as begun:
        _run(begun, branches, name)


def script(branch: Branch) -> str:
    """The statements that make the newest schema in an empty SQLite file, as the migrations make it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        upgrade_file(path, [branch])
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


def _run(connection: Connection, branches: Iterable[Branch], name: str) -> None:
    for branch in branches:
        config = Config()
        config.set_main_option("script_location", str(schema.MIGRATIONS))
        config.set_main_option("version_locations", str(branch.folder / "versions"))
        config.set_main_option("path_separator", "newline")
        config.attributes.update(connection=connection, version_table=branch.version_table)
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise schema.newer_version(name, error) from error


def _branches_of_files() -> Iterator[Branch]:
    for found in Path(__file__).parent.parent.rglob("migrations/schema.sql"):
        folder = found.parent
        yield schema.CORE if folder == schema.CORE.folder else Branch(folder.parent.name, folder)


if __name__ == "__main__":
    for each in [Branch(sys.argv[1], Path(sys.argv[2]))] if sys.argv[1:] else _branches_of_files():
        each.script.write_text(script(each), encoding="utf-8")
