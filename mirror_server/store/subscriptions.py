"""Presubscription rules and subscriptions. Source: specification 3.3; wire.md 3.

A subscription is ``pending`` until the device accepts the subscribe command, then ``active``. If the device rejects
the command, the subscription is ``rejected`` until the server sends the command again. A single subscription, which is
one without a rule, becomes ``ended`` when the device's registration ends. Its row stays, so that its application can be
notified.

A subscription can be ``active`` although its resource is not ``observing``. Then the device may have lost the
observation, so the server sends the command again. This is not an event for the application.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import chain

from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Row, Session, Subscribers, batches

_UNSUBSCRIBED = (
    "NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.device_id = r.device_id AND s.path = r.path"
    " AND s.state IN ('pending', 'active'))"
)
"""The SQL condition that no subscription needs an observation of the resource ``r``.

Rejected and ended subscriptions do not need an observation.
"""

TO_OBSERVE = (
    "SELECT path, min(position) AS position FROM (SELECT path, position FROM subscriptions WHERE device_id = :device_id"
    " AND state = 'pending' UNION ALL SELECT s.path, s.position FROM subscriptions s"
    " JOIN resources r ON r.device_id = s.device_id AND r.path = s.path"
    # The device may have stopped to observe it.
    " WHERE s.device_id = :device_id AND s.state = 'active' AND r.observing = 0) AS needed GROUP BY path"
)
"""The SQL query for the resources of a device that need a subscribe command, with the position of their rule.

The position determines the order of the commands.
"""

TO_CANCEL = f"SELECT path FROM resources r WHERE device_id = :device_id AND observing = 1 AND {_UNSUBSCRIBED}"
"""The SQL query for the resources that a device still observes without a subscription."""

SUBSCRIBERS = (
    "WITH requested (device_id, path) AS ({})"
    " SELECT requested.device_id, requested.path, endpoint_name, r.auto_observed, r.changed_at, app_id"
    " FROM requested JOIN devices ON devices.device_id = requested.device_id"
    " LEFT JOIN resources r ON r.device_id = requested.device_id AND r.path = requested.path"
    " LEFT JOIN subscriptions s ON s.device_id = requested.device_id AND s.path = requested.path"
    " AND r.subscribed = 1 AND s.state <> 'ended'"
)
"""The SQL query for the applications that are subscribed to resources, one per row.

The placeholder stands for the resources.
"""

PRESUBSCRIBE = (
    "INSERT INTO subscriptions (device_id, path, app_id, single, state, position) {}"
    " ON CONFLICT (device_id, path, app_id) DO UPDATE SET single = 0, state = 'pending', ended_at = NULL,"
    " position = excluded.position WHERE subscriptions.state = 'ended'"
)
"""The statement that inserts subscriptions to resources that match rules. The placeholder stands for the values."""

RETRY_REJECTED = (
    "UPDATE subscriptions SET state = 'pending' WHERE state = 'rejected' AND EXISTS (SELECT 1 FROM resources r"
    " WHERE r.device_id = subscriptions.device_id AND r.path = subscriptions.path"
    " AND present = 1 AND observable = 1)"
)
"""The statement that makes rejected subscriptions pending again if the device has the resource.

