"""Conversion of tables to devices and resources, so that methods accept tables as arguments.

A table is a pandas DataFrame or any object that exports its rows through the Arrow interface, such as a pyarrow Table
or a Polars DataFrame.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

from mirror_sdk._fork import import_locked
from mirror_sdk._warnings import warn
from mirror_sdk.errors import EmptyTableWarning, InvalidValue, MirrorError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from typing_extensions import TypeIs

DEVICE, PATH, REVISION = "device_id", "path", "desired_revision"
ResourceKey = tuple[str, str]
"""A resource of a device: the device id and the resource path."""
_MAX_LISTED = 10


class DeviceTable(Protocol):
    """A table with a column ``device_id``: a pandas or Polars DataFrame, or a pyarrow Table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows through the Arrow C stream interface."""


def is_table(value: object) -> TypeIs[DeviceTable]:
    """Return whether an object is a table. A single column is not a table."""
    return hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns")


def device_ids(table: DeviceTable, argument: str) -> list[str]:
    """Return the distinct device ids in the rows of a table, in the order of their first rows.

    Args:
        table: A table with a column or an index ``device_id``.
        argument: The name of the caller's argument, for errors.

    Raises:
        InvalidValue: The table has no such column, or a row has no device.
    """
    return [device for (device,) in _distinct(table, (DEVICE,), argument)]


def resource_keys(table: DeviceTable, path: str | None, argument: str) -> list[ResourceKey]:
    """Return the distinct resources in the rows of a table. ``path`` replaces the paths of the rows.

    The function raises the same errors as :func:`device_ids`.
    """
    if path is not None:
        return [(device, path) for device in device_ids(table, argument)]
    return [(device, each) for device, each in _distinct(table, (DEVICE, PATH), argument)]


def desired_revisions(table: DeviceTable, path: str | None, argument: str) -> dict[ResourceKey, int]:
    """Return the newest revision of the desired value for each resource in a table, or 0 if a row has no revision.

    The result is empty if the table has no column ``desired_revision``.

    Raises:
        InvalidValue: A revision is not a whole number.
    """
    frame = _with_columns(table, (DEVICE, PATH, REVISION))
    if REVISION not in frame.columns:
        return {}
    found = dict.fromkeys(resource_keys(frame, path, argument), 0)
    if PATH not in frame.columns:
        frame = frame.assign(**{PATH: path})
    rows = _columns(frame, (DEVICE, PATH, REVISION), argument).dropna()
    for device, each, revision in rows.astype(object).to_numpy().tolist():
        if path in {None, each}:
            found[device, each] = max(found[device, each], revision_in(revision, argument))
    return found


def revision_in(cell: Any, argument: str) -> int:
    """Return the revision in a cell. pandas converts integers to floats in a column with missing values.

    Raises:
        InvalidValue: The cell is not a revision, or is a float that may have been rounded.
    """
    is_exact = isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53
    if is_exact or (not isinstance(cell, bool) and isinstance(cell, Integral)):
        return int(cell)
    raise InvalidValue(
        f"{argument}: the column {REVISION} contains {cell!r}, which is not a revision; if you read the table from a"
        f' text file, convert the column with table["{REVISION}"] = pd.to_numeric(table["{REVISION}"]).astype("Int64")'
    )


def warn_if_empty(named: Sequence[object], argument: str) -> None:
    """Warn if a table that was passed as an argument has no rows.

    Warns:
        EmptyTableWarning: The table has no rows.
    """
    if not named:
        warn(
            f"{argument}: the table has no rows, so it selects no device; check the filter of the table",
            EmptyTableWarning,
        )


def raise_first(named: Sequence[ResourceKey], errors: Sequence[MirrorError | None]) -> None:
    """Raise the first of the errors, with a note that lists all resources of the table that failed.

    Raises:
        MirrorError: At least one of the errors is not ``None``.
    """
    failed = [(key, error) for key, error in zip(named, errors, strict=True) if error is not None]
    if not failed:
        return
    lines = [f"{path} of {device}: {error}" for (device, path), error in failed[:_MAX_LISTED]]
    first = failed[0][1]
    first.add_note(
        f"{len(failed)} of {len(named)} resources were rejected, and the call succeeded for the others:"
        f" {'; '.join(lines)}"
    )
    raise first


def named_rows(table: DeviceTable, names: Sequence[str], argument: str) -> pd.DataFrame:
    """Return these columns or index levels of all rows. Each cell must be a string.

    The function raises the same errors as :func:`device_ids`.
    """
    columns = _columns(table, names, argument)
    for name in names:
        _check_texts(columns[name].drop_duplicates(), argument)
    return columns


def _distinct(table: DeviceTable, names: Sequence[str], argument: str) -> Sequence[Sequence[str]]:
    rows = named_rows(table, names, argument).drop_duplicates()
    found: Sequence[Sequence[str]] = rows.astype(object).to_numpy().tolist()
    return found


def _columns(table: DeviceTable, names: Sequence[str], argument: str) -> pd.DataFrame:
    """Return a table with only these columns or index levels."""
    frame = _with_columns(table, names)
    for name in names:
        count = list(frame.columns).count(name)
        if count != 1:
            found = "no column" if count == 0 else f"{count} columns"
            raise InvalidValue(
                f"{argument}: the table has {found} {name}; pass a table with a column or an index {name}"
            )
    return frame[list(names)]


def _with_columns(table: DeviceTable, names: Sequence[str]) -> pd.DataFrame:
    """Return the table as a pandas DataFrame, with index levels of these names as columns."""
    import_locked("pandas", "pyarrow")
    import pandas as pd
    import pyarrow as pa

    frame = table if isinstance(table, pd.DataFrame) else _of_arrow(pa.table(table), names)
    indices = [name for name in names if name not in frame.columns and name in frame.index.names]
    return frame.reset_index(level=indices) if indices else frame


def _of_arrow(table: pa.Table, names: Sequence[str]) -> pd.DataFrame:
    """Convert only these columns of an Arrow table, because others may have types that pandas does not support."""
    chosen = [name for name in table.column_names if name in names]
    # Without this option, integers in a column with missing values would become floats, which lose digits above 2**53.
    frame: pd.DataFrame = table.select(chosen).to_pandas(integer_object_nulls=True)
    return frame


def _check_texts(column: pd.Series, argument: str) -> None:
    name = column.name
    if column.isna().any():
        raise InvalidValue(
            f"{argument}: a row of the table has no {name}; table.dropna(subset=[{name!r}]) leaves such rows out"
        )
    wrong = next((one for one in column if not isinstance(one, str)), None)
    if wrong is not None:
        raise InvalidValue(f"{argument}: {name} of a row is {wrong!r}, not a string; convert the column to strings")
