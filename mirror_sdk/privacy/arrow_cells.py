"""The cells of a column of an Arrow table."""

from __future__ import annotations

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


class ArrowCells(Cells):
    """The cells of a column of an Arrow table."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        super().__init__()
        self._column = column
        self._type = value_type(column.type)

    @property
    def is_plain(self) -> bool:
        """Whether each cell is one value, not a list, a structure or another container."""
        return is_plain(self._type)

    @property
    def has_texts(self) -> bool:
        """Whether cells may be texts or bytes."""
        return any(is_type(self._type) for is_type in _TEXTS)

    @property
    def is_temporal(self) -> bool:
        """Whether the cells are times or durations."""
        return bool(pa.types.is_temporal(self._type))

    @property
    def column(self) -> pa.ChunkedArray:
        """The column with the replaced cells, in its former type; an integer type is widened if it is too narrow."""
        former = self._column.type
        if not self.is_changed:
            # A slice refers to the whole column, which would be pickled with it, so it is copied.
            chunks = self._column.chunks
            return pa.chunked_array([pa.concat_arrays(chunks)] if chunks else [], former)
        indices, values = self._encoded
        used, codes = np.unique(indices, return_inverse=True)
        distinct = _array([values[index] if index >= 0 else None for index in used.tolist()], self._type)
        cells = distinct.take(pa.array(codes))
        if pa.types.is_dictionary(former):
            encoded = cells.dictionary_encode()
            codes = encoded.indices.cast(former.index_type)
            cells = pa.DictionaryArray.from_arrays(codes, encoded.dictionary, ordered=former.ordered)
        return pa.chunked_array([cells])

    def _encode(self) -> tuple[Indices, list[Any]]:
        column = self._column.cast(self._type) if pa.types.is_dictionary(self._column.type) else self._column
        encoded = column.combine_chunks().dictionary_encode()
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return indices, encoded.dictionary.to_pylist()


def value_type(column_type: pa.DataType) -> pa.DataType:
    """Return the type of the cells of a column: for a dictionary, that of its values."""
    return column_type.value_type if pa.types.is_dictionary(column_type) else column_type


def is_plain(cell_type: pa.DataType) -> bool:
    """Whether cells of a type are one value each, of a type that pseudonyms support."""
    return any(is_type(cell_type) for is_type in (*_TEXTS, *_NOT_TEXTS))


def _array(cells: list[Any], cell_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(cells, cell_type)
    except (pa.ArrowInvalid, OverflowError):
        # The pseudonym of a number may need more bits.
        return pa.array(cells, pa.uint64() if pa.types.is_unsigned_integer(cell_type) else pa.int64())
