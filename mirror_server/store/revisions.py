"""The number of the last change: one counter for the mirror, and on each device where it stood at its own last change.

Whatever changes what a device object shows notes it here, in the same transaction. So a reader that knows a number
can ask for the devices that have changed since, and who holds what was made of a device knows whether it still holds.

What was reported of a resource, and what is desired of it, each bear the number of the change that made them what they
are, so that it can be told which came first where their times are the same.

The counter looks like a row. Where several transactions write beside each other it is a sequence that all take from. A
device has its numbers in the order in which they were given all the same; :func:`last` gives the number up to which all
changes are seen, and some of those behind it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, singledispatch

from mirror_server.core.instants import Instant
from mirror_server.store.session import Row, Session

COUNT = "UPDATE revisions SET last_revision = last_revision + :count RETURNING last_revision"
_NOTE = (
    "UPDATE devices SET revision = ?, last_contact_at = coalesce(max(last_contact_at, ?), last_contact_at)"
    " WHERE device_id = ?"
)
_COUNTED_SINCE: Instant = 1_767_225_600_000
"""2026-01-01; numbers that begin there are whole ones in every JSON for 4000 years."""
_MOST_IN_A_MILLISECOND = 64
"""More changes than any mirror stores."""
_LOST_AT_MOST = 2**32
"""More changes than were ever made after one backup; 2 million times as many are whole numbers in every JSON."""


def last(session: Session) -> int:
    """The number of the last change of any device; where a session reads, of one that was opened for that."""
    return session.last_revision()


@singledispatch
def note_change(
    session: Session, device_ids: Iterable[str], *, contact_at: Instant | None = None, count: int = 1
) -> int:
    """Note that the device objects of these devices are not what they were, and perhaps that they were heard of.

    Args:
        session: The transaction.
        device_ids: The devices; without any, what happened shows on none of them.
        contact_at: When they were heard of.
        count: How many numbers this takes, for as many things that happened one after the other.

    Returns:
        The number of the change, the last one of these.
    """
    known = dict.fromkeys(device_ids)
    revision = int(session.scalar(COUNT, count=count))
    # One by one: for a statement that changes several rows SQLite keeps a copy of each page, and where it is kept
    # from that, it is faster only as long as these devices stand side by side.
    session.run_many(_NOTE, [(revision, contact_at, device_id) for device_id in known])
    session.after_commit(partial(session.changes.note, revision, known, count))
    return revision


@singledispatch
def note_change_with(
    session: Session,
    device_ids: Sequence[str],
    change: str,
    rows: Callable[[int], Sequence[Row]],
    *,
    contact_at: Instant | None = None,
) -> tuple[int, int]:
    """Note a change as :func:`note_change` does, with a number for each of the devices as they stand, and make it.

    Args:
        session: The transaction.
        device_ids: The devices, some perhaps several times.
        change: An update of one row, with ``?`` for each value; one of them is a revision.
        rows: Gives the values of each row, given the first of the numbers.
        contact_at: When they were heard of.

    Returns:
        The first of the numbers, and how many rows the update changed.
    """
    count = len(device_ids)
    first = note_change(session, device_ids, contact_at=contact_at, count=count) - count + 1
    return first, session.run_many(change, rows(first))


def begin(session: Session, at: Instant) -> None:
    """Begin to count in a new database, beyond the numbers of all that were begun before this instant.

    So a table that was taken of another mirror, with the same address and devices of the same names, is taken anew, as
    nothing here is as old: what a lost database had counted says nothing of this one.
    """
    first = max(at - _COUNTED_SINCE, 0) * _MOST_IN_A_MILLISECOND
    session.run("UPDATE revisions SET last_revision = :first WHERE last_revision = 0", first=first)


def leave_behind(session: Session) -> None:
    """Count on from beyond every number anyone may know, with all devices changed: of a database that went back.

    What was counted after a backup was made is lost with it, but not to those who have read it. If it were counted once
    more, they would take a change that they do not know for one they do.
    """
    session.run("UPDATE revisions SET last_revision = last_revision + :lost", lost=_LOST_AT_MOST)
    session.run("UPDATE devices SET revision = (SELECT last_revision FROM revisions)")
