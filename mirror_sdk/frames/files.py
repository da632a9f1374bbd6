"""Conversion of tables and their metadata to Arrow and Parquet and back."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, overload

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirror_sdk._arguments import TableFormat, table_module
from mirror_sdk._fork import import_locked
from mirror_sdk.arrow_tables.arrow_types import ArrowStream, ArrowTable
from mirror_sdk.arrow_tables.columns import metadata_of_table, with_metadata
from mirror_sdk.arrow_tables.device_events import DEVICE_EVENTS_SCHEMA
from mirror_sdk.arrow_tables.events import EVENTS_SCHEMA
from mirror_sdk.arrow_tables.history import HISTORY_SCHEMA
from mirror_sdk.arrow_tables.state import DIRECTORY_SCHEMA, STATE_SCHEMA
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import category_dtype, has_no_categories, to_frame
from mirror_sdk.frames.drift import DRIFT_SCHEMA
from mirror_sdk.frames.requests import REQUESTS_SCHEMA
from mirror_sdk.frames.staleness import STALE_SCHEMA

if TYPE_CHECKING:
    import polars as pl


def _categories_of(*schemas: pa.Schema) -> dict[str, pd.CategoricalDtype]:
    fields = (field for schema in schemas for field in schema if pa.types.is_dictionary(field.type))
    return {field.name: category_dtype(field) for field in fields}


_CATEGORIES = _categories_of(STATE_SCHEMA, EVENTS_SCHEMA, REQUESTS_SCHEMA, DRIFT_SCHEMA, DIRECTORY_SCHEMA, STALE_SCHEMA)
_OF_TABLES_WITH = {"origin": _categories_of(HISTORY_SCHEMA), "event_id": _categories_of(DEVICE_EVENTS_SCHEMA)}
"""The categories of the kinds of table that have a column of this name.

Only these tables have it, so it identifies them.
"""


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """Convert a DataFrame to Arrow.

    ``attrs`` is stored in the schema metadata, as in ``frame.to_parquet(file)``.
    """
    table = pa.Table.from_pandas(frame)
    for position, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            table = table.set_column(position, field, _without_lowest(table[position]))
    return table


def _without_lowest(spans: pa.ChunkedArray) -> pa.ChunkedArray:
    """Set the data of nulls to 0.

    pandas stores its lowest number there, which DuckDB would use in computations.
    """
    zero, missing = pa.scalar(0, spans.type), pa.scalar(None, spans.type)
    return pc.if_else(pc.is_valid(spans), pc.fill_null(spans, zero), missing)


def from_arrow(table: ArrowStream) -> pd.DataFrame:
    """Convert an Arrow table or Polars DataFrame to pandas.

    The result has ``attrs`` if the table comes from :func:`to_arrow` or ``as_="arrow"``. Polars DataFrames have no
    metadata.

    >>> table = client.state_frame(as_="arrow")
    >>> frame = from_arrow(table)
    >>> frame.attrs == client.state_frame().attrs
    True
    """
    arrow = pa.table(table)
    is_of_pandas = b"pandas" in (arrow.schema.metadata or {})
    frame: pd.DataFrame = arrow.to_pandas() if is_of_pandas else to_frame(arrow, metadata_of_table(arrow))
    categories = next((own for name, own in _OF_TABLES_WITH.items() if name in frame), _CATEGORIES)
    for name, dtype in categories.items():
        # Arrow drops the categories of a column without values.
        if name in frame and (frame[name].dtype == object or has_no_categories(frame[name].dtype)):
            frame[name] = frame[name].astype(dtype)
    return frame


@overload
def read_parquet(
    file: str | PathLike[str], *, columns: Sequence[str] | None = None, as_: Literal["pandas"] = "pandas"
) -> pd.DataFrame: ...
@overload
def read_parquet(
    file: str | PathLike[str], *, columns: Sequence[str] | None = None, as_: Literal["arrow"]
) -> ArrowTable: ...
@overload
def read_parquet(
    file: str | PathLike[str], *, columns: Sequence[str] | None = None, as_: Literal["polars"]
) -> pl.DataFrame: ...
def read_parquet(
    file: str | PathLike[str], *, columns: Sequence[str] | None = None, as_: TableFormat = "pandas"
) -> pd.DataFrame | ArrowTable | pl.DataFrame:
    """Read a table of this package from a Parquet file, with its types and metadata.

    Args:
        file: The path of the file, or the folder of a dataset.
        columns: The columns to read. ``None`` reads all.
        as_: The type of the result: ``pandas`` for a ``pandas.DataFrame``, ``arrow`` for a ``pyarrow.Table``, or
            ``polars`` for a ``polars.DataFrame``.

    Raises:
        ImportError: ``as_`` is ``polars`` and Polars is not installed.
        OSError: The file does not exist or cannot be read.
        InvalidValue: The file is damaged or is not a Parquet file, or ``as_`` is invalid.

    >>> client.state_frame().to_parquet(folder / "state.parquet")
    >>> read_parquet(folder / "state.parquet", as_="arrow").num_rows
    4
    """
    import_locked(table_module(as_))
    requested = None if columns is None else list(columns)
    try:
        table = pq.read_table(file, columns=requested, page_checksum_verification=True)
        # Arrow would follow the offsets of a damaged file and read outside its memory.
        table.validate(full=True)
        return _in_form(table, as_)
    except FileNotFoundError:
        raise
    except OSError as exc:
        # Arrow reports damage as an OSError without an error number.
        if exc.errno is not None:
            raise
        raise _damaged(file, exc) from exc
    except (pa.ArrowException, LookupError, TypeError, ValueError) as exc:
        raise _damaged(file, exc) from exc


def _in_form(table: pa.Table, as_: TableFormat) -> pd.DataFrame | ArrowTable | pl.DataFrame:
    if as_ == "pandas":
        return from_arrow(table)
    if as_ == "polars":
        from mirror_sdk.arrow_tables.polars_frames import polars_frame

        return polars_frame(table)
    metadata = metadata_of_table(table)
    result: ArrowTable = with_metadata(table, metadata) if metadata else table
    return result


def _damaged(file: str | PathLike[str], problem: Exception) -> InvalidValue:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return InvalidValue(f"{file} is damaged, or not a Parquet file ({reason}); write it again")
