"""The results of queries, with the column types that the tables have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from mirror_sdk._arguments import SqlFormat, table_module
from mirror_sdk._fork import import_locked
from mirror_sdk.arrow_tables.columns import INSTANT
from mirror_sdk.sql.categories import categorical
from mirror_sdk.sql.conditions import text_of
from mirror_sdk.sql.source import Scan, ViewSource
from mirror_sdk.table_formats import convert_tables
from mirror_sdk.wire.model import write_timestamp

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from mirror_sdk.arrow_tables.arrow_types import ArrowTable

_DURATION = pa.duration("ms")
_DAY_NANOSECONDS = 86_400_000_000_000
_EXPLANATION = pa.schema(
    [
        pa.field("view", pa.string()),
        pa.field("fetched", pa.string()),
        pa.field("filter", pa.string()),
        pa.field("columns", pa.string()),
        pa.field("expected_rows", pa.int64()),
    ]
)
"""The columns of an explanation.

``view`` is the view with its arguments. ``fetched`` are the conditions that limit the rows that are fetched, and
``filter`` are all conditions that the rows have to meet. ``expected_rows`` is the minimum number of rows to fetch, or
null if it is not known in advance.
"""


def explanation(source: ViewSource, scans: Sequence[Scan]) -> pa.Table:
    """Return a table with a row for each scan of a query."""
    rows = [
        {
            "view": f"{scan.view}({', '.join(map(write_timestamp, scan.instants))})" if scan.instants else scan.view,
            "fetched": "nothing" if scan.is_empty else _texts(source.sent(scan)) or "all rows",
            "filter": None if scan.filter is None else text_of(scan.filter),
            "columns": ", ".join(scan.columns),
            "expected_rows": 0 if scan.is_empty else source.expected_rows(scan),
        }
        for scan in scans
    ]
    return pa.Table.from_pylist(rows, schema=_EXPLANATION)


def _texts(conditions: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in conditions.items() if value is not None)


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return write_timestamp(value)
    return " or ".join(map(str, value)) if isinstance(value, Iterable) and not isinstance(value, str) else str(value)


def convert_result(
    table: pa.Table,
    metadata: Mapping[str, object],
    schemas: Sequence[pa.Schema],
    *,
    as_: SqlFormat,
) -> pd.DataFrame | ArrowTable | pl.DataFrame | duckdb.DuckDBPyRelation:
    """Return a result in the requested form.

    Args:
        table: The result of DuckDB.
        metadata: The metadata of the result.
        schemas: The schemas of the views. A result column with the name of their column gets its type.
        as_: The form.
    """
    if as_ == "duckdb":
        # The connection of the module exists as long as the relation, and it can join the relation with other tables.
        return duckdb.from_arrow(table)
    import_locked(table_module(as_))
    fields = {field.name: field for schema in reversed(schemas) for field in schema}
    columns = [_typed(column, fields.get(name)) for name, column in zip(table.column_names, table.columns, strict=True)]
    names = _unique(table.column_names)
    made = [field.with_name(name) for (field, _), name in zip(columns, names, strict=True)]
    typed = pa.Table.from_arrays([column for _, column in columns], schema=pa.schema(made))
    return convert_tables([typed], metadata, as_=as_, tz=None)


def _unique(names: Sequence[str]) -> list[str]:
    """Return the names of columns with a number after each repeated name, because a table needs unique names."""
    unique: list[str] = []
    for name in names:
        candidates = chain([name], (f"{name}_{number}" for number in count(1)))
        unique.append(next(one for one in candidates if one not in unique))
    return unique


def _typed(column: pa.ChunkedArray, field: pa.Field | None) -> tuple[pa.Field, pa.ChunkedArray]:
    """Convert a column from the types of DuckDB to those of the tables.

    DuckDB has no categories, and its times have microseconds.
    """
    kind = column.type
    if field is not None and pa.types.is_dictionary(field.type) and pa.types.is_string(kind):
        return categorical(column, field)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(INSTANT, safe=False)
    elif pa.types.is_interval(kind):
        column = pa.chunked_array([pa.array(map(_milliseconds, column.to_pylist()), _DURATION)])
    elif pa.types.is_decimal(kind):
        # Sums of integers are decimals without a fraction.
        try:
            column = column.cast(pa.int64() if kind.scale == 0 else pa.float64())
        except pa.ArrowInvalid:
            column = column.cast(pa.float64())
    return pa.field("", column.type), column


def _milliseconds(interval: pa.MonthDayNano | None) -> int | None:
    if interval is None:
        return None
    # DuckDB also compares intervals as if each month had 30 days.
    days: int = interval.months * 30 + interval.days
    return (days * _DAY_NANOSECONDS + int(interval.nanoseconds)) // 1_000_000
