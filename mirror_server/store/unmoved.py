"""What is stored beyond the core, and has no folder of its own yet."""

from __future__ import annotations

from mirror_server.store import device_keys
from mirror_server.store.schema import MIGRATIONS, Branch
from mirror_server.store.session import Session
from mirror_server.store.storage import Storage, of_table


def _branch(name: str) -> Branch:
    return Branch(name, MIGRATIONS / name)


def _erase_real_device(session: Session, device_id: str, name: str | None) -> dict[str, int]:
    rows = session.run("DELETE FROM registrations WHERE device_id = :device_id", device_id=device_id)
    return {"registrations": rows, "device_keys": int(name is not None and device_keys.delete(session, name))}


STORAGES = (
    Storage(branch=_branch("lwm2m"), erase=_erase_real_device),
    of_table(_branch("simulator"), "simulated_devices", "device_id"),
    of_table(_branch("streams"), "websockets", "app_id"),
)
