"""The forms of a table: a frame of pandas or Polars, or a table of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirror_sdk._arguments import Form

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from mirror_sdk.tables.arrow_types import ArrowTable


def to_pandas(tables: list[pa.Table], metadata: Mapping[str, object], *, tz: str | None = None) -> pd.DataFrame:
    """Make a frame of the parts of a table; arguments and errors as for :func:`to_form`."""
    from mirror_sdk.frames.columns import frame_of
    from mirror_sdk.tables.columns import concat_columns

    return frame_of(concat_columns(tables), metadata, tz=tz)


def to_form(
    tables: list[pa.Table], metadata: Mapping[str, object], *, as_: Form, tz: str | None
) -> pd.DataFrame | ArrowTable | pl.DataFrame:
    """Make a table of its parts, in the requested form.

    Args:
        tables: The parts, all of one schema. The list is emptied, so that memory holds them once.
        metadata: The metadata: ``attrs["mirror"]`` for pandas, the schema's metadata for Arrow, and none for Polars.
        as_: The form.
        tz: Time zone of the time columns; UTC by default.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    if as_ == "pandas":
        return to_pandas(tables, metadata, tz=tz)
    from mirror_sdk.tables.columns import concat_with_metadata

    table: ArrowTable = concat_with_metadata(tables, metadata, tz=tz)
    if as_ == "arrow":
        return table
    from mirror_sdk.tables.polars_frames import polars_frame

    return polars_frame(table)
