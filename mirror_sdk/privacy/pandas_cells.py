"""The columns of a frame for pandas, as cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.privacy.arrow_cells import is_plain
from mirror_sdk.privacy.personal import path_of_column, word_of_column
from mirror_sdk.privacy.replacing import FrameColumn, Replace, Replacing, Rows


class PandasCells:
    """The cells of a column of a frame.

    Args:
        series: The column.

    Attributes:
        series: The column, with what takes the place of its cells.
        is_changed: Whether something has.
    """

    def __init__(self, series: pd.Series) -> None:
        self.series: pd.Series = series
        self.is_changed: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether each is one value, and not a list, a structure or something else with values within."""
        dtype = self.series.dtype
        if isinstance(dtype, pd.ArrowDtype):
            return is_plain(dtype.pyarrow_dtype)
        values = dtype.categories if isinstance(dtype, pd.CategoricalDtype) else self.series
        return not (values.dtype == object and any(map(pd.api.types.is_list_like, values)))

    @property
    def has_words(self) -> bool:
        """Whether some may be texts or bytes."""
        return pd.api.types.is_object_dtype(self._kind) or pd.api.types.is_string_dtype(self._kind)

    @property
    def is_temporal(self) -> bool:
        """Whether they are times or spans of time."""
        if isinstance(self._kind, pd.ArrowDtype):
            return bool(pa.types.is_temporal(self._kind.pyarrow_dtype))
        return isinstance(self._kind, pd.PeriodDtype) or self._kind.kind in "mM"

    @property
    def _kind(self) -> Any:
        dtype = self.series.dtype
        return dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype

    def values(self, rows: Rows | None = None) -> list[Any]:
        """Those that occur, each once, without what is missing."""
        return list(self._in(rows).dropna().unique())

    def count(self, rows: Rows | None = None) -> int:
        """How many are not missing."""
        return int(self._in(rows).notna().sum())

    def places_of(self, values: Iterable[str]) -> Rows:
        """Where one of these stands."""
        return np.array(self.series.isin(list(values)), np.bool_)

    def replace(self, replace: Replace, rows: Rows | None = None) -> None:
        """Put something else in the place of each, where it stands in these rows; nothing else of it is left."""
        wanted = np.ones(len(self.series), np.bool_) if rows is None else rows
        table = {value: replace(value) for value in self.values(rows)}
        plain = self.series.astype(object)
        each = zip(plain.tolist(), self.series.isna(), wanted, strict=True)
        cells = [None if is_missing else table[cell] if is_wanted else cell for cell, is_missing, is_wanted in each]
        self.series = _series(cells, self.series)
        self.is_changed = True

    def _in(self, rows: Rows | None) -> pd.Series:
        return self.series if rows is None else self.series[rows]


def pseudonymized_frame(frame: pd.DataFrame, key: str | bytes, *, also: Iterable[str]) -> pd.DataFrame:
    """The frame with pseudonyms; see :func:`mirror_sdk.privacy.pseudonymize`.

    Raises:
        InvalidValue: It is no key, or too short; the table has pseudonyms already, or values without their paths.
    """
    about = frame.attrs.get("mirror", {})
    replacing = Replacing(key, also)
    replacing.expect(about)
    cells = [PandasCells(frame.iloc[:, place]) for place in range(frame.shape[1])]
    levels = [PandasCells(_level(frame.index, level)) for level in range(frame.index.nlevels)]
    told = [
        FrameColumn(name, one, _path_of(name, frame.columns)) for name, one in zip(frame.columns, cells, strict=True)
    ]
    named = zip(frame.index.names, levels, strict=True)
    told += [FrameColumn(name, one) for name, one in named if not (name is None and _has_row_numbers(one.series))]
    replacing.columns(told)
    result = pd.DataFrame({place: one.series for place, one in enumerate(cells)}, index=frame.index)
    result.columns = _renamed(frame.columns, replacing)
    result.index = _index(frame.index, levels)
    result.index.names = [replacing.within(name) for name in frame.index.names]
    result.columns.names = [replacing.within(name) for name in frame.columns.names]
    result.attrs = {"mirror": replacing.about(about)}
    if "units" in frame.attrs:
        names = dict(zip(map(str, frame.columns), map(str, result.columns), strict=True))
        # The name of a column that was dropped may be that of a device.
        units = frame.attrs["units"].items()
        result.attrs["units"] = {names[name]: unit for name, unit in units if name in names}
    return result


def _series(cells: list[Any], like: pd.Series) -> pd.Series:
    """Cells in the type that a column had, with those categories alone that occur."""
    dtype = like.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        words = pd.Index(list(dict.fromkeys(cell for cell in cells if cell is not None)), dtype=dtype.categories.dtype)
        dtype = pd.CategoricalDtype(words, ordered=dtype.ordered)
    elif dtype.kind in "biu":
        dtype = _roomy(cells, dtype)
    return pd.Series(cells, index=like.index, dtype=dtype, name=like.name)


def _roomy(cells: list[Any], dtype: Any) -> Any:
    """The type of booleans or integers, or one with room for what is missing and for pseudonyms."""
    lacks_missing = isinstance(dtype, np.dtype) and None in cells
    if dtype.kind == "b":
        return pd.BooleanDtype() if lacks_missing else dtype
    room = np.iinfo(dtype if isinstance(dtype, np.dtype) else dtype.numpy_dtype)
    if lacks_missing or not all(cell is None or room.min <= cell <= room.max for cell in cells):
        return pd.UInt64Dtype() if dtype.kind == "u" else pd.Int64Dtype()
    return dtype


def _level(index: pd.Index, level: int) -> pd.Series:
    return index.get_level_values(level).to_series(index=pd.RangeIndex(len(index)))


def _index(index: pd.Index, levels: Sequence[PandasCells]) -> pd.Index:
    if not any(level.is_changed for level in levels):
        return index
    if len(levels) == 1:
        only: pd.Index = pd.Index(levels[0].series, name=index.name)
        return only
    return pd.MultiIndex.from_arrays([level.series for level in levels], names=index.names)


def _has_row_numbers(level: pd.Series) -> bool:
    return bool(pd.api.types.is_integer_dtype(level.dtype))


def _path_of(name: Any, columns: pd.Index) -> str | None:
    """The resource whose values a column of a wide table has; ``None`` for another column."""
    if isinstance(name, tuple):
        return str(name[columns.names.index("path")]) if "path" in columns.names else None
    return path_of_column(name)


def _rename(level: object, replacing: Replacing) -> Replace:
    """What is done with the names of columns, by the name of their level."""
    if word := word_of_column(level):
        return replacing.word(word)
    return replacing.unknown(level) if level == "device" else replacing.within


def _renamed(columns: pd.Index, replacing: Replacing) -> pd.Index:
    """The names of the columns, of which some may be those of devices."""
    renames = [_rename(name, replacing) for name in columns.names]
    if columns.nlevels == 1:
        flat: pd.Index = pd.Index([renames[0](name) for name in columns], name=columns.name)
        return flat
    names = [tuple(rename(part) for rename, part in zip(renames, name, strict=True)) for name in columns]
    return pd.MultiIndex.from_tuples(names, names=columns.names)
