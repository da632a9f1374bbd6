"""In which form a table is given: for pandas, for Arrow or for Polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, overload

from mirror_sdk._arguments import Form

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from mirror_sdk.tables.arrow_types import ArrowTable


@overload
def given(
    tables: list[pa.Table], about: Mapping[str, object], *, as_: Literal["pandas"], tz: str | None
) -> pd.DataFrame: ...
@overload
def given(
    tables: list[pa.Table], about: Mapping[str, object], *, as_: Literal["arrow"], tz: str | None
) -> ArrowTable: ...
@overload
def given(
    tables: list[pa.Table], about: Mapping[str, object], *, as_: Literal["polars"], tz: str | None
) -> pl.DataFrame: ...
@overload
def given(
    tables: list[pa.Table], about: Mapping[str, object], *, as_: Form, tz: str | None
) -> pd.DataFrame | ArrowTable | pl.DataFrame: ...
def given(
    tables: list[pa.Table], about: Mapping[str, object], *, as_: Form, tz: str | None
) -> pd.DataFrame | ArrowTable | pl.DataFrame:
    """The table of some parts, one after another, in the form that was asked for.

    Args:
        tables: The parts, all of one schema of this package; the list is emptied, so that memory holds them once.
        about: What the table is based on: ``attrs["mirror"]`` for pandas, metadata for Arrow, and lost for Polars.
        as_: The form.
        tz: Time zone of the time columns; UTC by default.

    Raises:
        InvalidValue: ``tz`` is no time zone.
    """
    if as_ == "pandas":
        from mirror_sdk.frames.columns import frame_of
        from mirror_sdk.tables.columns import taken_apart

        return frame_of(taken_apart(tables), about, tz=tz)
    from mirror_sdk.tables.columns import whole_table

    if as_ == "arrow":
        table: ArrowTable = whole_table(tables, about, tz=tz)
        return table
    from mirror_sdk.tables.polars_frames import polars_frame

    return polars_frame(whole_table(tables, about, tz=tz))
