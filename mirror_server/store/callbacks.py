"""Webhooks and the state of their delivery. Source: wire.md 4."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.core.instants import Instant
from mirror_server.store.session import Session

_COLUMNS = "registration, registered_at, last_success_at, failures, last_error, next_attempt_at, failing_since"


@dataclass(frozen=True, slots=True)
class CallbackRow:
    """A webhook: its registration as JSON, and how its delivery stands."""

    registration: str
    registered_at: Instant
    last_success_at: Instant | None
    failures: int
    last_error: str | None
    next_attempt_at: Instant | None
    failing_since: Instant | None


def find(session: Session, app_id: str) -> CallbackRow | None:
    """The webhook of an application."""
    row = session.row(f"SELECT {_COLUMNS} FROM callbacks WHERE app_id = :app_id", app_id=app_id)
    return CallbackRow(*row) if row else None


def applications(session: Session) -> list[str]:
    """The applications with a webhook."""
    return [row[0] for row in session.rows("SELECT app_id FROM callbacks ORDER BY app_id")]


def put(session: Session, app_id: str, registration: str, at: Instant) -> None:
    """Register a webhook, in the place of the one before; its delivery begins anew, without failures."""
    session.run(
        "INSERT INTO callbacks (app_id, registration, registered_at) VALUES (:app_id, :registration, :at)"
        " ON CONFLICT (app_id) DO UPDATE SET registration = excluded.registration,"
        " registered_at = excluded.registered_at, last_success_at = NULL, failures = 0, last_error = NULL,"
        " next_attempt_at = NULL, failing_since = NULL",
        app_id=app_id,
        registration=registration,
        at=at,
    )


def delete(session: Session, app_id: str) -> bool:
    """Remove a webhook; false if there is none."""
    return session.run("DELETE FROM callbacks WHERE app_id = :app_id", app_id=app_id) == 1


def succeeded(session: Session, app_id: str, at: Instant) -> None:
    """Note that a message arrived."""
    session.run(
        "UPDATE callbacks SET last_success_at = :at, failures = 0, last_error = NULL, next_attempt_at = NULL,"
        " failing_since = NULL WHERE app_id = :app_id",
        app_id=app_id,
        at=at,
    )


def failed(session: Session, app_id: str, *, failures: int, error: str, at: Instant, next_attempt_at: Instant) -> None:
    """Note that a message did not arrive, and when it is sent again."""
    session.run(
        "UPDATE callbacks SET failures = :failures, last_error = :error, next_attempt_at = :next_attempt_at,"
        " failing_since = coalesce(failing_since, :at) WHERE app_id = :app_id",
        app_id=app_id,
        failures=failures,
        error=error,
        at=at,
        next_attempt_at=next_attempt_at,
    )
