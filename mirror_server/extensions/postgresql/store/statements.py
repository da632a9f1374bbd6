"""SQL statements that differ between PostgreSQL and SQLite.

PostgreSQL gets fewer statements, because each costs a round trip. So one statement may contain several changes, and its
parameters are arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any

from mirror_sdk.wire.snapshot import COLUMNS
from mirror_server.core.commands import Command
from mirror_server.core.timestamps import Instant
from mirror_server.store import commands, logs, resources, subscriptions
from mirror_server.store.logs import LogEnd
from mirror_server.store.session import COUNT, Row, Session

_TYPES_OF_KINDS = {"word": "text", "bytes": "bytea"}
_TYPES_BY_NAME = {
    **{column.name: _TYPES_OF_KINDS.get(column.kind, "bigint") for column in COLUMNS},
    "changed_at": "bigint",
    "command_id": "bigint",
    "desired_app_id": "text",
    "desired_command_id": "bigint",
    "device_id": "text",
}


def _types_of(update: str) -> str:
    """Return the types of the parameters in an update of resources, which are the types of the columns they set."""
    return " ".join(_TYPES_BY_NAME[name] for name in re.findall(r"(\w+) = \S*\?", update))


_TYPES = {
    **{update: _types_of(update) for update in (resources.REPORT, resources.DESIRE)},
    commands.INSERT: "text text text text text text bytea text text bigint bigint bigint bigint",
    commands.FINISH: "bigint bigint",
}
"""The statements that are executed for many rows at once, with the types of their parameters."""

_NOTE = (
    f"WITH counted AS ({COUNT}), noted AS (UPDATE devices SET revision = counted.last_revision,"
    " last_contact_at = greatest(last_contact_at, CAST(:contact_at AS bigint)) FROM counted"
    " WHERE device_id = ANY(:device_ids)){} SELECT last_revision{} FROM counted"
)
_NOTE_ALONE = _NOTE.format("", "")
_NOTE_WITH = _NOTE.format(", changed AS ({} RETURNING 1)", ", (SELECT count(*) FROM changed)")
_APPEND = (
    f"WITH counted AS ({logs.COUNT}), added AS"
    " (INSERT INTO notifications (app_id, seq, logged_at, device_id, kind, body)"
    " SELECT :app_id, last_seq - :count + number, :at, device_id, :kind, body FROM counted,"
    " unnest(CAST(:device_ids AS text[]), CAST(:bodies AS bytea[])) WITH ORDINALITY AS entry (device_id, body, number))"
    " SELECT last_seq, stored_bytes FROM counted"
)
_SUBSCRIBERS = subscriptions.SUBSCRIBERS.format(
    "SELECT * FROM unnest(CAST(:device_ids AS text[]), CAST(:paths AS text[]))"
)


class PostgresSession(Session):
    """A session that uses the statements of this module where they save round trips."""

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """See :class:`Session`."""
        if statement in _TYPES and len(rows) > 1:
            return self.run(_for_many(statement), **_arrays(rows))
        return super().run_many(statement, rows)

    def rows_of_each(self, statement: str, each: Sequence[Mapping[str, Any]], **common: Any) -> list[list[Row]]:
        """See :class:`Session`."""
        if len(each) < 2:
            return super().rows_of_each(statement, each, **common)
        names = tuple(each[0])
        arrays = {name: [one[name] for one in each] for name in names}
        found: list[list[Row]] = [[] for _ in each]
        for number, *row in self.rows(_for_each(statement, names), **arrays, **common):
            found[number - 1].append(tuple(row))
        return found

    def note_change(self, device_ids: Iterable[str], *, contact_at: Instant | None = None, count: int = 1) -> int:
        """See :class:`Session`."""
        distinct = list(dict.fromkeys(device_ids))
        statement = _NOTE_ALONE if distinct else COUNT
        revision = int(self.scalar(statement, count=count, device_ids=distinct, contact_at=contact_at))
        self.after_commit(partial(self.changes.note, revision, distinct, count))
        return revision

    def note_change_with(
        self,
        device_ids: Sequence[str],
        change: str,
        rows: Callable[[int], Sequence[Row]],
        *,
        contact_at: Instant | None = None,
    ) -> tuple[int, int]:
        """See :class:`Session`."""
        if not device_ids:
            return super().note_change_with(device_ids, change, rows, contact_at=contact_at)
        distinct, numbers = list(dict.fromkeys(device_ids)), len(device_ids)
        parameters = {"count": numbers, "device_ids": distinct, "contact_at": contact_at}
        # The statement adds the last number to the numbers in these rows.
        ((revision, changed),) = self.rows(
            _NOTE_WITH.format(_counted(change)), **parameters, **_arrays(rows(1 - numbers))
        )
        self.after_commit(partial(self.changes.note, revision, distinct, numbers))
        return revision - numbers + 1, changed


@commands.insert.register
def _insert(session: PostgresSession, queued: Sequence[Command]) -> list[int]:
    if len(queued) == 1:
        return commands.insert.dispatch(Session)(session, queued)
    statement = f"{_for_many(commands.INSERT)}, app_id, async_id"
    found = session.rows(statement, **_arrays([commands.row_of(command) for command in queued]))
    # The order in which PostgreSQL returns the rows is undefined.
    numbers = {(app_id, async_id): number for number, app_id, async_id in found}
    return [numbers[command.app_id, command.async_id] for command in queued]


@logs.append.register
def _append(
    session: PostgresSession,
    app_id: str,
    entries: Sequence[tuple[str, bytes]],
    *,
    kind: str,
    at: Instant,
    read_seq: int,
) -> LogEnd | None:
    device_ids, bodies = map(list, zip(*entries, strict=True))
    parameters = logs.counted(app_id, entries, read_seq)
    row = session.row(_APPEND, **parameters, at=at, kind=kind, device_ids=device_ids, bodies=bodies)
    return None if row is None else LogEnd(*row)


@subscriptions.subscriber_rows.register
def _subscriber_rows(session: PostgresSession, device_paths: Sequence[tuple[str, str]]) -> Iterator[list[Row]]:
    if device_paths:
        device_ids, paths = map(list, zip(*device_paths, strict=True))
        yield session.rows(_SUBSCRIBERS, device_ids=device_ids, paths=paths)


def _arrays(rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the parameters of a statement of :func:`_for_many`. There must be at least one row."""
    return {f"v{number}": list(column) for number, column in enumerate(zip(*rows, strict=True), 1)}


