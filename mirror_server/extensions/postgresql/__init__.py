"""Several server processes on one PostgreSQL database. All of them serve requests, and one of them is the leader."""

# Start reading with ``coordinator``, then ``leadership`` and ``store``.

from __future__ import annotations

from mirror_server.hooks import extends

_LOCATION = "mirror_server.extensions.postgresql.store.location:PostgresLocation"


@extends
def needs() -> list[str]:
    """Return the name of the package that connects to PostgreSQL."""
    return ["psycopg"]


@extends
def locations() -> dict[str, str]:
    """Return the database class for the URL schemes of PostgreSQL. The URLs have the format of libpq."""
    return {"postgresql": _LOCATION, "postgres": _LOCATION}
