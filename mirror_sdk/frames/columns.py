"""How tables are built: by column, from a pyarrow schema that defines names, types and order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa

from mirror_sdk.errors import ValueRefused
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.wire.model import write_timestamp

CATEGORY = pa.dictionary(pa.int32(), pa.string())
INSTANT = pa.timestamp("ms", tz="UTC")
_CATEGORIES = b"categories"

_PANDAS_DTYPES: Mapping[pa.DataType, object] = {
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype(),
    INSTANT: pd.DatetimeTZDtype("ms", "UTC"),
}
_WORDS = pd.CategoricalDtype(pd.Index(["a text, of which only the kind stays"])[:0])


def fixed_category(name: str, categories: Sequence[str], *, ordered: bool = False) -> pa.Field:
    """A column whose categories are always these, in this order, whatever occurs in it."""
    arrow_type = pa.dictionary(pa.int8(), pa.string(), ordered=ordered)
    return pa.field(name, arrow_type, metadata={_CATEGORIES: " ".join(categories)})


def value_fields(prefix: str) -> list[pa.Field]:
    """The three typed columns of a value."""
    return [
        pa.field(f"{prefix}_num", pa.float64()),
        pa.field(f"{prefix}_text", pa.string()),
        pa.field(f"{prefix}_bool", pa.bool_()),
    ]


def number(value: Value) -> float | None:
    """A number, for a ``_num`` column."""
    return float(value.python) if value.kind is ValueKind.NUMBER else None  # type: ignore[arg-type] # kind says so


def text(value: Value) -> str | None:
    """A text, an object link, or a time, for a ``_text`` column."""
    return str(value) if value.kind in (ValueKind.TEXT, ValueKind.TIME, ValueKind.OBJLINK) else None


def boolean(value: Value) -> bool | None:
    """A boolean, for a ``_bool`` column."""
    return value.python if isinstance(value.python, bool) else None


def value_columns(prefix: str, values: Sequence[Value]) -> dict[str, list[object]]:
    """The three typed columns of values."""
    return {
        f"{prefix}_num": [number(value) for value in values],
        f"{prefix}_text": [text(value) for value in values],
        f"{prefix}_bool": [boolean(value) for value in values],
    }


def build(
    columns: Mapping[str, Sequence[object]], schema: pa.Schema, *, tz: str | None = None, **about: object
) -> pd.DataFrame:
    """The frame of a schema, with what it is based on in ``attrs["mirror"]``.

    Raises:
        ValueRefused: There is no such time zone.
    """
    return to_frame(to_table(columns, schema), about, tz=tz)


def based_on(
    device_ids: Iterable[object], taken_at: datetime | None, *, complete: bool, server: str
) -> dict[str, object]:
    """What a table is based on, for ``attrs["mirror"]``; an empty one may not know when it was taken."""
    return {
        "taken_at": None if taken_at is None else write_timestamp(taken_at),
        "devices": len({one for one in device_ids if one is not None}),
        "complete": complete,
        "server": server,
    }


def basis_of(frame: pd.DataFrame) -> dict[str, object]:
    """What a table made out of another is based on: the same, but for what is true of all its rows together."""
    about = frame.attrs.get("mirror", {})
    return {name: about[name] for name in ("taken_at", "devices", "complete", "server") if name in about}


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


def to_table(columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> pa.Table:
    """The columns as the schema has them."""
    return pa.Table.from_arrays([_array(columns[field.name], field) for field in schema], schema=schema)


def to_frame(table: pa.Table, about: Mapping[str, object], *, tz: str | None = None) -> pd.DataFrame:
    """The frame of a table that has one of the schemas.

    Args:
        table: The table.
        about: What it is based on, for ``attrs["mirror"]``.
        tz: Time zone of the time columns.

    Raises:
        ValueRefused: There is no such time zone.
    """
    return frame_of(dict(zip(table.column_names, table.columns, strict=True)), about, tz=tz)


def frame_of(
    columns: dict[str, pa.ChunkedArray], about: Mapping[str, object], *, tz: str | None = None
) -> pd.DataFrame:
    """Make a frame like :func:`to_frame`, of columns that nobody else has.

    They are let go one by one, so that there are never two of all.

    Raises:
        ValueRefused: There is no such time zone.
    """
    frame = pd.DataFrame({name: _series(columns.pop(name)) for name in tuple(columns)}, copy=False)
    if about:
        frame.attrs["mirror"] = dict(about)
    return frame if tz is None else in_zone(frame, tz)


def _series(column: pa.ChunkedArray) -> pd.Series:
    if pa.types.is_dictionary(column.type):
        # Arrow's own pool keeps megabytes of what this needs in between.
        column = column.unify_dictionaries(memory_pool=pa.system_memory_pool())
    series: pd.Series = column.to_pandas(types_mapper=_PANDAS_DTYPES.get)
    # Else their kind depends on whether there are some, and two tables could not be put together.
    return series.astype(_WORDS) if has_no_categories(series.dtype) else series


def in_zone(frame: pd.DataFrame, tz: str) -> pd.DataFrame:
    """The same table with its times in another zone, such as ``Europe/Berlin``.

    Raises:
        ValueRefused: There is no such time zone.
    """
    times = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.DatetimeTZDtype)]
    try:
        return frame.assign(**{str(name): frame[name].dt.tz_convert(tz) for name in times})
    except (KeyError, IndexError, ValueError, OSError) as exc:
        raise ValueRefused(f"tz={tz!r} is no time zone ({exc}); write one like 'Europe/Berlin'") from exc


def moment(name: str, instant: object) -> str:
    """An instant for ``attrs``.

    Raises:
        ValueRefused: It is no time, or has no time zone.
    """
    if not isinstance(instant, datetime) or pd.isna(instant):
        raise ValueRefused(f"{name}={instant!r} is no time; give one like datetime(2026, 1, 31, tzinfo=UTC)")
    if instant.tzinfo is None:
        raise ValueRefused(f"{name}={instant} has no time zone; give one with {name}.replace(tzinfo=UTC)")
    return write_timestamp(instant)


_LOST = (
    "the table does not say when it was taken: pandas drops attrs when it merges, joins or pivots. Bring them back with"
    " frame.mirror.based_on(original), the table it was made of, or join with original.mirror.join(other, on=...). Or"
    ' give now= by the mirror\'s clock, not by the one here, such as now=pd.Timestamp(original.attrs["mirror"]'
    '["taken_at"]) or now=client.get_device(device_id).created_at'
)


def present(frame: pd.DataFrame, now: datetime | None) -> str | None:
    """The moment to which ages reach: ``now``, else when the table was taken; an empty one may know neither.

    Raises:
        ValueRefused: ``now`` is no time or naive, or the table has rows and does not say when it was taken.
    """
    if now is not None:
        return moment("now", now)
    taken_at: str | None = frame.attrs.get("mirror", {}).get("taken_at")
    if taken_at is None and len(frame):
        raise ValueRefused(_LOST)
    return taken_at


def need_times(frame: pd.DataFrame, *names: str) -> None:
    """See that columns hold times, as they do not where a table was read from a text file.

    Raises:
        ValueRefused: One holds something else, or times without a zone; the message says how to mend it.
    """
    for name in names:
        told = frame[name].dropna()
        if len(told) and not (pd.api.types.is_datetime64_any_dtype(told) and told.dt.tz):
            raise ValueRefused(
                f"the column {name} holds {told.dtype}, no times with their zone, as after a text file;"
                f' mend it with frame["{name}"] = pd.to_datetime(frame["{name}"], format="ISO8601", utc=True)'
            )


def categories_of(field: pa.Field) -> list[str]:
    """The categories of a column whose categories are fixed; none of any other."""
    categories: bytes = (field.metadata or {}).get(_CATEGORIES, b"")
    return categories.decode().split()


def category_dtype(field: pa.Field) -> pd.CategoricalDtype:
    """The dtype of a category column in which nothing occurs."""
    categories = categories_of(field)
    return pd.CategoricalDtype(categories, ordered=field.type.ordered) if categories else _WORDS


def has_no_categories(dtype: object) -> bool:
    """Whether it is the dtype of a category column in which nothing occurs."""
    return isinstance(dtype, pd.CategoricalDtype) and not len(dtype.categories)


def fixed_category_array(indices: pa.Array, field: pa.Field) -> pa.DictionaryArray:
    """A column whose categories are fixed, of the indices into them."""
    return pa.DictionaryArray.from_arrays(indices, categories_of(field), ordered=field.type.ordered)


def _array(values: Sequence[object], field: pa.Field) -> pa.Array:
    if not field.metadata:
        return pa.array(values, type=field.type)
    index_of: dict[object, int | None] = {category: index for index, category in enumerate(categories_of(field))}
    index_of[None] = None
    return fixed_category_array(pa.array([index_of[value] for value in values], type=field.type.index_type), field)
