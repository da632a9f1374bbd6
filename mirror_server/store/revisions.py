"""The number of the last change: one counter for the mirror, and on each device where it stood at its own last change.

Whatever changes what a device object shows notes it here, in the same transaction. So a reader that knows a number
can ask for the devices that have changed since, and who holds what was made of a device knows whether it still holds.

The counter is a row, and who raises it holds the row until its transaction has ended. So of several processes on one
database each sees the numbers in the order in which they were given: who sees one has seen all below it.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirror_server.store.session import Session


def last(session: Session) -> int:
    """The number of the last change of any device."""
    return int(session.scalar("SELECT last_revision FROM revisions"))


def note_change(session: Session, device_ids: Iterable[str]) -> None:
    """Note that the device objects of these devices are not what they were."""
    revision = session.scalar("UPDATE revisions SET last_revision = last_revision + 1 RETURNING last_revision")
    session.run_many(
        "UPDATE devices SET revision = :revision WHERE device_id = :device_id",
        [{"device_id": device_id, "revision": revision} for device_id in device_ids],
    )
