"""The views of a query as pyarrow datasets. DuckDB passes them the columns and the filter of each scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from mirror_sdk.errors import InvalidValue
from mirror_sdk.sql.conditions import conditions_of
from mirror_sdk.sql.source import HELPFUL_CONDITIONS, Scan, ViewSource
from mirror_sdk.sql.streams import StreamClosed


class Scans:
    """The scans of a query. While it is planned, they are recorded and return no rows.

    Args:
        source: The source of the rows.
        max_rows: The maximum number of rows that all scans together may fetch.

    Attributes:
        planned: The scans that were recorded.
        error: The error of the source that ended the query.
    """

    def __init__(self, source: ViewSource, max_rows: int) -> None:
        self.planned: list[Scan] = []
        self.error: Exception | None = None
        self._source = source
        self._max_rows = max_rows
        self._row_count = 0
        self._is_planning = True
        self._open: list[Iterable[pa.Table]] = []
        self._is_stopped = False

    def start(self, *, may_stop_early: bool) -> None:
        """Fetch rows from now on.

        Args:
            may_stop_early: Whether the query may need only a part of the rows. They are then only counted while they
                arrive.

        Raises:
            InvalidValue: The query would fetch too many rows.
        """
        read = [scan for scan in self.planned if not scan.is_empty and not may_stop_early]
        counts = [(scan, self._source.expected_rows(scan) or 0) for scan in read]
        if sum(count for _, count in counts) > self._max_rows:
            raise self._too_many(max(counts, key=lambda one: one[1])[0], sum(count for _, count in counts))
        self._is_planning = False

    def stop(self) -> None:
        """Let all fetches and scans end soon. It can be called in another thread."""
        self._is_stopped = True
        for tables in list(self._open):
            # A list of tables cannot be stopped.
            getattr(tables, "stop", lambda: None)()

    def close(self) -> None:
        """Stop all fetches, and wait until they have ended."""
        for tables in self._open:
            getattr(tables, "close", lambda: None)()

    def rows(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """Return the rows of a scan. They are fetched when the first one is needed."""
        if self._is_planning:
            # Here and not with the first row, because an empty side of a join can make the other side unnecessary.
            self.planned.append(scan)
        return iter(()) if self._is_planning or scan.is_empty else self._fetched(scan)

    def _fetched(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        try:
            tables = self._source.open(scan)
            self._open.append(tables)
            for table in tables:
                self._count(scan, table.num_rows)
                found = table if scan.filter is None else table.filter(scan.filter)
                yield from _with_durations_of_duckdb(found.select(scan.columns)).to_batches()
        except Exception as error:
            # DuckDB would only pass the message on.
            self.error = self.error or error
            raise

    def _count(self, scan: Scan, row_count: int) -> None:
        if self._is_stopped:
            raise StreamClosed
        self._row_count += row_count
        if self._row_count > self._max_rows:
            raise self._too_many(scan)

    def _too_many(self, scan: Scan, count: int | None = None) -> InvalidValue:
        known = scan.conditions.keys()
        schema = {**self._source.views, **self._source.functions}[scan.view]
        missing = [name for name in HELPFUL_CONDITIONS if name in schema.names and name not in known]
        cure = f"add a condition on {' or '.join(missing)}, or " if missing else "narrow the conditions, or "
        size = "fetches more than" if count is None else f"would fetch at least {count} rows, more than"
        return InvalidValue(
            f"the query {size} max_rows={self._max_rows}, most of them from {scan.view}; {cure}pass a larger max_rows"
        )


def _with_durations_of_duckdb(table: pa.Table) -> pa.Table:
    """Return a table with 0 in the place of each missing duration.

    DuckDB converts these numbers although they are unused, and fails on those that pandas writes.
    """
    for index, field in enumerate(table.schema):
        if pa.types.is_duration(field.type) and table[index].null_count:
            column = table[index]
            column = pc.if_else(column.is_null(), pa.scalar(None, field.type), column.fill_null(0))
            table = table.set_column(index, field, column)
    return table


def make_view(name: str, schema: pa.Schema, scans: Scans, instants: tuple[datetime, ...] = ()) -> object:
    """Return an object that can be registered in DuckDB.

    Args:
        name: The name of the view or of the table function.
        schema: The columns.
        scans: The scans of the query.
        instants: The arguments of the table function.
    """
    return _View(name, schema, scans, instants)


class _View(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """A view, whose scans DuckDB requests as for any other pyarrow dataset."""

    # The base class has no constructor, and only DuckDB uses this object, by the two members below.
    def __init__(self, name: str, schema: pa.Schema, scans: Scans, instants: tuple[datetime, ...]) -> None:
        self._name = name
        self._columns = schema
        self._scans = scans
        self._instants = instants

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._columns

    def scanner(self, *, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> _Scanner:  # noqa: A002
        """Return the rows of a scan. DuckDB applies the filter only here."""
        names = self._columns.names if columns is None else list(columns)
        conditions, in_filter = conditions_of(filter)
        scan = Scan(
            view=self._name,
            instants=self._instants,
            columns=names,
            used=frozenset(self._columns.names if in_filter is None else {*names, *in_filter}),
            conditions=conditions,
            filter=filter,
        )
        fields = pa.schema([self._columns.field(name) for name in names])
        return _Scanner(fields, self._scans.rows(scan))


class _Scanner:
    """The rows of a scan, in the form that DuckDB expects."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches)
