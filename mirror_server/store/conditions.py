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
        of: The value of the parameter ``:of`` in the column and in ``among``.
        among: A query for the ids of the devices that may meet the condition, which an index supports. ``{}`` stands
            for the values.
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
        clauses.append(with_names(f"{condition.column} {condition.comparison} ({{}})", condition, index))
        if condition.among is not None:
            clauses.append(f"device_id IN ({with_names(condition.among, condition, index)})")
        parameters |= parameters_of(condition, index)
    return clauses, parameters


def with_names(text: str, condition: Condition, index: int = 0) -> str:
    """Return an SQL text of a condition with the names of its parameters."""
    names = ", ".join(f":{name}" for name in parameters_of(condition, index) if name.startswith("c"))
    return text.replace(":of", f":of{index}").replace("{}", names)


def parameters_of(condition: Condition, index: int = 0) -> dict[str, Any]:
    """Return the parameters of a condition. Their names contain its index among the conditions of a statement."""
    parameters: dict[str, Any] = {f"c{index}_{position}": value for position, value in enumerate(condition.values)}
    return parameters if condition.of is None else {**parameters, f"of{index}": condition.of}


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
