"""The pre-shared keys of real devices. Source: RFC 4279; LwM2M 1.0, 7.1.7.

A device authenticates with its own identity and secret, and may register only one endpoint name. The secret is stored
in plain form, because the handshake needs it. Operators can change keys while the server runs. :class:`Identities` then
ends the sessions that use a changed key.
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
"""The maximum length of an identity in the DTLS library (tinydtls). With a longer identity, the handshake fails."""
_MAX_NAME_BYTES = 252
"""The maximum length of an endpoint name, so that ``ep=`` and the name fit into the 255 bytes of a query option.

Source: RFC 7252, 5.10.
"""
_CHECK_SECONDS = 1.0
"""The interval in real time at which keys are checked for changes. A session may outlive its key by this time."""
_SELECT = "SELECT endpoint_name, identity, secret, created_at FROM device_keys"


class InvalidDeviceKey(Exception):
    """The key cannot be created or found. The message has the reason and the cure."""


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """The pre-shared key of a device.

    Attributes:
        endpoint_name: The only endpoint name that the device may register.
        identity: The unique name of the device in the handshake.
        secret: The bytes that the device shares with the server.
        created_at: The time of creation, by the system clock.
    """

    endpoint_name: str
    identity: str
    secret: bytes = field(repr=False)
    created_at: Instant


def add(database: Database, endpoint_name: str, identity: str | None, at: Instant) -> DeviceKey:
    """Create a key for a device.

    Args:
        database: The database with the keys.
        endpoint_name: The only endpoint name that the device may register.
        identity: The name of the device in the handshake, or ``None`` to use the endpoint name.
        at: The current time of the system clock.

    Raises:
        InvalidDeviceKey: The name or the identity is not valid, or it is in use by another device.
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
    """Delete the key of a device, so that the device can no longer connect.

    Raises:
        InvalidDeviceKey: The device has no key.
    """
    if not database.write(lambda session: delete(session, endpoint_name)):
        raise _no_key(endpoint_name)


class Renaming(Enum):
    """The effect that renaming a key has on the device in the mirror."""

    RENAMED = auto()
    UNKNOWN_DEVICE = auto()
    NAME_IN_USE = auto()


def rename(database: Database, endpoint_name: str, new_name: str) -> Renaming:
    """Change the endpoint name that a device may register. The identity and the secret stay the same.

    In the mirror, the device with the old name gets the new name and keeps its device id. If another device already has
    the new name, both devices remain unchanged.

    Args:
        database: The database with the keys.
        endpoint_name: The current endpoint name.
        new_name: The new endpoint name, which must not have a key yet.

    Returns:
        Whether the device in the mirror was renamed too, or the reason why not.

    Raises:
        InvalidDeviceKey: The device has no key, the new name is not valid, or there is already a key for the new name.
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
    """Add a key. Its endpoint name and its identity must not be in use."""
    session.run(
        "INSERT INTO device_keys (endpoint_name, identity, secret, created_at)"
        " VALUES (:endpoint_name, :identity, :secret, :created_at)",
        **asdict(key),
    )
    _note_change(session)


def find(session: Session, endpoint_name: str) -> DeviceKey | None:
    """Return the key of the device with this endpoint name, or ``None`` if the device has no key."""
    row = session.row(f"{_SELECT} WHERE endpoint_name = :endpoint_name", endpoint_name=endpoint_name)
    return _key(*row) if row else None


def find_identity(session: Session, identity: str) -> DeviceKey | None:
    """Return the key with this identity, or ``None`` if there is no such key."""
    row = session.row(f"{_SELECT} WHERE identity = :identity", identity=identity)
    return _key(*row) if row else None


def list_all(session: Session) -> list[DeviceKey]:
    """Return all keys, sorted by the endpoint names of their devices."""
    return [_key(*row) for row in session.rows(f"{_SELECT} ORDER BY endpoint_name")]


def delete(session: Session, endpoint_name: str) -> bool:
    """Delete the key of a device. Return whether the device had a key."""
    if not session.run("DELETE FROM device_keys WHERE endpoint_name = :name", name=endpoint_name):
        return False
    _note_change(session)
    return True


class Identities:
    """A reader of device keys. It detects changes of the keys that sessions use, and belongs to one event loop.

    Args:
        database: The database with the keys.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes: int | None = None
        self._in_use: dict[str, DeviceKey] = {}
        self._replaced: set[str] = set()

    def secret(self, identity: str) -> bytes | None:
        """Return the stored secret of an identity for a handshake.

        The result is ``None`` if the identity is unknown or the database is not available. In the second case the
        device will try again.
        """
        try:
            key = self._database.query(lambda session: find_identity(session, identity))
        except StorageFailed as error:
            _log.warning("a device cannot connect, because reading its key failed: %s", error)
            return None
        # Unauthenticated clients can send any number of identities, so unknown identities are not stored.
        if key is None:
            return None
        if self._in_use.get(identity, key) != key:
            self._replaced.add(identity)
        self._in_use[identity] = key
        return key.secret

    async def ended(self) -> set[str]:
        """Return the identities whose sessions must end, because their key was revoked, replaced or renamed.

        These identities are no longer watched until their next handshake.
        """
        # The keys are copied before the query. Otherwise a key that is created right after the query would look
        # revoked.
        in_use, replaced = dict(self._in_use), set(self._replaced)
        if not in_use:
            return set()
        try:
            stored = await asyncio.to_thread(self._stored_if_changed)
        except StorageFailed:
            # Sessions with changed keys continue for now, but their messages cannot be stored in the meantime.
            return set()
        changed = set() if stored is None else {name for name, key in in_use.items() if stored.get(name) != key}
        for identity in changed | replaced:
            # A device that has connected with a new key during the query stays connected.
            if self._in_use.get(identity) == in_use.get(identity):
                self._in_use.pop(identity, None)
        self._replaced -= replaced
        return changed | replaced

    async def watch(self, end_sessions: Callable[[str], None]) -> None:
        """End the sessions of changed keys until this task is cancelled.

        Args:
            end_sessions: A function that ends the sessions of an identity. It is called on the event loop.
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
    """Count a change of the keys, so that :class:`Identities` reads the keys again."""
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
