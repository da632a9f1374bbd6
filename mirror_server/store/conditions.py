"""Filters of lists, and what they are in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter of a list: a column of its table, an SQL comparison and its values.

    ``of`` is what the parameter ``:of`` stands for in a column that is an expression. ``among`` is SQL that holds of
    all it may select, and is found by an index where the column is not; ``{}`` stands for the values.
    """

    column: str
    comparison: str
    values: tuple[str | int, ...]
    of: str | None = None
    among: str | None = None

    @property
    def is_looked_up(self) -> bool:
        """Whether the column is a subquery, which is run for each row and takes long where there are many."""
        return "(SELECT " in self.column


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
