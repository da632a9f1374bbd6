"""The history of the mirror: a row for each thing that happened, in three places, of which each row is in one.

New rows are appended to the *tail*, in the transaction that changes the mirror. They go on to *segments*, compressed
and sorted, and from there perhaps to *files* of an archive; what stands in those, and how, is not known here.

A row is known by its ``revision``, a number of :meth:`Session.note_change` that no other row and no other
change has. Those up to ``sealed_revision`` are in segments or files: what the tail still has of them is told no more,
and is deleted when there is time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mirror_sdk.wire.device_object import Origin
from mirror_server.core.instants import Instant
from mirror_server.store.session import EXTENSIONS, Row, Session, parts

KINDS: tuple[tuple[str, str | None], ...] = (
    ("reported", "observation"),
    ("reported", "read"),
    ("reported", "auto_observation"),
    ("reported", "registration"),
    ("desired", "write"),
    ("registration", None),
    ("reg_update", None),
    ("deregistration", None),
    ("expired", None),
    ("gap", None),
)
"""What happened, and by what a value came. The tail has the place in this list: new ones are added at its end."""

ORIGINS: Mapping[Origin, str] = {
    "subscription": "observation",
    "auto_observation": "auto_observation",
    "read": "read",
}
"""By what a value came, in words of the mirror, and in those of the history."""

GAP = 9
"""The place of that: of a stretch in which nothing could be heard, and which is about no device."""

PLAIN_TEXT = "text/plain"
"""The content type of most values, which the tail leaves out."""

_NUMBERS = {words: number for number, words in enumerate(KINDS)}
REPORTED_BY = {origin: number for (what, origin), number in _NUMBERS.items() if what == "reported"}
"""The places in :data:`KINDS` of values that were reported, by what they came."""

_INSERT = (
    "INSERT INTO history (revision, device_number, kind, path, changed_at, received_at, value, content_type, status,"
    " category, app_id, requested_at, until)"
    " VALUES (?, (SELECT number FROM devices WHERE device_id = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_REPORTED = (
    "INSERT INTO history (revision, device_number, kind, path, changed_at, received_at, value, content_type)"
    " VALUES (?, (SELECT number FROM devices WHERE device_id = ?), ?, ?, ?, ?, ?, ?)"
)


class HistoryRow(NamedTuple):
    """A thing that happened.

    Attributes:
        revision: Its number, which no other row has; a larger one was stored later.
        device_id: The device; ``None`` for all of them, of a gap.
        endpoint_name: That of the device now.
        path: The resource; ``None`` where it is no resource's.
        changed_at: When it happened, by the device's own clock where it told a time.
        received_at: When the service had it.
        what: The first one of a pair of :data:`KINDS`.
        origin: The second one.
        value: What was reported, or written.
        content_type: In which format.
        status: How a write ended: 1 for success, 2 for failure.
        category: Why it failed; for the application ``app_id`` alone.
        app_id: The application that placed the write.
        requested_at: When it did.
        until: When a gap ended.
    """

    revision: int
    device_id: str | None
    endpoint_name: str | None
    path: str | None
    changed_at: Instant
    received_at: Instant
    what: str
    origin: str | None = None
    value: bytes | None = None
    content_type: str | None = None
    status: int | None = None
    category: str | None = None
    app_id: str | None = None
    requested_at: Instant | None = None
    until: Instant | None = None


class State(NamedTuple):
    """Where the history stands.

    Attributes:
        sealed_revision: The rows up to here are in segments or files.
        is_kept: Whether rows are written now, or were when the last server ended.
        begun_revision: Where the mirror stood when this was last switched on: changes from before have no row.
        alive_at: When a server that writes rows was last known to run; ``None`` where none ever did.
    """

    sealed_revision: int
    is_kept: bool
    begun_revision: int
    alive_at: Instant | None


def add(session: Session, rows: Sequence[HistoryRow]) -> None:
    """Append rows; their endpoint names are those of the devices when they are read."""
    session.run_many(_INSERT, [_stored(row) for row in rows])


def add_reported(session: Session, rows: Sequence[Row]) -> None:
    """Append rows of values that devices reported, in half the time of :func:`add`.

    Each has a revision, the id of a device, one of :data:`REPORTED_BY`, a path, ``changed_at``, ``received_at``, the
    value, and its content type, ``None`` for :data:`PLAIN_TEXT`.
    """
    session.run_many(_INSERT_REPORTED, rows)


def stored_tail(
    session: Session,
    after: int,
    size: int,
    *,
    device_ids: Sequence[str] | None = None,
    paths: Sequence[str] = (),
) -> Iterator[list[Row]]:
    """Rows of the tail by revision, ``size`` of them at a time, as they are stored.

    They have the members of :class:`HistoryRow`, but for ``what`` and ``origin`` one place in :data:`KINDS`, and no
    content type beside a value that is :data:`PLAIN_TEXT`.

    Args:
        session: The transaction.
        after: Only rows with a larger revision.
        size: How many rows are given at once.
        device_ids: Only those of these devices, and of none.
        paths: Only those of these resources, and of none; without any, all.
    """
    where, parameters = ["h.revision > :after"], {"after": after}
    if device_ids is not None:
        numbers = f"SELECT number FROM devices WHERE device_id IN ({_named(device_ids, 'd', parameters)})"
        where.append(f"(h.device_number IS NULL OR h.device_number IN ({numbers}))")
    if paths:
        where.append(f"(path IS NULL OR path IN ({_named(paths, 'p', parameters)}))")
    statement = (
        "SELECT h.revision, d.device_id, d.endpoint_name, path, changed_at, received_at, kind, value, content_type,"
        " status, category, app_id, requested_at, until"
        " FROM history h LEFT JOIN devices d ON d.number = h.device_number"
        f" WHERE {' AND '.join(where)} ORDER BY h.revision"
    )
    return session.each(statement, size, **parameters)


def _named(values: Sequence[str], letter: str, parameters: dict[str, Any]) -> str:
    """Values as parameters of a statement, which are added to those it has."""
    names = [f"{letter}{index}" for index in range(len(values))]
    parameters |= dict(zip(names, values, strict=True))
    return ", ".join(f":{name}" for name in names) or "NULL"


def first_behind(session: Session, revision: int) -> Instant | None:
    """Return when the first row of the tail behind a revision was received; ``None`` if there is none."""
    statement = "SELECT received_at FROM history WHERE revision > :revision ORDER BY revision LIMIT 1"
    received_at: Instant | None = session.scalar(statement, revision=revision)
    return received_at


def count_tail(session: Session) -> tuple[int, Instant | None]:
    """How many rows the tail has that are not sealed, and when the first of them was received."""
    found = session.row(
        "SELECT count(*), min(received_at) FROM history WHERE revision > (SELECT sealed_revision FROM history_state)"
    )
    count, first_at = found or (0, None)
    return count, first_at


def newest(session: Session) -> int:
    """The revision of the last row of the tail, 0 without one; no row with a smaller one is stored any more.

    Rows are stored in the order of their revisions, also where transactions with other numbers are under way.
    """
    return int(session.scalar("SELECT coalesce(max(revision), 0) FROM history"))


def bytes_behind(session: Session, revision: int) -> tuple[int, int]:
    """How many bytes the values of the tail's rows behind a revision have, and the last revision of these."""
    found = session.row(
        "SELECT coalesce(sum(length(value)), 0), coalesce(max(revision), :revision) FROM history"
        " WHERE revision > :revision",
        revision=revision,
    )
    size, last = found or (0, revision)
    return int(size), last


