"""Pseudonyms in a pandas frame: in its columns, its index, and the names of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.privacy.arrow_cells import is_plain, value_type
from mirror_sdk.privacy.cells import Cells, Indices, Replace
from mirror_sdk.privacy.personal import path_of_column, word_of_column
from mirror_sdk.privacy.pseudonymizer import Column, Pseudonymizer


class PandasCells(Cells):
    """The cells of a pandas series."""

    def __init__(self, series: pd.Series) -> None:
        super().__init__()
        self._series = series
        dtype = series.dtype
        self._dtype: Any = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype

    @property
    def is_plain(self) -> bool:
        """Whether each cell is one value, not a list, a structure or another container."""
        if isinstance(self._dtype, pd.ArrowDtype):
            return is_plain(value_type(self._dtype.pyarrow_dtype))
        return not (pd.api.types.is_object_dtype(self._dtype) and any(map(pd.api.types.is_list_like, self._series)))

    @property
    def has_texts(self) -> bool:
        """Whether cells may be texts or bytes."""
        return pd.api.types.is_object_dtype(self._dtype) or pd.api.types.is_string_dtype(self._dtype)

    @property
    def is_temporal(self) -> bool:
        """Whether the cells are times or durations."""
        if isinstance(self._dtype, pd.ArrowDtype):
            return bool(pa.types.is_temporal(self._dtype.pyarrow_dtype))
        return isinstance(self._dtype, pd.PeriodDtype) or self._dtype.kind in "mM"

    @property
    def series(self) -> pd.Series:
        """The series with the replaced cells, in its former type; an integer type is widened if it is too narrow."""
        if not self.is_changed:
            return self._series
        indices, values = self._encoded
        cells = [values[index] if index >= 0 else None for index in indices.tolist()]
        dtype = self._series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            # Categories that do not occur would keep the original texts.
            occurring = pd.Index(list(dict.fromkeys(cell for cell in cells if cell is not None)), dtype=self._dtype)
            dtype = pd.CategoricalDtype(occurring, ordered=dtype.ordered)
        elif dtype.kind in "biu":
            dtype = _wide_enough(cells, dtype)
        return pd.Series(cells, index=self._series.index, dtype=dtype, name=self._series.name)

    def _encode(self) -> tuple[Indices, list[Any]]:
        if not pd.api.types.is_object_dtype(self._dtype):
            indices, distinct = pd.factorize(self._series)
            return indices, list(distinct)
        # pd.factorize() takes True and 1 in a column of objects for the same value.
        codes: dict[tuple[type, Any], int] = {}
        cells = zip(self._series.tolist(), self._series.isna(), strict=True)
        found = [-1 if is_empty else codes.setdefault((type(cell), cell), len(codes)) for cell, is_empty in cells]
        return np.array(found, np.int64), [cell for _, cell in codes]


def pseudonymized_frame(frame: pd.DataFrame, key: str | bytes, *, also: Iterable[str]) -> pd.DataFrame:
    """Return the frame with pseudonyms; see :func:`mirror_sdk.privacy.pseudonymize`.

    Raises:
        InvalidValue: The key is not valid, the table has pseudonyms already, or it has values without their paths.
    """
    metadata = frame.attrs.get("mirror", {})
    pseudonymizer = Pseudonymizer(key, also)
    pseudonymizer.check_metadata(metadata)
    cells = [PandasCells(frame.iloc[:, position]) for position in range(frame.shape[1])]
    levels = [PandasCells(_level(frame.index, level)) for level in range(frame.index.nlevels)]
    columns = [Column(name, one, _path_of(name, frame.columns)) for name, one in zip(frame.columns, cells, strict=True)]
    # An integer index without a name only numbers the rows.
    columns += [
        Column(name, one)
        for name, one in zip(frame.index.names, levels, strict=True)
        if not (name is None and pd.api.types.is_integer_dtype(one.series.dtype))
    ]
    pseudonymizer.replace_in(columns)
    result = pd.DataFrame({position: one.series for position, one in enumerate(cells)}, index=frame.index)
    result.columns = _renamed(frame.columns, pseudonymizer)
    if any(level.is_changed for level in levels):
        indexes = [pd.Index(level.series) for level in levels]
        result.index = indexes[0] if len(indexes) == 1 else pd.MultiIndex.from_arrays(indexes)
    result.index.names = [pseudonymizer.column_name(name) for name in frame.index.names]
    result.columns.names = [pseudonymizer.column_name(name) for name in frame.columns.names]
    result.attrs = {"mirror": pseudonymizer.metadata(metadata)}
    if "units" in frame.attrs:
        names = dict(zip(map(str, frame.columns), map(str, result.columns), strict=True))
        # The name of a column that was dropped may be the name of a device.
        units = frame.attrs["units"].items()
        result.attrs["units"] = {names[name]: unit for name, unit in units if name in names}
    return result


def _wide_enough(cells: list[Any], dtype: Any) -> Any:
    """Return the type of booleans or integers, or a nullable or wider one if the cells need it."""
    needs_null = isinstance(dtype, np.dtype) and None in cells
    if dtype.kind == "b":
        return pd.BooleanDtype() if needs_null else dtype
    limits = np.iinfo(dtype if isinstance(dtype, np.dtype) else dtype.numpy_dtype)
    if needs_null or not all(cell is None or limits.min <= cell <= limits.max for cell in cells):
        return pd.UInt64Dtype() if dtype.kind == "u" else pd.Int64Dtype()
    return dtype


def _level(index: pd.Index, level: int) -> pd.Series:
    return index.get_level_values(level).to_series(index=pd.RangeIndex(len(index)))


def _path_of(name: Any, columns: pd.Index) -> str | None:
    """Return the resource path of a column of a wide table; ``None`` for any other column."""
    if isinstance(name, tuple):
        return str(name[columns.names.index("path")]) if "path" in columns.names else None
    return path_of_column(name)


def _rename(level: object, pseudonymizer: Pseudonymizer) -> Replace:
    """Return the replacement for column names, by the name of their level."""
    if word := word_of_column(level):
        return pseudonymizer.replacement(word)
    return pseudonymizer.replacement_of_unknown(level) if level == "device" else pseudonymizer.column_name


def _renamed(columns: pd.Index, pseudonymizer: Pseudonymizer) -> pd.Index:
    """Return the names of the columns, some of which may be names of devices."""
    renames = [_rename(name, pseudonymizer) for name in columns.names]
    if columns.nlevels == 1:
        flat: pd.Index = pd.Index([renames[0](name) for name in columns], name=columns.name)
        return flat
    names = [tuple(rename(part) for rename, part in zip(renames, name, strict=True)) for name in columns]
    return pd.MultiIndex.from_tuples(names, names=columns.names)
