"""The documents of the simulated devices, and what the mirror has of them."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_server.store.session import Row, Session

_SAVE = (
    "INSERT INTO simulated_devices (device_id, document) VALUES (?, ?)"
    " ON CONFLICT (device_id) DO UPDATE SET document = excluded.document"
)


def load(session: Session) -> dict[str, str]:
    """The documents of all simulated devices by device id."""
    return dict(session.rows("SELECT device_id, document FROM simulated_devices ORDER BY device_id"))


def save(session: Session, documents: Mapping[str, str]) -> None:
    """Store the documents of simulated devices."""
    session.run_many(_SAVE, list(documents.items()))


def last_observed(session: Session) -> list[Row]:
    """What was observed last of each resource of the simulated devices: device id, path, value and when.

    Where another value has been read since, the value is ``None``, and the time that of the device in its last event.
    """
    return session.rows(
        "SELECT r.device_id, path, CASE WHEN reported_origin <> 'read' THEN reported_value END,"
        " CASE WHEN reported_origin <> 'read' THEN reported_at ELSE changed_at END"
        " FROM resources r JOIN simulated_devices s ON s.device_id = r.device_id WHERE changed_at IS NOT NULL"
    )
