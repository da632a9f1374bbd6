"""The SQL statements of this extension, which use tables of the core."""

from __future__ import annotations

from mirror_server.core.commands import Command
from mirror_server.core.timestamps import Instant
from mirror_server.store.commands import COLUMNS, command_of
from mirror_server.store.session import Session


def waiting(session: Session, app_id: str, *, device_id: str | None, after: int, limit: int) -> list[Command]:
    """Return the pending commands of an application after the number ``after``, in order."""
    rows = session.rows(
        f"SELECT {COLUMNS} FROM commands WHERE app_id = :app_id AND finished_at IS NULL AND command_id > :after"
        " AND (CAST(:device_id AS TEXT) IS NULL OR device_id = :device_id) ORDER BY command_id LIMIT :limit",
        app_id=app_id,
        device_id=device_id,
        after=after,
        limit=limit,
    )
    return [command_of(row) for row in rows]


def acknowledge(session: Session, device_id: str, path: str, *, by: str, at: Instant) -> None:
    """Record that someone acknowledged the failed write of a resource. The next write removes the record.

    The revision of the desired value does not change, so conditional writes by other clients still succeed.
    """
    session.run(
        "UPDATE resources SET acknowledged_at = :at, acknowledged_by = :by"
        " WHERE device_id = :device_id AND path = :path",
        at=at,
        by=by,
        device_id=device_id,
        path=path,
    )
    session.note_change([device_id])
