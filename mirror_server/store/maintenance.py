"""Maintenance of a whole database: erase a device, end an application, check the invariants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson

from mirror_server.core.instants import Instant
from mirror_server.store import logs, subscriptions
from mirror_server.store.backend import MOST_EXAMPLES, Storage, Violation
from mirror_server.store.session import Session

_COUNTED_SINCE: Instant = 1_767_225_600_000
"""2026-01-01; numbers that begin there are whole ones in every JSON for 4000 years."""
_MOST_IN_A_MILLISECOND = 64
"""More changes than any mirror stores."""
_LOST_AT_MOST = 2**32
"""More changes than were ever made after one backup; 2 million times as many are whole numbers in every JSON."""

_OF_AN_APPLICATION = ("callbacks", "presubscriptions", "subscriptions", "notifications", "logs")
_OF_A_DEVICE = ("notifications", "commands", "subscriptions", "resources", "devices")


def erase_device(session: Session, device_id: str, storages: Iterable[Storage]) -> dict[str, int]:
    """Delete all that is stored of a device, the notification logs and rules that name it included.

    Returns:
        How many rows of each table, how many rules, and what extensions have erased.
    """
    name = session.scalar("SELECT endpoint_name FROM devices WHERE device_id = :device_id", device_id=device_id)
    rules = _erase_rules(session, device_id, name)
    rows: dict[str, int] = {}
    for storage in storages:
        if storage.erase is not None:
            rows |= storage.erase(session, device_id, name)
    if name is not None:
        # What is kept of its object elsewhere holds no more.
        session.note_change([device_id])
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
    """Delete the presubscription rules that are about this device alone, of all applications; gives their number."""
    # A rule for more devices whose names begin alike is none that names this one.
    names = {device_id, f"{device_id}*", name or device_id}
    erased = 0
    for app_id, text in subscriptions.all_rules(session).items():
        rules = orjson.loads(text)
        kept = [rule for rule in rules if rule.get("endpoint-name") not in names]
        if len(kept) < len(rules):
            subscriptions.put_rules(session, app_id, orjson.dumps(kept).decode())
        erased += len(rules) - len(kept)
    return erased


def begin_counting(session: Session, at: Instant) -> None:
    """Begin to count changes in a new database, beyond the numbers of all that were begun before this instant.

    So a table that was taken of another mirror, with the same address and devices of the same names, is taken anew, as
    nothing here is as old: what a lost database had counted says nothing of this one.
    """
    first = max(at - _COUNTED_SINCE, 0) * _MOST_IN_A_MILLISECOND
    session.run("UPDATE revisions SET last_revision = :first WHERE last_revision = 0", first=first)


def skip_lost_numbers(session: Session) -> None:
    """Count on from beyond all that anyone may know, in a database that went back to an earlier state.

    What was counted after a backup was made is lost with it, but not to those who have read it. If it were counted once
    more, they would take a change that they do not know for one they do.
    """
    session.run("UPDATE revisions SET last_revision = last_revision + :lost", lost=_LOST_AT_MOST)
    session.run("UPDATE devices SET revision = (SELECT last_revision FROM revisions)")
    logs.skip_lost_numbers(session)


def end_application(session: Session, app_id: str, storages: Iterable[Storage]) -> None:
    """Delete what goes on without a request of an application whose key is revoked: nothing is sent to it any more.

    What it asked of devices is done; nobody hears the answers.
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


def violations(session: Session, storages: Iterable[Storage]) -> Iterator[Violation]:
    """Find what is wrong with the database, with the rows concerned."""
    for statements in (_VIOLATIONS, *(storage.violations for storage in storages)):
        yield from found_in(session, statements)


def found_in(session: Session, statements: Mapping[str, str]) -> Iterator[Violation]:
    """The kinds of violations whose statement gives a row for each place where it is so."""
    for kind, statement in statements.items():
        limited = f"SELECT found.*, count(*) OVER () FROM ({statement}) AS found LIMIT {MOST_EXAMPLES}"
        if rows := session.rows(limited):
            yield Violation(kind, rows[0][1], [where for where, _ in rows])


def newest_instant(session: Session, storages: Iterable[Storage]) -> Instant | None:
    """The latest instant at which anything is stored to have happened; ``None`` where nothing is."""
    instant: Instant | None = session.scalar(
        "SELECT max(at) FROM (SELECT max(last_contact_at) AS at FROM devices"
        " UNION ALL SELECT max(requested_at) FROM commands WHERE finished_at IS NULL"
        " UNION ALL SELECT max(logged_at) FROM logs JOIN notifications"
        " ON notifications.app_id = logs.app_id AND seq = last_seq) AS found"
    )
    asked = [storage.newest_instant for storage in storages if storage.newest_instant is not None]
    instants = [instant, *(newest(session) for newest in asked)]
    return max((each for each in instants if each is not None), default=None)
