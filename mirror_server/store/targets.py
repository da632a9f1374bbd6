"""What a command is about: a device and a resource of it, as much as is needed to accept it and to store its end."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.core.desired import Desired
from mirror_server.store import resources
from mirror_server.store.session import Session

# In one statement: each costs a way to the database and back.
_TARGET = (
    "SELECT endpoint_name, queue_mode, {}, r.path, "
    + resources.DESIRED_COLUMNS
    + " FROM devices d LEFT JOIN resources r ON r.device_id = d.device_id AND r.path = :path"
    " WHERE d.device_id = :device_id"
)
_OF_PLACED = _TARGET.format(
    "(SELECT count(*) FROM commands c WHERE c.device_id = d.device_id AND c.finished_at IS NULL)"
)
_OF_ENDING = _TARGET.format(
    "(SELECT count(*) FROM commands c WHERE c.command_id = :command_id AND c.finished_at IS NULL)"
)


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


def of_placed(session: Session, device_id: str, path: str) -> Target | None:
    """What a command is about that is to be placed; ``None`` without such a device."""
    return _found(session, _OF_PLACED, device_id, path)


def of_ending(session: Session, device_id: str, path: str, command_id: int) -> Target | None:
    """What a command is about that ends; ``None`` without such a device."""
    return _found(session, _OF_ENDING, device_id, path, command_id=command_id)


def _found(session: Session, statement: str, device_id: str, path: str, **parameters: int) -> Target | None:
    row = session.row(statement, device_id=device_id, path=path, **parameters)
    if row is None:
        return None
    endpoint_name, queue_mode, unfinished, found_path, *desired = row
    is_resource = found_path is not None
    return Target(
        device_id,
        path,
        endpoint_name,
        bool(queue_mode),
        unfinished,
        is_resource,
        resources.desired_of(tuple(desired)),
    )
