"""The guaranteed command delivery queue. Source: specification 3.3; wire.md 2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

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


_GIVEN = (
    "app_id, async_id, device_id, method, path, query, payload, content_type, accept, requested_at, expires_at,"
    " retries, silent"
)
INSERT = f"INSERT INTO commands ({_GIVEN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING command_id"
FINISH = "UPDATE commands SET finished_at = ? WHERE command_id = ?"


@singledispatch
def insert(session: Session, placed: Sequence[Command]) -> list[int]:
    """Queue commands, each with an async-id of its own; gives their numbers, which are higher than any before."""
    return [session.rows_of(INSERT, row_of(command))[0][0] for command in placed]


def row_of(command: Command) -> Row:
    """A command as :data:`INSERT` takes it."""
    request = command.request
    asked = (request.method, request.path, request.query, request.payload, request.content_type, request.accept)
    times = (command.requested_at, command.expires_at)
    return (
        command.app_id,
        command.async_id,
        command.device_id,
        *asked,
        *times,
        command.retries,
        int(command.is_silent),
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


def interrupted(session: Session) -> list[Command]:
    """The commands that were sent, may not be sent again, and have not ended."""
    rows = session.rows(
        f"SELECT {COLUMNS} FROM commands WHERE finished_at IS NULL AND method = 'POST' AND attempts > retries"
        " ORDER BY command_id"
    )
    return [command_of(row) for row in rows]


def begin_attempt(session: Session, command_id: int, now: Instant) -> bool:
    """Count an attempt that is about to begin. Return false if the command has ended or expired meanwhile."""
    return bool(
        session.run(
            "UPDATE commands SET attempts = attempts + 1"
            " WHERE command_id = :command_id AND finished_at IS NULL AND expires_at > :now",
            command_id=command_id,
            now=now,
        )
    )


def set_attempts(session: Session, command_id: int, attempts: int) -> None:
    """Set how many attempts to deliver the command were made."""
    session.run(
        "UPDATE commands SET attempts = :attempts WHERE command_id = :command_id",
        attempts=attempts,
        command_id=command_id,
    )


def finish(session: Session, command_ids: Sequence[int], at: Instant) -> None:
    """Note that commands ended."""
    session.run_many(FINISH, [(at, command_id) for command_id in command_ids])


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