Append a condition that selects the devices.
"""


def rules(session: Session, app_id: str) -> str | None:
    """Return the rules of an application as JSON, as they were put."""
    text: str | None = session.scalar("SELECT rules FROM presubscriptions WHERE app_id = :app_id", app_id=app_id)
    return text


def all_rules(session: Session) -> dict[str, str]:
    """Return the rules of all applications, by the id of the application."""
    return dict(session.rows("SELECT app_id, rules FROM presubscriptions"))


def put_rules(session: Session, app_id: str, text: str) -> None:
    """Replace the rules of an application. An empty list removes the rules."""
    if text == "[]":
        session.run("DELETE FROM presubscriptions WHERE app_id = :app_id", app_id=app_id)
        return
    session.run(
        "INSERT INTO presubscriptions (app_id, rules) VALUES (:app_id, :rules)"
        " ON CONFLICT (app_id) DO UPDATE SET rules = excluded.rules",
        app_id=app_id,
        rules=text,
    )


def add_presubscribed(session: Session, app_id: str, device_id: str, positions: Mapping[str, int]) -> None:
    """Subscribe an application to resources of a device if it has no subscription to them or an ended one.

    Args:
        session: The current transaction.
        app_id: The id of the application.
        device_id: The id of the device.
        positions: The position of the first matching rule, by path. Subscribe commands are sent in this order.
    """
    session.run_many(
        PRESUBSCRIBE.format("VALUES (?, ?, ?, 0, 'pending', ?)"),
        [(device_id, path, app_id, position) for path, position in positions.items()],
    )


def retry_rejected(session: Session, device_id: str) -> None:
    """Make the rejected subscriptions to a device pending again if the device has the resources."""
    session.run(f"{RETRY_REJECTED} AND device_id = :device_id", device_id=device_id)


def put_single(session: Session, app_id: str, device_id: str, path: str) -> None:
    """Subscribe an application to one resource. A rejected or ended subscription becomes pending again."""
    session.run(
        "INSERT INTO subscriptions (device_id, path, app_id, single, state)"
        " VALUES (:device_id, :path, :app_id, 1, 'pending')"
        " ON CONFLICT (device_id, path, app_id) DO UPDATE SET single = 1, ended_at = NULL,"
        " state = CASE subscriptions.state WHEN 'active' THEN 'active' ELSE 'pending' END",
        device_id=device_id,
        path=path,
        app_id=app_id,
    )


def paths(session: Session, app_id: str, device_id: str) -> list[str]:
    """Return the paths of the resources of a device to which an application is subscribed."""
    rows = session.rows(
        "SELECT path FROM subscriptions WHERE device_id = :device_id AND app_id = :app_id AND state <> 'ended'"
        " ORDER BY path",
        device_id=device_id,
        app_id=app_id,
    )
    return [row[0] for row in rows]


def state(session: Session, app_id: str, device_id: str, path: str) -> str | None:
    """Return the state of a subscription, or ``None`` if there is none.

    The state is also ``active`` if the device observes the resource for another application.
    """
    word: str | None = session.scalar(
        "SELECT CASE WHEN s.state <> 'ended' AND r.subscribed = 1 THEN 'active' ELSE s.state END FROM subscriptions s"
        " LEFT JOIN resources r ON r.device_id = s.device_id AND r.path = s.path"
        " WHERE s.device_id = :device_id AND s.path = :path AND s.app_id = :app_id",
        device_id=device_id,
        path=path,
        app_id=app_id,
    )
    return word


def delete(session: Session, app_id: str, device_id: str, path: str | None) -> None:
    """End the subscription of an application to one resource of a device, or to all its resources without a path."""
    session.run(
        "DELETE FROM subscriptions WHERE device_id = :device_id AND app_id = :app_id"
        + ("" if path is None else " AND path = :path"),
        device_id=device_id,
        app_id=app_id,
        **({} if path is None else {"path": path}),
    )


def reset_device(session: Session, device_id: str) -> None:
    """End all subscriptions to a device after a full registration or the end of its registration.

    The device no longer observes any resource.
    """
    session.run("DELETE FROM subscriptions WHERE device_id = :device_id AND single = 0", device_id=device_id)
    session.run("UPDATE subscriptions SET state = 'ended' WHERE device_id = :device_id", device_id=device_id)
    session.run("UPDATE resources SET observing = 0, subscribed = 0 WHERE device_id = :device_id", device_id=device_id)
    session.note_change([device_id])


def note_ended(session: Session, device_id: str, at: Instant) -> dict[str, list[str]]:
    """Return the ended single subscriptions to a device, by application. Each subscription is returned only once."""
    rows = session.rows(
        "UPDATE subscriptions SET ended_at = :at WHERE device_id = :device_id AND state = 'ended' AND ended_at IS NULL"
        " RETURNING app_id, path",
        device_id=device_id,
        at=at,
    )
    found: dict[str, list[str]] = {}
    # The rows are sorted, because RETURNING has no order.
    for app_id, path in sorted(rows):
        found.setdefault(app_id, []).append(path)
    return found


def clear_ended(session: Session, device_id: str) -> None:
    """Mark the resources of a device that have no remaining subscription as not subscribed."""
    session.run(
        f"UPDATE resources AS r SET subscribed = 0 WHERE device_id = :device_id AND subscribed = 1 AND {_UNSUBSCRIBED}",
        device_id=device_id,
    )
    session.note_change([device_id])


def devices_with_work(session: Session) -> list[str]:
    """Return the ids of the devices that have observations to start or to cancel."""
    # An index has the resources that are subscribed and not observed, or observed and not subscribed.
    rows = session.rows(
        "SELECT device_id FROM subscriptions WHERE state = 'pending'"
        " UNION SELECT device_id FROM resources WHERE observing <> subscribed"
    )
    return [row[0] for row in rows]


def accepted(session: Session, device_id: str, path: str, at: Instant) -> list[str]:
    """Store that a device accepted a subscribe command. Return the applications that waited for the command.

    The device now observes the resource for all applications, including applications with a rejected subscription.
    """
    rows = session.rows(
        "UPDATE subscriptions SET state = 'active'"
        " WHERE device_id = :device_id AND path = :path AND state IN ('pending', 'rejected') RETURNING app_id",
        device_id=device_id,
        path=path,
    )
    session.run(
        "UPDATE resources SET observing = 1, subscribed = :subscribed,"
        " subscribed_at = CASE WHEN subscribed = 1 THEN subscribed_at ELSE :at END"
        " WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
        # The last subscription may have ended while the command was in flight.
        subscribed=int(bool(subscribed_applications(session, device_id, path))),
        at=at,
    )
    session.note_change([device_id])
    return sorted(row[0] for row in rows)


def rejected(session: Session, device_id: str, path: str) -> None:
    """Store that a device rejected a subscribe command. See :func:`retry_rejected`.

    If the device observes the resource for other applications, the observation continues.
    """
    changed = session.run(
        "UPDATE subscriptions SET state = 'rejected' WHERE device_id = :device_id AND path = :path"
        " AND (state = 'pending' OR state = 'active' AND NOT EXISTS (SELECT 1 FROM resources r"
        " WHERE r.device_id = subscriptions.device_id AND r.path = subscriptions.path AND observing = 1))",
        device_id=device_id,
        path=path,
    )
    if changed:
        clear_ended(session, device_id)


def forgotten(session: Session, device_id: str, path: str) -> None:
    """Store that a device may have stopped observing a resource.

    If the resource has a subscription, the subscribe command is sent again.
    """
    session.run(
        "UPDATE resources SET observing = 0 WHERE device_id = :device_id AND path = :path",
        device_id=device_id,
        path=path,
    )


def observation_ended(session: Session, device_id: str, path: str) -> None:
    """Store that a device ended an observation on its own initiative. This counts as a rejected subscribe command."""
    forgotten(session, device_id, path)
    rejected(session, device_id, path)


def subscribers(session: Session, resources: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Subscribers]:
    """Return the subscribers of resources, by device id and path. Resources of unknown devices are left out.

    The result may include other resources that are in the cache.
    """
    cached = session.subscribers.as_of(session.subscribers_version())
    missing = [resource for resource in dict.fromkeys(resources) if resource not in cached]
    for rows in subscriber_rows(session, missing):
        for device_id, path, endpoint_name, auto_observed, changed_at, app_id in rows:
            new = Subscribers(endpoint_name, [], bool(auto_observed), changed_at)
            entry = cached.setdefault((device_id, path), new)
            if app_id is not None:
                entry.app_ids.append(app_id)
    return cached


@singledispatch
def subscriber_rows(session: Session, resources: Sequence[tuple[str, str]]) -> Iterator[list[Row]]:
    """Yield the rows of :data:`SUBSCRIBERS` for resources. Each resource is a pair of a device id and a path."""
    for batch in batches(resources):
        # The batch is padded to one of a few sizes, because each size needs a separate prepared statement. The NULLs
        # match nothing.
        size = 1 << (len(batch) - 1).bit_length()
        values = [*chain.from_iterable(batch), *[None] * (2 * (size - len(batch)))]
        yield session.rows_of(SUBSCRIBERS.format(f"VALUES {', '.join(['(?, ?)'] * size)}"), values)


def subscribed_applications(session: Session, device_id: str, path: str) -> list[str]:
    """Return the applications that receive the observation events of a resource while the device observes it."""
    rows = session.rows(
        "SELECT app_id FROM subscriptions WHERE device_id = :device_id AND path = :path AND state <> 'ended'"
        " ORDER BY app_id",
        device_id=device_id,
        path=path,
    )
    return [row[0] for row in rows]
