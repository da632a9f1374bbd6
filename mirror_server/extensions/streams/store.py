"""Websocket channels and the connection that each has. Source: wire.md 4."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Session


@dataclass(frozen=True, slots=True)
class WebsocketRow:
    """A websocket channel: its registration as JSON, and its open connection with the process that has it."""

    registration: str
    connection: str | None
    process_id: str | None


def find(session: Session, app_id: str) -> WebsocketRow | None:
    """Return the websocket channel of an application, or ``None`` if there is none."""
    row = session.row(
        "SELECT registration, connection, process_id FROM websockets WHERE app_id = :app_id", app_id=app_id
    )
    return WebsocketRow(*row) if row else None


def put(session: Session, app_id: str, registration: str, at: Instant) -> bool:
    """Register a channel, or change the existing one and keep its connection. Return whether it is new."""
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
    """Remove a channel. Return false if there is none."""
    return session.run("DELETE FROM websockets WHERE app_id = :app_id", app_id=app_id) == 1


def connect(session: Session, app_id: str, connection: str, process_id: str, at: Instant) -> bool:
    """Store the connection of a channel, which replaces the previous one. Return false if there is no channel."""
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
    """Remove the connection of a channel, unless it was already replaced."""
    session.run(
        "UPDATE websockets SET connection = NULL, process_id = NULL, used_at = :at"
        " WHERE app_id = :app_id AND connection = :connection",
        app_id=app_id,
        connection=connection,
        at=at,
    )


def confirm(session: Session, app_id: str, connection: str, position: int) -> None:
    """Advance an application's position after entries that this connection delivered, if it is the current one."""
    session.run(
        "UPDATE logs SET position = :position WHERE app_id = :app_id AND position < :position AND EXISTS"
        " (SELECT 1 FROM websockets w WHERE w.app_id = logs.app_id AND w.connection = :connection)",
        app_id=app_id,
        position=position,
        connection=connection,
    )


def connected(session: Session) -> list[tuple[str, WebsocketRow]]:
    """Return the channels that have a connection, by application."""
    rows = session.rows(
        "SELECT app_id, registration, connection, process_id FROM websockets WHERE connection IS NOT NULL"
        " ORDER BY app_id"
    )
    return [(app_id, WebsocketRow(*row)) for app_id, *row in rows]


def delete_unused(session: Session, since: Instant) -> None:
    """Remove the channels that have had no connection since an instant."""
    session.run("DELETE FROM websockets WHERE connection IS NULL AND used_at < :since", since=since)
