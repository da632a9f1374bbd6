"""The table of a snapshot, with its metadata and its refresh."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk._warnings import warn
from mirror_sdk.arrow_tables.device_batches import concatenated, reencoded
from mirror_sdk.errors import APIError, InvalidValue, SnapshotWarning
from mirror_sdk.snapshot.device_selection import Selection
from mirror_sdk.snapshot.snapshot_reader import SnapshotResult
from mirror_sdk.snapshot.snapshot_request import SnapshotRequest
from mirror_sdk.table_formats import to_pandas
from mirror_sdk.wire.snapshot import REVISION_BEYOND_MIRROR

if TYPE_CHECKING:
    import pandas as pd


def snapshot_tables(
    request: SnapshotRequest, result: SnapshotResult, tables: list[pa.Table]
) -> tuple[list[pa.Table], dict[str, object]]:
    """Return the chunks of the state table, of which there is at least one, and its metadata."""
    metadata = snapshot_metadata(request, result, sum(table.num_rows for table in tables))
    return tables or [concatenated([], raw=request.raw)], metadata


def snapshot_metadata(request: SnapshotRequest, result: SnapshotResult, rows: int) -> dict[str, object]:
    """Return the metadata of a table, for ``attrs["mirror"]``."""
    return {
        "taken_at": result.taken_at,
        "devices": result.device_count,
        "complete": True,
        "server": request.server,
        "one_instant": result.revision is not None or request.as_of is not None,
        "seq": result.seq,
        "revision": result.revision,
        "rows": rows,
        "selection": request.selection.to_metadata(),
    }


def request_since(frame: pd.DataFrame, *, server: str) -> SnapshotRequest:
    """Return the request for the changes since a table was fetched.

    Raises:
        InvalidValue: The table is not a complete snapshot.
    """
    metadata = frame.attrs.get("mirror", {})
    selection = metadata.get("selection")
    if selection is None:
        raise InvalidValue(
            "the table has no metadata of a snapshot; refresh the table that client.fleet.snapshot() returned, and join"
            " or change it afterwards. If pandas dropped the metadata, frame.mirror.with_metadata_from(snapshot)"
            " restores it"
        )
    if len(frame) != metadata.get("rows"):
        raise InvalidValue(
            f"the table has {len(frame)} rows and the snapshot had {metadata.get('rows')}; refresh the complete table,"
            " then select from it"
        )
    if {"device_id", "path"} <= set(frame.columns) and frame.duplicated(["device_id", "path"]).any():
        raise InvalidValue(
            "the table has several rows for a resource, so it cannot be refreshed; pass the table that"
            " client.fleet.snapshot() returned"
        )
    try:
        return SnapshotRequest(
            selection=Selection(**selection),
            server=server,
            raw="reported_raw" in frame,
            # A table without times is refreshed in UTC.
            tz=str(frame["reported_at"].dt.tz) if "reported_at" in frame else "UTC",
            # If the table has lost columns, all rows are fetched again.
            revision=metadata["revision"] if _has_all(frame) else None,
        )
    except (AttributeError, LookupError, TypeError) as exc:
        raise InvalidValue(f"the metadata of the table is damaged ({exc!r}); request a new snapshot") from exc


def _has_all(frame: pd.DataFrame) -> bool:
    return set(concatenated([], raw="reported_raw" in frame).column_names) <= set(frame.columns)


def full_request(request: SnapshotRequest, error: APIError) -> SnapshotRequest:
    """Return the request for the complete table if the service does not recognize the revision.

    Raises:
        APIError: The argument ``error``, if the service reported a different error.
    """
    if error.reason != REVISION_BEYOND_MIRROR:
        raise error
    warn(
        f"the table comes from another mirror ({error.message}), so all rows are fetched again",
        SnapshotWarning,
    )
    return replace(request, revision=None)


def refreshed(
    frame: pd.DataFrame, request: SnapshotRequest, result: SnapshotResult, tables: list[pa.Table]
) -> pd.DataFrame:
    """Return the table that a new snapshot would have returned.

    The list of tables is emptied to save memory.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    merged, metadata = snapshot_tables(request, result, _merged(frame, request, result, tables))
    return to_pandas(merged, metadata, tz=request.tz)


def _merged(
    frame: pd.DataFrame, request: SnapshotRequest, result: SnapshotResult, tables: list[pa.Table]
) -> list[pa.Table]:
    """Return the rows of a new snapshot, from an earlier table and the devices that have changed since then."""
    if request.revision is None or result.revision is None:
        return tables
    table = concatenated(tables, raw=request.raw)
    before = pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False)
    unchanged = before.filter(pc.is_in(before["device_id"], pa.array(sorted(result.unchanged), pa.string())))
    rows = pa.concat_tables([unchanged, table]).unify_dictionaries()
    # Each device is in only one of the two tables, with its rows in order.
    return [reencoded(rows.take(pc.sort_indices(rows["device_id"].cast(pa.string()))))]
