"""Registrations of real devices: where each is reached and what it said of itself, so that a restart loses none.

A registration is there for as long as the directory has its device as registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mirror_server.core.instants import Instant
from mirror_server.store.session import Session

_OF_TABLE = "location address is_secure identity version binding prefix structured links_hash to_discover tokens"
_OF_DIRECTORY = "endpoint_name queue_mode lifetime_seconds registration_expires_at last_contact_at"
_COLUMNS = ["d.device_id", *_OF_TABLE.split(), *_OF_DIRECTORY.split()]


def put(session: Session, row: Mapping[str, object]) -> None:
    """Store the registration of a device, in the place of the one it had; nothing where the device is gone by now.

    Args:
        session: The transaction.
        row: A value for each column of the table.
    """
    changed = ", ".join(f"{name} = excluded.{name}" for name in row if name != "device_id")
    session.run(
        f"INSERT INTO registrations ({', '.join(row)}) SELECT {', '.join(f':{name}' for name in row)}"
        " FROM devices WHERE device_id = :device_id AND registered = 1"
        f" ON CONFLICT (device_id) DO UPDATE SET {changed}",
        **row,
    )


def put_address(session: Session, device_id: str, address: str) -> None:
    """Note that a device was heard from another address."""
    session.run(
        "UPDATE registrations SET address = :address WHERE device_id = :device_id", device_id=device_id, address=address
    )


def delete(session: Session, device_id: str) -> int:
    """Forget the registration of a device; gives how many it had."""
    return session.run("DELETE FROM registrations WHERE device_id = :device_id", device_id=device_id)


def expiring(session: Session, before: Instant) -> list[tuple[str, int, Instant]]:
    """The registered real devices that expire before an instant: device id, lifetime in seconds, and when."""
    rows = session.rows(
        "SELECT d.device_id, lifetime_seconds, registration_expires_at FROM registrations r"
        " JOIN devices d ON d.device_id = r.device_id WHERE registered = 1 AND registration_expires_at < :before",
        before=before,
    )
    return [(device_id, lifetime_seconds, expires_at) for device_id, lifetime_seconds, expires_at in rows]


def expiries(session: Session) -> dict[str, Instant]:
    """When the registrations of all real devices end, by device id."""
    rows = session.rows(
        "SELECT d.device_id, registration_expires_at FROM registrations r"
        " JOIN devices d ON d.device_id = r.device_id WHERE registered = 1"
    )
    return {row[0]: row[1] for row in rows}


def prolong(session: Session, expiries: Sequence[tuple[Instant, str]]) -> None:
    """Set when registrations expire, each as instant and device id."""
    session.run_many("UPDATE devices SET registration_expires_at = ? WHERE device_id = ?", expiries)


def load(session: Session) -> list[dict[str, Any]]:
    """All registered real devices: what :func:`put` stored, and what the directory has of each."""
    rows = session.rows(
        f"SELECT {', '.join(_COLUMNS)} FROM registrations r"
        " JOIN devices d ON d.device_id = r.device_id WHERE registered = 1"
    )
    return [dict(zip(("device_id", *_COLUMNS[1:]), row, strict=True)) for row in rows]


def observe_anew(session: Session) -> None:
    """Have all real devices asked anew to observe what they observed: whether they still do is not known.

    Their subscriptions stay what they are, so that only a changed value is told to anybody.
    """
    session.run(
        "UPDATE resources SET observing = 0 WHERE observing = 1 AND device_id IN (SELECT device_id FROM registrations)"
    )
