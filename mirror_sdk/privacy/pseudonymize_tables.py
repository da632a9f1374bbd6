"""Functions that replace personal data in a pandas, Arrow or Polars table with pseudonyms."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from mirror_sdk.arrow_tables.columns import metadata_of_table, with_metadata
from mirror_sdk.privacy.arrow_cells import cells_of, replaced
from mirror_sdk.privacy.cells import Cells
from mirror_sdk.privacy.personal_columns import path_of_column
from mirror_sdk.privacy.pseudonymizer import Column, Pseudonymizer

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from mirror_sdk.arrow_tables.arrow_types import ArrowTable

Table = TypeVar("Table", bound="pd.DataFrame | pl.DataFrame | ArrowTable")


def pseudonymize(table: Table, key: str | bytes, *, also: Iterable[str] = ()) -> Table:
    """Replace personal data in a table of pandas, Arrow or Polars with pseudonyms.

    ``mirror help privacy`` lists which data are personal, how they are replaced, and what is not covered. The rows,
    their order, the columns and the column types stay the same. The original table does not change.

    Args:
        table: Any table of this package, or a table derived from it.
        key: A secret string or bytes object of at least 16 bytes. Equal strings have equal pseudonyms in all tables
            with the same key. Without the key, no one can reverse the pseudonyms, but anyone with the key can test
            guessed names.
        also: Additional personal strings, such as names of devices that are not in this table. Strings of the table
            that contain them are replaced.

    Returns:
        A new table. A report is in ``pseudonymized`` of its metadata, which are in ``attrs["mirror"]`` for pandas and
        in the schema for Arrow. Polars has no metadata. The report contains how many cells of each column and resource
        were replaced, and how.

    Raises:
        TypeError: ``table`` is not a table.
        InvalidValue: The key is missing or too short, the table is already pseudonymized, or it has values but no
            column with their paths.

    >>> from mirror_sdk.privacy import pseudonymize
    >>> key = "qT4m-x8Wz-2bKd-7RfL"
    >>> table = pseudonymize(client.fleet.snapshot(paths=["/3311/*"], as_="arrow"), key)
    >>> table["endpoint_name"].unique().to_pylist()
    ['name-fhx910pzyv54']
    """
    source: Any = table
    result: object
    if isinstance(source, pa.Table):
        result = _of_arrow(source, Pseudonymizer(key, also))
    elif _is_frame_of("polars", source):
        result = _of_polars(source, Pseudonymizer(key, also))
    elif _is_frame_of("pandas", source):
        from mirror_sdk.privacy.pandas_cells import pseudonymized_frame

        result = pseudonymized_frame(source, key, also=also)
    else:
        raise TypeError(f"a {type(table).__name__} is not a table; pass a pandas or Polars frame, or an Arrow table")
    return cast("Table", result)


def _is_frame_of(package: str, table: object) -> bool:
    """Return whether an object is a DataFrame of a package. If the package is not loaded, the result is false."""
    frame_type = getattr(sys.modules.get(package), "DataFrame", None)
    return frame_type is not None and isinstance(table, frame_type)


def _of_arrow(table: pa.Table, pseudonymizer: Pseudonymizer) -> ArrowTable:
    metadata = metadata_of_table(table)
    pseudonymizer.check_metadata(metadata)
    columns = [replaced(*one) for one in zip(table.columns, _replaced_cells(table, pseudonymizer), strict=True)]
    # Other metadata of the schema and its columns are omitted, because they may contain anything.
    names = [pseudonymizer.column_name(name) for name in table.column_names]
    result: ArrowTable = with_metadata(pa.Table.from_arrays(columns, names), pseudonymizer.metadata(metadata))
    return result


def _of_polars(frame: pl.DataFrame, pseudonymizer: Pseudonymizer) -> pl.DataFrame:
    import polars as pl

    table = frame.to_arrow()
    columns = zip(table.column_names, table.columns, _replaced_cells(table, pseudonymizer), strict=True)
    changed = [pl.Series(name, replaced(column, cells)) for name, column, cells in columns if cells.is_changed]
    result = frame.with_columns(changed)
    return result.rename({name: pseudonymizer.column_name(name) for name in result.columns})


def _replaced_cells(table: pa.Table, pseudonymizer: Pseudonymizer) -> list[Cells]:
    cells = [cells_of(column) for column in table.columns]
    named = zip(table.column_names, cells, strict=True)
    pseudonymizer.replace_in([Column(name, one, path_of_column(name)) for name, one in named])
    return cells