def delete_sealed(session: Session, most: int) -> int:
    """Delete rows of the tail that are in segments, so many at most; gives how many it was."""
    return session.run(
        "DELETE FROM history WHERE revision IN (SELECT revision FROM history"
        " WHERE revision <= (SELECT sealed_revision FROM history_state) ORDER BY revision LIMIT :most)",
        most=most,
    )


def state(session: Session) -> State:
    """Where the history stands."""
    row = session.row("SELECT sealed_revision, is_kept, begun_revision, alive_at FROM history_state")
    sealed_revision, is_kept, begun_revision, alive_at = row or (0, 0, 0, None)
    return State(sealed_revision, bool(is_kept), begun_revision, alive_at)


def seal(session: Session, revision: int) -> None:
    """Note that the rows up to this revision are in segments from now on."""
    session.run("UPDATE history_state SET sealed_revision = :revision", revision=revision)


def begin(session: Session, revision: int) -> None:
    """Note that rows are written from now on, beginning behind this revision."""
    session.run("UPDATE history_state SET is_kept = 1, begun_revision = :revision", revision=revision)


def end(session: Session) -> None:
    """Note that the mirror changes from now on without rows."""
    session.run("UPDATE history_state SET is_kept = 0 WHERE is_kept = 1")


def show_life(session: Session, at: Instant) -> None:
    """Note that rows are written at this instant."""
    session.run("UPDATE history_state SET alive_at = :at", at=at)


