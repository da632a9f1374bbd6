"""Pre-shared keys of real devices. Source: RFC 4279; LwM2M 1.0, 7.1.7.

A device authenticates with its own identity and secret, and may register only one endpoint name. The handshake needs
the secret, so it is stored in plain form. Operators can change keys while the server runs: :class:`Identities` ends the
sessions of changed keys.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum, auto

from mirror_server.core.timestamps import Instant
from mirror_server.store import devices
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

_SECRET_BYTES = 16
_MAX_IDENTITY_BYTES = 32
"""The longest identity that the DTLS library (tinydtls) supports. A longer one makes the handshake fail."""
_MAX_NAME_BYTES = 252
"""The maximum of a CoAP query option, 255 bytes, without ``ep=``. Source: RFC 7252, 5.10."""
_CHECK_SECONDS = 1.0
"""The interval, in real time, at which keys are checked for changes. A session outlives its key for that long."""
_SELECT = "SELECT endpoint_name, identity, secret, created_at FROM device_keys"


class InvalidDeviceKey(Exception):
    """The key cannot be created or found. The message has the reason and the fix."""


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """The key of a device.

    Attributes:
        endpoint_name: The only name that the device may register.
        identity: Its unique name in the handshake.
        secret: The bytes that it shares with the server.
        created_at: The creation time, by the system clock.
    """

    endpoint_name: str
    identity: str
    secret: bytes = field(repr=False)
    created_at: Instant


def add(database: Database, endpoint_name: str, identity: str | None, at: Instant) -> DeviceKey:
    """Create the key of a device.

    Args:
        database: The database with the keys.
        endpoint_name: The only name that the device may register.
        identity: Its name in the handshake, or ``None`` for its endpoint name.
        at: The current time, by the system clock.

    Raises:
        InvalidDeviceKey: The name or the identity is not valid, or another device has it.
    """
    key = DeviceKey(endpoint_name, identity or endpoint_name, secrets.token_bytes(_SECRET_BYTES), at)
    _check_name(key.endpoint_name)
    _check_visible("an identity", key.identity)
    if (length := len(key.identity.encode())) > _MAX_IDENTITY_BYTES:
        raise InvalidDeviceKey(
            f"the identity {key.identity!r} has {length} bytes, the maximum is {_MAX_IDENTITY_BYTES}; set a shorter one"
            " with --identity"
        )

    def work(session: Session) -> None:
        if find(session, key.endpoint_name) is not None:
            raise InvalidDeviceKey(
                f"{key.endpoint_name!r} already has a key, which is not shown again; to replace it, run"
                " 'mirror-server devices revoke' first"
            )
        existing = find_identity(session, key.identity)
        if existing is not None:
            raise InvalidDeviceKey(
                f"the identity {key.identity!r} belongs to {existing.endpoint_name!r}; set another one with --identity"
            )
        insert(session, key)

    database.write(work)
    return key


def revoke(database: Database, endpoint_name: str) -> None:
    """Delete the key of a device, which can then no longer connect.

    Raises:
        InvalidDeviceKey: The device has no key.
    """
    if not database.write(lambda session: delete(session, endpoint_name)):
        raise _no_key(endpoint_name)


class Renaming(Enum):
    """The effect of a new name for a key on the device in the mirror."""

    RENAMED = auto()
    UNKNOWN_DEVICE = auto()
    NAME_IN_USE = auto()


def rename(database: Database, endpoint_name: str, new_name: str) -> Renaming:
    """Change the name that a device may register. Its identity and secret stay.

    In the mirror, the device with the old name gets the new name and keeps its device id. If a device with the new name
    exists already, both devices remain unchanged.

    Args:
        database: The database with the keys.
        endpoint_name: Its current name.
        new_name: Its new name, which must not have a key.

    Returns:
        Whether the device in the mirror was renamed too, and if not, why.

    Raises:
        InvalidDeviceKey: The device has no key, or the new name is not valid or has a key already.
    """
    _check_name(new_name)

    def work(session: Session) -> Renaming:
        if find(session, endpoint_name) is None:
            raise _no_key(endpoint_name)
        if find(session, new_name) is not None:
            raise InvalidDeviceKey(f"{new_name!r} already has a key; revoke that key first, or use another name")
        session.run(
            "UPDATE device_keys SET endpoint_name = :new_name WHERE endpoint_name = :endpoint_name",
            endpoint_name=endpoint_name,
            new_name=new_name,
        )
        _note_change(session)
        device = devices.find_by_endpoint_name(session, endpoint_name)
        if device is None:
            return Renaming.UNKNOWN_DEVICE
        if devices.find_by_endpoint_name(session, new_name) is not None:
            return Renaming.NAME_IN_USE
        devices.rename(session, device.device_id, new_name)
        return Renaming.RENAMED

    return database.write(work)


def insert(session: Session, key: DeviceKey) -> None:
    """Add a key; its name and identity must be free."""
    session.run(
        "INSERT INTO device_keys (endpoint_name, identity, secret, created_at)"
        " VALUES (:endpoint_name, :identity, :secret, :created_at)",
        **asdict(key),
    )
    _note_change(session)


def find(session: Session, endpoint_name: str) -> DeviceKey | None:
    """Return the key of the device with this name."""
    row = session.row(f"{_SELECT} WHERE endpoint_name = :endpoint_name", endpoint_name=endpoint_name)
    return _key(*row) if row else None


def find_identity(session: Session, identity: str) -> DeviceKey | None:
    """Return the key with this identity."""
    row = session.row(f"{_SELECT} WHERE identity = :identity", identity=identity)
    return _key(*row) if row else None


def list_all(session: Session) -> list[DeviceKey]:
    """Return all keys, ordered by the names of their devices."""
    return [_key(*row) for row in session.rows(f"{_SELECT} ORDER BY endpoint_name")]


def delete(session: Session, endpoint_name: str) -> bool:
    """Delete the key of a device. Return whether there was a key."""
    if not session.run("DELETE FROM device_keys WHERE endpoint_name = :name", name=endpoint_name):
        return False
    _note_change(session)
    return True


class Identities:
    """The keys that DTLS sessions use, with detection of changes by operators. For one event loop.

    Args:
        database: The database with the keys.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes: int | None = None
        self._in_use: dict[str, DeviceKey] = {}
        self._replaced: set[str] = set()

    def secret(self, identity: str) -> bytes | None:
        """Return the stored secret of an identity, for its handshake.

        ``None`` for an unknown identity, or if the database is unavailable. The device will try again.
        """
        try:
            key = self._database.query(lambda session: find_identity(session, identity))
        except StorageFailed as error:
            _log.warning("a device cannot connect, because reading its key failed: %s", error)
            return None
        # Unauthenticated clients can send any number of identities, so unknown ones are not stored.
        if key is None:
            return None
        if self._in_use.get(identity, key) != key:
            self._replaced.add(identity)
        self._in_use[identity] = key
        return key.secret

    async def ended(self) -> set[str]:
        """Return the identities whose sessions have to end, because the key was revoked, replaced or renamed.

        These identities are then no longer watched until their next handshake.
        """
        # Copied before the query: a key that is created right after it must not look revoked.
        in_use, replaced = dict(self._in_use), set(self._replaced)
        if not in_use:
            return set()
        try:
            stored = await asyncio.to_thread(self._stored_if_changed)
        except StorageFailed:
            # Sessions with changed keys continue for now. Their messages cannot be stored in the meantime.
            return set()
        changed = set() if stored is None else {name for name, key in in_use.items() if stored.get(name) != key}
        for identity in changed | replaced:
            # A device that connected with a new key during the query stays connected.
            if self._in_use.get(identity) == in_use.get(identity):
                self._in_use.pop(identity, None)
        self._replaced -= replaced
        return changed | replaced

    async def watch(self, end_sessions: Callable[[str], None]) -> None:
        """End sessions until cancelled.

        Args:
            end_sessions: Ends the sessions of an identity. Called on the event loop.
        """
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            for identity in await self.ended():
                end_sessions(identity)

    def _stored_if_changed(self) -> dict[str, DeviceKey] | None:
        with self._database.read() as session:
            changes = int(session.scalar("SELECT value FROM settings WHERE name = 'device_key_changes'") or 0)
            if changes == self._changes:
                return None
            self._changes = changes
            return {key.identity: key for key in list_all(session)}


def _note_change(session: Session) -> None:
    """Count a change, so that :class:`Identities` reads the keys again."""
    session.run(
        "INSERT INTO settings (name, value) VALUES ('device_key_changes', '1')"
        " ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(settings.value AS BIGINT) + 1 AS TEXT)"
    )


def _key(endpoint_name: str, identity: str, secret: bytes, created_at: Instant) -> DeviceKey:
    return DeviceKey(endpoint_name, identity, bytes(secret), created_at)


def _check_name(name: str) -> None:
    _check_visible("an endpoint name", name)
    if (length := len(name.encode())) > _MAX_NAME_BYTES:
        raise InvalidDeviceKey(f"an endpoint name has at most {_MAX_NAME_BYTES} bytes, got {length}; use a shorter one")


def _check_visible(kind: str, text: str) -> None:
    if not text.isprintable() or not text.strip():
        raise InvalidDeviceKey(
            f"{kind} must have only printable characters, at least one of them visible; remove the others"
        )


def _no_key(endpoint_name: str) -> InvalidDeviceKey:
    return InvalidDeviceKey(
        f"device {endpoint_name!r} has no key; 'mirror-server devices list' shows the devices with a key"
    )
