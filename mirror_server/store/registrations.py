"""Registrations of real devices: where each is reached and what it said of itself, so that a restart loses none.

A registration is there for as long as the directory has its device as registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import orjson

from mirror_server.core.instants import Instant
from mirror_server.store.session import Row, Session


@dataclass(frozen=True, slots=True)
class StoredRegistration:
    """What a device said when it registered, and where it is reached.

    Attributes:
        device_id: The device.
        location: The last part of the path it updates its registration under.
        address: Address and port it was heard from last.
        is_secure: Whether it comes by DTLS.
        identity: As whom it proved itself, by DTLS.
        version: Of LwM2M: ``1.0`` or ``1.1``.
        binding: The binding mode it said, as it said it.
        prefix: Under which path its objects are, ``/lwm2m``; ``""`` where they are at the root.
        structured: CoAP's numbers of the content formats it has that hold any value, the one to try first in front.
        links_hash: Of what it said of its objects: other links have another one.
        to_discover: What it said nothing of but that it is there, and was not asked yet.
        tokens: With which tokens, in hexadecimal, it sends values nobody asked for, and of which paths.
    """

    device_id: str
    location: str
    address: str
    is_secure: bool
    identity: str | None
    version: str
    binding: str
    prefix: str
    structured: tuple[int, ...]
    links_hash: bytes
    to_discover: tuple[str, ...]
    tokens: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A registered real device, as it is taken up after a restart."""

    registration: StoredRegistration
    endpoint_name: str
    queue_mode: bool
    lifetime_seconds: int
    expires_at: Instant
    last_contact_at: Instant


_COLUMNS = [field.name for field in fields(StoredRegistration)]
_OF_REGISTRATION = ", ".join(f"r.{name}" for name in _COLUMNS)


def put(session: Session, registration: StoredRegistration) -> None:
    """Store the registration of a device, in the place of the one it had; nothing where the device is gone by now."""
    values = asdict(registration) | {
        "is_secure": int(registration.is_secure),
        "structured": " ".join(map(str, registration.structured)),
        "to_discover": " ".join(registration.to_discover),
        "tokens": orjson.dumps(dict(registration.tokens)).decode(),
    }
    changed = ", ".join(f"{name} = excluded.{name}" for name in values if name != "device_id")
    session.run(
        f"INSERT INTO registrations ({', '.join(values)}) SELECT {', '.join(f':{name}' for name in values)}"
        " FROM devices WHERE device_id = :device_id AND registered = 1"
        f" ON CONFLICT (device_id) DO UPDATE SET {changed}",
        **values,
    )


def put_address(session: Session, device_id: str, address: str) -> None:
    """Note that a device was heard from another address."""
    session.run(
        "UPDATE registrations SET address = :address WHERE device_id = :device_id", device_id=device_id, address=address
    )


def delete(session: Session, device_id: str) -> None:
    """Forget the registration of a device; harmless where it has none."""
    session.run("DELETE FROM registrations WHERE device_id = :device_id", device_id=device_id)


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


def load(session: Session) -> list[KnownDevice]:
    """All registered real devices."""
    rows = session.rows(
        f"SELECT {_OF_REGISTRATION}, endpoint_name, queue_mode, lifetime_seconds, registration_expires_at,"
        " last_contact_at FROM registrations r JOIN devices d ON d.device_id = r.device_id WHERE registered = 1"
    )
    return [_known(row) for row in rows]


def _known(row: Row) -> KnownDevice:
    stored = dict(zip(_COLUMNS, row, strict=False))
    stored["is_secure"] = bool(stored["is_secure"])
    stored["links_hash"] = bytes(stored["links_hash"])
    stored["structured"] = tuple(map(int, stored["structured"].split()))
    stored["to_discover"] = tuple(stored["to_discover"].split())
    stored["tokens"] = orjson.loads(stored["tokens"])
    endpoint_name, queue_mode, lifetime_seconds, expires_at, last_contact_at = row[len(_COLUMNS) :]
    return KnownDevice(
        StoredRegistration(**stored), endpoint_name, bool(queue_mode), lifetime_seconds, expires_at, last_contact_at
    )


def observe_anew(session: Session) -> None:
    """Have all real devices asked anew to observe what they observed: whether they still do is not known.

    Their subscriptions stay what they are, so that only a changed value is told to anybody.
    """
    session.run(
        "UPDATE resources SET observing = 0 WHERE observing = 1 AND device_id IN (SELECT device_id FROM registrations)"
    )
