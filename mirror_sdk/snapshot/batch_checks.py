"""Checks of the batches of a snapshot, which run before anything is computed with them.

Arrow follows any offsets and indices of a batch, even beyond its memory. Therefore Arrow's own full validation runs
first.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import INSTANT, STREAM_TYPES
from mirror_sdk.arrow_tables.state import STATE_COLUMNS
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.paths import parse_path
from mirror_sdk.wire.snapshot import Part, streamed_columns

# Each key needs one byte. Larger keys are sorted instead.
_MOST_FLAGS = 64 * 1024 * 1024
_FIRST_MILLISECOND, _LAST_MILLISECOND = -62_135_596_800_000, 253_402_300_799_999
"""The first millisecond of the year 1 and the last millisecond of the year 9999, counted from 1970."""
LAST_REVISION = 2**63 - 1
"""The largest revision of the mirror."""


def _of(*parts: Part) -> list[tuple[str, pa.DataType]]:
    return [(column.name, STREAM_TYPES[column.kind]) for column in streamed_columns(*parts)]


COLUMNS = pa.schema(
    [
        ("device_id", pa.string()),
        ("endpoint_name", pa.string()),
        ("resources", pa.list_(pa.struct(_of("resource", "reported")))),
        ("desired", pa.list_(pa.struct([("resource", pa.int32()), *_of("desired")]))),
    ]
)
"""The columns that are read. A service may send additional columns."""

_ADDED = {column.source for column in STATE_COLUMNS if column.since}
_EXTENSIONS = {column.name for column in streamed_columns("reported", "desired") if column.source in _ADDED}
"""The columns that an older service does not send."""


class ContractError(ValueError):
    """A response that violates the interface."""


def require_columns(schema: pa.Schema, columns: pa.Schema) -> None:
    """Check that a stream has these columns. It may have additional columns.

    Raises:
        ContractError: A column is missing, occurs twice, or has another type.
    """
    for field in columns:
        found = schema.get_all_field_indices(field.name)
        if len(found) != 1:
            count = "several columns" if found else "no column"
            raise ContractError(f"it has {count} {field.name!r}; exactly one of type {field.type} is required")
        if not _is_like(schema.field(found[0]).type, field.type):
            raise ContractError(
                f"its column {field.name!r} has the type {schema.field(found[0]).type}; {field.type} is required"
            )


def require_paths(paths: Iterable[str]) -> None:
    """Check that all strings are resource paths.

    Raises:
        ContractError: A path is invalid.
    """
    for path in paths:
        try:
            parse_path(path)
        except ValueError as exc:
            raise ContractError(str(exc)) from None


def require_all(name: str, column: pa.Array) -> None:
    """Check that a column has no nulls.

    Raises:
        ContractError: A cell is missing.
    """
    if column.null_count:
        raise ContractError(f"{column.null_count} of {name} are missing")


def require_instants(name: str, column: pa.Array) -> None:
    """Check that all times are in the years 1 to 9999.

    Raises:
        ContractError: A time is outside these years.
    """
    require_between(name, column.cast(pa.int64()), _FIRST_MILLISECOND, _LAST_MILLISECOND)


def require_between(name: str, column: pa.Array, lowest: int | None, highest: int | None) -> None:
    """Check that numbers are within inclusive bounds. ``None`` means that there is no bound.

    Raises:
        ContractError: A number is out of bounds.
    """
    if column.null_count == len(column):
        return
    found = pc.min_max(column).as_py()
    if (lowest is not None and found["min"] < lowest) or (highest is not None and found["max"] > highest):
        raise ContractError(f"{name} ranges from {found['min']} to {found['max']}; {lowest} to {highest} is allowed")


def checked(batch: pa.RecordBatch, *, may_be_unchanged: bool, is_past: bool) -> pa.RecordBatch:
    """Check a batch and return the columns to read.

    Args:
        batch: The batch.
        may_be_unchanged: Whether devices without resources count as unchanged devices.
        is_past: Whether the batch shows an earlier time, for which ``subscribed`` is unknown.

    Raises:
        ContractError: The batch contradicts itself, or a member is missing.
        pyarrow.ArrowInvalid: The batch is damaged.
    """
    batch.validate(full=True)
    if not batch.num_rows:
        # The validation skips the offsets of an empty batch.
        return pa.RecordBatch.from_pylist([], schema=COLUMNS)
    batch = batch.select(COLUMNS.names)
    require_all("device_id", batch.column("device_id"))
    lists = batch.column("resources")
    if lists.null_count and not may_be_unchanged:
        raise ContractError("the response has unchanged devices, but the request was not a refresh")
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    _check_resources(lists.flatten(), counts, is_past=is_past)
    _check_desired(batch.column("desired"), counts)
    return batch


def _check_resources(resources: pa.StructArray, counts: np.ndarray, *, is_past: bool) -> None:
    path = resources.field("path")
    for name, column in (("resources", resources), ("path", path)):
        require_all(name, column)
    if not is_past:
        require_all("subscribed", resources.field("subscribed"))
    words = path.dictionary
    require_all("path", words)
    if len(words.unique()) != len(words):
        raise ContractError("a path is in the dictionary twice")
    require_paths(words.to_pylist())
    _require_paths_once(path.indices.to_numpy(), counts, len(words))
    _check_members(resources)


def _require_paths_once(indices: np.ndarray, counts: np.ndarray, word_count: int) -> None:
    begins = np.cumsum(counts) - counts
    # There is one additional element, because a last device without resources begins after the last index.
    is_rising = np.ones(len(indices) + 1, np.bool_)
    np.greater(indices[1:], indices[:-1], out=is_rising[1:-1])
    is_rising[begins] = True
    # The indices rise within each device if the dictionary has the order of a device with all paths.
    if not is_rising.all():
        devices = np.repeat(np.arange(len(counts)), counts)
        _require_once("a resource of a device", devices * word_count + indices)


def _check_desired(lists: pa.ListArray, counts: np.ndarray) -> None:
    desired = lists.flatten()
    if not len(desired):
        return
    resource = desired.field("resource")
    require_all("desired", desired)
    require_all("resource", resource)
    own = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    positions = resource.to_numpy().astype(np.int64)
    if ((positions < 0) | (positions >= np.repeat(counts, own))).any():
        raise ContractError("a desired value belongs to a resource that is missing")
    _require_once("the desired value of a resource", np.repeat(np.cumsum(counts) - counts, own) + positions)
    require_between("desired_status", desired.field("desired_status"), min(DesiredStatus), max(DesiredStatus))
    _check_members(desired)


def _check_members(struct: pa.StructArray) -> None:
    """Check the times and numbers of reported or desired values.

    A service may omit some members and send others.
    """
    for field in struct.type:
        if field.type == INSTANT:
            require_instants(field.name, struct.field(field.name))
        elif field.type == pa.int64():
            require_between(field.name, struct.field(field.name), 0, LAST_REVISION)


def _require_once(subject: str, keys: np.ndarray) -> None:
    if not len(keys):
        return
    if keys.max() < _MOST_FLAGS:
        # Sorting the keys would take a third of the time that is needed to read a snapshot.
        is_there = np.zeros(keys.max() + 1, np.bool_)
        is_there[keys] = True
        count = int(np.count_nonzero(is_there))
    else:
        count = len(np.unique(keys))
    if count != len(keys):
        raise ContractError(f"{subject} was sent twice")


def _is_like(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether a type has all expected fields exactly once, each with the expected type.

    A struct may have additional fields, and may lack the fields that older services do not send.
    """
    if pa.types.is_list(expected) and pa.types.is_list(found):
        return _is_like(found.value_type, expected.value_type)
    if pa.types.is_struct(expected) and pa.types.is_struct(found):
        return all(
            (len(at := found.get_all_field_indices(field.name)) == 1 or (field.name in _EXTENSIONS and not at))
            and all(_is_like(found.field(index).type, field.type) for index in at)
            for field in expected
        )
    return bool(found == expected)
