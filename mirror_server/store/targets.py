"""What a command is about: a device and a resource of it, as much as is needed to accept it and to store its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mirror_server.core.commands import Command
from mirror_server.core.desired import Desired
from mirror_server.store import resources
from mirror_server.store.session import Session

# In one statement: each costs a way to the database and back.
_TARGET = (
    "SELECT endpoint_name, queue_mode,"
    " (SELECT count(*) FROM commands c WHERE {unfinished} AND c.finished_at IS NULL) AS unfinished,"
    f" r.path AS known_path, {resources.DESIRED_COLUMNS}"
    " FROM devices d LEFT JOIN resources r ON r.device_id = d.device_id AND r.path = {path}"
    " WHERE d.device_id = {device_id}"
)
_OF_ONE = _TARGET.replace("{path}", ":path").replace("{device_id}", ":device_id")
_OF_EACH = _TARGET.replace("{path}", "asked.path").replace("{device_id}", "asked.device_id")
_OF_MANY = (
    "SELECT asked.place, found.* FROM unnest(CAST(:device_ids AS text[]), CAST(:paths AS text[]),"
    " CAST(:command_ids AS bigint[])) WITH ORDINALITY AS asked (device_id, path, command_id, place)"
    f" CROSS JOIN LATERAL ({_OF_EACH}) AS found"
)
"""The same for many at once, as PostgreSQL takes it."""
_OF_DEVICE = "c.device_id = d.device_id"
_OF_COMMAND = "c.command_id = {}"


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
    return _found(session, [(device_id, path, 0) for device_id, path in asked], _OF_DEVICE, _OF_DEVICE)


def of_ending(session: Session, commands: Sequence[Command]) -> list[Target | None]:
    """What commands are about that end; ``None`` without such a device. Each sees what there is before any ends."""
    asked = [(command.device_id, command.request.path, command.command_id) for command in commands]
    return _found(session, asked, _OF_COMMAND.format(":command_id"), _OF_COMMAND.format("asked.command_id"))


def _found(
    session: Session, asked: Sequence[tuple[str, str, int]], unfinished: str, unfinished_of_many: str
) -> list[Target | None]:
    """Targets by device id, path and number of a command; ``unfinished`` says which commands of it are counted."""
    if session.nests_changes and len(asked) > 1:
        device_ids, paths, command_ids = map(list, zip(*asked, strict=True))
        statement = _OF_MANY.format(unfinished=unfinished_of_many)
        rows = session.rows(statement, device_ids=device_ids, paths=paths, command_ids=command_ids)
        found = {place: row for place, *row in rows}
        return [_target(*each[:2], found.get(place)) for place, each in enumerate(asked, 1)]
    statement = _OF_ONE.format(unfinished=unfinished)
    return [
        _target(device_id, path, session.row(statement, device_id=device_id, path=path, command_id=command_id))
        for device_id, path, command_id in asked
    ]


def _target(device_id: str, path: str, row: Sequence[Any] | None) -> Target | None:
    if row is None:
        return None
    endpoint_name, queue_mode, unfinished, known_path, *desired = row
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
