"""Frames for pandas out of the tables of :mod:`mirror_sdk.tables`, and what their columns have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike
from mirror_sdk.errors import InvalidValue
from mirror_sdk.tables.columns import INSTANT, categories_of, moment, to_table

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
_WORDS = pd.CategoricalDtype(pd.Index(["a text, of which only the kind stays"])[:0])


def build(
    columns: Mapping[str, Sequence[object]], schema: pa.Schema, *, tz: str | None = None, **metadata: object
) -> pd.DataFrame:
    """The frame of a schema, with what it is based on in ``attrs["mirror"]``.

    Raises:
        InvalidValue: There is no such time zone.
    """
    return to_frame(to_table(columns, schema), metadata, tz=tz)


def basis_of(frame: pd.DataFrame) -> dict[str, object]:
    """What a table made out of another is based on: the same, but for what is true of all its rows together."""
    metadata = frame.attrs.get("mirror", {})
    return {name: metadata[name] for name in ("taken_at", "devices", "complete", "server") if name in metadata}


def plain(value: Any) -> object:
    """A cell of pandas as Arrow takes it, whatever its resolution."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta()
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) else value


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with an index that has a name as a column, such as that of a wide table, unless it is one already."""
    levels = range(frame.index.nlevels)
    doubled = [level for level in levels if _is_column(frame, frame.index.get_level_values(level))]
    if doubled:
        frame = frame.reset_index(doubled, drop=True)
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


def _is_column(frame: pd.DataFrame, level: pd.Index) -> bool:
    """Whether a part of the index is a column of the same name too, as ``set_index(..., drop=False)`` leaves it."""
    name = level.name
    return name is not None and sum(one == name for one in frame.columns) == 1 and level.equals(pd.Index(frame[name]))


def to_frame(table: pa.Table, metadata: Mapping[str, object], *, tz: str | None = None) -> pd.DataFrame:
    """The frame of a table that has one of the schemas.

    Args:
        table: The table.
        metadata: The metadata, for ``attrs["mirror"]``.
        tz: Time zone of the time columns.

    Raises:
        InvalidValue: There is no such time zone.
    """
    return frame_of(dict(zip(table.column_names, table.columns, strict=True)), metadata, tz=tz)


def frame_of(
    columns: dict[str, pa.ChunkedArray], metadata: Mapping[str, object], *, tz: str | None = None
) -> pd.DataFrame:
    """Make a frame like :func:`to_frame`, and release the columns one by one.

    So there are never two copies of all columns.

    Raises:
        InvalidValue: There is no such time zone.
    """
    # Arrays instead of series, whose indices pandas would compare.
    frame = pd.DataFrame({name: _array(columns.pop(name)) for name in tuple(columns)}, copy=False)
    if metadata:
        frame.attrs["mirror"] = dict(metadata)
    return frame if tz is None else in_zone(frame, tz)


def _array(column: pa.ChunkedArray) -> pd.api.extensions.ExtensionArray:
    """Convert a column, with fewer copies than pandas makes."""
    array: pd.api.extensions.ExtensionArray
    if column.type == INSTANT and column.null_count == len(column):
        # Faster, as pandas would look at each of them.
        return pd.array(np.full(len(column), "NaT", "datetime64[ms]"), dtype=_INSTANT, copy=False)
    if pa.types.is_dictionary(column.type):
        # The default pool of Arrow would keep megabytes of temporary memory.
        column = column.unify_dictionaries(memory_pool=pa.system_memory_pool())
        if pa.types.is_string(column.type.value_type):
            return _categorical(column.combine_chunks())
    if column.type in _MASKED:
        cells = column.combine_chunks()
        values = _cells(cells, column.type.to_pandas_dtype(), 0)
        # pandas decides whether NaN is missing.
        if values.dtype != np.float64 or not np.isnan(values).any():
            array = _MASKED[column.type](values, cells.is_null().to_numpy(zero_copy_only=False))
            return array
    series: pd.Series = column.to_pandas(types_mapper=_PANDAS_DTYPES.get)
    # Empty categories get one dtype, so that tables can be concatenated.
    array = series.array
    return pd.Categorical(array, dtype=_WORDS) if has_no_categories(series.dtype) else array


def _categorical(column: pa.DictionaryArray) -> pd.Categorical:
    words = column.dictionary.to_pandas()
    dtype = pd.CategoricalDtype(pd.Index(words), ordered=column.type.ordered) if len(words) else _WORDS
    # Polars writes unsigned indices, which have no -1.
    indices = column.indices.cast(pa.int32())
    # As wide as pandas has codes, which would copy others.
    return pd.Categorical.from_codes(_cells(indices, np.min_scalar_type(-len(words) - 2), -1), dtype=dtype)


def _cells(column: pa.Array, dtype: npt.DTypeLike, filler: int) -> npt.NDArray[Any]:
    """Copy the cells of a column, with a filler for missing ones."""
    if column.null_count == len(column):
        # Zeros are memory that is not touched.
        return np.full(len(column), filler, dtype) if filler else np.zeros(len(column), dtype)
    present = column.fill_null(pa.scalar(filler).cast(column.type)) if column.null_count else column
    cells: npt.NDArray[Any] = present.to_numpy(zero_copy_only=False).astype(dtype)
    return cells


def in_zone(frame: pd.DataFrame, tz: str) -> pd.DataFrame:
    """The same table with its times in another zone, such as ``Europe/Berlin``.

    Raises:
        InvalidValue: There is no such time zone.
    """
    times = [name for name, column in frame.items() if _has_zone(column)]
    try:
        return frame.assign(**{str(name): frame[name].dt.tz_convert(tz) for name in times})
    except (KeyError, IndexError, ValueError, OSError) as exc:
        raise InvalidValue(f"tz={tz!r} is not a time zone ({exc}); write one like 'Europe/Berlin'") from exc


_LOST = (
    "the table does not say when it was taken: pandas drops attrs when it merges, joins or pivots. Restore them with"
    " frame.mirror.with_metadata_from(original), the table it was made of, or join with"
    " original.mirror.join(other, on=...). Or"
    ' give now= by the mirror\'s clock, not by the one here, such as now=pd.Timestamp(original.attrs["mirror"]'
    '["taken_at"]) or now=client.get_device(device_id).created_at'
)


def taken_at(frame: pd.DataFrame) -> datetime:
    """When a table was taken, by the mirror's clock.

    Raises:
        InvalidValue: It does not say that.
    """
    told: str | None = frame.attrs.get("mirror", {}).get("taken_at")
    if told is None:
        raise InvalidValue(_LOST)
    return datetime.fromisoformat(told)


def present(frame: pd.DataFrame, now: InstantLike | None) -> str | None:
    """The moment to which ages reach: ``now``, else when the table was taken; an empty one may know neither.

    Raises:
        InvalidValue: ``now`` is not a time or naive, or the table has rows and does not say when it was taken.
    """
    if now is not None:
        return moment("now", now, lambda: taken_at(frame))
    told: str | None = frame.attrs.get("mirror", {}).get("taken_at")
    if told is None and len(frame):
        raise InvalidValue(_LOST)
    return told


def need_times(frame: pd.DataFrame, *names: str) -> None:
    """Check that columns hold times, which they do not after a text file.

    Raises:
        InvalidValue: One holds something else, or times without a zone; the message says how to mend it.
    """
    for name in names:
        told = frame[name].dropna()
        if len(told) and not _has_zone(told):
            raise InvalidValue(
                f"the column {name} holds {told.dtype}, no times with their zone, as after a text file;"
                f' mend it with frame["{name}"] = pd.to_datetime(frame["{name}"], format="ISO8601", utc=True)'
            )


def _has_zone(column: pd.Series) -> bool:
    """Whether it holds times with their zone, of pandas or of Arrow."""
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        # Of Arrow's days pandas would say that they are times, and of their zone that it does not know such.
        return pa.types.is_timestamp(dtype.pyarrow_dtype) and dtype.pyarrow_dtype.tz is not None
    return isinstance(dtype, pd.DatetimeTZDtype)


def category_dtype(field: pa.Field) -> pd.CategoricalDtype:
    """The dtype of a category column in which nothing occurs."""
    categories = categories_of(field)
    return pd.CategoricalDtype(categories, ordered=field.type.ordered) if categories else _WORDS


def has_no_categories(dtype: object) -> bool:
    """Whether it is the dtype of a category column in which nothing occurs."""
    return isinstance(dtype, pd.CategoricalDtype) and not len(dtype.categories)
