"""Conversion of tables to Arrow and Parquet and back, with their metadata."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, overload

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirror_sdk._arguments import Form, module_for
from mirror_sdk._fork import import_locked
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import category_dtype, has_no_categories, to_frame
from mirror_sdk.frames.drift import DRIFT_SCHEMA
from mirror_sdk.frames.requests import REQUESTS_SCHEMA
from mirror_sdk.frames.stale import STALE_SCHEMA
from mirror_sdk.tables.arrow_types import ArrowStream, ArrowTable
from mirror_sdk.tables.columns import metadata_of_table, with_metadata
from mirror_sdk.tables.device_events import DEVICE_EVENTS_SCHEMA
from mirror_sdk.tables.events import EVENTS_SCHEMA
from mirror_sdk.tables.history import HISTORY_SCHEMA
from mirror_sdk.tables.state import DIRECTORY_SCHEMA, STATE_SCHEMA

if TYPE_CHECKING:
    import polars as pl


def _categories_of(*schemas: pa.Schema) -> dict[str, pd.CategoricalDtype]:
    fields = (field for schema in schemas for field in schema if pa.types.is_dictionary(field.type))
    return {field.name: category_dtype(field) for field in fields}


_CATEGORIES = _categories_of(STATE_SCHEMA, EVENTS_SCHEMA, REQUESTS_SCHEMA, DRIFT_SCHEMA, DIRECTORY_SCHEMA, STALE_SCHEMA)
_OF_TABLES_WITH = {"origin": _categories_of(HISTORY_SCHEMA), "event_id": _categories_of(DEVICE_EVENTS_SCHEMA)}
"""The categories of tables that have a column of this name, and others under a name that other tables have too."""


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """The table for Arrow; its metadata hold ``attrs``, as those of ``frame.to_parquet(file)`` do."""
    table = pa.Table.from_pandas(frame)
    for place, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            table = table.set_column(place, field, _without_lowest(table[place]))
    return table


def _without_lowest(spans: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same spans. pandas leaves its lowest number under a null, and DuckDB computes with it."""
    zero, missing = pa.scalar(0, spans.type), pa.scalar(None, spans.type)
    return pc.if_else(pc.is_valid(spans), pc.fill_null(spans, zero), missing)


def from_arrow(table: ArrowStream) -> pd.DataFrame:
    """The frame a table was made from, or that the same columns make, with ``attrs`` where the table tells them.

    A table of ``as_="arrow"`` tells them, and so does one of :func:`to_arrow`; a frame of Polars tells none.

    >>> table = client.state_frame(as_="arrow")
    >>> frame = from_arrow(table)
    >>> frame.attrs == client.state_frame().attrs
    True
    """
    whole = pa.table(table)
    is_of_pandas = b"pandas" in (whole.schema.metadata or {})
    frame: pd.DataFrame = whole.to_pandas() if is_of_pandas else to_frame(whole, metadata_of_table(whole))
    categories = next((own for name, own in _OF_TABLES_WITH.items() if name in frame), _CATEGORIES)
    for name, dtype in categories.items():
        # Arrow forgets the categories of a column without any value.
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
    file: str | PathLike[str], *, columns: Sequence[str] | None = None, as_: Form = "pandas"
) -> pd.DataFrame | ArrowTable | pl.DataFrame:
    """The table in a Parquet file, with its types and what it is based on, whichever form it was written from.

    Args:
        file: The file, or the folder of a dataset.
        columns: Only these columns; ``None`` reads all.
        as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

    Raises:
        ImportError: ``as_="polars"`` and Polars is not installed.
        OSError: There is no such file.
        InvalidValue: It is not a Parquet file, or a damaged one, or there is no such form.

    >>> client.state_frame().to_parquet(folder / "state.parquet")
    >>> read_parquet(folder / "state.parquet", as_="arrow").num_rows
    4
    """
    import_locked(module_for(as_))
    wanted = None if columns is None else list(columns)
    try:
        table = pq.read_table(file, columns=wanted, page_checksum_verification=True)
        table.validate(full=True)
        return _in_form(table, as_)
    except FileNotFoundError:
        raise
    except OSError as exc:
        # Arrow tells of damage without a number.
        if exc.errno is not None:
            raise
        raise _damaged(file, exc) from exc
    except (pa.ArrowException, LookupError, TypeError, ValueError) as exc:
        raise _damaged(file, exc) from exc


def _in_form(table: pa.Table, as_: Form) -> pd.DataFrame | ArrowTable | pl.DataFrame:
    if as_ == "pandas":
        return from_arrow(table)
    if as_ == "polars":
        from mirror_sdk.tables.polars_frames import polars_frame

        return polars_frame(table)
    metadata = metadata_of_table(table)
    told: ArrowTable = with_metadata(table, metadata) if metadata else table
    return told


def _damaged(file: str | PathLike[str], problem: Exception) -> InvalidValue:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return InvalidValue(f"{file} is damaged, or no Parquet file ({reason}); write it again")
