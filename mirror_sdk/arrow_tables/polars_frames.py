"""Conversion of Arrow tables to Polars."""

from __future__ import annotations

import pyarrow as pa

from mirror_sdk.arrow_tables.columns import categories_of

# Polars belongs to an optional extra, and the error says how to install it.
try:
    import polars as pl
except ModuleNotFoundError as _error:
    if _error.name != "polars":
        raise
    raise ImportError('tables for Polars need polars: pip install "device-state-mirror[polars]"') from _error


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """Convert a table to Polars.

    The result has no metadata, because a Polars DataFrame cannot store them. The columns of the table are released one
    by one, so that there are never two copies of all columns.
    """
    schema, columns = table.schema, dict(zip(table.column_names, table.columns, strict=True))
    del table
    return pl.DataFrame([_series(columns.pop(field.name), field) for field in schema])


def _series(column: pa.ChunkedArray, field: pa.Field) -> pl.Series:
    categories = categories_of(field)
    if not (categories and pa.types.is_dictionary(field.type)):
        # The chunks are combined, because Polars would process the dictionary of each chunk and merge them afterwards.
        series = pl.DataFrame(pa.table({field.name: column}).combine_chunks()).to_series()
        return series.cast(pl.Enum(categories)) if categories else series
    # Only the words are cast. A cast of the column would first convert all cells to strings.
    array = column.combine_chunks()
    words = pl.Series(field.name, array.dictionary).cast(pl.Enum(categories))
    return words.gather(pl.Series(array.indices))
