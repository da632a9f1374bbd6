"""A device with all its resources, as of one instant."""

from __future__ import annotations

from mirror_server.store import devices, resources
from mirror_server.store.devices import DEVICE_COLUMNS, DeviceRow
from mirror_server.store.resources import NO_LIMIT, ResourceRow
from mirror_server.store.session import Session

_DEVICE_WIDTH = len(DeviceRow.__slots__)
_TOGETHER = (
    f"SELECT {', '.join(f'd.{name.strip()}' for name in DEVICE_COLUMNS.split(','))},"
    f" {', '.join(f'r.{name}' for name in ResourceRow._fields)}"
    " FROM devices d LEFT JOIN resources r ON r.device_id = d.device_id AND d.revision <> :known"
    " WHERE d.device_id = :device_id"
    # Else what was changed last may come at the end, and each time another object.
    " ORDER BY r.path LIMIT :most"
)
_NO_REVISION = -1
_PATH = _DEVICE_WIDTH + ResourceRow._fields.index("path")

DeviceObject = tuple[DeviceRow, list[ResourceRow]]


def find(session: Session, device_id: str, *, most: int = NO_LIMIT) -> DeviceObject | None:
    """The device with this id and up to ``most`` resources it ever introduced, by two statements of a transaction."""
    device = devices.find(session, device_id)
    return None if device is None else (device, resources.of_device(session, device_id, most=most))


def find_at_once(
    session: Session, device_id: str, known: int | None = None, *, most: int = NO_LIMIT
) -> DeviceObject | None:
    """The same by one statement, for where each takes a way to the database and back.

    Without its resources where the device is at the revision ``known``, for who has them from then.

    What it takes to have the device with each of its resources is a third of the time of both statements on SQLite, and
    less than one such way.
    """
    known = _NO_REVISION if known is None else known
    rows = session.rows(_TOGETHER, device_id=device_id, known=known, most=most)
    if not rows:
        return None
    own = [ResourceRow._make(row[_DEVICE_WIDTH:]) for row in rows if row[_PATH] is not None]
    return DeviceRow(*rows[0][:_DEVICE_WIDTH]), own
