"""Pseudonyms in a table of pandas, Arrow or Polars."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from mirror_sdk.privacy.arrow_cells import ArrowCells
from mirror_sdk.privacy.personal import path_of_column
from mirror_sdk.privacy.pseudonymizer import Column, Pseudonymizer
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
    """Return the table with pseudonyms in place of personal data, for pandas, Arrow or Polars.

    :mod:`mirror_sdk.privacy` lists the personal data, how each is replaced, and what is not covered. The rows, their
    order, the columns and their types stay the same. The input table is not changed.

    Args:
        table: Any table of this package, or one that was made of it.
        key: A text or bytes, of 16 bytes or more. With one key, equal texts have equal pseudonyms in all tables.
            Without the key no one can tell what they stand for; anyone who has it and guesses a name can.
        also: Further texts to search in the texts that stay, such as names of devices that are not in this table.

    Returns:
        A new table. Its metadata (``attrs["mirror"]``, schema metadata for Arrow, none for Polars) have a report in
        ``pseudonymized``: for each column and resource how many cells were replaced, and how.

    Raises:
        TypeError: It is not a table.
        InvalidValue: The key is missing or too short, the table has pseudonyms already, or it has values and no column
            with their paths.

    Source: specification 1.5.

    >>> from mirror_sdk.privacy import pseudonymize
    >>> key = "of the study of November, room 7"
    >>> table = pseudonymize(client.fleet.snapshot(paths=["/3311/*"], as_="arrow"), key)
    >>> table["endpoint_name"].unique().to_pylist()
    ['name-yv60x8ph8361']
    """
    if isinstance(table, pa.Table):
        return _of_arrow(table, Pseudonymizer(key, also))
    given: Any = table
    if _is_frame_of("polars", table):
        return _of_polars(given, Pseudonymizer(key, also))
    if _is_frame_of("pandas", table):
        from mirror_sdk.privacy.pandas_cells import pseudonymized_frame

        return pseudonymized_frame(given, key, also=also)
    raise TypeError(f"a {type(table).__name__} is not a table; give a pandas or Polars frame, or an Arrow table")


def _is_frame_of(package: str, table: object) -> bool:
    """Whether it is a frame of a package. It cannot be one if the package is not loaded."""
    frame_type = getattr(sys.modules.get(package), "DataFrame", None)
    return frame_type is not None and isinstance(table, frame_type)


def _of_arrow(table: pa.Table, pseudonymizer: Pseudonymizer) -> ArrowTable:
    metadata = basis_of_table(table)
    pseudonymizer.check_metadata(metadata)
    columns = [one.column for one in _replaced_cells(table, pseudonymizer)]
    # Other metadata of the schema and its columns are left out: they may contain anything.
    names = [pseudonymizer.column_name(name) for name in table.column_names]
    result: ArrowTable = with_basis(pa.Table.from_arrays(columns, names), pseudonymizer.metadata(metadata))
    return result


def _of_polars(frame: pl.DataFrame, pseudonymizer: Pseudonymizer) -> pl.DataFrame:
    import polars as pl

    table = frame.to_arrow()
    cells = zip(table.column_names, _replaced_cells(table, pseudonymizer), strict=True)
    result = frame.with_columns(pl.Series(name, one.column) for name, one in cells if one.is_changed)
    return result.rename({name: pseudonymizer.column_name(name) for name in result.columns})


def _replaced_cells(table: pa.Table, pseudonymizer: Pseudonymizer) -> list[ArrowCells]:
    cells = [ArrowCells(column) for column in table.columns]
    named = zip(table.column_names, cells, strict=True)
    pseudonymizer.replace_in([Column(name, one, path_of_column(name)) for name, one in named])
    return cells
