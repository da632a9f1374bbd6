"""What became of the registrations of devices, as a list that is kept for a while. Source: wire.md 9.

The history has rows of them too, where one is kept. It is not read for this: its rows go on to compressed parts and
files, where none is found by its id, and it is kept for another time, mostly for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirror_server.core.instants import Instant
from mirror_server.store.conditions import Condition, count_of, page_of
from mirror_server.store.session import Session

KINDS = ("registration", "reg_update", "deregistration", "expired")
"""What happened. The table has the place in this list: new ones are added at its end."""

_TABLE = "device_events e JOIN devices d ON d.device_id = e.device_id"
_COLUMNS = "e.revision, e.device_id, d.endpoint_name, e.kind, e.at, e.state_change"


@dataclass(frozen=True, slots=True)
class DeviceEventRow:
    """What became of a registration.

    Attributes:
        revision: Its number, which no other one has; a larger one was stored later.
        device_id: The device.
        endpoint_name: Its name now.
        kind: The place in :data:`KINDS`.
        at: When it happened.
        state_change: 1 where the device was registered afterwards and not before, or the other way round; else 0.
    """

    revision: int
    device_id: str
    endpoint_name: str
    kind: int
    at: Instant
    state_change: int


def add(session: Session, revision: int, device_id: str, what: str, at: Instant, *, state_change: bool) -> None:
    """Append an event of a device that is known; ``what`` is one of :data:`KINDS`."""
    session.run(
        "INSERT INTO device_events (revision, device_id, kind, at, state_change)"
        " VALUES (:revision, :device_id, :kind, :at, :state_change)",
        revision=revision,
        device_id=device_id,
        kind=KINDS.index(what),
        at=at,
        state_change=int(state_change),
    )


def find(session: Session, revision: int) -> DeviceEventRow | None:
    """The event with this number."""
    row = session.row(f"SELECT {_COLUMNS} FROM {_TABLE} WHERE e.revision = :revision", revision=revision)
    return DeviceEventRow(*row) if row else None


def page(
    session: Session, conditions: Sequence[Condition], *, after: int | None, descending: bool, limit: int
) -> list[DeviceEventRow]:
    """Up to ``limit`` events that meet all conditions, in the order they were stored, behind the number ``after``."""
    select = f"SELECT {_COLUMNS} FROM {_TABLE}"
    rows = page_of(session, select, "e.revision", conditions, after=after, descending=descending, limit=limit)
    return [DeviceEventRow(*row) for row in rows]


def count(session: Session, conditions: Sequence[Condition]) -> int:
    """How many events meet all conditions."""
    return count_of(session, "device_events e", conditions)


def drop(session: Session, *, before: Instant, keep: int, most: int) -> int:
    """Delete the oldest events: those from before an instant, and of the rest all but so many; so many at most.

    Returns:
        How many were deleted.
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
