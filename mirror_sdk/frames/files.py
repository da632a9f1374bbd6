"""Tables to Arrow and Parquet and back, with what they are based on."""

from __future__ import annotations

from os import PathLike

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mirror_sdk.frames.drift import DRIFT_SCHEMA
from mirror_sdk.frames.events import EVENTS_SCHEMA
from mirror_sdk.frames.requests import REQUESTS_SCHEMA
from mirror_sdk.frames.state import DIRECTORY_SCHEMA, STATE_SCHEMA

_CATEGORIES = frozenset(
    field.name
    for schema in (STATE_SCHEMA, EVENTS_SCHEMA, REQUESTS_SCHEMA, DRIFT_SCHEMA, DIRECTORY_SCHEMA)
    for field in schema
    if pa.types.is_dictionary(field.type)
)


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """The table for Arrow; its metadata hold ``attrs``, as those of ``frame.to_parquet(file)`` do."""
    return pa.Table.from_pandas(frame)


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """The frame a table was made from, with its ``attrs``."""
    frame: pd.DataFrame = table.to_pandas()
    # Arrow forgets that a column without any value had categories.
    lost = [str(name) for name in frame if name in _CATEGORIES and frame[name].dtype == object]
    return frame.astype(dict.fromkeys(lost, "category"))


def read_parquet(file: str | PathLike[str]) -> pd.DataFrame:
    """The table that ``frame.to_parquet(file)`` wrote, with its types and ``attrs``.

    Raises:
        OSError: There is no such file.
        pyarrow.ArrowInvalid: It is no Parquet file.
    """
    return from_arrow(pq.read_table(file, page_checksum_verification=True))
