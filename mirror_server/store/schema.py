"""The newest version of the schema, and what a database of another version is told.

A migration stands in ``migrations/versions``, in a file that begins with its number; the greatest number is the newest
version, and the least one makes the first tables. What all of them make of an empty SQLite file stands in
``migrations/schema.sql``, so that a new file needs none of them: after any change of a migration, ``python -m
mirror_server.store.migrate`` writes it anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from mirror_server.store.failures import DatabaseError

MIGRATIONS = Path(__file__).parent / "migrations"
SCRIPT = MIGRATIONS / "schema.sql"

UPGRADE_SECONDS = 60
"""How long one process waits for another one that changes the schema."""


@cache
def versions() -> list[str]:
    """All versions this program knows, the oldest first."""
    return sorted(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def is_newest(name: str, found: Sequence[str]) -> bool:
    """Whether a database has the newest schema.

    Args:
        name: The database, for a message.
        found: The versions it says it has: one, or none before the first.

    Raises:
        DatabaseError: This program does not know one of them.
    """
    for version in found:
        if version < versions()[0]:
            raise DatabaseError(
                f"the database {name} was written by a version before all that this one upgrades (its schema is"
                f" {version}, and the oldest this one knows is {versions()[0]}); open it with the version that wrote"
                " it, or name another database, which is made anew"
            )
        if version not in versions():
            raise newer_version(name, f"its schema is {version}, and the newest this one knows is {versions()[-1]}")
    return list(found) == versions()[-1:]


def newer_version(name: str, why: object) -> DatabaseError:
    """What to say of a database whose schema this version does not know."""
    return DatabaseError(
        f"the database {name} was written by a newer version ({why}); install that one, or restore a backup from before"
    )


def make(connection: sqlite3.Connection) -> None:
    """Make the newest schema in an empty database; the caller holds the transaction."""
    for statement in _statements():
        connection.execute(statement)


def _statements() -> Iterator[str]:
    # sqlite3's own way to execute a script would end the transaction first.
    statement = ""
    for line in SCRIPT.read_text(encoding="utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
