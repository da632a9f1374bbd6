"""Presubscription rules and subscriptions. Source: specification 3.3; wire.md 3.

A subscription is ``wanted`` until the device accepts the subscribe command, then ``active``, or ``refused`` until the
device registers anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from mirror_server.core.instants import Instant
from mirror_server.store import revisions
from mirror_server.store.session import Session, parts


def rules(session: Session, app_id: str) -> str | None:
    """The rules of an application as JSON, as they were put."""
    text: str | None = session.scalar("SELECT rules FROM presubscriptions WHERE app_id = :app_id", app_id=app_id)
    return text


def all_rules(session: Session) -> dict[str, str]:
    """The rules of every application that has some."""
    return dict(session.rows("SELECT app_id, rules FROM presubscriptions"))


def put_rules(session: Session, app_id: str, text: str) -> None:
    """Replace the rules of an application."""
    session.run(
        "INSERT INTO presubscriptions (app_id, rules) VALUES (:app_id, :rules)"
        " ON CONFLICT (app_id) DO UPDATE SET rules = excluded.rules",
        app_id=app_id,
        rules=text,
    )


def delete_rules(session: Session, app_id: str) -> None:
    """Delete the rules of an application."""
    session.run("DELETE FROM presubscriptions WHERE app_id = :app_id", app_id=app_id)


def add_presubscribed(session: Session, app_id: str, device_id: str, paths: Iterable[str]) -> None:
    """Want these resources for an application, where it has no subscription of them yet."""
    session.run_many(
        "INSERT INTO subscriptions (device_id, path, app_id, single, state)"
        " VALUES (?, ?, ?, 0, 'wanted') ON CONFLICT (device_id, path, app_id) DO NOTHING",
        [(device_id, path, app_id) for path in paths],
    )


def put_single(session: Session, app_id: str, device_id: str, path: str) -> None:
    """Subscribe an application to one resource; one that was refused is tried again."""
    session.run(
        "INSERT INTO subscriptions (device_id, path, app_id, single, state)"
        " VALUES (:device_id, :path, :app_id, 1, 'wanted')"
        " ON CONFLICT (device_id, path, app_id) DO UPDATE SET single = 1,"
        " state = CASE subscriptions.state WHEN 'active' THEN 'active' ELSE 'wanted' END",
        device_id=device_id,
        path=path,
        app_id=app_id,
    )


def paths(session: Session, app_id: str, device_id: str) -> list[str]:
    """The resources of a device an application is subscribed to."""
    rows = session.rows(
        "SELECT path FROM subscriptions WHERE device_id = :device_id AND app_id = :app_id ORDER BY path",
        device_id=device_id,
        app_id=app_id,
    )
    return [row[0] for row in rows]


def delete(session: Session, app_id: str, device_id: str, path: str) -> None:
    """End an application's subscription of one resource."""
    session.run(
        "DELETE FROM subscriptions WHERE device_id = :device_id AND path = :path AND app_id = :app_id",
        device_id=device_id,
        path=path,
        app_id=app_id,
    )


def delete_of_device(session: Session, app_id: str, device_id: str) -> None:
    """End all subscriptions of an application to a device."""
    session.run(
        "DELETE FROM subscriptions WHERE device_id = :device_id AND app_id = :app_id",
        device_id=device_id,
        app_id=app_id,
    )


def reset_device(session: Session, device_id: str) -> None:
    """Begin anew after a full registration or its end: no subscription, and the device observes nothing."""
    session.run("DELETE FROM subscriptions WHERE device_id = :device_id", device_id=device_id)
    session.run("UPDATE resources SET observing = 0, subscribed = 0 WHERE device_id = :device_id", device_id=device_id)
    revisions.note_change(session, [device_id])


def clear_ended(session: Session, device_id: str) -> None:
    """Show as not subscribed the resources of a device that nobody is subscribed to any more."""
    session.run(
        "UPDATE resources SET subscribed = 0 WHERE device_id = :device_id AND subscribed = 1 AND NOT EXISTS"
        " (SELECT 1 FROM subscriptions s WHERE s.device_id = resources.device_id AND s.path = resources.path"
        " AND s.state <> 'refused')",
        device_id=device_id,
    )
    revisions.note_change(session, [device_id])


