"""The progress of applying presubscription rules to the registered devices, and the resulting subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mirror_server.store.devices import DEVICE_COLUMNS, DeviceRow
from mirror_server.store.session import Row, Session, batches
from mirror_server.store.subscriptions import PRESUBSCRIBE, RETRY_REJECTED


def begin(session: Session, app_id: str) -> None:
    """Start to apply the rules of an application, if it has any, to the registered devices."""
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
        app_id: The application.
        revision: Distinguishes these rules from later ones.
        device_id: The device of the last resource they were applied to; ``""`` if there is none yet.
        path: The path of that resource.
        rules: The rules as JSON.
    """

    app_id: str
    revision: int
    device_id: str
    path: str
    rules: str


def next_to_apply(session: Session, after: str) -> RulesToApply | None:
    """Return the rules to apply of the next application after this one; after the last one the first one follows.

    Rules that were put while this extension was left out replace earlier ones, and are not applied.
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
        session: The transaction.
        applied: The rules, and the last resource they were applied to before.
        last: The last resource they were applied to, as device id and path.
        is_all: Whether no resource follows.
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
    """Return up to ``most`` resources of all devices after this one, by device id and path.

    Each is a tuple of device id, path, and 1 if its device has it and it is observable, else 0.
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
    """Return the devices among these that are currently registered."""
    rows: list[Row] = []
    for batch in batches(device_ids):
        marks = ", ".join("?" * len(batch))
        # With +, because SQLite would read all registered devices from their index.
        rows += session.rows_of(
            f"SELECT {DEVICE_COLUMNS} FROM devices WHERE +registered = 1 AND device_id IN ({marks})", batch
        )
    return [DeviceRow(*row) for row in rows]


class Matched(NamedTuple):
    """A resource that a presubscription rule matches, with the matched properties of its device.

    Attributes:
        position: The position of the first rule that matches it. Resources of a lower one are subscribed first.
        device_id: The device.
        path: The resource.
        endpoint_name: The endpoint name of the device.
        endpoint_type: The endpoint type of the device.
    """

    position: int
    device_id: str
    path: str
    endpoint_name: str
    endpoint_type: str


def add_matched(session: Session, app_id: str, matched: Iterable[Matched]) -> None:
    """Request subscriptions to these resources for an application, in a later transaction than the match.

    Existing subscriptions are kept. Resources of a device that is no longer registered, or whose name or type has
    changed, are skipped: its next registration applies the rules.
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
    """Request rejected subscriptions of an application again, of devices in a range of ids that have the resource."""
    session.run(
        f"{RETRY_REJECTED} AND device_id BETWEEN :first AND :last AND app_id = :app_id",
        first=first,
        last=last,
        app_id=app_id,
    )


def devices_to_subscribe(session: Session, first: str, last: str, app_id: str) -> list[str]:
    """Return the devices in a range of ids to which a subscribe command of an application is pending."""
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
