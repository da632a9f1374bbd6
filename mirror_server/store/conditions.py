"""Conditions that filter lists, and their translation to SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mirror_server.store.session import Row, Session


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a list: a column of its table, an SQL comparison, and the values to compare with.

    Attributes:
        column: The column, or an SQL expression.
        comparison: The SQL operator.
        values: The values to compare with.
        of: The value of the parameter ``:of`` in the expression.
        among: An additional SQL condition that an index supports. Use it if the column has no index. It must hold for
            all rows that meet the condition. ``{}`` stands for the values.
        is_unique: Whether the column has a unique index.
    """

    column: str
    comparison: str
    values: tuple[str | int, ...]
    of: str | None = None
    among: str | None = None
    is_unique: bool = False


def is_subquery(column: str) -> bool:
    """Return whether a column is a subquery. A subquery runs for each row and is slow for many rows."""
    return "(SELECT " in column


def where_of(conditions: Sequence[Condition]) -> tuple[list[str], dict[str, Any]]:
    """Return the SQL clauses of the conditions, and their parameters."""
    clauses = []
    parameters: dict[str, Any] = {}
    for index, condition in enumerate(conditions):
        names = [f"c{index}_{position}" for position in range(len(condition.values))]
        parameters |= dict(zip(names, condition.values, strict=True))
        placeholders = ", ".join(f":{name}" for name in names)
        column = condition.column
        if condition.of is not None:
            column = column.replace(":of", f":of{index}")
            parameters[f"of{index}"] = condition.of
        clauses.append(f"{column} {condition.comparison} ({placeholders})")
        if condition.among is not None:
            clauses.append(condition.among.replace("{}", placeholders))
    return clauses, parameters


def clause(where: Sequence[str]) -> str:
    """Return the WHERE clause, or an empty string without conditions."""
    return f" WHERE {' AND '.join(where)}" if where else ""


def page_of(
    session: Session,
    select: str,
    key: str,
    conditions: Sequence[Condition],
    *,
    after: str | int | None,
    descending: bool,
    limit: int,
) -> list[Row]:
    """Return up to ``limit`` rows that meet all conditions, ordered by a key.

    The rows start after the key ``after``, if it is set.
    """
    where, parameters = where_of(conditions)
    if after is not None:
        where.append(f"{key} {'<' if descending else '>'} :after")
        parameters["after"] = after
    order = f" ORDER BY {key} {'DESC' if descending else 'ASC'} LIMIT :limit"
    return session.rows(f"{select}{clause(where)}{order}", limit=limit, **parameters)


def count_of(session: Session, table: str, conditions: Sequence[Condition]) -> int:
    """Return the number of rows of a table that meet all conditions."""
    where, parameters = where_of(conditions)
    return int(session.scalar(f"SELECT count(*) FROM {table}{clause(where)}", **parameters))
