"""Functions that insert pseudonyms into the columns and the index of a pandas DataFrame, and into the names of both."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.privacy.arrow_cells import is_plain, value_type
from mirror_sdk.privacy.cells import Cells, Indices, Replace
from mirror_sdk.privacy.personal_columns import path_of_column, word_of_column
from mirror_sdk.privacy.pseudonymizer import Column, Pseudonymizer


def _cells_of(series: pd.Series) -> Cells:
    dtype = _cell_type(series)
    is_object = pd.api.types.is_object_dtype(dtype)
    arrow_type = value_type(dtype.pyarrow_dtype) if isinstance(dtype, pd.ArrowDtype) else None
    if arrow_type is not None:
        is_one_value, is_temporal = is_plain(arrow_type), bool(pa.types.is_temporal(arrow_type))
    else:
        is_one_value = not (is_object and any(map(pd.api.types.is_list_like, series)))
        is_temporal = isinstance(dtype, pd.PeriodDtype) or dtype.kind in "mM"
    return Cells(
        partial(_encode, series),
        is_plain=is_one_value,
        has_texts=is_object or pd.api.types.is_string_dtype(dtype),
        is_temporal=is_temporal,
    )


def _cell_type(series: pd.Series) -> Any:
    return series.dtype.categories.dtype if isinstance(series.dtype, pd.CategoricalDtype) else series.dtype


def _encode(series: pd.Series) -> tuple[Indices, list[Any]]:
    if not pd.api.types.is_object_dtype(_cell_type(series)):
        indices, distinct = pd.factorize(series)
        return indices, list(distinct)
    # In a column of objects, pd.factorize() treats True and 1 as the same value.
    codes: dict[tuple[type, Any], int] = {}
    cells = zip(series.tolist(), series.isna(), strict=True)
    found = [-1 if is_empty else codes.setdefault((type(cell), cell), len(codes)) for cell, is_empty in cells]
    return np.array(found, np.int64), [cell for _, cell in codes]


def _replaced(series: pd.Series, cells: Cells) -> pd.Series:
    """Return a series with replaced cells and its former type. An integer type is widened if it is too narrow."""
    if not cells.is_changed:
        return series
    indices, values = cells.encoded
    new = [values[index] if index >= 0 else None for index in indices.tolist()]
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # Categories that do not occur would still contain the original strings.
        occurring = pd.Index(list(dict.fromkeys(cell for cell in new if cell is not None)), dtype=_cell_type(series))
        dtype = pd.CategoricalDtype(occurring, ordered=dtype.ordered)
    elif dtype.kind in "biu":
        dtype = _wide_enough(new, dtype)
    return pd.Series(new, index=series.index, dtype=dtype, name=series.name)


def pseudonymized_frame(frame: pd.DataFrame, key: str | bytes, *, also: Iterable[str]) -> pd.DataFrame:
    """Return the DataFrame with pseudonyms; see :func:`mirror_sdk.privacy.pseudonymize`.

    Raises:
        InvalidValue: The key is not valid, the table is already pseudonymized, or it has values without their paths.
    """
    metadata = frame.attrs.get("mirror", {})
    pseudonymizer = Pseudonymizer(key, also)
    pseudonymizer.check_metadata(metadata)
    series = [frame.iloc[:, position] for position in range(frame.shape[1])]
    levels = [
        frame.index.get_level_values(level).to_series(index=pd.RangeIndex(len(frame)))
        for level in range(frame.index.nlevels)
    ]
    cells, level_cells = list(map(_cells_of, series)), list(map(_cells_of, levels))
    columns = [Column(name, one, _path_of(name, frame.columns)) for name, one in zip(frame.columns, cells, strict=True)]
    # An integer index without a name only numbers the rows.
    columns += [
        Column(name, one)
        for name, level, one in zip(frame.index.names, levels, level_cells, strict=True)
        if not (name is None and pd.api.types.is_integer_dtype(level.dtype))
    ]
    pseudonymizer.replace_in(columns)
    new = map(_replaced, series, cells)
    result = pd.DataFrame(dict(enumerate(new)), index=frame.index)
    result.columns = _renamed(frame.columns, pseudonymizer)
    if any(one.is_changed for one in level_cells):
        indexes = list(map(pd.Index, map(_replaced, levels, level_cells)))
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
    """Return the type of booleans or integers, or a nullable or wider type if the cells need it."""
    needs_null = isinstance(dtype, np.dtype) and None in cells
    if dtype.kind == "b":
        return pd.BooleanDtype() if needs_null else dtype
    limits = np.iinfo(dtype if isinstance(dtype, np.dtype) else dtype.numpy_dtype)
    if needs_null or not all(cell is None or limits.min <= cell <= limits.max for cell in cells):
        return pd.UInt64Dtype() if dtype.kind == "u" else pd.Int64Dtype()
    return dtype


def _path_of(name: Any, columns: pd.Index) -> str | None:
    """Return the resource path of a column of a wide table, or ``None`` for any other column."""
    if isinstance(name, tuple):
        return str(name[columns.names.index("path")]) if "path" in columns.names else None
    return path_of_column(name)


def _rename(level: object, pseudonymizer: Pseudonymizer) -> Replace:
    """Return the function that replaces column names, depending on the name of their level."""
    if word := word_of_column(level):
        return pseudonymizer.replacement(word)
    return pseudonymizer.replacement_of_unknown(level) if level == "device" else pseudonymizer.column_name


def _renamed(columns: pd.Index, pseudonymizer: Pseudonymizer) -> pd.Index:
    """Return the names of the columns, in which names of devices are replaced."""
    renames = [_rename(name, pseudonymizer) for name in columns.names]
    if columns.nlevels == 1:
        flat: pd.Index = pd.Index([renames[0](name) for name in columns], name=columns.name)
        return flat
    names = [tuple(rename(part) for rename, part in zip(renames, name, strict=True)) for name in columns]
    return pd.MultiIndex.from_tuples(names, names=columns.names)
