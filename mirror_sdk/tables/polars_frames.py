"""Tables for Polars, made of those for Arrow."""

from __future__ import annotations

import pyarrow as pa

from mirror_sdk.tables.columns import categories_of

# Before it is used: it is an extra, and who lacks it is told how to get it.
try:
    import polars as pl
except ModuleNotFoundError as _error:
    if _error.name != "polars":
        raise
    raise ImportError('tables for Polars need polars: pip install "device-state-mirror[polars]"') from _error


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """The table for Polars; what it is based on stays behind, since a frame of Polars has no place for it."""
    frame = pl.DataFrame(table)
    fixed = {field.name: pl.Enum(categories_of(field)) for field in table.schema if categories_of(field)}
    return frame.with_columns(pl.col(name).cast(kind) for name, kind in fixed.items())