def heard_until(session: Session) -> Instant | None:
    """Until when rows were written, as far as is known; ``None`` where none ever were."""
    last_at: Instant | None = session.scalar("SELECT received_at FROM history ORDER BY revision DESC LIMIT 1")
    alive_at = state(session).alive_at
    return alive_at if last_at is None else max(last_at, alive_at or last_at)


def erase(session: Session, device_ids: Sequence[str]) -> int:
    """Delete what the tail has of devices, and note that the rest is to be deleted; they are still known.

    Returns:
        How many rows of the tail it was, those that had gone on to segments left out.
    """
    count = 0
    for some in parts(device_ids):
        of_these = f"device_number IN (SELECT number FROM devices WHERE device_id IN ({', '.join('?' * len(some))}))"
        unsealed = "revision > (SELECT sealed_revision FROM history_state)"
        counted = session.rows_of(f"SELECT count(*) FROM history WHERE {unsealed} AND {of_these}", some)
        count += counted[0][0]
        session.run_many(f"DELETE FROM history WHERE {of_these}", [some])
    session.run_many(
        "INSERT INTO history_erasures (device_id, up_to_revision)"
        " SELECT device_id, last_revision FROM devices, revisions, history_state"
        " WHERE device_id = ? AND alive_at IS NOT NULL"
        " ON CONFLICT (device_id) DO UPDATE SET up_to_revision = excluded.up_to_revision",
        [(device_id,) for device_id in device_ids],
    )
    return count


def _stored(row: HistoryRow) -> tuple[object, ...]:
    content_type = None if row.value is not None and row.content_type == PLAIN_TEXT else row.content_type
    return (
        row.revision,
        row.device_id,
        _NUMBERS[row.what, row.origin],
        row.path,
        row.changed_at,
        row.received_at,
        row.value,
        content_type,
        *row[10:],
    )


def mirror(session: Session, size: int) -> Iterator[list[HistoryRow]]:
    """What the mirror shows as rows that lead to it, of so many resources and devices at a time, by device and path.

    What was told before a history was kept has no row of its own. A write that waits has none yet.
    """
    statement = (
        "SELECT d.device_id, d.endpoint_name, path, reported_value, reported_content_type, reported_at,"
        " reported_origin, reported_revision,"
        " coalesce(CASE WHEN reported_origin <> 'read' THEN changed_at END, reported_at),"
        " desired_value, desired_content_type, desired_status, desired_at, requested_at, desired_revision,"
        " desired_category, desired_app_id FROM devices d JOIN resources r ON r.device_id = d.device_id"
        " WHERE reported_at IS NOT NULL OR desired_status > 0 ORDER BY d.device_id, path"
    )
    for rows in session.each(statement, size):
        yield [told for row in rows for told in _of_resource(row)]


def registrations(session: Session) -> list[HistoryRow]:
    """The registrations of all devices, begun or ended, as rows; when they changed last has no number."""
    rows = session.rows("SELECT device_id, endpoint_name, updated_at, registered FROM devices ORDER BY device_id")
    return [
        HistoryRow(0, device_id, name, None, at, at, "registration" if is_in else "deregistration")
        for device_id, name, at, is_in in rows
    ]


def waiting_writes(session: Session) -> list[HistoryRow]:
    """The writes that wait, of those that set what is desired, with the status 0, as if they ended when placed."""
    rows = session.rows(
        "SELECT desired_revision, d.device_id, endpoint_name, r.path, r.requested_at,"
        " desired_value, desired_content_type, desired_app_id"
        " FROM commands c JOIN resources r ON r.device_id = c.device_id AND r.desired_command_id = c.command_id"
        " JOIN devices d ON d.device_id = r.device_id WHERE c.finished_at IS NULL AND desired_status = 0"
    )
    return [
        HistoryRow(
            revision, device_id, name, path, at, at, "desired", "write", value, content_type, 0, None, app_id, at
        )
        for revision, device_id, name, path, at, value, content_type, app_id in rows
    ]


