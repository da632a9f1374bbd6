"""What is erased of a real device."""

from __future__ import annotations

from mirror_server.extensions.lwm2m.store import device_keys, registrations
from mirror_server.store.session import Session


def erase(session: Session, device_id: str, name: str | None) -> dict[str, int]:
    """Delete registration and key of a device; its name is ``None`` where it is not known."""
    return {
        "registrations": registrations.delete(session, device_id),
        "device_keys": int(name is not None and device_keys.delete(session, name)),
    }
