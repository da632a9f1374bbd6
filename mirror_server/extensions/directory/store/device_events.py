"""The statements for device events: starts, updates and ends of registrations. Source: wire.md 9.

The events are stored for a limited time. The history, if it is enabled, also has rows for these events, but is not
used here for two reasons. First, its rows move to compressed segments and files, in which events cannot be found by
id. Second, it has another retention period, and is off by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirror_server.core.timestamps import Instant
from mirror_server.store.conditions import Condition, count_of, page_of
from mirror_server.store.session import Session

KINDS = ("registration", "reg_update", "deregistration", "expired")
"""The kinds of events. The table stores the index in this list, so new kinds must be appended at the end."""

_TABLE = "device_events e JOIN devices d ON d.device_id = e.device_id"
_COLUMNS = "e.revision, e.device_id, d.endpoint_name, e.kind, e.at, e.state_change"


@dataclass(frozen=True, slots=True)
class DeviceEventRow:
    """A start, update or end of a registration.

    Attributes:
        revision: The unique number of the event. Events with larger numbers were stored later.
        device_id: The id of the device.
        endpoint_name: The current endpoint name of the device.
        kind: The index of the kind in :data:`KINDS`.
        at: The time of the event.
        state_change: 1 if the event changed whether the device is registered, and 0 otherwise.
    """

    revision: int
    device_id: str
    endpoint_name: str
    kind: int
    at: Instant
    state_change: int


def add(session: Session, revision: int, device_id: str, kind: str, at: Instant, *, state_change: bool) -> None:
    """Append an event of an existing device. ``kind`` is one of :data:`KINDS`."""
    session.run(
        "INSERT INTO device_events (revision, device_id, kind, at, state_change)"
        " VALUES (:revision, :device_id, :kind, :at, :state_change)",
        revision=revision,
        device_id=device_id,
        kind=KINDS.index(kind),
        at=at,
        state_change=int(state_change),
    )


def find(session: Session, revision: int) -> DeviceEventRow | None:
    """Return the event with this number, or ``None`` if it does not exist."""
    row = session.row(f"SELECT {_COLUMNS} FROM {_TABLE} WHERE e.revision = :revision", revision=revision)
    return DeviceEventRow(*row) if row else None


def page(
    session: Session, conditions: Sequence[Condition], *, after: int | None, descending: bool, limit: int
) -> list[DeviceEventRow]:
    """Return up to ``limit`` events that match all conditions, in the order in which they were stored.

    The events start after the number ``after``, if it is set.
    """
    select = f"SELECT {_COLUMNS} FROM {_TABLE}"
    rows = page_of(session, select, "e.revision", conditions, after=after, descending=descending, limit=limit)
    return [DeviceEventRow(*row) for row in rows]


def count(session: Session, conditions: Sequence[Condition]) -> int:
    """Return the number of events that match all conditions."""
    return count_of(session, "device_events e", conditions)


def drop(session: Session, *, before: Instant, keep: int, most: int) -> int:
    """Delete up to ``most`` events, oldest first.

    The deleted events happened before the time ``before``, or are not among the newest ``keep`` events.

    Returns:
        The number of deleted events.
    """
    too_many = session.scalar(
        "SELECT revision FROM device_events ORDER BY revision DESC LIMIT 1 OFFSET :keep", keep=keep
    )
    return session.run(
        "DELETE FROM device_events WHERE revision IN (SELECT revision FROM device_events"
        " WHERE at < :before OR revision <= :too_many ORDER BY revision LIMIT :most)",
        before=before,
        too_many=-1 if too_many is None else too_many,
        most=most,
    )
