"""Maintenance of a database: erasing a device, ending an application, and checking consistency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson

from mirror_server.clock import wall_time
from mirror_server.core.timestamps import Instant
from mirror_server.store import logs, subscriptions
from mirror_server.store.backend import MOST_EXAMPLES, Storage, Violation
from mirror_server.store.session import CLOCK, MANUAL_CLOCK, NEWEST_CONTACT, Session

_REVISION_EPOCH: Instant = 1_767_225_600_000
"""2026-01-01, in milliseconds since 1970.

With this epoch, JSON parsers read revisions as exact integers for 4000 years.
"""
_MAX_CHANGES_PER_MILLISECOND = 64
"""A number of changes per millisecond that no mirror exceeds."""
_MAX_LOST_CHANGES = 2**32
"""A number of changes that no mirror makes after one backup.

JSON integers are exact up to 2 million times this number.
"""

_OF_AN_APPLICATION = ("callbacks", "presubscriptions", "subscriptions", "notifications", "logs")
_OF_A_DEVICE = ("notifications", "commands", "subscriptions", "resources", "devices")


def erase_device(session: Session, device_id: str, storages: Iterable[Storage]) -> dict[str, int]:
    """Delete all data of a device, including the notifications and rules that name it.

    Returns:
        The number of deleted rows by table, of deleted rules, and of rows that extensions deleted.
    """
    name = session.scalar("SELECT endpoint_name FROM devices WHERE device_id = :device_id", device_id=device_id)
    rules = _erase_rules(session, device_id, name)
    rows: dict[str, int] = {}
    for storage in storages:
        if storage.erase is not None:
            rows |= storage.erase(session, device_id, name)
    if name is not None:
        # This invalidates the cached copies of the device object.
        session.note_change([device_id])
    # Before the entries are deleted, because this statement sums their sizes.
    session.run(
        "UPDATE logs SET stored_bytes = stored_bytes - (SELECT coalesce(sum(length(body)), 0) FROM notifications n"
        " WHERE n.app_id = logs.app_id AND n.device_id = :device_id)",
        device_id=device_id,
    )
    rows |= {
        table: session.run(f"DELETE FROM {table} WHERE device_id = :device_id", device_id=device_id)
        for table in _OF_A_DEVICE
    }
    return rows | {"presubscription_rules": rules}


def _erase_rules(session: Session, device_id: str, name: str | None) -> int:
    """Delete the presubscription rules of all applications that match only this device.

    Return the number of these rules.
    """
    # A rule with a prefix that also matches other devices does not name this device, so it stays.
    names = {device_id, f"{device_id}*", name or device_id}
    erased = 0
    for app_id, text in subscriptions.all_rules(session).items():
        rules = orjson.loads(text)
        remaining = [rule for rule in rules if rule.get("endpoint-name") not in names]
        if len(remaining) < len(rules):
            subscriptions.put_rules(session, app_id, orjson.dumps(remaining).decode())
        erased += len(rules) - len(remaining)
    return erased


def initialize_revisions(session: Session, at: Instant) -> None:
    """Start the change counter of a new database above the counters of all older databases.

    A client may have cached a table of an older mirror that had the same address and device names. With the higher
    numbers, all devices count as changed, and the client reads the complete table again.
    """
    first = max(at - _REVISION_EPOCH, 0) * _MAX_CHANGES_PER_MILLISECOND
    session.run("UPDATE revisions SET last_revision = :first WHERE last_revision = 0", first=first)


def current_instant(session: Session) -> Instant:
    """Return the current time by the clock of the last server on the database.

    Used by commands, which have no clock. The timestamps in the database come from that clock, so the system time
    would be wrong if the server used a manual clock.
    """
    manual = session.setting(MANUAL_CLOCK) if session.setting(CLOCK) == "manual" else None
    return wall_time() if manual is None else int(manual)


def skip_lost_numbers(session: Session) -> None:
    """Skip all numbers that clients may have seen, after a database was restored to an earlier state.

    Otherwise new changes would get the numbers of lost changes, and clients that have read the lost changes would skip
    the new ones.
    """
    session.run("UPDATE revisions SET last_revision = last_revision + :lost", lost=_MAX_LOST_CHANGES)
    # All devices count as changed, so that clients reload their tables completely.
    session.run("UPDATE devices SET revision = (SELECT last_revision FROM revisions)")
    logs.skip_lost_numbers(session)


def end_application(session: Session, app_id: str, storages: Iterable[Storage]) -> None:
    """Delete the channels, rules and subscriptions of an application whose key is revoked.

    The server still delivers its device requests, but discards their responses.
    """
    device_ids = session.rows("SELECT DISTINCT device_id FROM subscriptions WHERE app_id = :app_id", app_id=app_id)
    for storage in storages:
        if storage.end_application is not None:
            storage.end_application(session, app_id)
    for table in _OF_AN_APPLICATION:
        session.run(f"DELETE FROM {table} WHERE app_id = :app_id", app_id=app_id)
    for (device_id,) in device_ids:
        subscriptions.clear_ended(session, device_id)


_VIOLATIONS = {
    "a desired value is pending without a command": (
        "SELECT device_id || ' ' || path FROM resources WHERE desired_status = 0 AND NOT EXISTS"
        " (SELECT 1 FROM commands c WHERE c.command_id = desired_command_id AND c.finished_at IS NULL)"
    ),
    "a write command is waiting, but its desired value is not pending": (
        "SELECT r.device_id || ' ' || r.path FROM commands c JOIN resources r"
        " ON r.device_id = c.device_id AND r.desired_command_id = c.command_id"
        " WHERE c.finished_at IS NULL AND r.desired_status <> 0"
    ),
    "a log contains an entry with a number larger than its last number": (
        "SELECT n.app_id || ' ' || n.seq FROM notifications n JOIN logs l ON l.app_id = n.app_id"
        " WHERE n.seq > l.last_seq"
    ),
    "a log entry has no log": (
        "SELECT app_id || ' ' || seq FROM notifications WHERE app_id NOT IN (SELECT app_id FROM logs)"
    ),
    "a log's size is not the sum of its entries": (
        "SELECT app_id FROM logs WHERE stored_bytes <> (SELECT coalesce(sum(length(body)), 0) FROM notifications n"
        " WHERE n.app_id = logs.app_id)"
    ),
    "a position is beyond the end of its log": "SELECT app_id FROM logs WHERE position > last_seq",
    "a resource is subscribed without a subscription": (
        "SELECT device_id || ' ' || path FROM resources r WHERE subscribed = 1 AND NOT EXISTS"
        " (SELECT 1 FROM subscriptions s WHERE s.device_id = r.device_id AND s.path = r.path AND s.state <> 'ended')"
    ),
}


def violations(session: Session, storages: Iterable[Storage]) -> Iterator[Violation]:
    """Yield the inconsistencies of the database, with examples of the affected rows."""
    for statements in (_VIOLATIONS, *(storage.violations for storage in storages)):
        yield from found_in(session, statements)


def found_in(session: Session, statements: Mapping[str, str]) -> Iterator[Violation]:
    """Run the statement for each kind of violation, and yield the kinds that occur.

    Each statement returns one row per occurrence.
    """
    for kind, statement in statements.items():
        # The window function counts all rows, including the rows after the limit.
        limited = f"SELECT found.*, count(*) OVER () FROM ({statement}) AS found LIMIT {MOST_EXAMPLES}"
        if rows := session.rows(limited):
            yield Violation(kind, rows[0][1], [where for where, _ in rows])


_NEWEST_CONTACT = "SELECT max(last_contact_at) FROM devices"
"""This reads all devices. An index would have to change at each contact with a device."""


def store_newest_contact(session: Session) -> None:
    """Store the newest contact when a server stops, so that the next start need not read all devices."""
    newest: Instant | None = session.scalar(_NEWEST_CONTACT)
    if newest is not None:
        session.put_setting(NEWEST_CONTACT, str(newest))


def forget_newest_contact(session: Session) -> None:
    """Delete the newest contact, which changes while a server is running."""
    session.run("DELETE FROM settings WHERE name = :name", name=NEWEST_CONTACT)


def newest_instant(session: Session, storages: Iterable[Storage]) -> Instant | None:
    """Return the time of the newest stored event, or ``None`` if there is no event."""
    instant: Instant | None = session.scalar(
        "SELECT max(at) FROM (SELECT max(requested_at) AS at FROM commands WHERE finished_at IS NULL"
        " UNION ALL SELECT max(logged_at) FROM logs JOIN notifications"
        " ON notifications.app_id = logs.app_id AND seq = last_seq) AS found"
    )
    stored = session.setting(NEWEST_CONTACT)
    contact = session.scalar(_NEWEST_CONTACT) if stored is None else int(stored)
    extensions = [storage.newest_instant for storage in storages if storage.newest_instant is not None]
    instants = [instant, contact, *(newest(session) for newest in extensions)]
    return max((each for each in instants if each is not None), default=None)
