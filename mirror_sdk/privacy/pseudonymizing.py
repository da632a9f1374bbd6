"""Pseudonyms in a table, whichever form it has."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from mirror_sdk.privacy.arrow_cells import ArrowCells
from mirror_sdk.privacy.personal import path_of_column
from mirror_sdk.privacy.replacing import FrameColumn, Replacing
from mirror_sdk.tables.columns import basis_of_table, with_basis

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from mirror_sdk.tables.arrow_types import ArrowTable


@overload
def pseudonymize(table: pd.DataFrame, key: str | bytes, *, also: Iterable[str] = ()) -> pd.DataFrame: ...
@overload
def pseudonymize(table: pl.DataFrame, key: str | bytes, *, also: Iterable[str] = ()) -> pl.DataFrame: ...
@overload
def pseudonymize(table: ArrowTable, key: str | bytes, *, also: Iterable[str] = ()) -> ArrowTable: ...
def pseudonymize(
    table: pd.DataFrame | pl.DataFrame | ArrowTable, key: str | bytes, *, also: Iterable[str] = ()
) -> pd.DataFrame | pl.DataFrame | ArrowTable:
    """The table with pseudonyms in the place of what is personal: for pandas, Arrow or Polars.

    What that is, what is done with it and what is left says :mod:`mirror_sdk.privacy`. The rows, their order, the
    columns and their types stay. The table that was given stays too.

    Args:
        table: Any table of this package, or one that was made of it.
        key: A text or bytes, of 16 bytes or more. Tables of one key have the same pseudonyms for the same; without it
            nobody can tell whose they are, and whoever has it and guesses a name can.
        also: Other texts to look for in those that stay, such as names of devices that are not in this table.

    Returns:
        A new table. What it is based on (``attrs["mirror"]``, metadata for Arrow, nothing for Polars) has the report in
        ``pseudonymized``: for each column and resource how many cells were replaced, and how.

    Raises:
        TypeError: It is no table.
        InvalidValue: The key is too short or none, the table has pseudonyms already, or it has values and no column
            says of which resources.

    Source: specification 1.5.

    >>> from mirror_sdk.privacy import pseudonymize
    >>> key = "of the study of November, room 7"
    >>> table = pseudonymize(client.fleet.snapshot(paths=["/3311/*"], as_="arrow"), key)
    >>> table["endpoint_name"].unique().to_pylist()
    ['name-yv60x8ph8361']
    """
    if isinstance(table, pa.Table):
        return _of_arrow(table, Replacing(key, also))
    given: Any = table
    if _is_of("polars", table):
        return _of_polars(given, Replacing(key, also))
    if _is_of("pandas", table):
        from mirror_sdk.privacy.pandas_cells import pseudonymized_frame

        return pseudonymized_frame(given, key, also=also)
    raise TypeError(f"a {type(table).__name__} is no table; give a frame of pandas or Polars, or a table of Arrow")


def _is_of(package: str, table: object) -> bool:
    """Whether it is a frame of a package; where that is not loaded, it is none."""
    kind = getattr(sys.modules.get(package), "DataFrame", None)
    return kind is not None and isinstance(table, kind)


def _of_arrow(table: pa.Table, replacing: Replacing) -> ArrowTable:
    about = basis_of_table(table)
    replacing.expect(about)
    columns = [one.column if one.is_changed else _own(one.column) for one in _cells_of(table, replacing)]
    # What anybody wrote beside the table and its columns goes.
    names = [replacing.within(name) for name in table.column_names]
    told: ArrowTable = with_basis(pa.Table.from_arrays(columns, names), replacing.about(about))
    return told


def _of_polars(frame: pl.DataFrame, replacing: Replacing) -> pl.DataFrame:
    import polars as pl

    table = frame.to_arrow()
    cells = _cells_of(table, replacing)
    changed = {name: one.column for name, one in zip(table.column_names, cells, strict=True) if one.is_changed}
    told = frame.with_columns(pl.Series(name, column) for name, column in changed.items())
    return told.rename({name: replacing.within(name) for name in told.columns})


def _cells_of(table: pa.Table, replacing: Replacing) -> list[ArrowCells]:
    cells = [ArrowCells(column) for column in table.columns]
    named = zip(table.column_names, cells, strict=True)
    replacing.columns([FrameColumn(name, one, path_of_column(name)) for name, one in named])
    return cells


def _own(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A copy: behind a part of a column stands all of it, and goes with it where that is pickled."""
    return pa.chunked_array([pa.concat_arrays(column.chunks)] if column.num_chunks else [], column.type)
