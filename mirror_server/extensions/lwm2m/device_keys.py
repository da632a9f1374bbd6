"""Pre-shared keys of real devices: made, revoked, moved to another name. Source: RFC 4279; LwM2M 1.0, 7.1.7.

A device proves itself by an identity and a secret that nobody else has, and may register one endpoint name alone. The
secret is what the handshake computes with, so it is stored as it is.
"""

from __future__ import annotations

import secrets

from mirror_server.core.instants import Instant
from mirror_server.extensions.lwm2m.store import device_keys
from mirror_server.extensions.lwm2m.store.device_keys import DeviceKey
from mirror_server.store import devices
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_SECRET_BYTES = 16
_MOST_IDENTITY_BYTES = 32
"""The longest identity that the DTLS library (tinydtls) takes; of a longer one it ends the handshake."""
_MOST_NAME_BYTES = 252
"""What of an option of CoAP, 255 bytes, is left behind ``ep=``. Source: RFC 7252, 5.10."""

_SHOWN = "'mirror-server devices list' shows those that are there"


class DeviceKeyRefused(Exception):
    """The key cannot be made or found; the message says why and what to do."""


def add(database: Database, endpoint_name: str, identity: str | None, at: Instant) -> DeviceKey:
    """Make the key of a device.

    Args:
        database: Where the keys are.
        endpoint_name: The only name the device may register.
        identity: What it calls itself in the handshake; ``None`` for its endpoint name.
        at: The present, by the clock of the system.

    Raises:
        DeviceKeyRefused: The name or the identity is none, or another device has it.
    """
    key = DeviceKey(endpoint_name, identity or endpoint_name, secrets.token_bytes(_SECRET_BYTES), at)
    problem = name_problem(key.endpoint_name) or identity_problem(key.identity)
    if problem:
        raise DeviceKeyRefused(problem)

    def work(session: Session) -> None:
        if device_keys.find(session, key.endpoint_name) is not None:
            raise DeviceKeyRefused(
                f"{key.endpoint_name!r} has a key already, which is not shown again; for another one"
                " 'mirror-server devices revoke' it first"
            )
        holder = device_keys.find_identity(session, key.identity)
        if holder is not None:
            raise DeviceKeyRefused(
                f"the identity {key.identity!r} is that of {holder.endpoint_name!r}; give another one with --identity"
            )
        device_keys.insert(session, key)

    database.write(work)
    return key


def revoke(database: Database, endpoint_name: str) -> None:
    """Delete the key of a device, which is out from then on.

    Raises:
        DeviceKeyRefused: It has none.
    """
    if not database.write(lambda session: device_keys.delete(session, endpoint_name)):
        raise _no_key(endpoint_name)


def rename(database: Database, endpoint_name: str, new_name: str) -> bool:
    """Let a device register under another name, and under no other; its identity and secret stay.

    What the mirror has of the device is of the new name from then on, under the same device id, unless a device of the
    new name is there already: then each keeps what it has.

    Args:
        database: Where the keys are.
        endpoint_name: The name it has.
        new_name: The name it is to have, of which no other key is.

    Returns:
        Whether a device in the mirror has the new name instead of the old one.

    Raises:
        DeviceKeyRefused: The device has no key, or the new name is none or has a key already.
    """
    if problem := name_problem(new_name):
        raise DeviceKeyRefused(problem)

    def work(session: Session) -> bool:
        if device_keys.find(session, endpoint_name) is None:
            raise _no_key(endpoint_name)
        if device_keys.find(session, new_name) is not None:
            raise DeviceKeyRefused(f"{new_name!r} has a key of its own; revoke that one first, or take another name")
        device_keys.rename(session, endpoint_name, new_name)
        device = devices.find_by_endpoint_name(session, endpoint_name)
        if device is None or devices.find_by_endpoint_name(session, new_name) is not None:
            return False
        devices.rename(session, device.device_id, new_name)
        return True

    return database.write(work)


def name_problem(name: str) -> str:
    """Why no device can have this endpoint name, and what to do; empty if one can."""
    if not name.isprintable() or not name.strip():
        return "an endpoint name has at least one letter, and none that cannot be seen; write it without those"
    length = len(name.encode())
    return f"an endpoint name has {_MOST_NAME_BYTES} bytes at most, not {length}" if length > _MOST_NAME_BYTES else ""


def identity_problem(identity: str) -> str:
    """Why no device can call itself so in a handshake, and what to do; empty if one can."""
    if not identity.isprintable() or not identity.strip():
        return "an identity has at least one letter, and none that cannot be seen; write it without those"
    length = len(identity.encode())
    if length <= _MOST_IDENTITY_BYTES:
        return ""
    return (
        f"the identity {identity!r} has {length} bytes, and DTLS here takes {_MOST_IDENTITY_BYTES} at most; give the"
        " device a shorter one with --identity"
    )


def _no_key(endpoint_name: str) -> DeviceKeyRefused:
    return DeviceKeyRefused(f"no device {endpoint_name!r} has a key; {_SHOWN}")
