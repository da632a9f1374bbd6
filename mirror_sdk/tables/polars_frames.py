"""Tables for Polars, made of those for Arrow."""

from __future__ import annotations

import pyarrow as pa

from mirror_sdk.tables.columns import categories_of

# It is an extra, and the error says how to install it.
try:
    import polars as pl
except ModuleNotFoundError as _error:
    if _error.name != "polars":
        raise
    raise ImportError('tables for Polars need polars: pip install "device-state-mirror[polars]"') from _error


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """Convert a table to Polars, without its metadata, which a frame of Polars cannot hold.

    The columns are released one by one, so that there are never two copies of all.
    """
    schema, columns = table.schema, dict(zip(table.column_names, table.columns, strict=True))
    del table
    return pl.DataFrame([_series(columns.pop(field.name), field) for field in schema])


def _series(column: pa.ChunkedArray, field: pa.Field) -> pl.Series:
    categories = categories_of(field)
    if not (categories and pa.types.is_dictionary(field.type)):
        # In one piece: in each of several, Polars would look through the dictionary, and put them together then.
        series = pl.DataFrame(pa.table({field.name: column}).combine_chunks()).to_series()
        return series.cast(pl.Enum(categories)) if categories else series
    # The words alone: as categories of any kind first, all cells would be made texts to become these.
    whole = column.combine_chunks()
    words = pl.Series(field.name, whole.dictionary).cast(pl.Enum(categories))
    return words.gather(pl.Series(whole.indices))
