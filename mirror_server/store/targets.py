"""What a command is about: a device and a resource of it, as much as is needed to accept it and to store its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirror_server.core.commands import Command
from mirror_server.core.desired import Desired
from mirror_server.store import resources
from mirror_server.store.session import Row, Session

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
class Target:
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
    desired: Desired | None


def of_placed(session: Session, asked: Sequence[tuple[str, str]]) -> list[Target | None]:
    """What commands are about that are to be placed, each given as device id and path; ``None`` without such a device.

    Each sees what there is before any of them is placed.
    """
    return _found(session, _OF_PLACED, [{"device_id": device_id, "path": path} for device_id, path in asked])


def of_ending(session: Session, commands: Sequence[Command]) -> list[Target | None]:
    """What commands are about that end; ``None`` without such a device. Each sees what there is before any ends."""
    asked = [
        {"device_id": command.device_id, "path": command.request.path, "command_id": command.command_id}
        for command in commands
    ]
    return _found(session, _OF_ENDING, asked)


def _found(session: Session, statement: str, asked: Sequence[Mapping[str, Any]]) -> list[Target | None]:
    found = session.rows_of_each(statement, asked)
    return [_target(each["device_id"], each["path"], rows) for each, rows in zip(asked, found, strict=True)]


def _target(device_id: str, path: str, rows: Sequence[Row]) -> Target | None:
    if not rows:
        return None
    endpoint_name, queue_mode, unfinished, known_path, *desired = rows[0]
    is_resource = known_path is not None
    return Target(
        device_id,
        path,
        endpoint_name,
        bool(queue_mode),
        unfinished,
        is_resource,
        resources.desired_of(tuple(desired)),
    )
