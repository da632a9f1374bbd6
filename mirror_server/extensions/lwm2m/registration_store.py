"""The stored registrations of real devices: their addresses and announced parameters, for use after a restart.

A registration exists as long as its device is registered in the directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.extensions.lwm2m import device_keys
from mirror_server.store.session import Session

_OF_TABLE = "location address is_secure identity version binding prefix structured links_hash to_discover tokens"
_OF_DIRECTORY = "endpoint_name queue_mode lifetime_seconds registration_expires_at last_contact_at"
_COLUMNS = ["d.device_id", *_OF_TABLE.split(), *_OF_DIRECTORY.split()]
_REGISTERED = "FROM registrations r JOIN devices d ON d.device_id = r.device_id WHERE registered = 1"

_SHORTEST_GRACE_SECONDS = 120
"""All retransmissions of an update sent while the service was down arrive within 93 s (RFC 7252, 4.8.2)."""
_LONGEST_GRACE_SECONDS = 600
"""Long enough for the next update of a device with a shorter lifetime. With a longer grace period, frequent restarts
would keep disconnected devices registered."""


def put(session: Session, row: Mapping[str, object]) -> None:
    """Insert or replace the registration of a device. Do nothing if the device is no longer registered.

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
    """Store the new address of a device."""
    session.run(
        "UPDATE registrations SET address = :address WHERE device_id = :device_id", device_id=device_id, address=address
    )


def load(session: Session) -> list[dict[str, Any]]:
    """Return all registered real devices: the rows that :func:`put` stored, with columns of the directory."""
    rows = session.rows(f"SELECT {', '.join(_COLUMNS)} {_REGISTERED}")
    return [dict(zip(("device_id", *_COLUMNS[1:]), row, strict=True)) for row in rows]


def expiries(session: Session) -> dict[str, Instant]:
    """Return the expiries of the registrations of all real devices, by device id."""
    return {row[0]: row[1] for row in session.rows(f"SELECT d.device_id, registration_expires_at {_REGISTERED}")}


def prolong(session: Session, since: Instant, now: Instant) -> None:
    """Extend the registrations that could not be updated since an instant.

    Each registration gets the time that it had left then, and at least its grace period. A device whose registration
    has become unknown may give up permanently, so it must not expire because of an outage.
    """
    expiring = session.rows(
        f"SELECT d.device_id, lifetime_seconds, registration_expires_at {_REGISTERED}"
        " AND registration_expires_at < :before",
        before=after_seconds(now, _LONGEST_GRACE_SECONDS),
    )
    prolonged = []
    for device_id, lifetime_seconds, expires_at in expiring:
        grace_seconds = min(max(lifetime_seconds, _SHORTEST_GRACE_SECONDS), _LONGEST_GRACE_SECONDS)
        prolonged.append((max(now + expires_at - since, after_seconds(now, grace_seconds)), device_id))
    session.run_many("UPDATE devices SET registration_expires_at = ? WHERE device_id = ?", prolonged)


def mark_unobserved(session: Session) -> None:
    """Mark the resources of all real devices as not observed, so that they are observed again after a restart.

    Their subscriptions stay, so that subscribers are notified of changed values only.
    """
    session.run(
        "UPDATE resources SET observing = 0 WHERE observing = 1 AND device_id IN (SELECT device_id FROM registrations)"
    )


def delete(session: Session, device_id: str) -> int:
    """Delete the registration of a device. Return the number of deleted rows."""
    return session.run("DELETE FROM registrations WHERE device_id = :device_id", device_id=device_id)


def erase(session: Session, device_id: str, name: str | None) -> dict[str, int]:
    """Delete the registration and key of a device. ``name`` is ``None`` if it is unknown."""
    return {
        "registrations": delete(session, device_id),
        "device_keys": int(name is not None and device_keys.delete(session, name)),
    }
