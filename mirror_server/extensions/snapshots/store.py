"""Reading many devices at once, as many at a time as fit. Source: wire.md 7."""

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
"""What a table of states needs of every resource; the last is the size of its desired value, where there is one."""

STREAMED_DESIRED_COLUMNS = ", ".join(each.name for each in streamed_columns("desired"))
"""What it needs of a resource with a desired value: few have one, and each column costs as much where it is empty."""

# So few that they are gone before the garbage collector looks at them.
_ROWS_AT_A_TIME = 200


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """Some devices by id: those of a selection that follow ``after``, up to ``last``.

    Two pages of one selection that are equal hold the same, where the session of one of them sees all changes up to
    ``revision``, the highest of theirs: whatever changes a device after that, or brings it into the selection, raises
    it, and what leaves it changes their number or the last one.
    """

    after: str
    last: str
    device_count: int
    revision: int


def pages(session: Session, conditions: Sequence[Condition], size: int) -> Iterator[SnapshotPage]:
    """The devices that meet all conditions, so many at a time."""
    where, parameters = where_of(conditions)
    statement = (
        "SELECT max(device_id), count(*), max(revision) FROM (SELECT device_id, revision FROM devices"
        f"{clause([*where, 'device_id > :after'])} ORDER BY device_id LIMIT :size) AS page"
    )
    after: str | None = ""
    while after is not None:
        last, *about = session.row(statement, after=after, size=size, **parameters) or (None,)
        if last is not None:
            yield SnapshotPage(after, last, *about)
        after = last


def devices_of(session: Session, conditions: Sequence[Condition], page: SnapshotPage) -> list[DeviceRow]:
    """The devices of a page."""
    return devices.page(session, conditions, after=page.after, descending=False, limit=page.device_count)


def resources_of(
    session: Session, columns: str, device_ids: Sequence[str], patterns: Sequence[str], *, is_desired: bool = False
) -> Iterator[list[Row]]:
    """Device id and some columns of the resources of these devices, by device id and path, some hundred at a time.

    Args:
        session: The transaction.
        columns: The columns, such as :data:`STREAMED_REPORTED_COLUMNS`.
        device_ids: The devices.
        patterns: Only resources whose path is one of these, or begins with what stands before a final ``*``; without
            any, all.
        is_desired: Only resources that have a desired value.
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
        _ROWS_AT_A_TIME,
        **parameters,
    )


def _match(index: int, pattern: str, parameters: dict[str, object]) -> str:
    prefix = pattern.removesuffix("*")
    parameters[f"p{index}"] = prefix
    if prefix == pattern:
        return f"path = :p{index}"
    parameters[f"n{index}"] = len(prefix)
    return f"substr(path, 1, CAST(:n{index} AS INTEGER)) = :p{index}"
