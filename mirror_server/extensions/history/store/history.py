"""The history of the mirror, with a row for each event. Each row is stored in one of three places.

New rows are appended to the *tail*, in the transaction that changes the mirror. Compaction moves them to compressed and
sorted *segments*, and the archive moves segments to *files*. This module does not read the contents of segments and
files.

A row is identified by its ``revision``. It is a number of :meth:`Session.note_change` that no other row and no other
change has. Rows up to ``compacted_revision`` are in segments or files. Their copies in the tail are ignored and deleted
later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mirror_sdk.wire.device_object import Origin
from mirror_server.core.timestamps import Instant
from mirror_server.store.conditions import Condition, clause, where_of
from mirror_server.store.session import EXTENSIONS, Row, Session, batches

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
"""The kinds of rows, as pairs of ``what`` and ``origin``.

The tail stores the index of a pair in this list, so new kinds must be added at its end.
"""

ORIGINS: Mapping[Origin, str] = {
    "subscription": "observation",
    "auto_observation": "auto_observation",
    "read": "read",
}
"""The words for the origins of values in the history, by the origin in the mirror."""

GAP = 9
"""The index of gaps in :data:`KINDS`. A gap is an interval in which no event could be received, and has no device."""

PLAIN_TEXT = "text/plain"
"""The content type of most values. The tail stores null instead of it."""

_NUMBERS = {words: number for number, words in enumerate(KINDS)}
REPORTED_BY = {origin: number for (what, origin), number in _NUMBERS.items() if what == "reported"}
"""The indices of reported values in :data:`KINDS`, by origin."""

_COLUMNS = (
    *("path", "changed_at", "received_at", "kind", "value", "content_type"),
    *("status", "category", "app_id", "requested_at", "until"),
)
"""The columns of the tail except ``revision`` and ``device_number``. Reported values use only the first six."""

TAIL_COLUMNS = ("revision", "device_id", "endpoint_name", *_COLUMNS)
"""The columns of :func:`stored_tail`."""


def _insert(columns: Sequence[str]) -> str:
    return (
        f"INSERT INTO history (revision, device_number, {', '.join(columns)})"
        f" VALUES (?, (SELECT number FROM devices WHERE device_id = ?), {', '.join('?' * len(columns))})"
    )


_INSERT = _insert(_COLUMNS)
_INSERT_REPORTED = _insert(_COLUMNS[:6])


class StoredHistoryRow(NamedTuple):
    """A row of the history, which describes one event.

    Attributes:
        revision: The unique number of the row. Rows that were stored later have larger numbers.
        device_id: The id of the device, or ``None`` for a gap, which affects all devices.
        endpoint_name: The current endpoint name of the device.
        path: The path of the resource, or ``None`` for an event of the device.
        changed_at: The time of the event. It is by the device's own clock if the device sent a time.
        received_at: The time at which the mirror received the event.
        what: The first word of a pair in :data:`KINDS`.
        origin: The second word of the pair.
        value: The reported or written value.
        content_type: The format of the value.
        status: The result of a write, which is 1 for success and 2 for failure.
        category: The reason for a failure. Only the application ``app_id`` may see it.
        app_id: The application that submitted the write.
        requested_at: The time at which the write was requested.
        until: The end of a gap.
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
    """The state of the history.

    Attributes:
        compacted_revision: The revision up to which all rows are in segments or files.
        is_enabled: Whether rows are being written, or were written until the last server ended.
        started_revision: The last revision when the history was last enabled. Earlier changes have no rows.
        heartbeat_at: The last time at which a server certainly wrote rows, or ``None`` if no server ever wrote rows.
        base_at: The time up to which rows were trimmed, or ``None`` if no rows were trimmed.
    """

    compacted_revision: int
    is_enabled: bool
    started_revision: int
    heartbeat_at: Instant | None
    base_at: Instant | None


def add(session: Session, rows: Sequence[StoredHistoryRow]) -> None:
    """Append rows to the tail. Endpoint names are not stored, because they are joined when rows are read."""

    def stored(row: StoredHistoryRow) -> Row:
        content_type = None if row.value is not None and row.content_type == PLAIN_TEXT else row.content_type
        kind = _NUMBERS[row.what, row.origin]
        return (row.revision, row.device_id, *row[3:6], kind, row.value, content_type, *row[10:])

    session.run_many(_INSERT, [stored(row) for row in rows])


