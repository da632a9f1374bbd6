"""A PostgreSQL database, before it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirror_server.store.failures import DatabaseError
from mirror_server.store.location import Location
from mirror_server.store.postgresql.backend import PostgresBackend
from mirror_server.store.schema import Branch


class PostgresLocation(Location):
    """The database that a URL names, as libpq takes it."""

    coordinator = "mirror_server.membership:Membership"

    def open(self, branches: Sequence[Branch], *, must_exist: bool, as_it_is: bool) -> PostgresBackend:  # noqa: ARG002 - of files only
        """See :class:`Location`."""
        return PostgresBackend(self.url, branches)

    def file(self) -> Path:
        """See :class:`Location`."""
        raise DatabaseError("this is for SQLite files only; use pg_dump and pg_restore for a PostgreSQL database")
