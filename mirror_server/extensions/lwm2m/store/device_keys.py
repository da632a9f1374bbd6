"""Pre-shared keys of real devices. A handshake needs the secret itself, so it is stored as it is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from mirror_server.core.instants import Instant
from mirror_server.store.session import Session

_COLUMNS = "endpoint_name, identity, secret, created_at"


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """As whom a device proves itself.

    Attributes:
        endpoint_name: The only name it may register.
        identity: What it calls itself in the handshake; no other device does.
        secret: What it shares with the server, and nobody else knows.
        created_at: When the key was made, by the clock of the system.
    """

    endpoint_name: str
    identity: str
    secret: bytes = field(repr=False)
    created_at: Instant


def insert(session: Session, key: DeviceKey) -> None:
    """Add a key, whose name and identity no other one has."""
    session.run(
        "INSERT INTO device_keys (endpoint_name, identity, secret, created_at)"
        " VALUES (:endpoint_name, :identity, :secret, :created_at)",
        **asdict(key),
    )
    _note_change(session)


def find(session: Session, endpoint_name: str) -> DeviceKey | None:
    """The key of the device with this name."""
    row = session.row(
        f"SELECT {_COLUMNS} FROM device_keys WHERE endpoint_name = :endpoint_name", endpoint_name=endpoint_name
    )
    return _key(*row) if row else None


def find_identity(session: Session, identity: str) -> DeviceKey | None:
    """The key of who calls itself so."""
    row = session.row(f"SELECT {_COLUMNS} FROM device_keys WHERE identity = :identity", identity=identity)
    return _key(*row) if row else None


def list_all(session: Session) -> list[DeviceKey]:
    """All keys, by the names of their devices."""
    return [_key(*row) for row in session.rows(f"SELECT {_COLUMNS} FROM device_keys ORDER BY endpoint_name")]


def rename(session: Session, endpoint_name: str, new_name: str) -> None:
    """Let the key of a device be that of another name, which has none."""
    session.run(
        "UPDATE device_keys SET endpoint_name = :new_name WHERE endpoint_name = :endpoint_name",
        endpoint_name=endpoint_name,
        new_name=new_name,
    )
    _note_change(session)


def delete(session: Session, endpoint_name: str) -> bool:
    """Delete the key of a device; false if it has none."""
    if not session.run("DELETE FROM device_keys WHERE endpoint_name = :name", name=endpoint_name):
        return False
    _note_change(session)
    return True


def count_changes(session: Session) -> int:
    """How often any key was made, renamed or deleted: who holds keys looks anew when it is another number."""
    return int(session.scalar("SELECT value FROM settings WHERE name = 'device_key_changes'") or 0)


def _note_change(session: Session) -> None:
    session.run(
        "INSERT INTO settings (name, value) VALUES ('device_key_changes', '1')"
        " ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(settings.value AS BIGINT) + 1 AS TEXT)"
    )


def _key(endpoint_name: str, identity: str, secret: bytes, created_at: Instant) -> DeviceKey:
    return DeviceKey(endpoint_name, identity, bytes(secret), created_at)