def add_reported(session: Session, rows: Sequence[Row]) -> None:
    """Append rows for values that devices reported. This takes half as long as :func:`add`.

    A row consists of the revision, the device id, the path, ``changed_at``, ``received_at``, one of
    :data:`REPORTED_BY`, the value, and the content type, which is ``None`` for :data:`PLAIN_TEXT`.
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
    """Yield batches of the rows of the tail as they are stored, by revision.

    The rows have the columns of :data:`TAIL_COLUMNS`. They have an index of :data:`KINDS` instead of ``what`` and
    ``origin``. Their content type is null for a value that is :data:`PLAIN_TEXT`.

    Args:
        session: The transaction.
        after: The revision after which the rows start.
        size: The number of rows in a batch.
        device_ids: The devices whose rows are returned, in addition to rows without a device. ``None`` selects all
            devices.
        paths: The paths whose rows are returned, in addition to rows without a resource. If it is empty, all rows are
            returned.
    """
    where, parameters = ["h.revision > :after"], {"after": after}
    if device_ids is not None:
        numbers = f"SELECT number FROM devices WHERE device_id IN ({_named(device_ids, 'd', parameters)})"
        where.append(f"(h.device_number IS NULL OR h.device_number IN ({numbers}))")
    if paths:
        where.append(f"(path IS NULL OR path IN ({_named(paths, 'p', parameters)}))")
    statement = (
        f"SELECT h.revision, d.device_id, d.endpoint_name, {', '.join(_COLUMNS)}"
        " FROM history h LEFT JOIN devices d ON d.number = h.device_number"
        f" WHERE {' AND '.join(where)} ORDER BY h.revision"
    )
    return session.each(statement, size, **parameters)


def _named(values: Sequence[str], letter: str, parameters: dict[str, Any]) -> str:
    """Add values to the parameters of a statement, and return their placeholders."""
    names = [f"{letter}{index}" for index in range(len(values))]
    parameters |= dict(zip(names, values, strict=True))
    return ", ".join(f":{name}" for name in names) or "NULL"


def device_ids(session: Session, conditions: Sequence[Condition]) -> list[str]:
    """Return the ids of all devices that meet all of the conditions."""
    where, parameters = where_of(conditions)
    return [device_id for (device_id,) in session.rows(f"SELECT device_id FROM devices{clause(where)}", **parameters)]


def first_received_after(session: Session, revision: int) -> Instant | None:
    """Return when the first row of the tail after a revision was received, or ``None`` if there is no such row."""
    statement = "SELECT received_at FROM history WHERE revision > :revision ORDER BY revision LIMIT 1"
    received_at: Instant | None = session.scalar(statement, revision=revision)
    return received_at


def measure_tail(session: Session) -> tuple[int, Instant | None, int]:
    """Return the number of rows that are not compacted, the first time of receipt, and the size of their values."""
    found = session.row(
        "SELECT count(*), min(received_at), coalesce(sum(length(value)), 0) FROM history"
        " WHERE revision > (SELECT compacted_revision FROM history_state)"
    )
    count, first_at, size = found or (0, None, 0)
    return count, first_at, int(size)


def newest(session: Session) -> int:
    """Return the revision of the last row in the tail, or 0. Rows with smaller revisions will not be added any more.

    Rows are stored in the order of their revisions, even while transactions with other revisions are open.
    """
    return int(session.scalar("SELECT coalesce(max(revision), 0) FROM history"))


def delete_compacted(session: Session, most: int) -> int:
    """Delete up to ``most`` rows of the tail that are already in segments. Return the number of deleted rows."""
    return session.run(
        "DELETE FROM history WHERE revision IN (SELECT revision FROM history"
        " WHERE revision <= (SELECT compacted_revision FROM history_state) ORDER BY revision LIMIT :most)",
        most=most,
    )


def state(session: Session) -> State:
    """Return the state of the history."""
    ((compacted_revision, is_enabled, *more),) = session.rows(f"SELECT {', '.join(State._fields)} FROM history_state")
    return State(compacted_revision, bool(is_enabled), *more)


def compact(session: Session, revision: int) -> None:
    """Record that all rows up to this revision have been moved to segments."""
    session.run("UPDATE history_state SET compacted_revision = :revision", revision=revision)


def begin(session: Session, revision: int) -> None:
    """Record that rows are written from now on, after this revision.

    Rows of devices that were deleted while the history was disabled are deleted from the tail.
    """
    session.run(f"DELETE FROM history WHERE kind <> {GAP} AND device_number NOT IN (SELECT number FROM devices)")
    session.run("UPDATE history_state SET is_enabled = 1, started_revision = :revision", revision=revision)


def end(session: Session) -> None:
    """Record that rows are no longer written from now on."""
    session.run("UPDATE history_state SET is_enabled = 0 WHERE is_enabled = 1")


def record_heartbeat(session: Session, at: Instant) -> None:
    """Record that rows are being written at this time."""
    session.run("UPDATE history_state SET heartbeat_at = :at", at=at)


def covered_until(session: Session) -> Instant | None:
    """Return the last time at which rows were certainly written, or ``None`` if rows were never written."""
    last_at: Instant | None = session.scalar("SELECT received_at FROM history ORDER BY revision DESC LIMIT 1")
    heartbeat_at = state(session).heartbeat_at
    return heartbeat_at if last_at is None else max(last_at, heartbeat_at or last_at)


def erase(session: Session, device_ids: Sequence[str]) -> int:
    """Delete the rows of devices from the tail, and record that their other rows must be deleted too.

    The devices must still exist in the database.

    Returns:
        The number of deleted rows that were not compacted.
    """
    count = 0
    for batch in batches(device_ids):
        of_these = f"device_number IN (SELECT number FROM devices WHERE device_id IN ({', '.join('?' * len(batch))}))"
        not_compacted = "revision > (SELECT compacted_revision FROM history_state)"
        counted = session.rows_of(f"SELECT count(*) FROM history WHERE {not_compacted} AND {of_these}", batch)
        count += counted[0][0]
        session.run_many(f"DELETE FROM history WHERE {of_these}", [batch])
    session.run_many(
        "INSERT INTO history_erasures (device_id, up_to_revision)"
        " SELECT device_id, last_revision FROM devices, revisions, history_state"
        # If there never was a history, no other rows exist.
        " WHERE device_id = ? AND heartbeat_at IS NOT NULL"
        " ON CONFLICT (device_id) DO UPDATE SET up_to_revision = excluded.up_to_revision",
        [(device_id,) for device_id in device_ids],
    )
    return count


def mirror(session: Session, size: int) -> Iterator[Iterator[list[Row]]]:
    """Yield the state of the mirror as history rows. The reported values come first, followed by the completed writes.

    Both are sorted by device and path, and have the members of :class:`StoredHistoryRow`. Each batch has ``size`` rows.
    These rows replace the changes that happened before the history was enabled.
    """
    reported = (
        "reported_revision, d.device_id, endpoint_name, path,"
        " coalesce(CASE WHEN reported_origin <> 'read' THEN changed_at END, reported_at), reported_at, 'reported',"
        " CASE reported_origin WHEN 'subscription' THEN 'observation' ELSE reported_origin END,"
        " reported_value, reported_content_type, NULL, NULL, NULL, NULL, NULL",
        "reported_at IS NOT NULL",
    )
    written = (
        "desired_revision, d.device_id, endpoint_name, path, desired_at, desired_at, 'desired', 'write',"
        " desired_value, desired_content_type, desired_status, desired_category, desired_app_id, requested_at, NULL",
        "desired_status > 0",
    )
    for columns, where in (reported, written):
        tables = "devices d JOIN resources r ON r.device_id = d.device_id"
        yield session.each(f"SELECT {columns} FROM {tables} WHERE {where} ORDER BY d.device_id, path", size)


def registrations(session: Session) -> list[Row]:
    """Return the registrations of all devices as rows with the members of :class:`StoredHistoryRow`.

    Registrations that have ended are included. Their revision is 0, because the mirror does not store a revision for
    the last change of a registration.
    """
    return session.rows(
        "SELECT 0, device_id, endpoint_name, NULL, updated_at, updated_at,"
        " CASE registered WHEN 1 THEN 'registration' ELSE 'deregistration' END,"
        " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM devices ORDER BY device_id"
    )


def waiting_writes(session: Session) -> list[Row]:
    """Return the pending writes that set a desired value, as rows with the members of :class:`StoredHistoryRow`.

    Their status is 0, and their ``changed_at`` is the time of the request.
    """
    return session.rows(
        "SELECT desired_revision, d.device_id, endpoint_name, r.path, r.requested_at, r.requested_at,"
        " 'desired', 'write', desired_value, desired_content_type, 0, NULL, desired_app_id, r.requested_at, NULL"
        " FROM commands c JOIN resources r ON r.device_id = c.device_id AND r.desired_command_id = c.command_id"
        " JOIN devices d ON d.device_id = r.device_id WHERE c.finished_at IS NULL AND desired_status = 0"
    )


@dataclass(frozen=True, slots=True)
class HistorySize:
    """The number of rows and bytes in the tail, the segments and the archive.

    The size of the tail is not known without reading it. A row has about 50 bytes in addition to its value.
    """

    tail_rows: int
    segment_rows: int
    segment_bytes: int
    archive_rows: int
    archive_bytes: int

    @property
    def rows(self) -> int:
        """The total number of rows."""
        return self.tail_rows + self.segment_rows + self.archive_rows

    def __str__(self) -> str:
        """Return the size of the history in one line."""
        return (
            f"history: {self.rows:,} rows, {self.tail_rows:,} of them not compacted yet,"
            f" {self.segment_rows:,} in segments ({self.segment_bytes / 1e6:,.1f} MB),"
            f" {self.archive_rows:,} in the archive ({self.archive_bytes / 1e6:,.1f} MB)"
        )


def measure(session: Session) -> HistorySize:
    """Measure the history. Counting the rows of the tail reads its index, whose size is limited."""
    counts = session.row(
        "SELECT (SELECT count(*) FROM history WHERE revision > (SELECT compacted_revision FROM history_state)),"
        " (SELECT coalesce(sum(row_count), 0) FROM history_segments WHERE kind = 'rows'),"
        " (SELECT coalesce(sum(length(content)), 0) FROM history_blocks),"
        " (SELECT coalesce(sum(row_count), 0) FROM history_files),"
        " (SELECT coalesce(sum(size_bytes), 0) FROM history_files)"
    )
    return HistorySize(*map(int, counts or ()))


_IS_LOADED = f"EXISTS (SELECT 1 FROM settings WHERE name = '{EXTENSIONS}' AND ' ' || value || ' ' LIKE '% history %')"
"""The SQL condition that the last server had this extension.

