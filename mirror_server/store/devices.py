"""Devices and their resources: the mirror itself. Source: specification 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mirror_sdk.wire.device_object import DesiredStatus, Origin
from mirror_server.core.desired import Desired
from mirror_server.core.instants import Instant
from mirror_server.store import revisions
from mirror_server.store.session import Row, Session

_DEVICE = (
    "device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
    " created_at, updated_at, last_contact_at, registration_expires_at, revision"
)
RESOURCE_COLUMNS = (
    "path, subscribed, subscribed_at, reported_value, reported_content_type, reported_at, reported_expires_at,"
    " reported_origin, reported_revision, desired_value, desired_content_type, desired_status, desired_at,"
    " desired_updated_at, requested_at, desired_category, desired_app_id, desired_revision"
)


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device as the directory knows it; ``registered`` and ``queue_mode`` are 0 or 1.

    ``revision`` is the number of the last change of its device object; see :mod:`mirror_server.store.revisions`.
    """

    device_id: str
    endpoint_name: str
    endpoint_type: str
    registered: int
    queue_mode: int
    lifetime_seconds: int
    created_at: Instant
    updated_at: Instant
    last_contact_at: Instant
    registration_expires_at: Instant
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A resource of a device object; ``desired_category`` is for the application ``desired_app_id`` alone.

    ``reported_revision`` and ``desired_revision`` are the numbers of the changes that made the reported and the desired
    part what they are; ``None`` where an older version stored it and its time did not tell the order.
    """

    path: str
    subscribed: int
    subscribed_at: Instant | None
    reported_value: bytes | None
    reported_content_type: str | None
    reported_at: Instant | None
    reported_expires_at: Instant | None
    reported_origin: str | None
    reported_revision: int | None
    desired_value: bytes | None
    desired_content_type: str | None
    desired_status: int | None
    desired_at: Instant | None
    desired_updated_at: Instant | None
    requested_at: Instant | None
    desired_category: str | None
    desired_app_id: str | None
    desired_revision: int | None


class ReportedValue(NamedTuple):
    """A value that was received from a device, and by what it came.

    ``changed_at`` is the time that its observation event tells; ``None`` for a value that was read.
    """

    value: bytes
    content_type: str
    origin: Origin
    at: Instant
    expires_at: Instant | None
    device_id: str
    path: str
    changed_at: Instant | None = None


_REPORT = (
    "UPDATE resources SET reported_value = ?, reported_content_type = ?, reported_origin = ?, reported_at = ?,"
    " reported_expires_at = ?, reported_revision = ?, heard_at = COALESCE(?, heard_at),"
    " changed_at = COALESCE(?, changed_at) WHERE device_id = ? AND path = ?"
)


class Known(NamedTuple):
    """What the mirror knows of a resource: its last value, and the device's time in its last observation event."""

    value: bytes | None
    origin: str | None
    changed_at: Instant | None


@dataclass(frozen=True, slots=True)
class AnnouncedResource:
    """A resource as the device announces it now."""

    path: str
    resource_type: str
    content_type: str
    observable: bool
    auto_observed: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter of the directory: a column of the devices table, an SQL comparison and its values."""

    column: str
    comparison: str
    values: tuple[str | int, ...]


def newest_contact(session: Session) -> Instant | None:
    """When a device made contact last; ``None`` without devices."""
    instant: Instant | None = session.scalar("SELECT MAX(last_contact_at) FROM devices")
    return instant


def find(session: Session, device_id: str) -> DeviceRow | None:
    """The device with this id."""
    row = session.row(f"SELECT {_DEVICE} FROM devices WHERE device_id = :device_id", device_id=device_id)
    return DeviceRow(*row) if row else None


def endpoint_name(session: Session, device_id: str) -> str:
    """The name a known device registers with."""
    name: str = session.scalar("SELECT endpoint_name FROM devices WHERE device_id = :device_id", device_id=device_id)
    return name


def revision(session: Session, device_id: str) -> int | None:
    """The number of the last change of a device's object; ``None`` without such a device."""
    number: int | None = session.scalar(
        "SELECT revision FROM devices WHERE device_id = :device_id", device_id=device_id
    )
    return number


def find_by_endpoint_name(session: Session, endpoint_name: str) -> DeviceRow | None:
    """The device with this endpoint name."""
    row = session.row(f"SELECT {_DEVICE} FROM devices WHERE endpoint_name = :name", name=endpoint_name)
    return DeviceRow(*row) if row else None


