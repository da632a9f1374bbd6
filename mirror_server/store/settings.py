"""Single values that outlive a restart, and the documents of the simulated devices."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_server.store.session import Session

SIMULATE = (
    "INSERT INTO simulated_devices (device_id, document) VALUES (?, ?)"
    " ON CONFLICT (device_id) DO UPDATE SET document = excluded.document"
)


LEADER = "duty"
"""The name under which databases have it since there is such a process; migration 0023 has a function with it."""


def get(session: Session, name: str) -> str | None:
    """The value under this name."""
    value: str | None = session.scalar("SELECT value FROM settings WHERE name = :name", name=name)
    return value


def leader(session: Session) -> str | None:
    """The token of the leader, which is new each time a process takes over; ``None`` where one serves alone."""
    return get(session, LEADER)


def put(session: Session, name: str, value: str) -> None:
    """Set the value under this name."""
    session.run(
        "INSERT INTO settings (name, value) VALUES (:name, :value)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name=name,
        value=value,
    )


def probe(session: Session) -> None:
    """Write something: only what is really written shows that the disk takes it.

    Another value each time, because SQLite writes no page for one that stays what it is.
    """
    session.run(
        "INSERT INTO settings (name, value) VALUES ('probe', 'odd') ON CONFLICT (name) DO UPDATE"
        " SET value = CASE settings.value WHEN 'odd' THEN 'even' ELSE 'odd' END"
    )


def simulated_devices(session: Session) -> dict[str, str]:
    """The documents of all simulated devices by device id."""
    return dict(session.rows("SELECT device_id, document FROM simulated_devices ORDER BY device_id"))


def put_simulated_devices(session: Session, documents: Mapping[str, str]) -> None:
    """Store the documents of simulated devices."""
    session.run_many(SIMULATE, list(documents.items()))


def is_simulated(session: Session, device_id: str) -> bool:
    """Whether there is a simulated device with this id."""
    return bool(session.scalar("SELECT 1 FROM simulated_devices WHERE device_id = :device_id", device_id=device_id))
