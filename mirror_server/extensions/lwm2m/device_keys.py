"""Pre-shared keys of real devices. Source: RFC 4279; LwM2M 1.0, 7.1.7.

A device proves itself by an identity and a secret that nobody else has, and may register one endpoint name alone. The
handshake needs the secret itself, so it is stored as it is. Operators change keys while the server runs:
:class:`Identities` ends the sessions of those that changed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from mirror_server.core.instants import Instant
from mirror_server.store import devices
from mirror_server.store.backend import StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_log = logging.getLogger(__name__)

_SECRET_BYTES = 16
_MOST_IDENTITY_BYTES = 32
"""The longest identity that the DTLS library (tinydtls) takes; of a longer one it ends the handshake."""
_MOST_NAME_BYTES = 252
"""An option of CoAP, 255 bytes, without ``ep=``. Source: RFC 7252, 5.10."""
_RETRY_SECONDS = 1.0
"""How long a session goes on, in real time, after an operator changed its key."""
_SELECT = "SELECT endpoint_name, identity, secret, created_at FROM device_keys"


class InvalidDeviceKey(Exception):
    """The key cannot be made or found; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """The key of a device.

    Attributes:
        endpoint_name: The only name it may register.
        identity: Its name in the handshake, which no other device has.
        secret: The bytes that it shares with the server.
        created_at: When the key was made, by the clock of the system.
    """

    endpoint_name: str
    identity: str
    secret: bytes = field(repr=False)
    created_at: Instant


def add(database: Database, endpoint_name: str, identity: str | None, at: Instant) -> DeviceKey:
    """Make the key of a device.

    Args:
        database: Where the keys are.
        endpoint_name: The only name the device may register.
        identity: Its name in the handshake; ``None`` for its endpoint name.
        at: The present, by the clock of the system.

    Raises:
        InvalidDeviceKey: The name or the identity is not valid, or another device has it.
    """
    key = DeviceKey(endpoint_name, identity or endpoint_name, secrets.token_bytes(_SECRET_BYTES), at)
    _check_name(key.endpoint_name)
    _check_visible("an identity", key.identity)
    if (length := len(key.identity.encode())) > _MOST_IDENTITY_BYTES:
        raise InvalidDeviceKey(
            f"the identity {key.identity!r} has {length} bytes, and DTLS here takes {_MOST_IDENTITY_BYTES} at most;"
            " give the device a shorter one with --identity"
        )

    def work(session: Session) -> None:
        if find(session, key.endpoint_name) is not None:
            raise InvalidDeviceKey(
                f"{key.endpoint_name!r} has a key already, which is not shown again; for another one"
                " 'mirror-server devices revoke' it first"
            )
        holder = find_identity(session, key.identity)
        if holder is not None:
            raise InvalidDeviceKey(
                f"the identity {key.identity!r} is that of {holder.endpoint_name!r}; give another one with --identity"
            )
        insert(session, key)

    database.write(work)
    return key


def revoke(database: Database, endpoint_name: str) -> None:
    """Delete the key of a device, which cannot connect from then on.

    Raises:
        InvalidDeviceKey: It has none.
    """
    if not database.write(lambda session: delete(session, endpoint_name)):
        raise _no_key(endpoint_name)


def rename(database: Database, endpoint_name: str, new_name: str) -> bool:
    """Let a device register under another name, and under no other; its identity and secret stay.

    In the mirror the device has the new name from then on, under the same device id, unless a device of the new name
    is there already: then each keeps what it has.

    Args:
        database: Where the keys are.
        endpoint_name: Its present name.
        new_name: Its new name, which has no key.

    Returns:
        Whether a device in the mirror has the new name instead of the old one.

    Raises:
        InvalidDeviceKey: The device has no key, or the new name is not valid or has a key already.
    """
    _check_name(new_name)

    def work(session: Session) -> bool:
        if find(session, endpoint_name) is None:
            raise _no_key(endpoint_name)
        if find(session, new_name) is not None:
            raise InvalidDeviceKey(f"{new_name!r} has a key of its own; revoke that one first, or take another name")
        session.run(
            "UPDATE device_keys SET endpoint_name = :new_name WHERE endpoint_name = :endpoint_name",
            endpoint_name=endpoint_name,
            new_name=new_name,
        )
        _note_change(session)
        device = devices.find_by_endpoint_name(session, endpoint_name)
        if device is None or devices.find_by_endpoint_name(session, new_name) is not None:
            return False
        devices.rename(session, device.device_id, new_name)
        return True

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
    """Delete the key of a device; return false if it has none."""
    if not session.run("DELETE FROM device_keys WHERE endpoint_name = :name", name=endpoint_name):
        return False
    _note_change(session)
    return True


class Identities:
    """The keys that sessions of DTLS use, while an operator may change them; for one event loop.

    Args:
        database: Where the keys are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes: int | None = None
        self._in_use: dict[str, DeviceKey] = {}
        self._replaced: set[str] = set()

    def secret(self, identity: str) -> bytes | None:
        """Return the stored secret of an identity, for its handshake.

        ``None`` for an unknown identity, and where the database does not answer: the device tries again.
        """
        try:
            key = self._database.query(lambda session: find_identity(session, identity))
        except StorageFailed as error:
            _log.warning("a device stays out, because its key cannot be looked up: %s", error)
            return None
        # Anybody may name as many identities as they like: unknown ones are not stored.
        if key is None:
            return None
        if self._in_use.get(identity, key) != key:
            self._replaced.add(identity)
        self._in_use[identity] = key
        return key.secret

    async def ended(self) -> set[str]:
        """Return the identities whose sessions have to end: their key was revoked, replaced or is for another name.

        They are forgotten until their next handshake.
        """
        # As they are before the query: a key that is made right after it is not taken for one that is gone.
        in_use, replaced = dict(self._in_use), set(self._replaced)
        if not in_use:
            return set()
        try:
            stored = await asyncio.to_thread(self._stored_if_changed)
        except StorageFailed:
            # Sessions whose keys may have changed go on; nothing that they send can be stored meanwhile.
            return set()
        gone = set() if stored is None else {name for name, key in in_use.items() if stored.get(name) != key}
        for identity in gone | replaced:
            # A device that connected with a new key during the query stays.
            if self._in_use.get(identity) == in_use.get(identity):
                self._in_use.pop(identity, None)
        self._replaced -= replaced
        return gone | replaced

    async def watch(self, end_sessions: Callable[[str], None]) -> None:
        """End sessions until cancelled.

        Args:
            end_sessions: Ends those of an identity; called on the event loop.
        """
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
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
    if (length := len(name.encode())) > _MOST_NAME_BYTES:
        raise InvalidDeviceKey(f"an endpoint name has {_MOST_NAME_BYTES} bytes at most, not {length}")


def _check_visible(what: str, text: str) -> None:
    if not text.isprintable() or not text.strip():
        raise InvalidDeviceKey(f"{what} has at least one letter, and none that cannot be seen; write it without those")


def _no_key(endpoint_name: str) -> InvalidDeviceKey:
    return InvalidDeviceKey(
        f"no device {endpoint_name!r} has a key; 'mirror-server devices list' shows those that are there"
    )