def put(session: Session, device: DeviceRow) -> None:
    """Store a device that made a full registration; its creation time stays what it was."""
    session.run(
        "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
        " created_at, updated_at, last_contact_at, contact_noted_at, registration_expires_at)"
        " VALUES (:device_id, :endpoint_name, :endpoint_type, :registered, :queue_mode, :lifetime_seconds,"
        " :created_at, :updated_at, :last_contact_at, :last_contact_at, :registration_expires_at)"
        " ON CONFLICT (device_id) DO UPDATE SET endpoint_name = excluded.endpoint_name,"
        " endpoint_type = excluded.endpoint_type, registered = excluded.registered,"
        " queue_mode = excluded.queue_mode, lifetime_seconds = excluded.lifetime_seconds,"
        " updated_at = excluded.updated_at, last_contact_at = excluded.last_contact_at,"
        " registration_expires_at = excluded.registration_expires_at",
        **{name: getattr(device, name) for name in DeviceRow.__slots__},
    )
    revisions.note_change(session, [device.device_id])


def set_registered(session: Session, device_id: str, *, registered: bool, at: Instant) -> None:
    """Note that the device updated its registration, or that this ended."""
    session.run(
        "UPDATE devices SET registered = :registered, updated_at = :at,"
        " registration_expires_at = :at + 1000 * CAST(lifetime_seconds AS BIGINT) WHERE device_id = :device_id",
        device_id=device_id,
        registered=int(registered),
        at=at,
    )
    revisions.note_change(session, [device_id])


def touch(session: Session, device_ids: Iterable[str], at: Instant) -> None:
    """Note that something came from these devices."""
    session.run_many(
        "UPDATE devices SET last_contact_at = ? WHERE device_id = ? AND last_contact_at < ?",
        [(at, device_id, at) for device_id in device_ids],
    )


def page(
    session: Session, conditions: Sequence[Condition], *, after: str | None, descending: bool, limit: int
) -> list[DeviceRow]:
    """Up to ``limit`` devices that meet all conditions, by id, beginning behind the id ``after``."""
    where, parameters = where_of(conditions)
    if after is not None:
        where.append(f"device_id {'<' if descending else '>'} :after")
        parameters["after"] = after
    rows = session.rows(
        f"SELECT {_DEVICE} FROM devices{clause(where)} ORDER BY device_id {'DESC' if descending else 'ASC'}"
        " LIMIT :limit",
        limit=limit,
        **parameters,
    )
    return [DeviceRow(*row) for row in rows]


def count(session: Session, conditions: Sequence[Condition]) -> int:
    """How many devices meet all conditions."""
    where, parameters = where_of(conditions)
    return int(session.scalar(f"SELECT count(*) FROM devices{clause(where)}", **parameters))


def registered(session: Session) -> list[DeviceRow]:
    """All devices that are registered now."""
    return [DeviceRow(*row) for row in session.rows(f"SELECT {_DEVICE} FROM devices WHERE registered = 1")]


def next_registration_expiry(session: Session) -> Instant | None:
    """When the next registration ends unless it is updated."""
    instant: Instant | None = session.scalar("SELECT min(registration_expires_at) FROM devices WHERE registered = 1")
    return instant


def with_expired_registration(session: Session, now: Instant) -> list[DeviceRow]:
    """The registered devices whose registration was not updated in time."""
    rows = session.rows(
        f"SELECT {_DEVICE} FROM devices WHERE registered = 1 AND registration_expires_at <= :now", now=now
    )
    return [DeviceRow(*row) for row in rows]


def note_contacts(session: Session, since: Instant, *, most: int) -> int:
    """Note the last contact where the one noted was before the instant and another came since; of so many at most.

    The last contact has no index, which each value that comes from a device would have to move it in: the one noted
    has, and is never later.

    Returns:
        Of how many devices it was noted.
    """
    return session.run(
        "UPDATE devices SET contact_noted_at = last_contact_at WHERE device_id IN (SELECT device_id FROM devices"
        " WHERE contact_noted_at < :since AND last_contact_at >= :since LIMIT :most)",
        since=since,
        most=most,
    )


def silent_since(session: Session, instant: Instant) -> list[str]:
    """The ids of the devices whose last connection was before the instant."""
    rows = session.rows(
        "SELECT device_id FROM devices WHERE contact_noted_at < :instant AND last_contact_at < :instant",
        instant=instant,
    )
    return [row[0] for row in rows]


def delete(session: Session, device_id: str) -> None:
    """Delete a device with all that belongs to it."""
    session.run("DELETE FROM devices WHERE device_id = :device_id", device_id=device_id)


def resources(session: Session, device_id: str) -> list[ResourceRow]:
    """All resources the device has ever introduced."""
    rows = session.rows(f"SELECT {RESOURCE_COLUMNS} FROM resources WHERE device_id = :device_id", device_id=device_id)
    return [ResourceRow(*row) for row in rows]


def announced(session: Session, device_id: str) -> list[AnnouncedResource]:
    """The resources the device has now."""
    rows = session.rows(
        "SELECT path, resource_type, content_type, observable, auto_observed FROM resources"
        " WHERE device_id = :device_id AND present = 1",
        device_id=device_id,
    )
    return [AnnouncedResource(path, kind, content, bool(obs), bool(auto)) for path, kind, content, obs, auto in rows]


