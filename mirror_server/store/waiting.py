"""What waits for a device: subscribe commands and their ends, and the command that is to be delivered next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirror_server.core.commands import Command
from mirror_server.core.instants import Instant
from mirror_server.store import commands, subscriptions
from mirror_server.store.session import Row, Session

_COMMAND, _WANTED, _UNWANTED = "command", "wanted", "unwanted"
_NO_COMMAND = ", ".join(["NULL"] * len(commands.COLUMNS.split(",")))
# The commands first: it is they that have types where the others have NULL.
_WAITING = (
    f"SELECT '{_COMMAND}' AS what, 0 AS place, '' AS ask_path, {commands.COLUMNS}"
    f" FROM ({commands.FIRST_WAITING}) AS next_command"
    f" UNION ALL SELECT '{_WANTED}', place, path, {_NO_COMMAND} FROM ({subscriptions.WANTED}) AS wanted"
    f" UNION ALL SELECT '{_UNWANTED}', 0, path, {_NO_COMMAND} FROM ({subscriptions.UNWANTED}) AS unwanted"
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a device.

    Attributes:
        wanted: The resources for which it is to be sent a subscribe command, in the order of the rules.
        unwanted: The resources it observes though nobody is subscribed to them any more.
        command: The command that is to be delivered next.
    """

    wanted: list[str]
    unwanted: list[str]
    command: Command | None


def of_devices(session: Session, device_ids: Sequence[str], now: Instant) -> dict[str, Waiting]:
    """What waits for devices, in one statement where there can be one: it is asked for before and after each command.

    Each device is seen as of one moment, and several not always as of the same.
    """
    found = session.rows_of_each(_WAITING, [{"device_id": device_id} for device_id in device_ids], now=now)
    return {device_id: _waiting(rows) for device_id, rows in zip(device_ids, found, strict=True)}


def _waiting(rows: Sequence[Row]) -> Waiting:
    asks = sorted((what, place, path) for what, place, path, *_ in rows)
    return Waiting(
        [path for what, _, path in asks if what == _WANTED],
        [path for what, _, path in asks if what == _UNWANTED],
        next((commands.command_of(tuple(row)) for what, _, _, *row in rows if what == _COMMAND), None),
    )
