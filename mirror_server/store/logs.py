"""The statements for notification logs and webhooks. Source: wire.md 4.

Each application has one log and at most one webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from mirror_sdk.wire.log_entries import NUMBERS_LEFT_OUT
from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Session

EVERY = "logs"
"""The conflict key of work that appends to logs or moves positions.

All logs share one key, because such work determines which logs it changes only when it runs.
"""

COUNT = (
    "UPDATE logs SET last_seq = last_seq + :count, stored_bytes = stored_bytes + :size,"
    " read_seq = CASE WHEN read_seq < :read_seq THEN :read_seq ELSE read_seq END"
    " WHERE app_id = :app_id RETURNING last_seq, stored_bytes"
)
Entry = tuple[int, str, bytes, Instant]
"""The number, the kind, the body and the time of a log entry."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of an application's notification log.

    Attributes:
        last_seq: The number of the last entry.
        position: The number of the last entry that was delivered to a reader whose position the server stores.
        polled: Whether a poll channel is open: 1 or 0.
    """

    last_seq: int
    position: int
    polled: int

    @property
    def waiting(self) -> int:
        """The number of entries after the position."""
        # Each restore of a backup skips this many numbers. No entries have these numbers, so they are not counted.
        return (self.last_seq - self.position) % NUMBERS_LEFT_OUT


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last entry number of a log, and the size of the log in bytes."""

    last_seq: int
    stored_bytes: int


def create(session: Session, app_id: str) -> None:
    """Create the log of an application. From now on its notifications are stored."""
    session.run("INSERT INTO logs (app_id) VALUES (:app_id) ON CONFLICT (app_id) DO NOTHING", app_id=app_id)


def state(session: Session, app_id: str) -> LogState | None:
    """Return the state of the log of an application, or ``None`` if it has no log."""
    row = session.row("SELECT last_seq, position, polled FROM logs WHERE app_id = :app_id", app_id=app_id)
    return LogState(*row) if row else None


def applications(session: Session) -> list[str]:
    """Return the ids of the applications that have a log."""
    return [row[0] for row in session.rows("SELECT app_id FROM logs ORDER BY app_id")]


@singledispatch
def append(
    session: Session, app_id: str, entries: Sequence[tuple[str, bytes]], *, kind: str, at: Instant, read_seq: int
) -> LogEnd | None:
    """Append entries of one kind to a log. Each entry is a pair of a device id and a body.

    Return ``None`` if the application has no log. ``read_seq`` is stored with the entries; see :func:`note_read`.
    """
    row = session.row(COUNT, **counted(app_id, entries, read_seq))
    if row is None:
        return None
    end = LogEnd(*row)
    session.insert_many(
        "notifications (app_id, logged_at, kind, seq, device_id, body)",
        (app_id, at, kind),
        [(seq, *entry) for seq, entry in enumerate(entries, end.last_seq - len(entries) + 1)],
    )
    return end


def counted(app_id: str, entries: Sequence[tuple[str, bytes]], read_seq: int) -> dict[str, Any]:
    """Return the parameters of :data:`COUNT` for entries that are appended."""
    size = sum(len(body) for _, body in entries)
    return {"app_id": app_id, "count": len(entries), "size": size, "read_seq": read_seq}


# One statement sees one state of the database, so the last number matches the entries. The LEFT JOIN returns the
# last number even if the log is empty. `before` is the size of all entries before an entry, so the entry that reaches
# the limit is included.
_READ = (
    "SELECT last_seq, n.seq, kind, body, logged_at FROM logs LEFT JOIN notifications n ON n.app_id = logs.app_id"
    " AND n.seq > :after AND n.seq <= (SELECT max(seq) FROM (SELECT seq, sum(size) OVER (ORDER BY seq) - size AS before"
    " FROM (SELECT seq, length(body) AS size FROM notifications WHERE app_id = :app_id AND seq > :after"
    " ORDER BY seq LIMIT :limit) AS sizes) AS sums WHERE before < :most_bytes)"
    " WHERE logs.app_id = :app_id ORDER BY n.seq"
)


def read(session: Session, app_id: str, after: int, limit: int, most_bytes: int) -> tuple[int, list[Entry]]:
    """Return the last number of a log, and up to ``limit`` entries after the number ``after``.

    The last number is 0 if the log does not exist. The entry that reaches ``most_bytes`` is the last entry.
    """
    rows = session.rows(_READ, app_id=app_id, after=after, limit=limit, most_bytes=most_bytes)
    return (rows[0][0] if rows else 0), [(*entry,) for _, *entry in rows if entry[0] is not None]


def set_position(session: Session, app_id: str, position: int) -> None:
    """Set the position of the plain poll."""
    session.run("UPDATE logs SET position = :position WHERE app_id = :app_id", app_id=app_id, position=position)


def note_read(session: Session, app_id: str, seq: int) -> None:
    """Record that a reader with its own position has received the entries up to this number."""
    session.run("UPDATE logs SET read_seq = :seq WHERE app_id = :app_id AND read_seq < :seq", app_id=app_id, seq=seq)


def skip_read(session: Session, app_id: str) -> None:
    """Move the position of the server's channels past the entries that readers with own positions have received."""
    session.run(
        "UPDATE logs SET position = read_seq WHERE app_id = :app_id AND position < read_seq",
        app_id=app_id,
    )


