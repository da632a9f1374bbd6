"""How far presubscription rules are applied to the registered devices, and the subscriptions that this makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mirror_server.store.devices import DEVICE_COLUMNS, DeviceRow
from mirror_server.store.session import Row, Session, batches
from mirror_server.store.subscriptions import PRESUBSCRIBE, RETRY_REJECTED


def begin(session: Session, app_id: str) -> None:
    """Have the rules of an application, if there are any, applied to the registered devices, from the first one on."""
    session.run(
        "INSERT INTO applying_rules (app_id, revision, rules, device_id, path)"
        " SELECT app_id, :revision, rules, '', '' FROM presubscriptions WHERE app_id = :app_id",
        app_id=app_id,
        revision=session.note_change(()),
    )


def end(session: Session, app_id: str) -> None:
    """Apply the rules of an application to no further devices."""
    session.run("DELETE FROM applying_rules WHERE app_id = :app_id", app_id=app_id)


class RulesToApply(NamedTuple):
    """Rules that are being applied to the registered devices.

    Attributes:
        app_id: The application.
        revision: Tells these rules from those that are put later.
        device_id: The device of the last resource they were applied to; ``""`` where that is none.
        path: Its path.
        rules: The rules as JSON.
    """

    app_id: str
    revision: int
    device_id: str
    path: str
    rules: str


def next_to_apply(session: Session, after: str) -> RulesToApply | None:
    """The rules of the application behind this one whose rules are being applied; the first one follows the last.

    Others may have been put while this extension was left out: those are not applied.
    """
    row = session.row(
        "SELECT a.app_id, revision, device_id, path, a.rules FROM applying_rules a"
        " JOIN presubscriptions p ON p.app_id = a.app_id AND p.rules = a.rules"
        " ORDER BY a.app_id <= :after, a.app_id LIMIT 1",
        after=after,
    )
    return RulesToApply(*row) if row else None


def note_applied(session: Session, applied: RulesToApply, last: tuple[str, str], *, is_all: bool) -> bool:
    """Note that rules were applied to some more resources, unless they are not to be, or another process did that.

    Args:
        session: The transaction.
        applied: The rules, and behind which resource they were applied.
        last: The last resource they were applied to, as device id and path.
        is_all: Whether there is none behind it.
    """
    where = " WHERE app_id = :app_id AND revision = :revision AND device_id = :device_id AND path = :path"
    of_rules, now = applied._asdict(), {}
    del of_rules["rules"]
    change = "DELETE FROM applying_rules"
    if not is_all:
        change = "UPDATE applying_rules SET device_id = :last_device_id, path = :last_path"
        now = dict(zip(("last_device_id", "last_path"), last, strict=True))
    return bool(session.run(change + where, **of_rules, **now))


def behind(session: Session, device_id: str, path: str, *, most: int) -> list[tuple[str, str, int]]:
    """Up to ``most`` resources of all devices, by device id and path, from behind this one on.

    Each is given as device id, path, and 1 where its device has it and it can be observed, else 0.
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
    """Those of these devices that are registered now."""
    rows: list[Row] = []
    for some in batches(device_ids):
        marks = ", ".join("?" * len(some))
        rows += session.rows_of(
            f"SELECT {DEVICE_COLUMNS} FROM devices WHERE registered = 1 AND device_id IN ({marks})", some
        )
    return [DeviceRow(*row) for row in rows]


class Matched(NamedTuple):
    """A resource that a presubscription rule matches, as its device was then.

    Attributes:
        position: The position of the first rule that matches it. A device is asked for those of a lower one first.
        device_id: The device.
        path: The resource.
        endpoint_name: The endpoint name of the device.
        endpoint_type: Its endpoint type.
    """

    position: int
    device_id: str
    path: str
    endpoint_name: str
    endpoint_type: str


def add_matched(session: Session, app_id: str, matched: Iterable[Matched]) -> None:
    """Want these resources for an application, in a later transaction than that in which they were matched.

    Where it has a subscription already, that stays. Those whose device is not registered any more, or is another one by
    what rules are about, are passed over: its next registration is matched by itself.
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


def ask_again(session: Session, first: str, last: str, app_id: str) -> None:
    """Want for an application what devices refused, from one device id to another, of those resources they have."""
    session.run(
        f"{RETRY_REJECTED} AND device_id BETWEEN :first AND :last AND app_id = :app_id",
        first=first,
        last=last,
        app_id=app_id,
    )


def devices_to_ask(session: Session, first: str, last: str, app_id: str) -> list[str]:
    """The devices from one id to another for which a subscribe command of an application waits."""
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
