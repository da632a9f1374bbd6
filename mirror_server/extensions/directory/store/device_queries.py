"""The statements for saved filters of the directory. Source: wire.md 9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirror_server.core.timestamps import Instant
from mirror_server.store.conditions import Condition, count_of, page_of
from mirror_server.store.session import Session

_COLUMNS = "query_id, name, query, created_at, updated_at"


@dataclass(frozen=True, slots=True)
class DeviceQueryRow:
    """A saved filter.

    Its ``query_id`` is greater than the ids of all filters that were saved in an earlier millisecond.
    """

    query_id: str
    name: str
    query: str
    created_at: Instant
    updated_at: Instant


def put(session: Session, row: DeviceQueryRow) -> None:
    """Store a query. It replaces the query with the same id. Names are unique."""
    session.run(
        "INSERT INTO device_queries (query_id, name, query, created_at, updated_at)"
        " VALUES (:query_id, :name, :query, :created_at, :updated_at) ON CONFLICT (query_id) DO UPDATE SET"
        " name = excluded.name, query = excluded.query, updated_at = excluded.updated_at",
        query_id=row.query_id,
        name=row.name,
        query=row.query,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def find(session: Session, query_id: str) -> DeviceQueryRow | None:
    """Return the query with this id, or ``None`` if it does not exist."""
    row = session.row(f"SELECT {_COLUMNS} FROM device_queries WHERE query_id = :query_id", query_id=query_id)
    return DeviceQueryRow(*row) if row else None


def find_by_name(session: Session, name: str) -> DeviceQueryRow | None:
    """Return the query with this name, or ``None`` if it does not exist."""
    row = session.row(f"SELECT {_COLUMNS} FROM device_queries WHERE name = :name", name=name)
    return DeviceQueryRow(*row) if row else None


def delete(session: Session, query_id: str) -> bool:
    """Delete a query, and return whether it existed."""
    return session.run("DELETE FROM device_queries WHERE query_id = :query_id", query_id=query_id) > 0


def page(
    session: Session, conditions: Sequence[Condition], *, after: str | None, descending: bool, limit: int
) -> list[DeviceQueryRow]:
    """Return up to ``limit`` queries that match all conditions, ordered by id.

    The queries start after the id ``after``, if it is set.
    """
    select = f"SELECT {_COLUMNS} FROM device_queries"
    rows = page_of(session, select, "query_id", conditions, after=after, descending=descending, limit=limit)
    return [DeviceQueryRow(*row) for row in rows]


def count(session: Session, conditions: Sequence[Condition] = ()) -> int:
    """Return the number of queries that match all conditions."""
    return count_of(session, "device_queries", conditions)


def list_all(session: Session) -> list[DeviceQueryRow]:
    """Return all queries, ordered by id."""
    return [DeviceQueryRow(*row) for row in session.rows(f"SELECT {_COLUMNS} FROM device_queries ORDER BY query_id")]
