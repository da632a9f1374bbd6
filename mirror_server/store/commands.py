"""The guaranteed command delivery queue. Source: specification 3.3; wire.md 2."""

from __future__ import annotations

from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.instants import Instant
from mirror_server.store.session import Row, Session

COLUMNS = (
    "command_id, app_id, async_id, device_id, method, path, query, payload, content_type, accept,"
    " requested_at, expires_at, retries, attempts, silent"
)
"""What :func:`command_of` makes a command of."""

FIRST_WAITING = (
    f"SELECT {COLUMNS} FROM commands WHERE device_id = :device_id AND finished_at IS NULL AND expires_at > :now"
    " ORDER BY command_id LIMIT 1"
)
"""The command of a device that is to be delivered next."""


def insert(session: Session, command: Command) -> int:
    """Queue a command; gives its number, which is higher than any before."""
    request = command.request
    return int(
        session.scalar(
            "INSERT INTO commands (app_id, async_id, device_id, method, path, query, payload, content_type, accept,"
            " requested_at, expires_at, retries, silent)"
            " VALUES (:app_id, :async_id, :device_id, :method, :path, :query, :payload, :content_type, :accept,"
            " :requested_at, :expires_at, :retries, :silent) RETURNING command_id",
            app_id=command.app_id,
            async_id=command.async_id,
            device_id=command.device_id,
            method=request.method,
            path=request.path,
            query=request.query,
            payload=request.payload,
            content_type=request.content_type,
            accept=request.accept,
            requested_at=command.requested_at,
            expires_at=command.expires_at,
            retries=command.retries,
            silent=int(command.is_silent),
        )
    )


def find(session: Session, app_id: str, async_id: str) -> Command | None:
    """The command an application placed under this async-id, finished or not."""
    row = session.row(
        f"SELECT {COLUMNS} FROM commands WHERE app_id = :app_id AND async_id = :async_id",
        app_id=app_id,
        async_id=async_id,
    )
    return command_of(row) if row else None


def waiting(session: Session, device_id: str) -> list[Command]:
    """All commands of the device that have not ended yet, in order."""
    rows = session.rows(
        f"SELECT {COLUMNS} FROM commands WHERE device_id = :device_id AND finished_at IS NULL ORDER BY command_id",
        device_id=device_id,
    )
    return [command_of(row) for row in rows]


def page_waiting(session: Session, app_id: str, *, device_id: str | None, after: int, limit: int) -> list[Command]:
    """Commands of an application that have not ended yet, in order, behind the number ``after``."""
    rows = session.rows(
        f"SELECT {COLUMNS} FROM commands WHERE app_id = :app_id AND finished_at IS NULL AND command_id > :after"
        " AND (CAST(:device_id AS TEXT) IS NULL OR device_id = :device_id) ORDER BY command_id LIMIT :limit",
        app_id=app_id,
        device_id=device_id,
        after=after,
        limit=limit,
    )
    return [command_of(row) for row in rows]


def devices_with_waiting(session: Session) -> list[str]:
    """The ids of the devices for which a command waits."""
    return [row[0] for row in session.rows("SELECT DISTINCT device_id FROM commands WHERE finished_at IS NULL")]


def next_expiry(session: Session, after: Instant) -> Instant | None:
    """When the next waiting command expires, later than ``after``."""
    instant: Instant | None = session.scalar(
        "SELECT min(expires_at) FROM commands WHERE finished_at IS NULL AND expires_at > :after", after=after
    )
    return instant


def expired(session: Session, now: Instant) -> list[Command]:
    """The waiting commands whose time is over, in order."""
    rows = session.rows(
        f"SELECT {COLUMNS} FROM commands WHERE finished_at IS NULL AND expires_at <= :now ORDER BY command_id",
        now=now,
    )
    return [command_of(row) for row in rows]


def count_attempt(session: Session, command_id: int) -> None:
    """Note that an attempt to deliver the command failed."""
    session.run("UPDATE commands SET attempts = attempts + 1 WHERE command_id = :command_id", command_id=command_id)


def finish(session: Session, command_id: int, at: Instant) -> None:
    """Note that the command ended."""
    session.run("UPDATE commands SET finished_at = :at WHERE command_id = :command_id", command_id=command_id, at=at)


def forget_finished(session: Session, until: Instant) -> None:
    """Delete the commands that ended at the instant or before; their async-ids may be used again."""
    session.run("DELETE FROM commands WHERE finished_at <= :until", until=until)


def forget_if_finished(session: Session, command_id: int, until: Instant) -> bool:
    """Delete one command if it ended at the instant or before; gives whether it did."""
    return bool(
        session.run(
            "DELETE FROM commands WHERE command_id = :command_id AND finished_at <= :until",
            command_id=command_id,
            until=until,
        )
    )


def command_of(row: Row) -> Command:
    """The command in a row of :data:`COLUMNS`."""
    command_id, app_id, async_id, device_id, *request, requested_at, expires_at, retries, attempts, silent = row
    return Command(
        command_id=command_id,
        app_id=app_id,
        async_id=async_id,
        device_id=device_id,
        request=CommandRequest(*request),
        requested_at=requested_at,
        expires_at=expires_at,
        retries=retries,
        attempts=attempts,
        is_silent=bool(silent),
    )
