"""The stored websocket channels and their current connections. Source: wire.md 4."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Session


@dataclass(frozen=True, slots=True)
class WebsocketRow:
    """A websocket channel in the database.

    ``registration`` is the registration as JSON. ``connection`` identifies the open connection, and ``process_id`` the
    process that serves it. Both are ``None`` while the channel has no connection.
    """

    registration: str
    connection: str | None
    process_id: str | None


def find(session: Session, app_id: str) -> WebsocketRow | None:
    """Return the websocket channel of an application, or ``None`` if the application has no channel."""
    row = session.row(
        "SELECT registration, connection, process_id FROM websockets WHERE app_id = :app_id", app_id=app_id
    )
    return WebsocketRow(*row) if row else None


def put(session: Session, app_id: str, registration: str, at: Instant) -> bool:
    """Register a channel, or change the existing one and keep its connection. Return whether the channel is new."""
    is_new = find(session, app_id) is None
    session.run(
        "INSERT INTO websockets (app_id, registration, used_at) VALUES (:app_id, :registration, :at)"
        " ON CONFLICT (app_id) DO UPDATE SET registration = excluded.registration, used_at = excluded.used_at",
        app_id=app_id,
        registration=registration,
        at=at,
    )
    return is_new


def delete(session: Session, app_id: str) -> bool:
    """Remove a channel. Return whether it existed."""
    return session.run("DELETE FROM websockets WHERE app_id = :app_id", app_id=app_id) == 1


def connect(session: Session, app_id: str, connection: str, process_id: str, at: Instant) -> bool:
    """Store the new connection of a channel, which replaces the previous one. Return whether the channel exists."""
    changed = session.run(
        "UPDATE websockets SET connection = :connection, process_id = :process_id, used_at = :at"
        " WHERE app_id = :app_id",
        app_id=app_id,
        connection=connection,
        process_id=process_id,
        at=at,
    )
    return changed == 1


def disconnect(session: Session, app_id: str, connection: str, at: Instant) -> None:
    """Remove the connection of a channel, unless another connection has already replaced it."""
    session.run(
        "UPDATE websockets SET connection = NULL, process_id = NULL, used_at = :at"
        " WHERE app_id = :app_id AND connection = :connection",
        app_id=app_id,
        connection=connection,
        at=at,
    )


def confirm(session: Session, app_id: str, connection: str, position: int) -> None:
    """Set an application's log position to ``position``, after a connection has delivered the entries up to it.

    Nothing changes if the application has opened another connection in the meantime, or if the position is already
    further.
    """
    session.run(
        "UPDATE logs SET position = :position WHERE app_id = :app_id AND position < :position AND EXISTS"
        " (SELECT 1 FROM websockets w WHERE w.app_id = logs.app_id AND w.connection = :connection)",
        app_id=app_id,
        position=position,
        connection=connection,
    )


def connected(session: Session) -> list[tuple[str, WebsocketRow]]:
    """Return the channels that have a connection, each with its application id."""
    rows = session.rows(
        "SELECT app_id, registration, connection, process_id FROM websockets WHERE connection IS NOT NULL"
        " ORDER BY app_id"
    )
    return [(app_id, WebsocketRow(*row)) for app_id, *row in rows]


def delete_unused(session: Session, since: Instant) -> None:
    """Remove the channels that have had no connection since this time."""
    session.run("DELETE FROM websockets WHERE connection IS NULL AND used_at < :since", since=since)
