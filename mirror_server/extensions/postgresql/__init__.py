"""Several processes on one PostgreSQL database: one of them is the leader, and all of them serve requests."""

# Start reading with ``coordinator``, then ``leadership`` and ``store``.

from __future__ import annotations

from mirror_server.hooks import extends

_LOCATION = "mirror_server.extensions.postgresql.store.location:PostgresLocation"


@extends
def needs() -> list[str]:
    """Return the package that connects to PostgreSQL."""
    return ["psycopg"]


@extends
def locations() -> dict[str, str]:
    """Add the URLs of PostgreSQL databases, in the format of libpq."""
    return {"postgresql": _LOCATION, "postgres": _LOCATION}
