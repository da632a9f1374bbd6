"""The statements for the reported and desired values of resources, which are the mirror itself.

Source: specification 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_sdk.wire.device_object import DesiredStatus, Origin
from mirror_server.core.desired import DesiredState
from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Row, Session

DESIRED_COLUMNS = (
    "desired_command_id, desired_app_id, desired_value, desired_content_type, desired_status, desired_at,"
    " requested_at, desired_updated_at, desired_category"
)
"""The columns that :func:`desired_of` reads."""


class ResourceRow(NamedTuple):
    """A row of a resource in a device object. The fields have the names of the columns in the table.

    :data:`mirror_sdk.wire.snapshot.COLUMNS` describes how the members of the interface are serialized. Only the
    application ``desired_app_id`` may receive ``desired_category``.

    ``reported_revision`` and ``desired_revision`` are the numbers of the last changes of the reported and the desired
    part. In the state at a time in the past, ``desired_revision`` is ``None`` for a write that was pending at that
    time. ``subscribed`` is ``None`` in such a state, because the history does not contain it.

    ``acknowledged_at`` and ``acknowledged_by`` are set if a failed write was acknowledged.
    """

    path: str
    subscribed: int | None
    subscribed_at: Instant | None
    reported_value: bytes | None
    reported_content_type: str | None
    reported_at: Instant | None
    reported_expires_at: Instant | None
    reported_revision: int | None
    reported_origin: str | None
    desired_value: bytes | None
    desired_content_type: str | None
    desired_status: int | None
    desired_at: Instant | None
    desired_updated_at: Instant | None
    desired_category: str | None
    requested_at: Instant | None
    desired_app_id: str | None
    desired_revision: int | None
    acknowledged_at: Instant | None
    acknowledged_by: str | None


RESOURCE_COLUMNS = ", ".join(ResourceRow._fields)


class ReceivedValue(NamedTuple):
    """A value that was received from a device, with its origin.

    ``changed_at`` is the time in the observation event of the value, or ``None`` for a value that was read.
    """

    value: bytes
    content_type: str
    origin: Origin
    at: Instant
    expires_at: Instant | None
    device_id: str
    path: str
    changed_at: Instant | None = None


REPORT = (
    "UPDATE resources SET reported_value = ?, reported_content_type = ?, reported_origin = ?, reported_at = ?,"
    " reported_expires_at = ?, reported_revision = ?, changed_at = COALESCE(?, changed_at)"
    " WHERE device_id = ? AND path = ?"
)
"""The statement that stores the reported value of one resource. The parameters have the order of :func:`_row_of`.

:func:`report` may run the statement twice for a value. It skips a value that a later value of the same call replaces.
Therefore the statement must not increment a column of the row.

The extension postgresql rewrites the statement for many rows (``store/statements.py``). It determines the type of each
parameter from the column before it, and adds the revision counter to every column whose name ends in ``revision``.
"""


def _row_of(reported: ReceivedValue, revision: int) -> Row:
    value, content_type, origin, at, expires_at, device_id, path, changed_at = reported
    return value, content_type, origin, at, expires_at, revision, changed_at, device_id, path


class StoredValue(NamedTuple):
    """The stored value of a resource, and the device's time in its last observation event."""

    value: bytes | None = None
    content_type: str | None = None
    origin: str | None = None
    reported_at: Instant | None = None
    expires_at: Instant | None = None
    changed_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class AnnouncedResource:
    """A resource as a device announces it during a registration.

    ``auto_observed`` is whether the device sends changes of the resource without a subscription.
    """

    path: str
    resource_type: str = ""
    content_type: str = "text/plain"
    observable: bool = True
    auto_observed: bool = False


NO_LIMIT = 2**31 - 1
"""A number of resources that no device exceeds."""


def find(session: Session, device_id: str, path: str) -> ResourceRow | None:
    """Return a resource, or ``None`` if the device has never announced it."""
    row = session.row(
        f"SELECT {RESOURCE_COLUMNS} FROM resources WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
    )
    return ResourceRow._make(row) if row else None


def announced(session: Session, device_id: str, *, most: int = NO_LIMIT) -> list[AnnouncedResource]:
    """Return up to ``most`` of the resources that the device currently has."""
    rows = session.rows(
        "SELECT path, resource_type, content_type, observable, auto_observed FROM resources"
        " WHERE device_id = :device_id AND present = 1 LIMIT :most",
        device_id=device_id,
        most=most,
    )
    return [AnnouncedResource(path, kind, content, bool(obs), bool(auto)) for path, kind, content, obs, auto in rows]


def announce(session: Session, device_id: str, announced_now: Iterable[AnnouncedResource]) -> None:
    """Store the resources that a device announced.

    New resources are added. Resources that the device no longer announces are marked as absent and never deleted.
    """
    rows = [
        # An auto-observed resource can be subscribed to even if the device does not declare it as observable.
        (device_id, r.path, r.resource_type, r.content_type, int(r.observable or r.auto_observed), int(r.auto_observed))
        for r in announced_now
    ]
    session.run("UPDATE resources SET present = 0 WHERE device_id = :device_id", device_id=device_id)
    session.run_many(
        "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable, auto_observed)"
        " VALUES (?, ?, 1, ?, ?, ?, ?)"
        " ON CONFLICT (device_id, path) DO UPDATE SET present = 1, resource_type = excluded.resource_type,"
        " content_type = excluded.content_type, observable = excluded.observable,"
        " auto_observed = excluded.auto_observed",
        rows,
    )
    session.note_change([device_id])


