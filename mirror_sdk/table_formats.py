"""Conversion of tables to a pandas DataFrame, a Polars DataFrame or an Arrow table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirror_sdk._arguments import TableFormat

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from mirror_sdk.arrow_tables.arrow_types import ArrowTable


def to_pandas(tables: list[pa.Table], metadata: Mapping[str, object], *, tz: str | None = None) -> pd.DataFrame:
    """Convert the chunks of a table to a pandas DataFrame.

    The arguments and errors are the same as for :func:`convert_tables`.
    """
    from mirror_sdk.arrow_tables.columns import concat_columns
    from mirror_sdk.frames.columns import frame_of

    return frame_of(concat_columns(tables), metadata, tz=tz)


def convert_tables(
    tables: list[pa.Table], metadata: Mapping[str, object], *, as_: TableFormat, tz: str | None
) -> pd.DataFrame | ArrowTable | pl.DataFrame:
    """Combine the chunks of a table into one table of the requested kind.

    Args:
        tables: The chunks, which all have the same schema. The function empties the list, so that the rows are in
            memory only once.
        metadata: The metadata. It becomes ``attrs["mirror"]`` in pandas and the metadata of the schema in Arrow. A
            Polars DataFrame has no metadata.
        as_: The kind of the table.
        tz: The time zone of the time columns. The default is UTC.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    if as_ == "pandas":
        return to_pandas(tables, metadata, tz=tz)
    from mirror_sdk.arrow_tables.columns import concat_with_metadata

    table: ArrowTable = concat_with_metadata(tables, metadata, tz=tz)
    if as_ == "arrow":
        return table
    from mirror_sdk.arrow_tables.polars_frames import polars_frame

    return polars_frame(table)