A server without it stores and deletes no rows, so the next start resets the history.
"""

VIOLATIONS = {
    "a history row refers to an unknown device": (
        "SELECT CAST(h.revision AS TEXT) FROM history h LEFT JOIN devices d ON d.number = h.device_number"
        f" WHERE d.device_id IS NULL AND h.kind <> {GAP} AND {_IS_LOADED}"
    ),
    "a history row has an unknown kind": (
        f"SELECT CAST(revision AS TEXT) FROM history WHERE kind < 0 OR kind >= {len(KINDS)}"
    ),
    "a history row has a larger revision than the last change": (
        "SELECT CAST(revision AS TEXT) FROM history WHERE revision > (SELECT last_revision FROM revisions)"
    ),
    "the compacted revision of the history is larger than the last revision": (
        "SELECT CAST(compacted_revision AS TEXT) FROM history_state"
        " WHERE compacted_revision > (SELECT last_revision FROM revisions)"
    ),
    "a segment or file of the history has rows that are not compacted": (
        "SELECT segment_id || ' ' || block FROM history_segments WHERE kind = 'rows'"
        " AND last_revision > (SELECT compacted_revision FROM history_state)"
        " UNION ALL SELECT file_name FROM history_files"
        " WHERE last_revision > (SELECT compacted_revision FROM history_state)"
    ),
    "a segment of the history has no content": (
        "SELECT s.segment_id || ' ' || s.block FROM history_segments s WHERE NOT EXISTS"
        " (SELECT 1 FROM history_blocks b WHERE b.segment_id = s.segment_id AND b.block = s.block)"
    ),
    "a reported value is not in the history": (
        "SELECT device_id || ' ' || path FROM resources, history_state WHERE is_enabled = 1"
        " AND reported_revision > started_revision AND reported_revision > compacted_revision"
        f" AND {_IS_LOADED}"
        " AND NOT EXISTS (SELECT 1 FROM history h WHERE h.revision = reported_revision)"
    ),
    "a reported value and its row in the history differ": (
        "SELECT r.device_id || ' ' || r.path FROM resources r JOIN history h ON h.revision = r.reported_revision"
        " WHERE h.value <> r.reported_value"
    ),
}
"""The statements that find violations, by kind of violation. Each statement returns a row for each violation."""