@lru_cache
def _for_many(statement: str) -> str:
    """Convert a statement with ``?`` for one row to a statement for many rows, with one array for each column."""
    types = _TYPES[statement].split()
    names = [f"v{number}" for number in range(1, len(types) + 1)]
    values = f"unnest({', '.join(f'CAST(:{name} AS {type_}[])' for name, type_ in zip(names, types, strict=True))})"
    if statement.startswith("INSERT"):
        return re.sub(r"VALUES \([?, ]*\)", f"SELECT * FROM {values} AS v", statement)
    table = f"{values} AS v ({', '.join(names)})"
    numbers = count(1)
    change, _, condition = re.sub(r"\?", lambda _: f"v{next(numbers)}", statement).partition(" WHERE ")
    return f"{change} FROM {table} WHERE {condition}"


@lru_cache
def _counted(statement: str) -> str:
    """Convert a statement like :func:`_for_many`, and add the counter to columns whose names end in ``revision``."""
    change, _, rest = _for_many(statement).partition(" FROM ")
    return f"{re.sub(r'revision = ', 'revision = counted.last_revision + ', change)} FROM counted, {rest}"


@lru_cache
def _for_each(statement: str, names: Sequence[str]) -> str:
    """Convert a query for one set of parameters to a query for many sets. Its first column is the number of the set."""
    arrays = ", ".join(f"CAST(:{name} AS {_TYPES_BY_NAME[name]}[])" for name in names)
    one = re.sub(rf":({'|'.join(names)})\b", r"parameters.\1", statement)
    return (
        f"SELECT parameters.number, found.*"
        f" FROM unnest({arrays}) WITH ORDINALITY AS parameters ({', '.join(names)}, number)"
        f" CROSS JOIN LATERAL ({one}) AS found"
    )