def _of_resource(row: Row) -> Iterator[HistoryRow]:
    """The last value that was told of a resource, and its last write."""
    device_id, name, path, value, content_type, reported_at, origin, revision, changed_at, *desired = row
    if reported_at is not None:
        what = "reported", ORIGINS.get(origin)
        yield HistoryRow(revision, device_id, name, path, changed_at, reported_at, *what, value, content_type)
    value, content_type, status, ended_at, requested_at, revision, category, app_id = desired
    if status:
        what = "desired", "write"
        about = HistoryRow(revision, device_id, name, path, ended_at, ended_at, *what, value, content_type)
        yield about._replace(status=status, category=category, app_id=app_id, requested_at=requested_at)


@dataclass(frozen=True, slots=True)
class HistorySize:
    """How many rows the history has in each of its places, and how many bytes these take.

    What a row of the tail takes is not known without reading it: about 50 bytes and its value.
    """

    tail_rows: int
    segment_rows: int
    segment_bytes: int
    archive_rows: int
    archive_bytes: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.tail_rows + self.segment_rows + self.archive_rows

    def __str__(self) -> str:
        """In one line, for people."""
        return (
            f"history: {self.rows:,} rows, {self.tail_rows:,} of them in the tail,"
            f" {self.segment_rows:,} in segments ({self.segment_bytes / 1e6:,.1f} MB),"
            f" {self.archive_rows:,} in the archive ({self.archive_bytes / 1e6:,.1f} MB)"
        )


def measure(session: Session) -> HistorySize:
    """Count the rows of the history; those of the tail one by one, which are bounded."""
    counts = session.row(
        "SELECT (SELECT count(*) FROM history WHERE revision > (SELECT sealed_revision FROM history_state)),"
        " (SELECT coalesce(sum(row_count), 0) FROM history_segments WHERE kind = 'rows'),"
        " (SELECT coalesce(sum(length(content)), 0) FROM history_blocks),"
        " (SELECT coalesce(sum(row_count), 0) FROM history_files),"
        " (SELECT coalesce(sum(size_bytes), 0) FROM history_files)"
    )
    return HistorySize(*map(int, counts or ()))


VIOLATIONS = {
    "a row of the history is of no device that is known": (
        "SELECT CAST(h.revision AS TEXT) FROM history h LEFT JOIN devices d ON d.number = h.device_number"
        f" WHERE d.device_id IS NULL AND h.kind <> {GAP}"
    ),
    "a row of the history is of no known kind": (
        f"SELECT CAST(revision AS TEXT) FROM history WHERE kind < 0 OR kind >= {len(KINDS)}"
    ),
    "a row of the history is later than the last change": (
        "SELECT CAST(revision AS TEXT) FROM history WHERE revision > (SELECT last_revision FROM revisions)"
    ),
    "the history is sealed beyond the last change": (
        "SELECT CAST(sealed_revision AS TEXT) FROM history_state"
        " WHERE sealed_revision > (SELECT last_revision FROM revisions)"
    ),
    "a part of the history that was sealed goes on beyond that": (
        "SELECT segment_id || ' ' || block FROM history_segments WHERE kind = 'rows'"
        " AND last_revision > (SELECT sealed_revision FROM history_state)"
        " UNION ALL SELECT file_name FROM history_files"
        " WHERE last_revision > (SELECT sealed_revision FROM history_state)"
    ),
    "a segment of the history has no content": (
        "SELECT s.segment_id || ' ' || s.block FROM history_segments s WHERE NOT EXISTS"
        " (SELECT 1 FROM history_blocks b WHERE b.segment_id = s.segment_id AND b.block = s.block)"
    ),
    "a value was reported, and is not in the history": (
        "SELECT device_id || ' ' || path FROM resources, history_state WHERE is_kept = 1"
        " AND reported_revision > begun_revision AND reported_revision > sealed_revision"
        # A server that left the extension out stored no row, and the next one with it begins anew.
        f" AND EXISTS (SELECT 1 FROM settings WHERE name = '{EXTENSIONS}' AND ' ' || value || ' ' LIKE '% history %')"
        " AND NOT EXISTS (SELECT 1 FROM history h WHERE h.revision = reported_revision)"
    ),
    "a reported value and its row in the history differ": (
        "SELECT r.device_id || ' ' || r.path FROM resources r JOIN history h ON h.revision = r.reported_revision"
        " WHERE h.value <> r.reported_value"
    ),
}
"""The kinds of violations, and a statement for each that returns a row for each place where it is found."""