def wanted_paths(session: Session, device_id: str) -> list[str]:
    """The resources for which the device is to be sent a subscribe command."""
    rows = session.rows(
        "SELECT DISTINCT path FROM subscriptions WHERE device_id = :device_id AND state = 'wanted' ORDER BY path",
        device_id=device_id,
    )
    return [row[0] for row in rows]


def unwanted_paths(session: Session, device_id: str) -> list[str]:
    """The resources the device observes though nobody is subscribed to them any more."""
    rows = session.rows(
        "SELECT path FROM resources r WHERE device_id = :device_id AND observing = 1 AND NOT EXISTS"
        " (SELECT 1 FROM subscriptions s WHERE s.device_id = r.device_id AND s.path = r.path"
        " AND s.state <> 'refused') ORDER BY path",
        device_id=device_id,
    )
    return [row[0] for row in rows]


def devices_with_work(session: Session) -> list[str]:
    """The devices for which a subscribe command, or the end of an observation, waits."""
    rows = session.rows(
        "SELECT device_id FROM subscriptions WHERE state = 'wanted'"
        " UNION SELECT device_id FROM resources r WHERE observing = 1 AND NOT EXISTS"
        " (SELECT 1 FROM subscriptions s WHERE s.device_id = r.device_id AND s.path = r.path AND s.state <> 'refused')"
    )
    return [row[0] for row in rows]


def accepted(session: Session, device_id: str, path: str, at: Instant) -> list[str]:
    """The device accepted a subscribe command at this instant; gives the applications that waited for it."""
    rows = session.rows(
        "UPDATE subscriptions SET state = 'active'"
        " WHERE device_id = :device_id AND path = :path AND state = 'wanted' RETURNING app_id",
        device_id=device_id,
        path=path,
    )
    session.run(
        "UPDATE resources SET observing = 1, subscribed = :subscribed,"
        " subscribed_at = CASE WHEN subscribed = 1 THEN subscribed_at ELSE :at END"
        " WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
        subscribed=int(bool(active_apps(session, device_id, path))),
        at=at,
    )
    revisions.note_change(session, [device_id])
    return sorted(row[0] for row in rows)


def refused(session: Session, device_id: str, path: str) -> None:
    """The device refused a subscribe command; it is not asked again before it registers anew."""
    session.run(
        "UPDATE subscriptions SET state = 'refused' WHERE device_id = :device_id AND path = :path AND state = 'wanted'",
        device_id=device_id,
        path=path,
    )


def cancelled(session: Session, device_id: str, path: str) -> None:
    """The device was told to observe the resource no longer."""
    session.run(
        "UPDATE resources SET observing = 0 WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
    )


def hearers(session: Session, resources: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """Who gets an observation event of these resources, each given as device id and path.

    Returns:
        For each resource of a device that is known, the device's endpoint name and the applications.
    """
    found: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for some in parts(list(dict.fromkeys(resources))):
        # Of few sizes, because a statement of each is prepared; nothing is equal to NULL.
        size = 1 << (len(some) - 1).bit_length()
        wanted = ", ".join(["(?, ?)"] * size)
        rows = session.rows_of(
            f"WITH wanted (device_id, path) AS (VALUES {wanted})"
            " SELECT wanted.device_id, wanted.path, endpoint_name, app_id"
            " FROM wanted JOIN devices ON devices.device_id = wanted.device_id"
            " LEFT JOIN subscriptions s ON s.device_id = wanted.device_id AND s.path = wanted.path"
            " AND state = 'active'",
            [*chain.from_iterable(some), *[None] * (2 * (size - len(some)))],
        )
        for device_id, path, endpoint_name, app_id in rows:
            _, app_ids = found.setdefault((device_id, path), (endpoint_name, []))
            if app_id is not None:
                app_ids.append(app_id)
    return found


def active_apps(session: Session, device_id: str, path: str) -> list[str]:
    """The applications that get an observation event of this resource."""
    rows = session.rows(
        "SELECT app_id FROM subscriptions WHERE device_id = :device_id AND path = :path AND state = 'active'"
        " ORDER BY app_id",
        device_id=device_id,
        path=path,
    )
    return [row[0] for row in rows]
