"""Conversion of NumPy arrays to the columns of result tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk.arrow_tables.columns import CATEGORY, INSTANT, TableColumn, Words, fixed_category_array, words_at
from mirror_sdk.frames.analysis.history_rows import NEVER, NO_TIME, Ints

DEVICE_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA if unknown"),
)
RESOURCE_COLUMNS = (*DEVICE_COLUMNS, TableColumn("path", CATEGORY, "the resource"))
BIN_COLUMNS = (TableColumn("bin", INSTANT, "when the bin begins"), *RESOURCE_COLUMNS)
COVERED = TableColumn("covered", pa.float64(), "the share of the bin in which a value is known, 0 to 1")


def column_of(values: npt.NDArray[Any] | pa.Array, column: TableColumn) -> pa.Array:
    """Convert the cells of a column to Arrow.

    Times and durations are in milliseconds; missing ones are ``NEVER`` or ``NO_TIME``. A missing number is NaN. A word
    is given by its index into the words that the column declares. An Arrow array is returned unchanged.
    """
    if isinstance(values, pa.Array):
        return values
    if isinstance(column.type, Words):
        return fixed_category_array(pa.array(values.astype(np.int8)), column.field)
    if pa.types.is_temporal(column.type):
        return pa.array(values, mask=(values == NEVER) | (values == NO_TIME)).view(column.type)
    return numbers_of(values) if pa.types.is_floating(column.type) else pa.array(values)


def numbers_of(numbers: npt.NDArray[np.float64]) -> pa.Array:
    """Convert numbers to Arrow. NaN becomes a missing value."""
    return pa.array(numbers, mask=np.isnan(numbers))


def names_at(codes: Ints, names: pd.Index | npt.NDArray[np.object_]) -> pa.DictionaryArray:
    """Return a categorical column with the name at each index.

    The index -1 gives a missing value. Names may be repeated or missing.
    """
    # The last element is for the index -1.
    is_used = np.zeros(len(names) + 1, dtype=bool)
    is_used[codes] = True
    index = (np.cumsum(is_used) - 1).astype(np.int32)[codes]
    return words_at(pa.array(index, mask=codes < 0), pa.array(names[is_used[:-1]], pa.string()))
