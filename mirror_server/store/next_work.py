"""What is to be asked of a device next."""

from __future__ import annotations

from typing import NamedTuple

from mirror_server.core.commands import Command
from mirror_server.core.instants import Instant
from mirror_server.store.commands import FIRST_WAITING, command_of
from mirror_server.store.session import Session
from mirror_server.store.subscriptions import UNWANTED, WANTED

_NEXT = (
    "SELECT asked.is_wanted, asked.asked_path, command.* FROM (SELECT 1 AS always) AS once LEFT JOIN"
    " (SELECT is_wanted, asked_path, row_number() OVER (ORDER BY is_wanted DESC, position, asked_path) AS number FROM"
    f" (SELECT 1 AS is_wanted, path AS asked_path, position FROM ({WANTED}) AS w"
    f" UNION ALL SELECT 0, path, 0 FROM ({UNWANTED}) AS u) AS listed) AS asked ON 1 = 1"
    # It may be large: one row alone tells it.
    f" LEFT JOIN ({FIRST_WAITING}) AS command ON coalesce(asked.number, 1) = 1 ORDER BY asked.number"
)


class NextWork(NamedTuple):
    """What waits for a device.

    Attributes:
        wanted: The resources it is to observe, in the order of the rules.
        unwanted: Those it need not observe any more.
        command: The command that is to be delivered next.
    """

    wanted: list[str]
    unwanted: list[str]
    command: Command | None


def of_device(session: Session, device_id: str, now: Instant) -> NextWork:
    """What waits for a device, by one statement: it is asked for before each command and after it."""
    rows = session.rows(_NEXT, device_id=device_id, now=now)
    first = rows[0][2:]
    return NextWork(
        [path for is_wanted, path, *_ in rows if is_wanted == 1],
        [path for is_wanted, path, *_ in rows if is_wanted == 0],
        None if first[0] is None else command_of(first),
    )