def announce(session: Session, device_id: str, announced_now: Iterable[AnnouncedResource]) -> None:
    """Take the device's structure into the mirror: new resources are added, none is ever removed."""
    session.run("UPDATE resources SET present = 0 WHERE device_id = :device_id", device_id=device_id)
    session.run_many(
        "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, auto_observed)"
        " VALUES (?, ?, 1, ?, ?, ?, ?)"
        " ON CONFLICT (device_id, path) DO UPDATE SET present = 1, resource_type = excluded.resource_type,"
        " content_type = excluded.content_type, observable = excluded.observable,"
        " auto_observed = excluded.auto_observed",
        [
            (device_id, each.path, each.resource_type, each.content_type, int(each.observable), int(each.auto_observed))
            for each in announced_now
        ],
    )
    revisions.note_change(session, [device_id])


def knows_path(session: Session, device_id: str, path: str) -> bool:
    """Whether the device has ever introduced the resource."""
    return bool(
        session.scalar(
            "SELECT 1 FROM resources WHERE device_id = :device_id AND path = :path", device_id=device_id, path=path
        )
    )


def known(session: Session, device_id: str, path: str) -> Known:
    """What the mirror knows of a resource."""
    row = session.row(
        "SELECT reported_value, reported_origin, changed_at FROM resources"
        " WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
    )
    return Known(*row) if row else Known(None, None, None)


def heard_of_simulated(session: Session) -> list[Row]:
    """What was observed last of each resource of the simulated devices: device id, path, value and when.

    The value is ``None`` where another has been read since.
    """
    return session.rows(
        "SELECT r.device_id, path, CASE WHEN reported_origin <> 'read' THEN reported_value END, heard_at"
        " FROM resources r JOIN simulated_devices s ON s.device_id = r.device_id WHERE heard_at IS NOT NULL"
    )


def report(session: Session, values: Sequence[ReportedValue], *, contact_at: Instant | None = None) -> None:
    """Store values that were received from devices.

    Args:
        session: The transaction.
        values: The values, in the order in which they were received.
        contact_at: When they came, where that is not noted otherwise.
    """
    revision = revisions.note_change(session, [value.device_id for value in values], contact_at=contact_at)
    rows = [_row_of(value, revision) for value in values]
    if session.run_many(_REPORT, rows) < len(rows):
        session.run_many(
            "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable)"
            " VALUES (?, ?, 1, '', ?, 1) ON CONFLICT (device_id, path) DO NOTHING",
            [(value.device_id, value.path, value.content_type) for value in values],
        )
        session.run_many(_REPORT, rows)


def _row_of(value: ReportedValue, revision: int) -> tuple[bytes | str | int | None, ...]:
    """A value as :data:`_REPORT` takes it."""
    heard_at = None if value.changed_at is None else value.at
    return (*value[:5], revision, heard_at, value.changed_at, value.device_id, value.path)


def desired(session: Session, device_id: str, path: str) -> Desired | None:
    """The last desired value of a resource."""
    row = session.row(
        "SELECT desired_command_id, desired_app_id, desired_value, desired_content_type, desired_status, desired_at,"
        " requested_at, desired_updated_at, desired_category"
        " FROM resources WHERE device_id = :device_id AND path = :path AND desired_status IS NOT NULL",
        device_id=device_id,
        path=path,
    )
    if row is None:
        return None
    command_id, app_id, value, content_type, status, *rest = row
    return Desired(command_id, app_id, value, content_type, DesiredStatus(status), *rest)


def put_desired(session: Session, device_id: str, path: str, desired_value: Desired) -> None:
    """Store the desired value of a resource."""
    revision = revisions.note_change(session, [device_id])
    session.run(
        "UPDATE resources SET desired_command_id = :command_id, desired_app_id = :app_id, desired_value = :value,"
        " desired_content_type = :content_type, desired_status = :status, desired_at = :desired_at,"
        " requested_at = :requested_at, desired_updated_at = :status_updated_at, desired_category = :category,"
        " desired_revision = :revision"
        " WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
        command_id=desired_value.command_id,
        app_id=desired_value.app_id,
        value=desired_value.value,
        content_type=desired_value.content_type,
        status=int(desired_value.status),
        desired_at=desired_value.desired_at,
        requested_at=desired_value.requested_at,
        status_updated_at=desired_value.status_updated_at,
        category=desired_value.category,
        revision=revision,
    )


def where_of(conditions: Sequence[Condition]) -> tuple[list[str], dict[str, Any]]:
    """The conditions in SQL, and the values of the parameters in them."""
    clauses = []
    parameters: dict[str, Any] = {}
    for index, condition in enumerate(conditions):
        names = [f"c{index}_{position}" for position in range(len(condition.values))]
        parameters |= dict(zip(names, condition.values, strict=True))
        placeholders = ", ".join(f":{name}" for name in names)
        clauses.append(f"{condition.column} {condition.comparison} ({placeholders})")
    return clauses, parameters


def clause(where: Sequence[str]) -> str:
    """The clause that begins with WHERE; none where there is no condition."""
    return f" WHERE {' AND '.join(where)}" if where else ""
