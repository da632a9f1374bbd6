"""What an operator does to a whole database: erase a device, check the invariants."""

from __future__ import annotations

from collections.abc import Iterator

from mirror_server.store import subscriptions
from mirror_server.store.session import Session

_OF_AN_APPLICATION = ("callbacks", "presubscriptions", "subscriptions", "notifications", "logs")
_OF_A_DEVICE = ("notifications", "commands", "subscriptions", "resources", "simulated_devices", "devices")


def erase_device(session: Session, device_id: str) -> dict[str, int]:
    """Delete all that is stored of a device, the notification logs included; gives the rows of each table."""
    session.run(
        "UPDATE logs SET stored_bytes = stored_bytes - (SELECT coalesce(sum(length(body)), 0) FROM notifications n"
        " WHERE n.app_id = logs.app_id AND n.device_id = :device_id)",
        device_id=device_id,
    )
    return {
        table: session.run(f"DELETE FROM {table} WHERE device_id = :device_id", device_id=device_id)
        for table in _OF_A_DEVICE
    }


def end_application(session: Session, app_id: str) -> None:
    """Delete what goes on without a request of an application whose key is revoked: nothing is sent to it any more.

    What it asked of devices is done; nobody hears the answers.
    """
    device_ids = session.rows("SELECT DISTINCT device_id FROM subscriptions WHERE app_id = :app_id", app_id=app_id)
    for table in _OF_AN_APPLICATION:
        session.run(f"DELETE FROM {table} WHERE app_id = :app_id", app_id=app_id)
    for (device_id,) in device_ids:
        subscriptions.clear_ended(session, device_id)


_VIOLATIONS = {
    "a desired value is pending, and no command is behind it": (
        "SELECT device_id || ' ' || path FROM resources WHERE desired_status = 0 AND NOT EXISTS"
        " (SELECT 1 FROM commands c WHERE c.command_id = desired_command_id AND c.finished_at IS NULL)"
    ),
    "a write command waits, and the desired value it set is not pending": (
        "SELECT r.device_id || ' ' || r.path FROM commands c JOIN resources r"
        " ON r.device_id = c.device_id AND r.desired_command_id = c.command_id"
        " WHERE c.finished_at IS NULL AND r.desired_status <> 0"
    ),
    "a log has an entry beyond its last number": (
        "SELECT n.app_id || ' ' || n.seq FROM notifications n JOIN logs l ON l.app_id = n.app_id"
        " WHERE n.seq > l.last_seq"
    ),
    "an entry belongs to no log": (
        "SELECT app_id || ' ' || seq FROM notifications WHERE app_id NOT IN (SELECT app_id FROM logs)"
    ),
    "a log's size is not the sum of its entries": (
        "SELECT app_id FROM logs WHERE stored_bytes <> (SELECT coalesce(sum(length(body)), 0) FROM notifications n"
        " WHERE n.app_id = logs.app_id)"
    ),
    "a position is beyond the end of its log": "SELECT app_id FROM logs WHERE position > last_seq",
    "a resource is subscribed, and nobody is subscribed to it": (
        "SELECT device_id || ' ' || path FROM resources r WHERE subscribed = 1 AND NOT EXISTS"
        " (SELECT 1 FROM subscriptions s WHERE s.device_id = r.device_id AND s.path = r.path AND s.state <> 'ended')"
    ),
}


def violations(session: Session) -> Iterator[str]:
    """What is wrong with the database, in words, with the rows concerned."""
    for what, statement in _VIOLATIONS.items():
        for (where,) in session.rows(statement):
            yield f"{what}: {where}"
