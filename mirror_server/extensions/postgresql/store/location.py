"""The location of a PostgreSQL database, from which the database is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirror_server.store.backend import Backend, DatabaseError, Location
from mirror_server.store.schema import Branch

BRANCH = Branch("postgresql", Path(__file__).parent.parent / "migrations")


class PostgresLocation(Location):
    """The location of a PostgreSQL database, as a URL in the format of libpq."""

    coordinator = "mirror_server.extensions.postgresql.coordinator:PostgresCoordinator"

    def open(self, branches: Sequence[Branch], *, must_exist: bool, keep_schema: bool) -> Backend:  # noqa: ARG002 - of files only
        """See :class:`Location`."""
        try:
            from mirror_server.extensions.postgresql.store.backend import PostgresBackend  # noqa: PLC0415 - needs psycopg
        except ImportError as error:
            raise DatabaseError(
                f"cannot use a PostgreSQL database: {error}; pip install 'device-state-mirror[server,postgresql]'"
            ) from error
        # The branch comes after the core, because it replaces a table of the core.
        return PostgresBackend(self.url, [*branches, BRANCH])

    def file(self) -> Path:
        """See :class:`Location`."""
        raise DatabaseError(
            "'mirror-server restore' supports only SQLite; for PostgreSQL use pg_restore, then 'mirror-server"
            " mark-restored'"
        )
