"""The interface between SQL queries and the tables that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from mirror_sdk.sql.conditions import Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A part of a query that reads a view.

    Attributes:
        view: The name of the view or of the table function.
        instants: The arguments of the table function.
        columns: The names of the columns to return.
        used: The names of all columns that are used, including those of the filter.
        conditions: The conditions on the rows. The source may return rows that do not meet them.
        filter: The filter as a ``pyarrow.compute.Expression``, or ``None``. The query applies it to all rows.
    """

    view: str
    instants: tuple[datetime, ...] = ()
    columns: Sequence[str] = ()
    used: frozenset[str] = frozenset()
    conditions: Conditions
    filter: Any = None

    @property
    def is_empty(self) -> bool:
        """Whether no row can match."""
        return any(not intervals for intervals in self.conditions.values())


class ViewSource(Protocol):
    """The views that queries can read.

    Attributes:
        name: A phrase for the source, such as ``this recording``.
        server: The address of the service, or an empty string.
        views: The schema of each view.
        functions: The schema of each table function. The number of arguments is in :data:`FUNCTIONS`.
    """

    name: str
    server: str
    views: Mapping[str, pa.Schema]
    functions: Mapping[str, pa.Schema]

    def now(self) -> datetime:
        """Return the current time of the mirror."""

    def sent(self, scan: Scan) -> Mapping[str, object]:
        """Return the conditions that limit the rows that are fetched."""

    def expected_rows(self, scan: Scan) -> int | None:
        """Return the minimum number of rows to fetch, or ``None`` if it is not known in advance."""

    def open(self, scan: Scan) -> Iterable[pa.Table]:
        """Start to fetch the rows of a scan. If the result has a method ``close()``, it is called at the end."""


FUNCTIONS: Mapping[str, tuple[str, ...]] = {"as_of": ("instant",), "changes": ("begin", "end")}
"""The parameters of each table function. The last parameter of ``changes`` may be omitted."""

HELPFUL_CONDITIONS = ("device_id", "endpoint_name", "path", "changed_at")
"""The columns on which a condition can reduce the number of rows that are fetched."""
