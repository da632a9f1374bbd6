"""The statements that read many devices in pages of limited size. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirror_sdk.wire.snapshot import streamed_columns
from mirror_server.store import devices
from mirror_server.store.conditions import Condition, clause, where_of
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import Row, Session

STREAMED_REPORTED_COLUMNS = ", ".join(
    [
        *(each.name for each in streamed_columns("resource", "reported")),
        "CASE WHEN desired_status IS NULL THEN NULL ELSE coalesce(length(desired_value), 0) END",
    ]
)
"""The columns of every resource. The last column is the size of the desired value, or NULL without a desired value."""

STREAMED_DESIRED_COLUMNS = ", ".join(each.name for each in streamed_columns("desired"))
"""The columns of a desired value.

They are read separately, because few resources have a desired value and reading empty columns takes as long.
"""

# The number is small enough that the rows are freed before the garbage collector examines them.
_ROWS_PER_BATCH = 200


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """A page of the devices in a selection, ordered by id.

    It starts after the id ``after`` and ends with the id ``last``.

    ``revision`` is the highest revision of the devices. Two equal pages of one selection have the same content if one
    of their sessions sees all changes up to that revision. The revision increases if a device changes or newly matches
    the selection. If a device no longer matches, the number of devices or the last device differs.
    """

    after: str
    last: str
    device_count: int
    revision: int


def pages(session: Session, conditions: Sequence[Condition], size: int) -> Iterator[SnapshotPage]:
    """Yield the pages of the devices that meet all conditions."""
    where, parameters = where_of(devices.planned(session, conditions))
    statement = (
        "SELECT max(device_id), count(*), max(revision) FROM (SELECT device_id, revision FROM devices"
        f"{clause([*where, 'device_id > :after'])} ORDER BY device_id LIMIT :size) AS page"
    )
    after: str | None = ""
    while after is not None:
        last, *counts = session.row(statement, after=after, size=size, **parameters) or (None,)
        if last is not None:
            yield SnapshotPage(after, last, *counts)
        after = last


def devices_of(session: Session, conditions: Sequence[Condition], page: SnapshotPage) -> list[DeviceRow]:
    """Return the devices of a page."""
    return devices.page(session, conditions, after=page.after, descending=False, limit=page.device_count)


def resources_of(
    session: Session, columns: str, device_ids: Sequence[str], patterns: Sequence[str], *, is_desired: bool = False
) -> Iterator[list[Row]]:
    """Yield the device id and further columns of the resources of these devices, in batches.

    The rows are ordered by device id and path.

    Args:
        session: The current transaction.
        columns: The columns, such as :data:`STREAMED_REPORTED_COLUMNS`.
        device_ids: The ids of the devices.
        patterns: The patterns of resource paths to include. A pattern is a path, or a prefix with a final ``*``. If it
            is empty, all resources are included.
        is_desired: Whether to include only resources that have a desired value.
    """
    if not device_ids:
        return iter(())
    parameters: dict[str, object] = {f"d{index}": device_id for index, device_id in enumerate(device_ids)}
    where = [f"device_id IN ({', '.join(f':{name}' for name in parameters)})"]
    if is_desired:
        where.append("desired_status IS NOT NULL")
    if patterns:
        where.append(f"({' OR '.join(_match(index, pattern, parameters) for index, pattern in enumerate(patterns))})")
    return session.each(
        f"SELECT device_id, {columns} FROM resources WHERE {' AND '.join(where)} ORDER BY device_id, path",
        _ROWS_PER_BATCH,
        **parameters,
    )


def _match(index: int, pattern: str, parameters: dict[str, object]) -> str:
    prefix = pattern.removesuffix("*")
    parameters[f"p{index}"] = prefix
    if prefix == pattern:
        return f"path = :p{index}"
    parameters[f"n{index}"] = len(prefix)
    # LIKE cannot be used, because it has wildcards and ignores case in SQLite.
    return f"substr(path, 1, CAST(:n{index} AS INTEGER)) = :p{index}"
