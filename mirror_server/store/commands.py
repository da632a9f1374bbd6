"""The statements for the queue of commands, which guarantees their delivery. Source: specification 3.3; wire.md 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.desired import DesiredState
from mirror_server.core.timestamps import Instant
from mirror_server.store import resources, subscriptions
from mirror_server.store.session import Row, Session

COLUMNS = (
    "command_id, app_id, async_id, device_id, method, path, query, payload, content_type, accept,"
    " requested_at, expires_at, retries, attempts, silent"
)
"""The columns that :func:`command_of` reads."""

FIRST_WAITING = (
    f"SELECT {COLUMNS} FROM commands WHERE device_id = :device_id AND finished_at IS NULL AND expires_at > :now"
    " ORDER BY command_id LIMIT 1"
)
"""The SQL query for the next command to deliver to a device."""


_INSERTED = (
    "app_id, async_id, device_id, method, path, query, payload, content_type, accept, requested_at, expires_at,"
    " retries, silent"
)
INSERT = f"INSERT INTO commands ({_INSERTED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING command_id"
FINISH = "UPDATE commands SET finished_at = ? WHERE command_id = ?"


# The extensions for other databases register versions with one statement for all commands; see decision 24.
@singledispatch
def insert(session: Session, queued: Sequence[Command]) -> list[int]:
    """Queue commands that have different async-ids, and return their numbers.

    The numbers are higher than the numbers of all earlier commands.
    """
    return [session.rows_of(INSERT, row_of(command))[0][0] for command in queued]


def row_of(command: Command) -> Row:
    """Return the parameters of :data:`INSERT` for a command."""
    request = command.request
    operation = (request.method, request.path, request.query, request.payload, request.content_type, request.accept)
    limits = (command.requested_at, command.expires_at, command.retries)
    return command.app_id, command.async_id, command.device_id, *operation, *limits, int(command.is_silent)


def find(session: Session, app_id: str, async_id: str) -> Command | None:
    """Return the command that an application submitted with this async-id, whether or not it has finished."""
    row = session.row(
        f"SELECT {COLUMNS} FROM commands WHERE app_id = :app_id AND async_id = :async_id",
        app_id=app_id,
        async_id=async_id,
    )
    return command_of(row) if row else None


def waiting(session: Session, device_id: str) -> list[Command]:
    """Return all unfinished commands of a device, in the order of their submission."""
    return _unfinished(session, "device_id = :device_id", device_id=device_id)


def devices_with_waiting(session: Session) -> list[str]:
    """Return the ids of the devices with unfinished commands."""
    return [row[0] for row in session.rows("SELECT DISTINCT device_id FROM commands WHERE finished_at IS NULL")]


def next_expiry(session: Session, after: Instant) -> Instant | None:
    """Return the earliest time after ``after`` at which an unfinished command expires, or ``None``."""
    instant: Instant | None = session.scalar(
        "SELECT min(expires_at) FROM commands WHERE finished_at IS NULL AND expires_at > :after", after=after
    )
    return instant


def expired(session: Session, now: Instant) -> list[Command]:
    """Return the unfinished commands that have expired, in the order of their submission."""
    return _unfinished(session, "expires_at <= :now", now=now)


def interrupted(session: Session) -> list[Command]:
    """Return the unfinished commands that were sent and must not be sent again."""
    # Only an execute counts its attempt before it is sent.
    return _unfinished(session, "method = 'POST' AND attempts > retries")


def _unfinished(session: Session, where: str, **parameters: Any) -> list[Command]:
    statement = f"SELECT {COLUMNS} FROM commands WHERE finished_at IS NULL AND {where} ORDER BY command_id"
    return [command_of(row) for row in session.rows(statement, **parameters)]


def begin_attempt(session: Session, command_id: int, now: Instant) -> bool:
    """Count an attempt that is about to start. Return false if the command has ended or expired in the meantime."""
    return bool(
        session.run(
            "UPDATE commands SET attempts = attempts + 1"
            " WHERE command_id = :command_id AND finished_at IS NULL AND expires_at > :now",
            command_id=command_id,
            now=now,
        )
    )


def set_attempts(session: Session, command_id: int, attempts: int) -> None:
    """Set the number of attempts to deliver the command."""
    session.run(
        "UPDATE commands SET attempts = :attempts WHERE command_id = :command_id",
        attempts=attempts,
        command_id=command_id,
    )


def finish(session: Session, command_ids: Sequence[int], at: Instant) -> None:
    """Mark commands as finished."""
    session.run_many(FINISH, [(at, command_id) for command_id in command_ids])


def delete_finished(session: Session, until: Instant) -> None:
    """Delete the commands that finished at ``until`` or earlier. Their async-ids may be used again."""
    session.run("DELETE FROM commands WHERE finished_at <= :until", until=until)


def delete_if_finished(session: Session, command_id: int, until: Instant) -> bool:
    """Delete a command if it finished at ``until`` or earlier. Return whether it was deleted."""
    return bool(
        session.run(
            "DELETE FROM commands WHERE command_id = :command_id AND finished_at <= :until",
            command_id=command_id,
            until=until,
        )
    )


def command_of(row: Row) -> Command:
    """Return the command in a row of :data:`COLUMNS`."""
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


# This is one statement, because each statement costs a round trip to the database.
_CONTEXT = (
    "SELECT endpoint_name, queue_mode,"
    " (SELECT count(*) FROM commands c WHERE {} AND c.finished_at IS NULL) AS unfinished,"
    f" r.path AS known_path, {resources.DESIRED_COLUMNS}"
    " FROM devices d LEFT JOIN resources r ON r.device_id = d.device_id AND r.path = :path"
    " WHERE d.device_id = :device_id"
)
_OF_NEW = _CONTEXT.format("c.device_id = d.device_id")
_OF_ENDING = _CONTEXT.format("c.command_id = :command_id")


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The state of the device and the resource of a command.

    Attributes:
        device_id: The id of the device.
        path: The path of the resource or object instance.
        endpoint_name: The endpoint name of the device.
        queue_mode: Whether the device is in queue mode.
        unfinished: For a new command, the number of unfinished commands of the device. For a command that ends, 1 if
            the command is unfinished, and 0 otherwise.
        is_resource: Whether the device has ever announced the resource.
        desired: The last desired value of the resource.
    """

    device_id: str
    path: str
    endpoint_name: str
    queue_mode: bool
    unfinished: int
    is_resource: bool
    desired: DesiredState | None


