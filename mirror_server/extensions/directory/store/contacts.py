"""The statements that find recent contacts of a device in a notification log. Source: wire.md 6."""

from __future__ import annotations

from mirror_server.core.messages import NOTIFICATIONS
from mirror_server.core.timestamps import Instant
from mirror_server.store import logs
from mirror_server.store.session import Session


def newest(
    session: Session, app_id: str, device_id: str, until: Instant, *, most_rows: int, most: int
) -> list[Instant]:
    """Return the newest times at which values from a device were logged, ordered from old to new.

    Only the last ``most_rows`` entries up to the time ``until`` are searched. So a long log takes no longer than a
    short one.
    """
    end = _first_after(session, app_id, until)
    rows = session.rows(
        "SELECT DISTINCT logged_at FROM notifications WHERE app_id = :app_id AND seq >= :begin AND seq < :end"
        " AND device_id = :device_id AND kind = :kind"
        " ORDER BY logged_at DESC LIMIT :most",
        app_id=app_id,
        device_id=device_id,
        kind=NOTIFICATIONS,
        begin=end - most_rows,
        end=end,
        most=most,
    )
    return [row[0] for row in reversed(rows)]


def _first_after(session: Session, app_id: str, instant: Instant) -> int:
    """Return the number of the first entry after a time, by a binary search.

    If there is no such entry, return the number of the next entry.
    """
    found = logs.state(session, app_id)
    low, high = 1, 1 + (found.last_seq if found else 0)
    while low < high:
        middle = (low + high) // 2
        row = session.row(
            "SELECT seq, logged_at FROM notifications WHERE app_id = :app_id AND seq >= :middle ORDER BY seq LIMIT 1",
            app_id=app_id,
            middle=middle,
        )
        if row is not None and row[1] <= instant:
            low = row[0] + 1
        else:
            high = middle
    return low
