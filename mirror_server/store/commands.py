"""The guaranteed command delivery queue. Source: specification 3.3; wire.md 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.desired import DesiredState
from mirror_server.core.instants import Instant
from mirror_server.store import resources, subscriptions
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
    limits = (command.requested_at, command.expires_at, command.retries)
    return command.app_id, command.async_id, command.device_id, *asked, *limits, int(command.is_silent)


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
    return _unfinished(session, "device_id = :device_id", device_id=device_id)


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
    return _unfinished(session, "expires_at <= :now", now=now)


def interrupted(session: Session) -> list[Command]:
    """The commands that were sent, may not be sent again, and have not ended."""
    return _unfinished(session, "method = 'POST' AND attempts > retries")


def _unfinished(session: Session, where: str, **parameters: Any) -> list[Command]:
    statement = f"SELECT {COLUMNS} FROM commands WHERE finished_at IS NULL AND {where} ORDER BY command_id"
    return [command_of(row) for row in session.rows(statement, **parameters)]


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


def delete_finished(session: Session, until: Instant) -> None:
    """Delete the commands that ended at the instant or before; their async-ids may be used again."""
    session.run("DELETE FROM commands WHERE finished_at <= :until", until=until)


def delete_if_finished(session: Session, command_id: int, until: Instant) -> bool:
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


# In one statement: each costs a way to the database and back.
_TARGET = (
    "SELECT endpoint_name, queue_mode,"
    " (SELECT count(*) FROM commands c WHERE {} AND c.finished_at IS NULL) AS unfinished,"
    f" r.path AS known_path, {resources.DESIRED_COLUMNS}"
    " FROM devices d LEFT JOIN resources r ON r.device_id = d.device_id AND r.path = :path"
    " WHERE d.device_id = :device_id"
)
_OF_PLACED = _TARGET.format("c.device_id = d.device_id")
_OF_ENDING = _TARGET.format("c.command_id = :command_id")


@dataclass(frozen=True, slots=True)
class CommandContext:
    """A device, and a resource of it.

    Attributes:
        device_id: The device.
        path: The resource, or an object instance.
        endpoint_name: The name the device registers with.
        queue_mode: Whether it is in queue mode.
        unfinished: How many commands of the device have not ended yet; of one that ends, 1 where it has not before.
        is_resource: Whether the device has ever introduced the resource.
        desired: The last desired value of the resource.
    """

    device_id: str
    path: str
    endpoint_name: str
    queue_mode: bool
    unfinished: int
    is_resource: bool
    desired: DesiredState | None


def contexts_of_new(session: Session, asked: Sequence[tuple[str, str]]) -> list[CommandContext | None]:
    """What commands are about that are to be placed, each given as device id and path; ``None`` without such a device.

    Each sees what there is before any of them is placed.
    """
    return _contexts(session, _OF_PLACED, [{"device_id": device_id, "path": path} for device_id, path in asked])


def contexts_of_ending(session: Session, commands: Sequence[Command]) -> list[CommandContext | None]:
    """What commands are about that end; ``None`` without such a device. Each sees what there is before any ends."""
    asked = [
        {"device_id": command.device_id, "path": command.request.path, "command_id": command.command_id}
        for command in commands
    ]
    return _contexts(session, _OF_ENDING, asked)


def _contexts(session: Session, statement: str, asked: Sequence[Mapping[str, Any]]) -> list[CommandContext | None]:
    found = session.rows_of_each(statement, asked)
    return [_context(each["device_id"], each["path"], rows) for each, rows in zip(asked, found, strict=True)]


def _context(device_id: str, path: str, rows: Sequence[Row]) -> CommandContext | None:
    if not rows:
        return None
    endpoint_name, queue_mode, unfinished, known_path, *desired = rows[0]
    about = resources.desired_of(tuple(desired))
    return CommandContext(device_id, path, endpoint_name, bool(queue_mode), unfinished, known_path is not None, about)


_COMMAND, _WANTED, _UNWANTED = "command", "wanted", "unwanted"
_NO_COMMAND = ", ".join(["NULL"] * len(COLUMNS.split(",")))
# The commands first: it is they that have types where the others have NULL.
_WAITING = (
    f"SELECT '{_COMMAND}' AS what, 0 AS place, '' AS ask_path, {COLUMNS}"
    f" FROM ({FIRST_WAITING}) AS next_command"
    f" UNION ALL SELECT '{_WANTED}', place, path, {_NO_COMMAND} FROM ({subscriptions.WANTED}) AS wanted"
    f" UNION ALL SELECT '{_UNWANTED}', 0, path, {_NO_COMMAND} FROM ({subscriptions.UNWANTED}) AS unwanted"
)


@dataclass(frozen=True, slots=True)
class PendingWork:
    """What waits for a device: subscribe commands and their ends, and the command that is to be delivered next.

    Attributes:
        wanted: The resources for which it is to be sent a subscribe command, in the order of the rules.
        unwanted: The resources it observes though nobody is subscribed to them any more.
        command: The command that is to be delivered next.
    """

    wanted: list[str]
    unwanted: list[str]
    command: Command | None


def pending_work(session: Session, device_ids: Sequence[str], now: Instant) -> dict[str, PendingWork]:
    """What waits for devices, in one statement where there can be one: it is asked for before and after each command.

    Each device is seen as of one moment, and several not always as of the same.
    """
    found = session.rows_of_each(_WAITING, [{"device_id": device_id} for device_id in device_ids], now=now)
    return {device_id: _waiting(rows) for device_id, rows in zip(device_ids, found, strict=True)}


def _waiting(rows: Sequence[Row]) -> PendingWork:
    asks = sorted((what, place, path) for what, place, path, *_ in rows)
    return PendingWork(
        [path for what, _, path in asks if what == _WANTED],
        [path for what, _, path in asks if what == _UNWANTED],
        next((command_of(tuple(row)) for what, _, _, *row in rows if what == _COMMAND), None),
    )
