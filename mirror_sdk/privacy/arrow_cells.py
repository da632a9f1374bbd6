"""Access to the cells of columns of Arrow tables."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mirror_sdk.privacy.cells import Cells, Indices

_TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
)
_NOT_TEXTS = (
    *(pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    pa.types.is_temporal,
)


def cells_of(column: pa.ChunkedArray) -> Cells:
    """Return the cells of a column."""
    cell_type = value_type(column.type)
    return Cells(
        partial(_encode, column),
        is_plain=is_plain(cell_type),
        has_texts=any(is_type(cell_type) for is_type in _TEXTS),
        is_temporal=bool(pa.types.is_temporal(cell_type)),
    )


def replaced(column: pa.ChunkedArray, cells: Cells) -> pa.ChunkedArray:
    """Return a column with replaced cells and its former type. An integer type is widened if it is too narrow."""
    if not cells.is_changed:
        # A slice refers to the entire column, which would be pickled with it. So the slice is copied.
        return pa.chunked_array([pa.concat_arrays(column.chunks)] if column.chunks else [], column.type)
    indices, values = cells.encoded
    used, codes = np.unique(indices, return_inverse=True)
    distinct = _array([values[index] if index >= 0 else None for index in used.tolist()], value_type(column.type))
    new = distinct.take(pa.array(codes))
    if pa.types.is_dictionary(column.type):
        encoded = new.dictionary_encode()
        codes = encoded.indices.cast(column.type.index_type)
        new = pa.DictionaryArray.from_arrays(codes, encoded.dictionary, ordered=column.type.ordered)
    return pa.chunked_array([new])


def _encode(column: pa.ChunkedArray) -> tuple[Indices, list[Any]]:
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    encoded = plain.combine_chunks().dictionary_encode()
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices, encoded.dictionary.to_pylist()


def value_type(column_type: pa.DataType) -> pa.DataType:
    """Return the type of the cells of a column. For a dictionary, it is the type of the values."""
    return column_type.value_type if pa.types.is_dictionary(column_type) else column_type


def is_plain(cell_type: pa.DataType) -> bool:
    """Return whether each cell of this type is a single value of a type that pseudonyms support."""
    return any(is_type(cell_type) for is_type in (*_TEXTS, *_NOT_TEXTS))


def _array(cells: list[Any], cell_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(cells, cell_type)
    except (pa.ArrowInvalid, OverflowError):
        # The pseudonym of a number may need more bits.
        return pa.array(cells, pa.uint64() if pa.types.is_unsigned_integer(cell_type) else pa.int64())
