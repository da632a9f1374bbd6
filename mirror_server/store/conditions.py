"""Filters of lists, and what they are in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mirror_server.store.session import Row, Session


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter of a list: a column of its table, an SQL comparison and its values.

    ``of`` is what the parameter ``:of`` stands for in a column that is an expression. ``among`` is SQL that holds of
    all it may select, and is found by an index where the column is not; ``{}`` stands for the values. ``is_unique`` is
    whether no two rows have the same value in the column, which has an index then.
    """

    column: str
    comparison: str
    values: tuple[str | int, ...]
    of: str | None = None
    among: str | None = None
    is_unique: bool = False


def is_subquery(column: str) -> bool:
    """Whether a column is a subquery, which is run for each row and takes long where there are many."""
    return "(SELECT " in column


def where_of(conditions: Sequence[Condition]) -> tuple[list[str], dict[str, Any]]:
    """The conditions in SQL, and the values of the parameters in them."""
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
    """The clause that begins with WHERE; none where there is no condition."""
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
    """Up to ``limit`` rows of a statement that meet all conditions, ordered by a key, beginning behind ``after``."""
    where, parameters = where_of(conditions)
    if after is not None:
        where.append(f"{key} {'<' if descending else '>'} :after")
        parameters["after"] = after
    order = f" ORDER BY {key} {'DESC' if descending else 'ASC'} LIMIT :limit"
    return session.rows(f"{select}{clause(where)}{order}", limit=limit, **parameters)


def count_of(session: Session, table: str, conditions: Sequence[Condition]) -> int:
    """How many rows of a table meet all conditions."""
    where, parameters = where_of(conditions)
    return int(session.scalar(f"SELECT count(*) FROM {table}{clause(where)}", **parameters))
