"""The views of a recording for SQL queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from mirror_sdk.arrow_tables.events import EVENTS_SCHEMA
from mirror_sdk.arrow_tables.history import HISTORY_SCHEMA
from mirror_sdk.arrow_tables.state import STATE_SCHEMA
from mirror_sdk.history.changes import CHANGES_SCHEMA
from mirror_sdk.sql.conditions import patterns_of
from mirror_sdk.sql.source import Scan

if TYPE_CHECKING:
    from mirror_sdk.arrow_tables.arrow_types import ArrowTable

ReadView: TypeAlias = "Callable[[Sequence[datetime], list[str] | None], ArrowTable]"
"""A function that reads a view, from the arguments of a table function and path patterns."""


class RecordedViews:
    """The views of a recording, whose files are read again for each scan.

    Args:
        readers: A function for each view.
        now: The end of the recording.
        server: The address of the service.
    """

    name: str = "this recording"
    views: Mapping[str, pa.Schema] = {"history": HISTORY_SCHEMA, "events": EVENTS_SCHEMA, "state": STATE_SCHEMA}
    functions: Mapping[str, pa.Schema] = {"as_of": STATE_SCHEMA, "changes": CHANGES_SCHEMA}

    def __init__(self, readers: Mapping[str, ReadView], now: datetime, server: str) -> None:
        self.server: str = server
        self._readers = readers
        self._now = now

    def now(self) -> datetime:
        """Return the end of the recording."""
        return self._now

    def sent(self, scan: Scan) -> Mapping[str, object]:
        """Return the paths, which are the only condition that avoids the conversion of other rows."""
        return {"path": self._paths(scan)}

    def expected_rows(self, scan: Scan) -> int | None:
        """Return ``None``, because the rows are counted while they are read."""

    def open(self, scan: Scan) -> Iterable[pa.Table]:
        """Return the rows of a scan."""
        return iter([self._readers[scan.view](scan.instants, self._paths(scan))])

    def _paths(self, scan: Scan) -> list[str] | None:
        return patterns_of(scan.conditions["path"]) if "path" in scan.conditions and scan.view != "events" else None
