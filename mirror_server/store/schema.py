"""The schema of a database: a line of migrations for the core, and one for each extension that stores something.

Each has a version of its own in the database, so that an extension can be added, left out and added again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mirror_server.store.backend import DatabaseError

TABLE = "mirror_schema"
"""The table that holds the version of each branch."""

VERSIONS = f"SELECT branch, version FROM {TABLE}"

UPGRADE_SECONDS = 60
"""How long one process waits for another one that changes the schema."""


class Branch(NamedTuple):
    """A line of migrations, that of the core or of an extension.

    A migration is a file of the folder with statements for SQLite, named by the version of the schema it makes:
    ``0001.sql``, ``0002.sql``. The extension of another kind of database translates them.
    """

    name: str
    folder: Path

    @property
    def migrations(self) -> list[Path]:
        """Its migrations, in the order in which they are applied."""
        return sorted(self.folder.glob("[0-9]*.sql"))

    @property
    def newest(self) -> str:
        """The newest version that this program knows."""
        return self.migrations[-1].stem


CORE = Branch("core", Path(__file__).parent / "migrations")


def outdated(name: str, branches: Iterable[Branch], found: Mapping[str, str]) -> list[Branch]:
    """Return the branches that a database lacks or has an older version of.

    Args:
        name: The database, for a message.
        branches: Those it is to have.
        found: The versions it has, by the name of the branch.

    Raises:
        DatabaseError: It has a newer version of one of them.
    """
    behind = []
    for branch in branches:
        version, newest = found.get(branch.name, ""), branch.newest
        if version > newest:
            schema = "its schema" if branch.name == "core" else f"its schema of {branch.name}"
            raise DatabaseError(
                f"the database {name} was written by a newer version ({schema} is {version}, and the newest this one"
                f" knows is {newest}); install that one, or restore a backup from before"
            )
        if version < newest:
            behind.append(branch)
    return behind


def upgrade(run: Callable[[str], object], branches: Iterable[Branch], found: Mapping[str, str]) -> None:
    """Apply, in order, the migrations that a database lacks. The caller holds the transaction.

    Args:
        run: Executes a text of statements for SQLite.
        branches: Those to bring to their newest versions.
        found: The versions it has, by the name of the branch.
    """
    run(f"CREATE TABLE IF NOT EXISTS {TABLE} (branch TEXT NOT NULL PRIMARY KEY, version TEXT NOT NULL);")
    for branch in branches:
        for migration in branch.migrations:
            if migration.stem > found.get(branch.name, ""):
                run(migration.read_text(encoding="utf-8"))
        run(
            f"INSERT INTO {TABLE} VALUES ('{branch.name}', '{branch.newest}')"
            " ON CONFLICT (branch) DO UPDATE SET version = excluded.version;"
        )
