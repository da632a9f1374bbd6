"""Conversion of the tables of :mod:`mirror_sdk.arrow_tables` to pandas, and checks of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike
from mirror_sdk.arrow_tables.columns import INSTANT, categories_of, moment, to_table
from mirror_sdk.errors import InvalidValue

_INSTANT = pd.DatetimeTZDtype("ms", "UTC")
_PANDAS_DTYPES: Mapping[pa.DataType, object] = {
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype(),
    pa.large_string(): pd.StringDtype(),
    pa.string_view(): pd.StringDtype(),
    INSTANT: _INSTANT,
}
_MASKED: Mapping[pa.DataType, Any] = {
    pa.int16(): pd.arrays.IntegerArray,
    pa.int32(): pd.arrays.IntegerArray,
    pa.int64(): pd.arrays.IntegerArray,
    pa.float64(): pd.arrays.FloatingArray,
    pa.bool_(): pd.arrays.BooleanArray,
}
_WORDS = pd.CategoricalDtype(pd.Index(["a text that sets the type"])[:0])


def build(
    columns: Mapping[str, Sequence[object]], schema: pa.Schema, *, tz: str | None = None, **metadata: object
) -> pd.DataFrame:
    """Build the DataFrame of a schema, with its metadata in ``attrs["mirror"]``.

    Raises:
        InvalidValue: The time zone does not exist.
    """
    return to_frame(to_table(columns, schema), metadata, tz=tz)


def shared_metadata(frame: pd.DataFrame) -> dict[str, object]:
    """Return the part of the metadata that also applies to a table derived from this one."""
    metadata = frame.attrs.get("mirror", {})
    return {name: metadata[name] for name in ("taken_at", "devices", "complete", "server") if name in metadata}


def plain(value: Any) -> object:
    """Convert a pandas cell, such as a time of any resolution, to a value that Arrow accepts."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta()
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) else value


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the named levels of its index as columns, for example for a wide table.

    A level that already exists as a column is not added again.
    """
    levels = range(frame.index.nlevels)
    doubled = [level for level in levels if _is_column(frame, frame.index.get_level_values(level))]
    if doubled:
        frame = frame.reset_index(doubled, drop=True)
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


def _is_column(frame: pd.DataFrame, level: pd.Index) -> bool:
    """Return whether a level of the index is also a column, as after ``set_index(..., drop=False)``."""
    name = level.name
    return name is not None and sum(one == name for one in frame.columns) == 1 and level.equals(pd.Index(frame[name]))


def to_frame(table: pa.Table, metadata: Mapping[str, object], *, tz: str | None = None) -> pd.DataFrame:
    """Convert a table with one of the schemas to a DataFrame.

    Args:
        table: The table.
        metadata: The metadata, for ``attrs["mirror"]``.
        tz: The time zone of the time columns.

    Raises:
        InvalidValue: The time zone does not exist.
    """
    return frame_of(dict(zip(table.column_names, table.columns, strict=True)), metadata, tz=tz)


def frame_of(
    columns: dict[str, pa.ChunkedArray], metadata: Mapping[str, object], *, tz: str | None = None
) -> pd.DataFrame:
    """Build a DataFrame like :func:`to_frame`, but release the columns of the table one by one.

    This way, there are never two copies of all columns.

    Raises:
        InvalidValue: The time zone does not exist.
    """
    # The columns are arrays, because pandas would compare the indices of series.
    frame = pd.DataFrame({name: _array(columns.pop(name)) for name in tuple(columns)}, copy=False)
    if metadata:
        frame.attrs["mirror"] = dict(metadata)
    return frame if tz is None else in_zone(frame, tz)


def _array(column: pa.ChunkedArray) -> pd.api.extensions.ExtensionArray:
    """Convert a column, with fewer copies than pandas makes."""
    array: pd.api.extensions.ExtensionArray
    if column.type == INSTANT and column.null_count == len(column):
        # pandas would check each value, which is slower.
        return pd.array(np.full(len(column), "NaT", "datetime64[ms]"), dtype=_INSTANT, copy=False)
    if pa.types.is_dictionary(column.type):
        # The default pool of Arrow does not release megabytes of temporary memory.
        column = column.unify_dictionaries(memory_pool=pa.system_memory_pool())
        if pa.types.is_string(column.type.value_type):
            return _categorical(column.combine_chunks())
    if column.type in _MASKED:
        cells = column.combine_chunks()
        values = _cells(cells, column.type.to_pandas_dtype(), 0)
        # pandas decides whether NaN is a missing value.
        if values.dtype != np.float64 or not np.isnan(values).any():
            array = _MASKED[column.type](values, cells.is_null().to_numpy(zero_copy_only=False))
            return array
    series: pd.Series = column.to_pandas(types_mapper=_PANDAS_DTYPES.get, maps_as_pydicts="strict")
    # Empty categories all get the same dtype, so that tables can be concatenated.
    array = series.array
    return pd.Categorical(array, dtype=_WORDS) if has_no_categories(series.dtype) else array


def _categorical(column: pa.DictionaryArray) -> pd.Categorical:
    words = column.dictionary.to_pandas()
    dtype = pd.CategoricalDtype(pd.Index(words), ordered=column.type.ordered) if len(words) else _WORDS
    # Polars writes unsigned indices, which cannot be -1.
    indices = column.indices.cast(pa.int32())
    # pandas would copy codes of another integer width.
    return pd.Categorical.from_codes(_cells(indices, np.min_scalar_type(-len(words) - 2), -1), dtype=dtype)


def _cells(column: pa.Array, dtype: npt.DTypeLike, filler: int) -> npt.NDArray[Any]:
    """Copy the cells of a column, and replace missing cells by the filler."""
    if column.null_count == len(column):
        # The operating system does not allocate pages of zeros until they are used.
        return np.full(len(column), filler, dtype) if filler else np.zeros(len(column), dtype)
    present = column.fill_null(pa.scalar(filler).cast(column.type)) if column.null_count else column
    cells: npt.NDArray[Any] = present.to_numpy(zero_copy_only=False).astype(dtype)
    return cells


def in_zone(frame: pd.DataFrame, tz: str) -> pd.DataFrame:
    """Return the table with its times in another time zone, such as ``Europe/Berlin``.

    Raises:
        InvalidValue: The time zone does not exist.
    """
    times = [name for name, column in frame.items() if _has_zone(column)]
    try:
        return frame.assign(**{str(name): frame[name].dt.tz_convert(tz) for name in times})
    except (KeyError, IndexError, ValueError, OSError) as exc:
        raise InvalidValue(f"tz={tz!r} is not a time zone; write one like 'Europe/Berlin'") from exc


_LOST = (
    "the table has no instant in its metadata: pandas drops attrs when it merges, joins or pivots. Restore them with"
    " frame.mirror.with_metadata_from(original), or join with original.mirror.join(other, on=...). Or"
    ' pass now= from the mirror\'s clock, such as now=pd.Timestamp(original.attrs["mirror"]'
    '["taken_at"]) or now=client.get_device(device_id).created_at'
)


def taken_at(frame: pd.DataFrame) -> datetime:
    """Return the timestamp of a table, by the mirror's clock.

    Raises:
        InvalidValue: The metadata of the table do not contain a timestamp.
    """
    instant: str | None = frame.attrs.get("mirror", {}).get("taken_at")
    if instant is None:
        raise InvalidValue(_LOST)
    return datetime.fromisoformat(instant)


def reference_instant(frame: pd.DataFrame, now: InstantLike | None) -> str | None:
    """Return the time up to which ages are measured. This is ``now`` or, if it is ``None``, the timestamp of the table.

    An empty table may have no timestamp.

    Raises:
        InvalidValue: ``now`` is not a time or is naive, or the table has rows but no timestamp in its metadata.
    """
    if now is not None:
        return moment("now", now, lambda: taken_at(frame))
    instant: str | None = frame.attrs.get("mirror", {}).get("taken_at")
    if instant is None and len(frame):
        raise InvalidValue(_LOST)
    return instant


def need_times(frame: pd.DataFrame, *names: str) -> None:
    """Check that columns contain times. In a table that was read from a text file, they would contain strings.

    Raises:
        InvalidValue: A column contains other values, or times without a zone; the message says how to fix it.
    """
    for name in names:
        times = frame[name].dropna()
        if len(times) and not _has_zone(times):
            raise InvalidValue(
                f"the column {name} has {times.dtype} instead of times with a zone, perhaps after reading a text file;"
                f' convert it with frame["{name}"] = pd.to_datetime(frame["{name}"], format="ISO8601", utc=True)'
            )


def named_columns(names: Iterable[object]) -> str:
    """Return column names for a message: ``the column a``, or ``the columns a, b``."""
    words = [str(name) for name in names]
    return f"the column{'s' * (len(words) > 1)} {', '.join(words)}"


def _has_zone(column: pd.Series) -> bool:
    """Return whether a column has pandas or Arrow times with a time zone."""
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        # pandas counts Arrow dates as times, and fails when their time zone is read.
        return pa.types.is_timestamp(dtype.pyarrow_dtype) and dtype.pyarrow_dtype.tz is not None
    return isinstance(dtype, pd.DatetimeTZDtype)


def category_dtype(field: pa.Field) -> pd.CategoricalDtype:
    """Return the dtype of a categorical column without values."""
    categories = categories_of(field)
    return pd.CategoricalDtype(categories, ordered=field.type.ordered) if categories else _WORDS


def has_no_categories(dtype: object) -> bool:
    """Return whether a dtype is that of a categorical column without categories."""
    return isinstance(dtype, pd.CategoricalDtype) and not len(dtype.categories)
