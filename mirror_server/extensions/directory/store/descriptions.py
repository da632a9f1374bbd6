"""The statements for names, descriptions and custom attributes that users set for devices. Source: wire.md 6 and 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Row, Session, batches

NAME = (
    "coalesce((SELECT d.name FROM device_descriptions d WHERE d.device_id = devices.device_id), devices.endpoint_name)"
)
"""The SQL expression for the name of a device. The default is its endpoint name."""
AMONG_NAMES = (
    "SELECT n.device_id FROM devices n WHERE n.endpoint_name IN ({})"
    " UNION ALL SELECT d.device_id FROM device_descriptions d WHERE d.name IN ({})"
)
"""The SQL query for the devices that may have one of these names."""
DESCRIPTION = "coalesce((SELECT d.description FROM device_descriptions d WHERE d.device_id = devices.device_id), '')"
"""The SQL expression for the description of a device, or an empty string."""
CHANGED_AT = (
    "coalesce((SELECT d.updated_at FROM device_descriptions d WHERE d.device_id = devices.device_id"
    " AND d.updated_at > devices.updated_at), devices.updated_at)"
)
"""The SQL expression for the time of the last change of a device's directory entry."""
ATTRIBUTE = (
    "coalesce((SELECT a.value FROM device_attributes a WHERE a.device_id = devices.device_id AND a.name = :of), '')"
)
"""The SQL expression for the value of a device's attribute ``:of``, or an empty string without the attribute."""
AMONG_ATTRIBUTES = "SELECT a.device_id FROM device_attributes a WHERE a.name = :of AND a.value IN ({})"
"""The SQL query for the devices whose attribute ``:of`` has one of these values, none of which is empty."""
NOTHING = "''"
"""The SQL expression for a field that is always empty, in a comparison for equality."""
NEVER = "NULL"
"""The SQL expression for a field that is always empty, in a comparison by order. Such a comparison never matches."""


@dataclass(frozen=True, slots=True)
class Description:
    """The name, description and attributes that users set for a device, and the time of their last change."""

    name: str | None = None
    description: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    updated_at: Instant | None = None


NO_DESCRIPTION = Description()


def of_devices(session: Session, device_ids: Sequence[str]) -> dict[str, Description]:
    """Return the descriptions of devices, by device id. Devices without a description are left out."""
    rows: list[Row] = []
    attributes: dict[str, dict[str, str]] = {}
    for batch in batches(device_ids):
        marks = ", ".join("?" * len(batch))
        rows += session.rows_of(
            f"SELECT device_id, name, description, updated_at FROM device_descriptions WHERE device_id IN ({marks})",
            batch,
        )
        for device_id, name, value in session.rows_of(
            f"SELECT device_id, name, value FROM device_attributes WHERE device_id IN ({marks}) ORDER BY name", batch
        ):
            attributes.setdefault(device_id, {})[name] = value
    return {
        device_id: Description(name, description, attributes.get(device_id, {}), updated_at)
        for device_id, name, description, updated_at in rows
    }


def of_device(session: Session, device_id: str) -> Description:
    """Return the description of a device, which is empty if no user has set one."""
    return of_devices(session, [device_id]).get(device_id, NO_DESCRIPTION)


def is_with_others(session: Session, device_id: str, name: str, value: str) -> bool:
    """Return whether another device has an attribute with the same name and value."""
    return (
        session.row(
            "SELECT 1 FROM device_attributes WHERE name = :name AND value = :value AND device_id <> :device_id LIMIT 1",
            name=name,
            value=value,
            device_id=device_id,
        )
        is not None
    )


def put(session: Session, device_id: str, description: Description) -> None:
    """Replace the description of an existing device."""
    session.run(
        "INSERT INTO device_descriptions (device_id, name, description, updated_at)"
        " VALUES (:device_id, :name, :description, :updated_at) ON CONFLICT (device_id) DO UPDATE SET"
        " name = excluded.name, description = excluded.description, updated_at = excluded.updated_at",
        device_id=device_id,
        name=description.name,
        description=description.description,
        updated_at=description.updated_at,
    )
    session.run("DELETE FROM device_attributes WHERE device_id = :device_id", device_id=device_id)
    session.run_many(
        "INSERT INTO device_attributes (device_id, name, value) VALUES (?, ?, ?)",
        [(device_id, name, value) for name, value in description.attributes.items()],
    )
    # The device may now match a filter of a snapshot, or may no longer match it.
    session.note_change([device_id])
