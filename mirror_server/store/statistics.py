"""What is stored of the whole database, for those who watch over it."""

from __future__ import annotations

from mirror_server.core.instants import Instant
from mirror_server.store.extensions import EXTENSIONS
from mirror_server.store.session import Session


def newest_instant(session: Session) -> Instant | None:
    """The latest instant at which anything is stored to have happened; ``None`` where nothing is."""
    instant: Instant | None = session.scalar(
        "SELECT max(at) FROM (SELECT max(last_contact_at) AS at FROM devices"
        " UNION ALL SELECT max(requested_at) FROM commands WHERE finished_at IS NULL"
        " UNION ALL SELECT max(logged_at) FROM logs JOIN notifications"
        " ON notifications.app_id = logs.app_id AND seq = last_seq) AS found"
    )
    instants = [instant, *(extension.newest_instant(session) for extension in EXTENSIONS)]
    return max((each for each in instants if each is not None), default=None)
