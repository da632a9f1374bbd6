"""Tables to Arrow and Parquet and back, with what they are based on."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirror_sdk.errors import ValueRefused
from mirror_sdk.frames.columns import category_dtype, has_no_categories
from mirror_sdk.frames.drift import DRIFT_SCHEMA
from mirror_sdk.frames.events import EVENTS_SCHEMA
from mirror_sdk.frames.requests import REQUESTS_SCHEMA
from mirror_sdk.frames.stale import STALE_SCHEMA
from mirror_sdk.frames.state import DIRECTORY_SCHEMA, STATE_SCHEMA

_CATEGORIES = {
    field.name: category_dtype(field)
    for schema in (STATE_SCHEMA, EVENTS_SCHEMA, REQUESTS_SCHEMA, DRIFT_SCHEMA, DIRECTORY_SCHEMA, STALE_SCHEMA)
    for field in schema
    if pa.types.is_dictionary(field.type)
}


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


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """The frame a table was made from, with its ``attrs``."""
    frame: pd.DataFrame = table.to_pandas()
    for name, dtype in _CATEGORIES.items():
        # Arrow forgets the categories of a column without any value.
        if name in frame and (frame[name].dtype == object or has_no_categories(frame[name].dtype)):
            frame[name] = frame[name].astype(dtype)
    return frame


def read_parquet(file: str | PathLike[str], *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """The table that ``frame.to_parquet(file)`` wrote, with its types and ``attrs``.

    Args:
        file: The file, or the folder of a dataset.
        columns: Only these columns; ``None`` reads all.

    Raises:
        OSError: There is no such file.
        ValueRefused: It is no Parquet file, or a damaged one.
    """
    wanted = None if columns is None else list(columns)
    try:
        table = pq.read_table(file, columns=wanted, page_checksum_verification=True)
        table.validate(full=True)
        return from_arrow(table)
    except FileNotFoundError:
        raise
    except OSError as exc:
        # Arrow tells of damage without a number.
        if exc.errno is not None:
            raise
        raise _damaged(file, exc) from exc
    except (pa.ArrowException, LookupError, TypeError, ValueError) as exc:
        raise _damaged(file, exc) from exc


def _damaged(file: str | PathLike[str], problem: Exception) -> ValueRefused:
    reason = str(problem).partition("\n")[0] or type(problem).__name__
    return ValueRefused(f"{file} is damaged, or no Parquet file ({reason}); write it anew")