def skip_lost_numbers(session: Session) -> None:
    """Skip all entry numbers that readers may have seen, after a backup was restored.

    Readers that had read beyond the backup then notice a gap. Otherwise they would miss the new entries that reuse
    those numbers. If the position of a channel of the server was at the end of the log, it stays at the end.
    """
    session.run(
        "UPDATE logs SET last_seq = last_seq + :lost,"
        " position = CASE WHEN position = last_seq THEN last_seq + :lost ELSE position END,"
        " read_seq = CASE WHEN read_seq = last_seq THEN last_seq + :lost ELSE read_seq END",
        lost=NUMBERS_LEFT_OUT,
    )


def set_polled(session: Session, app_id: str, *, polled: bool) -> None:
    """Store whether the poll channel is open."""
    session.run("UPDATE logs SET polled = :polled WHERE app_id = :app_id", app_id=app_id, polled=int(polled))


def drop_older(session: Session, older_than: Instant) -> None:
    """Delete the entries of all logs that were logged before ``older_than``."""
    # Only the first entry of each log is read, which is found by the primary key.
    with_older = session.rows(
        "SELECT app_id FROM logs WHERE :older_than > (SELECT logged_at FROM notifications"
        " WHERE notifications.app_id = logs.app_id ORDER BY seq LIMIT 1) ORDER BY app_id",
        older_than=older_than,
    )
    for (app_id,) in with_older:
        first_seq = session.scalar(
            "SELECT min(seq) FROM notifications WHERE app_id = :app_id AND logged_at >= :older_than",
            app_id=app_id,
            older_than=older_than,
        )
        last_seq = session.scalar("SELECT last_seq FROM logs WHERE app_id = :app_id", app_id=app_id)
        _delete_up_to(session, app_id, last_seq if first_seq is None else first_seq - 1)


_SIZES = "SELECT seq, length(body) FROM notifications WHERE app_id = :app_id AND seq > :after ORDER BY seq LIMIT 1000"


def drop_bytes(session: Session, app_id: str, surplus_bytes: int) -> None:
    """Delete the oldest entries of a log, at least ``surplus_bytes`` in total."""
    dropped_bytes = 0
    for seq, size in _oldest_sizes(session, app_id):
        dropped_bytes += size
        if dropped_bytes >= surplus_bytes:
            _delete_up_to(session, app_id, seq)
            return


def _oldest_sizes(session: Session, app_id: str) -> Iterator[tuple[int, int]]:
    """Yield the number and the size of each entry of a log, the oldest first."""
    after = 0
    # In parts, because a database computes running totals for the complete log, which delays all other writes.
    while rows := session.rows(_SIZES, app_id=app_id, after=after):
        yield from ((seq, size) for seq, size in rows)
        after = rows[-1][0]


def _delete_up_to(session: Session, app_id: str, seq: int) -> None:
    # Before the entries are deleted, because this statement sums their sizes.
    session.run(
        "UPDATE logs SET stored_bytes = stored_bytes - (SELECT coalesce(sum(length(body)), 0) FROM notifications"
        " WHERE app_id = :app_id AND seq <= :seq) WHERE app_id = :app_id",
        app_id=app_id,
        seq=seq,
    )
    session.run("DELETE FROM notifications WHERE app_id = :app_id AND seq <= :seq", app_id=app_id, seq=seq)


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """A webhook, with its registration as JSON and the state of its delivery."""

    registration: str
    registered_at: Instant
    last_success_at: Instant | None
    failures: int
    last_error: str | None
    next_attempt_at: Instant | None
    failing_since: Instant | None


_WEBHOOK_COLUMNS = ", ".join(WebhookRow.__slots__)


def webhook(session: Session, app_id: str) -> WebhookRow | None:
    """Return the webhook of an application, or ``None`` if it has no webhook."""
    row = session.row(f"SELECT {_WEBHOOK_COLUMNS} FROM callbacks WHERE app_id = :app_id", app_id=app_id)
    return WebhookRow(*row) if row else None


def with_webhook(session: Session) -> list[str]:
    """Return the ids of the applications that have a webhook."""
    return [row[0] for row in session.rows("SELECT app_id FROM callbacks ORDER BY app_id")]


def put_webhook(session: Session, app_id: str, registration: str, at: Instant) -> None:
    """Register a webhook, which replaces the previous one, and reset its delivery state."""
    session.run(
        "INSERT INTO callbacks (app_id, registration, registered_at) VALUES (:app_id, :registration, :at)"
        " ON CONFLICT (app_id) DO UPDATE SET registration = excluded.registration,"
        " registered_at = excluded.registered_at, last_success_at = NULL, failures = 0, last_error = NULL,"
        " next_attempt_at = NULL, failing_since = NULL",
        app_id=app_id,
        registration=registration,
        at=at,
    )


def delete_webhook(session: Session, app_id: str) -> bool:
    """Delete the webhook of an application. Return false if the application has no webhook."""
    return session.run("DELETE FROM callbacks WHERE app_id = :app_id", app_id=app_id) == 1


def webhook_succeeded(session: Session, app_id: str, at: Instant) -> None:
    """Record a successful delivery."""
    session.run(
        "UPDATE callbacks SET last_success_at = :at, failures = 0, last_error = NULL, next_attempt_at = NULL,"
        " failing_since = NULL WHERE app_id = :app_id",
        app_id=app_id,
        at=at,
    )


def webhook_failed(
    session: Session, app_id: str, *, failures: int, error: str, at: Instant, next_attempt_at: Instant
) -> None:
    """Record a failed delivery, and the time of the next attempt."""
    session.run(
        "UPDATE callbacks SET failures = :failures, last_error = :error, next_attempt_at = :next_attempt_at,"
        " failing_since = coalesce(failing_since, :at) WHERE app_id = :app_id",
        app_id=app_id,
        failures=failures,
        error=error,
        at=at,
        next_attempt_at=next_attempt_at,
    )
