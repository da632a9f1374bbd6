"""The branches of the schema, and which of them a database lacks or has an older version of.

A branch is a line of migrations: that of the core, or of an extension that stores something. Each has a version of its
own, so that an extension can be added, left out and added again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mirror_server.store.backend import DatabaseError
from mirror_server.store.session import Connection

MIGRATIONS = Path(__file__).parent / "migrations"

UPGRADE_SECONDS = 60
"""How long one process waits for another one that changes the schema."""


class Branch(NamedTuple):
    """A line of migrations.

    A migration stands in ``versions`` of the folder, in a file that begins with its number; the greatest number is the
    newest version, and the least one makes the first tables. What all of them make of an empty SQLite file stands in
    ``schema.sql``, so that a new file needs none of them: after any change of a migration, ``python -m
    mirror_server.store.migrate`` writes it again.
    """

    name: str
    folder: Path

    @property
    def newest(self) -> str:
        """The newest version that this program knows."""
        return max(path.name.partition("_")[0] for path in (self.folder / "versions").glob("[0-9]*.py"))

    @property
    def script(self) -> Path:
        """The statements that make the newest version in an empty SQLite file."""
        return self.folder / "schema.sql"

    @property
    def version_table(self) -> str:
        """The table of a database that holds the version it has."""
        return "alembic_version" if self.name == "core" else f"alembic_version_{self.name}"


CORE = Branch("core", MIGRATIONS)


def versions(connection: Connection, tables: str, branches: Iterable[Branch]) -> dict[str, str]:
    """Return the version that a database has of each branch, by name; without those it has no tables of.

    Args:
        connection: To the database.
        tables: The statement that gives the names of its tables.
        branches: Those to look for.
    """
    present = {name for (name,) in connection.execute(tables).fetchall()}
    selects = [
        f"SELECT '{branch.name}', version_num FROM {branch.version_table}"
        for branch in branches
        if branch.version_table in present
    ]
    return dict(connection.execute(" UNION ALL ".join(selects)).fetchall()) if selects else {}


def outdated(name: str, branches: Iterable[Branch], found: Mapping[str, str]) -> list[Branch]:
    """Return the branches that a database lacks or has an older version of.

    Args:
        name: The database, for a message.
        branches: Those it is to have.
        found: The versions it has, see :func:`versions`.

    Raises:
        DatabaseError: It has a newer version of one of them.
    """
    behind = []
    for branch in branches:
        version, newest = found.get(branch.name, ""), branch.newest
        if version > newest:
            schema = "its schema" if branch.name == "core" else f"its schema of {branch.name}"
            raise newer_version(name, f"{schema} is {version}, and the newest this one knows is {newest}")
        if version < newest:
            behind.append(branch)
    return behind


def newer_version(name: str, why: object) -> DatabaseError:
    """Return the error for a database whose schema this version does not know."""
    return DatabaseError(
        f"the database {name} was written by a newer version ({why}); install that one, or restore a backup from before"
    )


def make(connection: sqlite3.Connection, branches: Iterable[Branch]) -> None:
    """Make the newest schema in an empty database; the caller holds the transaction."""
    for branch in branches:
        for statement in _statements(branch.script):
            connection.execute(statement)


def _statements(script: Path) -> Iterator[str]:
    # sqlite3's own way to execute a script would end the transaction first.
    statement = ""
    for line in script.read_text(encoding="utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
