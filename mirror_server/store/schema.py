"""The schema of a database: a branch of migrations for the core, and a branch for each extension that has tables.

The database stores the version of each branch separately, so that an extension can be added, left out and added again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mirror_server.store.backend import DatabaseError

TABLE = "mirror_schema"
"""The name of the table that contains the version of each branch."""

VERSIONS = f"SELECT branch, version FROM {TABLE}"

UPGRADE_SECONDS = 60
"""The time in seconds for which a process waits for another process that is upgrading the schema."""


class Branch(NamedTuple):
    """A sequence of migrations of the core or of an extension.

    A migration is a file with SQLite statements. The name of the file is the version of the schema that it creates:
    ``0001.sql``, ``0002.sql``. The extension for another kind of database translates the statements.
    """

    name: str
    folder: Path

    @property
    def migrations(self) -> list[Path]:
        """The files of the migrations, in the order in which they are applied."""
        return sorted(self.folder.glob("[0-9]*.sql"))

    @property
    def newest(self) -> str:
        """The newest version that this program supports."""
        return self.migrations[-1].stem


CORE = Branch("core", Path(__file__).parent / "migrations")


def outdated(name: str, branches: Iterable[Branch], found: Mapping[str, str]) -> list[Branch]:
    """Return the branches that do not exist in a database or have an older version there.

    Args:
        name: The name of the database, for an error message.
        branches: The branches that this program needs.
        found: The versions in the database, by the name of the branch.

    Raises:
        DatabaseError: A branch has a newer version in the database.
    """
    old = []
    for branch in branches:
        version, newest = found.get(branch.name, ""), branch.newest
        # Versions have four digits, so comparing them as strings compares the numbers.
        if version > newest:
            schema = "its schema" if branch.name == "core" else f"its schema of {branch.name}"
            raise DatabaseError(
                f"the database {name} was written by a newer version ({schema} is {version}, and this version supports"
                f" {newest} at most); install the newer version, or restore an older backup"
            )
        if version < newest:
            old.append(branch)
    return old


def upgrade(run: Callable[[str], object], branches: Iterable[Branch], found: Mapping[str, str]) -> None:
    """Apply the migrations that are missing in a database, in order. The caller has opened the transaction.

    Args:
        run: A function that executes a script of SQLite statements.
        branches: The branches to upgrade to their newest versions.
        found: The versions in the database, by the name of the branch.
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
