"""The progress of applying presubscription rules to the registered devices, and the resulting subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mirror_server.store.devices import DEVICE_COLUMNS, DeviceRow
from mirror_server.store.session import Row, Session, batches
from mirror_server.store.subscriptions import PRESUBSCRIBE, RETRY_REJECTED


def begin(session: Session, app_id: str) -> None:
    """Start applying the rules of an application, if it has any, to the registered devices."""
    session.run(
        "INSERT INTO applying_rules (app_id, revision, rules, device_id, path)"
        " SELECT app_id, :revision, rules, '', '' FROM presubscriptions WHERE app_id = :app_id",
        app_id=app_id,
        revision=session.note_change(()),
    )


def end(session: Session, app_id: str) -> None:
    """Stop applying the rules of an application."""
    session.run("DELETE FROM applying_rules WHERE app_id = :app_id", app_id=app_id)


class RulesToApply(NamedTuple):
    """Rules that are being applied to the registered devices.

    Attributes:
        app_id: The id of the application.
        revision: A number that distinguishes these rules from later ones.
        device_id: The device of the last resource to which the rules were applied, or ``""`` if there is none yet.
        path: The path of that resource.
        rules: The rules as JSON.
    """

    app_id: str
    revision: int
    device_id: str
    path: str
    rules: str


def next_to_apply(session: Session, after: str) -> RulesToApply | None:
    """Return the rules of the next application after ``after`` that are still to be applied.

    After the last application, the first one follows. Rules that are put while this extension is left out replace
    these rules. Then neither of them is applied.
    """
    row = session.row(
        "SELECT a.app_id, revision, device_id, path, a.rules FROM applying_rules a"
        " JOIN presubscriptions p ON p.app_id = a.app_id AND p.rules = a.rules"
        " ORDER BY a.app_id <= :after, a.app_id LIMIT 1",
        after=after,
    )
    return RulesToApply(*row) if row else None


def advance(session: Session, applied: RulesToApply, last: tuple[str, str], *, is_all: bool) -> bool:
    """Store that rules were applied to further resources. Return false if they were replaced or already advanced.

    Args:
        session: The current transaction.
        applied: The rules, and the last resource to which they had been applied before.
        last: The device id and the path of the last resource to which they were applied now.
        is_all: Whether no resources follow.
    """
    where = " WHERE app_id = :app_id AND revision = :revision AND device_id = :device_id AND path = :path"
    of_rules, now = applied._asdict(), {}
    del of_rules["rules"]
    change = "DELETE FROM applying_rules"
    if not is_all:
        change = "UPDATE applying_rules SET device_id = :last_device_id, path = :last_path"
        now = dict(zip(("last_device_id", "last_path"), last, strict=True))
    return bool(session.run(change + where, **of_rules, **now))


def resources_after(session: Session, device_id: str, path: str, *, most: int) -> list[tuple[str, str, int]]:
    """Return up to ``most`` resources of all devices, starting after the given resource, by device id and path.

    Each result is a tuple of the device id, the path, and 1 if the device has the resource and can observe it, or 0.
    """
    rows = session.rows(
        "SELECT device_id, path, CASE WHEN present = 1 AND observable = 1 THEN 1 ELSE 0 END FROM resources"
        " WHERE (device_id, path) > (:device_id, :path) ORDER BY device_id, path LIMIT :most",
        device_id=device_id,
        path=path,
        most=most,
    )
    return [(of_device, at_path, usable) for of_device, at_path, usable in rows]


def registered(session: Session, device_ids: Sequence[str]) -> list[DeviceRow]:
    """Return the devices with these ids that are currently registered."""
    rows: list[Row] = []
    for batch in batches(device_ids):
        marks = ", ".join("?" * len(batch))
        # With +, because SQLite would read all registered devices from their index.
        rows += session.rows_of(
            f"SELECT {DEVICE_COLUMNS} FROM devices WHERE +registered = 1 AND device_id IN ({marks})", batch
        )
    return [DeviceRow(*row) for row in rows]


class Matched(NamedTuple):
    """A resource that matches a presubscription rule, with the properties of its device at the time of the match.

    Attributes:
        position: The position of the first rule that matches. Resources with a lower position are subscribed first.
        device_id: The id of the device.
        path: The path of the resource.
        endpoint_name: The endpoint name of the device.
        endpoint_type: The endpoint type of the device.
    """

    position: int
    device_id: str
    path: str
    endpoint_name: str
    endpoint_type: str


def add_matched(session: Session, app_id: str, matched: Iterable[Matched]) -> None:
    """Subscribe an application to these resources. This runs in a later transaction than the match.

    Existing subscriptions are not changed. Resources are skipped if their device is no longer registered, or if its
    name or type has changed. The next registration of such a device applies the rules.
    """
    session.run_many(
        PRESUBSCRIBE.format(
            "SELECT d.device_id, r.path, ?, 0, 'pending', ?"
            " FROM devices d JOIN resources r ON r.device_id = d.device_id"
            " WHERE d.device_id = ? AND r.path = ? AND endpoint_name = ? AND endpoint_type = ? AND registered = 1"
            " AND present = 1 AND observable = 1"
        ),
        [(app_id, *each) for each in matched],
    )


def retry_rejected(session: Session, first: str, last: str, app_id: str) -> None:
    """Make the rejected subscriptions of an application pending again, for devices in a range of ids.

    Subscriptions to resources that their device no longer has stay rejected.
    """
    session.run(
        f"{RETRY_REJECTED} AND device_id BETWEEN :first AND :last AND app_id = :app_id",
        first=first,
        last=last,
        app_id=app_id,
    )


def devices_to_subscribe(session: Session, first: str, last: str, app_id: str) -> list[str]:
    """Return the devices in a range of ids for which a subscribe command of the application is pending."""
    rows = session.rows(
        "SELECT DISTINCT s.device_id FROM subscriptions s"
        " JOIN resources r ON r.device_id = s.device_id AND r.path = s.path"
        " WHERE s.device_id BETWEEN :first AND :last AND s.app_id = :app_id"
        " AND (s.state = 'pending' OR s.state = 'active' AND r.observing = 0)",
        first=first,
        last=last,
        app_id=app_id,
    )
    return [row[0] for row in rows]
