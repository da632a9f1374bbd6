"""The statements for the devices of the directory. Source: specification 2.1; wire.md 6."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.store.conditions import Condition, count_of, is_subquery, page_of, parameters_of, with_names
from mirror_server.store.resources import NO_LIMIT, ResourceRow
from mirror_server.store.session import Session


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device in the directory. The values of ``registered`` and ``queue_mode`` are 0 or 1.

    ``backend`` is the name of the backend through which the device registered. ``revision`` is the number of the last
    change of the device object; see :meth:`Session.note_change`.
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
    backend: str
    revision: int = 0


DEVICE_COLUMNS = ", ".join(DeviceRow.__slots__)

_INDEXED = {"registered", "endpoint_type", "created_at", "updated_at"}
"""The columns of filters with an index that is not unique."""

_MANY = 4000
"""From about this number on, reading the devices by id until a page is full is faster than sorting them."""
_FEW_CONDITIONS = 5
_FEW_VALUES = 50
_FOUND_COST = 8
"""The time to read a device that an index found, in devices that are read in order."""


def find(session: Session, device_id: str) -> DeviceRow | None:
    """Return the device with this id, or ``None`` if it does not exist."""
    row = session.row(f"SELECT {DEVICE_COLUMNS} FROM devices WHERE device_id = :device_id", device_id=device_id)
    return DeviceRow(*row) if row else None


def find_by_endpoint_name(session: Session, endpoint_name: str) -> DeviceRow | None:
    """Return the device with this endpoint name, or ``None`` if it does not exist."""
    row = session.row(f"SELECT {DEVICE_COLUMNS} FROM devices WHERE endpoint_name = :name", name=endpoint_name)
    return DeviceRow(*row) if row else None


def put(session: Session, device: DeviceRow) -> None:
    """Store a device after a full registration. An existing device keeps its creation time."""
    session.run(
        "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
        " created_at, updated_at, last_contact_at, registration_expires_at, backend, number)"
        " VALUES (:device_id, :endpoint_name, :endpoint_type, :registered, :queue_mode, :lifetime_seconds,"
        " :created_at, :updated_at, :last_contact_at, :registration_expires_at, :backend,"
        # For `estimated_count`. A known device keeps its number.
        " (SELECT coalesce(max(number), 0) + 1 FROM devices))"
        " ON CONFLICT (device_id) DO UPDATE SET endpoint_name = excluded.endpoint_name,"
        " endpoint_type = excluded.endpoint_type, registered = excluded.registered,"
        " queue_mode = excluded.queue_mode, lifetime_seconds = excluded.lifetime_seconds,"
        " updated_at = excluded.updated_at, last_contact_at = excluded.last_contact_at,"
        " registration_expires_at = excluded.registration_expires_at",
        **{name: getattr(device, name) for name in DeviceRow.__slots__},
    )
    session.note_change([device.device_id])


def rename(session: Session, device_id: str, endpoint_name: str) -> None:
    """Change the endpoint name of a device. No other device may have the new name."""
    session.run(
        "UPDATE devices SET endpoint_name = :endpoint_name WHERE device_id = :device_id",
        device_id=device_id,
        endpoint_name=endpoint_name,
    )
    session.note_change([device_id])


def put_registration(session: Session, device: DeviceRow, at: Instant) -> None:
    """Store whether a device is registered, its queue mode, and its lifetime, which starts at ``at``."""
    session.run(
        "UPDATE devices SET registered = :registered, lifetime_seconds = :lifetime_seconds, queue_mode = :queue_mode,"
        " updated_at = :at, registration_expires_at = :expires_at WHERE device_id = :device_id",
        device_id=device.device_id,
        registered=device.registered,
        lifetime_seconds=device.lifetime_seconds,
        queue_mode=device.queue_mode,
        at=at,
        expires_at=after_seconds(at, device.lifetime_seconds),
    )
    session.note_change([device.device_id])


def record_contact(session: Session, device_ids: Iterable[str], at: Instant) -> None:
    """Store the time of the last contact with these devices."""
    session.run_many(
        "UPDATE devices SET last_contact_at = ? WHERE device_id = ? AND last_contact_at < ?",
        [(at, device_id, at) for device_id in device_ids],
    )


def page(
    session: Session, conditions: Sequence[Condition], *, after: str | None, descending: bool, limit: int
) -> list[DeviceRow]:
    """Return up to ``limit`` devices that meet all conditions, ordered by id.

    The devices start after the id ``after``, if it is set.
    """
    select = f"SELECT {DEVICE_COLUMNS} FROM devices"
    where = planned(session, conditions)
    rows = page_of(session, select, "device_id", where, after=after, descending=descending, limit=limit)
    return [DeviceRow(*row) for row in rows]


def planned(session: Session, conditions: Sequence[Condition]) -> list[Condition]:
    """Return equivalent conditions for reading devices by id, which use an index only if it finds few devices.

    SQLite has no statistics. For one page it might read many devices from the index, and sort them.
    """
    counted = _with_counts(session, conditions)
    return [by_index if found < _MANY else replace(by_index, among=None) for by_index, found in counted]


def _with_counts(session: Session, conditions: Sequence[Condition]) -> Iterator[tuple[Condition, int]]:
    """Yield the conditions in a form for indexes, and how many devices each index finds, up to :data:`_MANY`."""
    ranges = _narrowest(conditions)
    counts: dict[Condition, int] = {}
    for condition in conditions:
        column, counted, by_index = condition.column, condition.among, condition
        if column in _INDEXED and condition.comparison != "NOT IN":
            found = f"FROM devices WHERE {column} {condition.comparison} ({{}})"
            if condition.comparison != "IN" and column in ranges:
                # A range of times consists of two conditions, each of which may find many devices.
                found = f"FROM devices WHERE {ranges[column]}"
            # No index has this expression.
            by_index = replace(condition, column=f"coalesce({column}, {column})", among=f"SELECT device_id {found}")
            counted = f"SELECT 1 {found}"
        if counted is None:
            yield by_index, _MANY
            continue
        # Conditions on the same range have the same query.
        key = replace(condition, column=counted, comparison="", values=condition.values if "{}" in counted else ())
        if key not in counts:
            some = f"SELECT count(*) FROM ({with_names(counted, condition)} LIMIT {_MANY}) AS found"
            counts[key] = int(session.scalar(some, **parameters_of(condition)))
        yield by_index, counts[key]


def _narrowest(conditions: Sequence[Condition]) -> dict[str, str]:
    """Return a clause for each indexed column with bounds: the largest lower bound and the smallest upper bound.

    With further bounds, a query would read the rows between these two and find none.
    """
    bounds: dict[tuple[str, str], tuple[Any, ...]] = {}
    for condition in conditions:
        side = condition.comparison[0]
        if condition.column not in _INDEXED or side not in "<>":
            continue
        (value,) = condition.values
        if isinstance(value, int):
            # Of equal bounds, the one that excludes the value is narrower.
            bound = (value if side == ">" else -value), len(condition.comparison) == 1
            key = condition.column, side
            if key not in bounds or bound > bounds[key][:2]:
                bounds[key] = *bound, f"{condition.column} {condition.comparison} {value}"
    clauses: dict[str, list[str]] = {}
    for (column, _), (*_, text) in bounds.items():
        clauses.setdefault(column, []).append(text)
    return {column: " AND ".join(each) for column, each in clauses.items()}


def count(session: Session, conditions: Sequence[Condition]) -> int:
    """Return the number of devices that meet all conditions."""
    plan = planned(session, conditions)
    return count_of(session, "devices", plan if any(each.among for each in plan) else conditions)


def estimated_count(session: Session) -> int:
    """Return an estimate of the number of devices, without counting them.

    The estimate is too high if devices were deleted.
    """
    return int(session.scalar("SELECT coalesce(max(number), 0) FROM devices"))


def scanned_count(session: Session, conditions: Sequence[Condition]) -> int:
    """Return an estimate of the number of devices that are read for a page.

    A device that an index finds counts as several devices, because it is not read in order.
    """
    everything = estimated_count(session)
    values = sum(len(each.values) for each in conditions)
    if (
        len(conditions) > _FEW_CONDITIONS
        or values > _FEW_VALUES
        or any(is_subquery(each.column) for each in conditions)
    ):
        # Finding out would itself take long, or the page does anyway.
        return everything
    fewest = min((found for _, found in _with_counts(session, conditions)), default=_MANY)
    return everything if fewest == _MANY else min(everything, _FOUND_COST * fewest)


def next_registration_expiry(session: Session) -> Instant | None:
    """Return the time at which the next registration expires unless it is updated, or ``None``."""
    instant: Instant | None = session.scalar("SELECT min(registration_expires_at) FROM devices WHERE registered = 1")
    return instant


def with_expired_registration(session: Session, now: Instant) -> list[DeviceRow]:
    """Return the devices that are still marked as registered, but whose registration was not updated in time."""
    rows = session.rows(
        f"SELECT {DEVICE_COLUMNS} FROM devices WHERE registered = 1 AND registration_expires_at <= :now", now=now
    )
    return [DeviceRow(*row) for row in rows]


def silent_since(session: Session, instant: Instant) -> list[str]:
    """Return the ids of the devices whose last contact was before the given time."""
    # This query uses no index, because every value from a device would have to update the index. It reads 1,000,000
    # devices in 0.1 s, or 0.9 s if they are not in memory.
    rows = session.rows("SELECT device_id FROM devices WHERE last_contact_at < :instant", instant=instant)
    return [device_id for (device_id,) in rows]


def oldest_contact(session: Session) -> Instant | None:
    """Return the oldest of the last contacts of all devices, or ``None`` if there is no device."""
    instant: Instant | None = session.scalar("SELECT min(last_contact_at) FROM devices")
    return instant


def delete(session: Session, device_id: str) -> None:
    """Delete a device with all its rows."""
    session.note_change([device_id])
    session.run("DELETE FROM devices WHERE device_id = :device_id", device_id=device_id)
    session.note_change([device_id])


_DEVICE_WIDTH = len(DeviceRow.__slots__)
_OBJECT = (
    f"SELECT {', '.join(f'd.{name}' for name in DeviceRow.__slots__)},"
    f" {', '.join(f'r.{name}' for name in ResourceRow._fields)}"
    " FROM devices d LEFT JOIN resources r ON r.device_id = d.device_id AND d.revision <> :known"
    " WHERE d.device_id = :device_id"
    # Without this order, the order of the resources would depend on the last update and change the encoded object.
    " ORDER BY r.path LIMIT :most"
)
NO_REVISION = -1
"""A revision that no device has."""
_PATH = _DEVICE_WIDTH + ResourceRow._fields.index("path")

DeviceObject = tuple[DeviceRow, list[ResourceRow]]


def object_of(
    session: Session, device_id: str, *, most: int = NO_LIMIT, cached_revision: int = NO_REVISION
) -> DeviceObject | None:
    """Return a device and up to ``most`` of the resources that it has ever announced, with one statement.

    If the revision of the device is still ``cached_revision``, the result contains no resources.
    """
    rows = session.rows(_OBJECT, device_id=device_id, known=cached_revision, most=most)
    if not rows:
        return None
    own = [ResourceRow._make(row[_DEVICE_WIDTH:]) for row in rows if row[_PATH] is not None]
    return DeviceRow(*rows[0][:_DEVICE_WIDTH]), own