def contexts_of_new(session: Session, device_paths: Sequence[tuple[str, str]]) -> list[CommandContext | None]:
    """Return the contexts of new commands, or ``None`` for an unknown device.

    Each command is identified by its device id and path. All contexts are read before the first of these commands is
    queued.
    """
    return _contexts(session, _OF_NEW, [{"device_id": device_id, "path": path} for device_id, path in device_paths])


def contexts_of_ending(session: Session, commands: Sequence[Command]) -> list[CommandContext | None]:
    """Return the contexts of commands that end, or ``None`` for an unknown device.

    All contexts are read before the first of these commands ends.
    """
    parameters = [
        {"device_id": command.device_id, "path": command.request.path, "command_id": command.command_id}
        for command in commands
    ]
    return _contexts(session, _OF_ENDING, parameters)


def _contexts(session: Session, statement: str, parameters: Sequence[Mapping[str, Any]]) -> list[CommandContext | None]:
    found = session.rows_of_each(statement, parameters)
    return [_context(each["device_id"], each["path"], rows) for each, rows in zip(parameters, found, strict=True)]


def _context(device_id: str, path: str, rows: Sequence[Row]) -> CommandContext | None:
    if not rows:
        return None
    endpoint_name, queue_mode, unfinished, known_path, *columns = rows[0]
    desired = resources.desired_of(tuple(columns))
    return CommandContext(device_id, path, endpoint_name, bool(queue_mode), unfinished, known_path is not None, desired)


_COMMAND, _OBSERVE, _CANCEL = "command", "observe", "cancel"
_NO_COMMAND = ", ".join(["NULL"] * len(COLUMNS.split(",")))
# The commands come first, because the first SELECT determines the types of the columns. The other parts have NULL.
_WAITING = (
    f"SELECT '{_COMMAND}' AS kind, 0 AS position, '' AS observed_path, {COLUMNS}"
    f" FROM ({FIRST_WAITING}) AS next_command"
    f" UNION ALL SELECT '{_OBSERVE}', position, path, {_NO_COMMAND} FROM ({subscriptions.TO_OBSERVE}) AS to_observe"
    f" UNION ALL SELECT '{_CANCEL}', 0, path, {_NO_COMMAND} FROM ({subscriptions.TO_CANCEL}) AS to_cancel"
)


@dataclass(frozen=True, slots=True)
class PendingWork:
    """The pending work of a device: observations to start and to cancel, and the next command.

    Attributes:
        to_observe: The paths of the resources that need a subscribe command, in the order of the rules.
        to_cancel: The paths of the resources that the device observes without a subscription.
        command: The next command to deliver, or ``None``.
    """

    to_observe: list[str]
    to_cancel: list[str]
    command: Command | None


def pending_work(session: Session, device_ids: Sequence[str], now: Instant) -> dict[str, PendingWork]:
    """Return the pending work of devices, by device id.

    The work is read before and after each command, so it is read by one statement if the database supports this. The
    work of one device is read at one time. The work of different devices may be read at different times.
    """
    found = session.rows_of_each(_WAITING, [{"device_id": device_id} for device_id in device_ids], now=now)
    return {device_id: _pending_work(rows) for device_id, rows in zip(device_ids, found, strict=True)}


def _pending_work(rows: Sequence[Row]) -> PendingWork:
    # A UNION does not preserve the order.
    items = sorted((kind, position, path) for kind, position, path, *_ in rows)
    return PendingWork(
        [path for kind, _, path in items if kind == _OBSERVE],
        [path for kind, _, path in items if kind == _CANCEL],
        next((command_of(tuple(row)) for kind, _, _, *row in rows if kind == _COMMAND), None),
    )
