"""The storage of the simulated devices in the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mirror_server.core.timestamps import Instant
from mirror_server.store.database import Database
from mirror_server.store.session import Session


class LastObserved(NamedTuple):
    """The last observed value of a resource, and the time at which the service received it.

    If the service has read another value since the observation, ``text`` is ``None``. In that case ``observed_at`` is
    the time at which the device observed the value.
    """

    device_id: str
    path: str
    text: str | None
    observed_at: Instant


class StoredSimulation:
    """Stores simulated devices; see :class:`mirror_server.extensions.simulator.fleet.SimulatorStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> dict[str, str]:
        """Return all documents by device id."""
        statement = "SELECT device_id, document FROM simulated_devices ORDER BY device_id"
        with self._database.read() as session:
            return dict(session.rows(statement))

    def last_observed(self) -> list[LastObserved]:
        """Return the last observed value of each resource of a simulated device."""
        with self._database.read() as session:
            rows = session.rows(
                "SELECT r.device_id, path, CASE WHEN reported_origin <> 'read' THEN reported_value END,"
                " CASE WHEN reported_origin <> 'read' THEN reported_at ELSE changed_at END"
                # CROSS, so that SQLite does not read the resources of all devices.
                " FROM simulated_devices s CROSS JOIN resources r"
                " WHERE r.device_id = s.device_id AND changed_at IS NOT NULL"
            )
        return [
            LastObserved(device_id, path, None if value is None else bytes(value).decode(errors="replace"), observed_at)
            for device_id, path, value, observed_at in rows
        ]

    def save(self, documents: Mapping[str, str]) -> None:
        """Queue documents to be stored in the database."""
        self._database.enqueue(
            _save, items=[*documents.items()], until_stored=True, by_leader=True, conflict_keys=tuple(documents)
        )


def _save(session: Session, documents: Iterable[tuple[str, str]]) -> None:
    """Store documents. If the list has several documents of a device, only the last one is stored."""
    session.run_many(
        "INSERT INTO simulated_devices (device_id, document) VALUES (?, ?)"
        " ON CONFLICT (device_id) DO UPDATE SET document = excluded.document",
        [*dict(documents).items()],
    )
