"""Conversion of tables for an Excel sheet, without time zones and without formulas."""

from __future__ import annotations

import re
from copy import deepcopy

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import (
    is_datetime64_any_dtype,
    is_integer_dtype,
    is_numeric_dtype,
    is_timedelta64_dtype,
)

from mirror_sdk._formatting import without_formula
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import with_index
from mirror_sdk.values import written

MOST_ROWS, MOST_COLUMNS, LONGEST_TEXT = 1_048_575, 16_384, 32_767
"""The limits of a sheet with a header row: the number of rows, of columns, and of characters in a cell."""

_FIRST_DAY = pd.Timestamp("1900-03-01")
"""The first day that Excel computes correctly.

Excel assumes that February 29, 1900 existed, and has no days before 1900.
"""
_LARGEST_NUMBER = 10**15
"""The smallest integer of which Excel does not store all digits."""
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def for_excel(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table as input for ``to_excel``; see :meth:`MirrorAccessor.for_excel`.

    Raises:
        InvalidValue: The table has more rows, columns or characters in a cell than a sheet supports.
    """
    table = with_index(frame)
    if not is_integer_dtype(table.index.dtype):  # times or texts without a name are still cells
        table = table.reset_index()
    _check_size(table)
    columns = [_column(name, table.iloc[:, position]) for position, name in enumerate(table.columns)]
    # Columns are selected by position, because titles may occur twice.
    sheet = pd.DataFrame({position: column for position, (_, column) in enumerate(columns)}, index=table.index)
    sheet.columns = pd.Index([title for title, _ in columns], dtype=object)
    sheet.attrs = deepcopy(frame.attrs)
    return sheet


def _check_size(table: pd.DataFrame) -> None:
    rows, columns = table.shape
    if rows > MOST_ROWS:
        raise InvalidValue(
            f"the table has {rows:,} rows; an Excel sheet has at most {MOST_ROWS:,}. Write it in parts, such as"
            f" frame.iloc[:{MOST_ROWS}], or completely with to_parquet(file)"
        )
    if columns > MOST_COLUMNS:
        raise InvalidValue(
            f"the table has {columns:,} columns; an Excel sheet has at most {MOST_COLUMNS:,}. Select columns, or use"
            " the long table instead of the wide one"
        )


def _column(name: object, column: pd.Series) -> tuple[str, pd.Series]:
    """Return the title of a column and its converted cells.

    The title contains the unit or time zone that the cells cannot store.
    """
    title = " ".join(str(part) for part in name if part != "") if isinstance(name, tuple) else str(name)
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.kind in "mM":
        column = pa.array(column).to_pandas().set_axis(column.index)
    dtype = column.dtype
    if is_datetime64_any_dtype(dtype):
        if isinstance(dtype, pd.DatetimeTZDtype):
            title, column = f"{title} ({dtype.tz})", column.dt.tz_localize(None)
        if (column < _FIRST_DAY).any():
            column = column.astype(object).map(_cell, na_action="ignore")
    elif is_timedelta64_dtype(dtype):
        title, column = f"{title} (s)", column.dt.total_seconds()
    elif is_integer_dtype(dtype):
        if (column.abs() >= _LARGEST_NUMBER).any():
            column = column.astype(object).map(str, na_action="ignore")
    elif not is_numeric_dtype(dtype):
        column = column.astype(object).map(_cell, na_action="ignore")
        _check_texts(title, column)
    return _text(title), column


def _cell(value: object) -> object:
    """Convert a cell of a column of strings or objects."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < _LARGEST_NUMBER):
        return value
    return _text(written(value) if isinstance(value, bytes) else str(value))


def _text(text: str) -> str:
    return without_formula(_NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text))


def _check_texts(title: str, cells: pd.Series) -> None:
    lengths = cells.map(lambda cell: len(cell) if isinstance(cell, str) else 0, na_action="ignore")
    if (lengths > LONGEST_TEXT).any():
        position = int((lengths > LONGEST_TEXT).to_numpy().argmax())
        raise InvalidValue(
            f"row {position}, {title}: the text has {lengths.iloc[position]:,} characters; an Excel cell has at most"
            f" {LONGEST_TEXT:,}. Cut it, such as with frame[name].str[:1000], or use to_parquet(file)"
        )
