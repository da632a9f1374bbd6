"""What people say of devices in the directory: a name, a description, custom attributes. Source: wire.md 6 and 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirror_server.core.instants import Instant
from mirror_server.store.session import Row, Session, batches

NAME = (
    "coalesce((SELECT d.name FROM device_descriptions d WHERE d.device_id = devices.device_id), devices.endpoint_name)"
)
"""SQL for a device's name, which is its endpoint name where nobody gave it another."""
AMONG_NAMES = (
    "(devices.endpoint_name IN ({}) OR devices.device_id IN"
    " (SELECT d.device_id FROM device_descriptions d WHERE d.name IN ({})))"
)
"""SQL for the devices of which one may have one of these names."""
DESCRIPTION = "coalesce((SELECT d.description FROM device_descriptions d WHERE d.device_id = devices.device_id), '')"
"""SQL for its description, empty where there is none."""
CHANGED_AT = (
    "coalesce((SELECT d.updated_at FROM device_descriptions d WHERE d.device_id = devices.device_id"
    " AND d.updated_at > devices.updated_at), devices.updated_at)"
)
"""SQL for when anything of it changed that the directory shows."""
ATTRIBUTE = (
    "coalesce((SELECT a.value FROM device_attributes a WHERE a.device_id = devices.device_id AND a.name = :of), '')"
)
"""SQL for one of its attributes, empty where it has none of the name ``:of``."""
NOTHING = "''"
"""SQL for what no device has, which is no value that can be asked for."""
NEVER = "NULL"
"""The same where it is asked what is above or below a value: neither."""


@dataclass(frozen=True, slots=True)
class Description:
    """What was said of a device; ``None`` and nothing where nobody did, ``updated_at`` is when it was said last."""

    name: str | None = None
    description: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    updated_at: Instant | None = None


NO_DESCRIPTION = Description()


def of_devices(session: Session, device_ids: Sequence[str]) -> dict[str, Description]:
    """What was said of each of these devices of which something was."""
    rows: list[Row] = []
    attributes: dict[str, dict[str, str]] = {}
    for some in batches(device_ids):
        marks = ", ".join("?" * len(some))
        rows += session.rows_of(
            f"SELECT device_id, name, description, updated_at FROM device_descriptions WHERE device_id IN ({marks})",
            some,
        )
        for device_id, name, value in session.rows_of(
            f"SELECT device_id, name, value FROM device_attributes WHERE device_id IN ({marks}) ORDER BY name", some
        ):
            attributes.setdefault(device_id, {})[name] = value
    return {
        device_id: Description(name, description, attributes.get(device_id, {}), updated_at)
        for device_id, name, description, updated_at in rows
    }


def of_device(session: Session, device_id: str) -> Description:
    """What was said of a device."""
    return of_devices(session, [device_id]).get(device_id, NO_DESCRIPTION)


def is_with_others(session: Session, device_id: str, name: str, value: str) -> bool:
    """Whether another device has an attribute of this name and value too."""
    return (
        session.row(
            "SELECT 1 FROM device_attributes WHERE name = :name AND value = :value AND device_id <> :device_id LIMIT 1",
            name=name,
            value=value,
            device_id=device_id,
        )
        is not None
    )


def put(session: Session, device_id: str, told: Description) -> None:
    """Store what is said of a device that is known, in the place of what was."""
    session.run(
        "INSERT INTO device_descriptions (device_id, name, description, updated_at)"
        " VALUES (:device_id, :name, :description, :updated_at) ON CONFLICT (device_id) DO UPDATE SET"
        " name = excluded.name, description = excluded.description, updated_at = excluded.updated_at",
        device_id=device_id,
        name=told.name,
        description=told.description,
        updated_at=told.updated_at,
    )
    session.run("DELETE FROM device_attributes WHERE device_id = :device_id", device_id=device_id)
    session.run_many(
        "INSERT INTO device_attributes (device_id, name, value) VALUES (?, ?, ?)",
        [(device_id, name, value) for name, value in told.attributes.items()],
    )
    # A filter of a snapshot may find the device now, or find it no more.
    session.note_change([device_id])