def has_instance(session: Session, device_id: str, path: str) -> bool:
    """Return whether the device has ever announced a resource of this object instance."""
    # "0" is the character after "/". So this range contains all paths below the instance, and uses the primary key.
    return bool(
        session.scalar(
            "SELECT 1 FROM resources WHERE device_id = :device_id AND path > :first AND path < :last LIMIT 1",
            device_id=device_id,
            first=f"{path}/",
            last=f"{path}0",
        )
    )


def stored_value(session: Session, device_id: str, path: str) -> StoredValue:
    """Return the stored value of a resource. All fields are ``None`` if the resource has no value."""
    row = session.row(
        "SELECT reported_value, reported_content_type, reported_origin, reported_at, reported_expires_at, changed_at"
        " FROM resources WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
    )
    return StoredValue(*row) if row else StoredValue()


def report(session: Session, values: Sequence[ReceivedValue], *, contact_at: Instant | None = None) -> int:
    """Store values that were received from devices. Of several values of one resource, only the last one is written.

    Args:
        session: The current transaction.
        values: The values, in the order in which they were received.
        contact_at: The time of the contact with the devices. Omit it if the caller records the contact.

    Returns:
        The revision of the first value. The revision of each further value is one higher than that of the value before.
    """
    device_ids = [value.device_id for value in values]
    last = {(value.device_id, value.path): index for index, value in enumerate(values)}

    def rows(first: int) -> list[Row]:
        return [_row_of(values[index], first + index) for index in last.values()]

    first, stored = session.note_change_with(device_ids, REPORT, rows, contact_at=contact_at)
    # A device may send a value of a resource that it never announced. The update does not report which rows were
    # missing, so the update runs again for all values.
    if stored < len(last):
        session.run_many(
            "INSERT INTO resources (device_id, path, present, resource_type, content_type, observable)"
            " VALUES (?, ?, 1, '', ?, 1) ON CONFLICT (device_id, path) DO NOTHING",
            [(*resource, values[index].content_type) for resource, index in last.items()],
        )
        session.run_many(REPORT, rows(first))
    return first


def desired_of(row: Row) -> DesiredState | None:
    """Return the desired value in a row of :data:`DESIRED_COLUMNS`, or ``None`` if the row has no desired value."""
    command_id, app_id, value, content_type, status, *rest = row
    return (
        None if status is None else DesiredState(command_id, app_id, value, content_type, DesiredStatus(status), *rest)
    )


def desired(session: Session, device_id: str, path: str) -> DesiredState | None:
    """Return the last desired value of a resource, or ``None`` if the resource has none."""
    row = session.row(
        f"SELECT {DESIRED_COLUMNS} FROM resources WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
    )
    return desired_of(row) if row else None


def desired_by(session: Session, device_id: str, command_id: int) -> list[tuple[str, DesiredState]]:
    """Return the paths and desired values that a command set and that no later command has replaced."""
    rows = session.rows(
        f"SELECT path, {DESIRED_COLUMNS} FROM resources WHERE device_id = :device_id"
        " AND desired_command_id = :command_id",
        device_id=device_id,
        command_id=command_id,
    )
    return [(row[0], found) for row in rows if (found := desired_of(row[1:])) is not None]


class DesiredUpdate(NamedTuple):
    """A new desired value of a resource."""

    device_id: str
    path: str
    desired: DesiredState


DESIRE = (
    "UPDATE resources SET desired_command_id = ?, desired_app_id = ?, desired_value = ?, desired_content_type = ?,"
    " desired_status = ?, desired_at = ?, requested_at = ?, desired_updated_at = ?, desired_category = ?,"
    " desired_revision = ?, acknowledged_at = NULL, acknowledged_by = NULL WHERE device_id = ? AND path = ?"
)
"""The statement that stores the desired value of one resource.

The parameters have the order of :func:`_row_of_desired`. See also :data:`REPORT`.
"""


def put_desired(session: Session, values: Sequence[DesiredUpdate], *, contact_at: Instant | None = None) -> int:
    """Store desired values of different resources. At least one value is needed.

    Args:
        session: The current transaction.
        values: The desired values.
        contact_at: The time of a contact with the devices, if there was a contact.

    Returns:
        The revision of the first value. The revision of each further value is one higher than that of the value before.
    """

    def rows(first: int) -> list[Row]:
        return [_row_of_desired(value, number) for number, value in enumerate(values, first)]

    device_ids = [value.device_id for value in values]
    return session.note_change_with(device_ids, DESIRE, rows, contact_at=contact_at)[0]


def _row_of_desired(value: DesiredUpdate, revision: int) -> tuple[bytes | str | int | None, ...]:
    device_id, path, desired = value
    command = (desired.command_id, desired.app_id, desired.value, desired.content_type, int(desired.status))
    times = (desired.desired_at, desired.requested_at, desired.status_updated_at)
    return (*command, *times, desired.category, revision, device_id, path)
