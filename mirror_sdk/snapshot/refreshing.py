"""A table brought up to date: the rows of unchanged devices stay, all others are those that were taken anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk._caller import warn
from mirror_sdk.errors import APIError, SnapshotWarning
from mirror_sdk.frames.device_batches import joined, recoded
from mirror_sdk.snapshot.reading import Taken
from mirror_sdk.snapshot.request import SnapshotRequest
from mirror_sdk.wire.snapshot import REVISION_BEYOND_MIRROR

if TYPE_CHECKING:
    import pandas as pd


def whole(request: SnapshotRequest, error: APIError) -> SnapshotRequest:
    """The request for all of it, where the service does not know the table's revision.

    Raises:
        APIError: The refusal itself, where it is another one.
    """
    if error.reason != REVISION_BEYOND_MIRROR:
        raise error
    warn(
        f"the mirror is not the one the table was taken of ({error.message}), so all of it is taken again",
        SnapshotWarning,
    )
    return replace(request, revision=None)


def refreshed(frame: pd.DataFrame, request: SnapshotRequest, taken: Taken, tables: list[pa.Table]) -> pd.DataFrame:
    """The table that a whole snapshot would have given; what was taken of it is used up by this.

    Raises:
        ValueRefused: ``tz`` is no time zone.
    """
    return request.frame(taken, _merged(frame, request, taken, tables))


def _merged(frame: pd.DataFrame, request: SnapshotRequest, taken: Taken, tables: list[pa.Table]) -> list[pa.Table]:
    """The rows a whole snapshot would have given, from an earlier table and those of what has changed since."""
    if request.revision is None or taken.revision is None:
        return tables
    table = joined(tables, raw=request.raw)
    schema = table.schema
    plain = pa.schema([field.with_type(pa.string()) if _is_word(field) else field for field in schema])
    words = {field.name: object for field in schema if _is_word(field)}
    before = pa.Table.from_pandas(frame.astype(words), schema=plain, preserve_index=False)
    kept = before.filter(pc.is_in(before["device_id"], pa.array(sorted(taken.unchanged), pa.string())))
    rows = pa.concat_tables([kept, table.cast(plain)])
    # Each device is in one of the two only, with its rows in order.
    ordered = rows.take(pc.sort_indices(rows["device_id"]))
    return [recoded(ordered.cast(schema))]


def _is_word(field: pa.Field) -> bool:
    return pa.types.is_dictionary(field.type) and not field.metadata
