"""The cells of a column for Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.privacy.replacing import Replace, Rows


class ArrowCells:
    """The cells of a column of a table for Arrow.

    Args:
        column: The column.

    Attributes:
        column: The column, with what takes the place of its cells.
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column: pa.ChunkedArray = column
        self.is_changed: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether each is one value, and not a list, a structure or something else with values within."""
        return is_plain(self.column.type)

    @property
    def has_words(self) -> bool:
        """Whether some may be texts or bytes."""
        return any(is_one(self._kind) for is_one in _WORDS)

    @property
    def is_temporal(self) -> bool:
        """Whether they are times or spans of time."""
        return bool(pa.types.is_temporal(self._kind))

    @property
    def _kind(self) -> pa.DataType:
        return self.column.type.value_type if pa.types.is_dictionary(self.column.type) else self.column.type

    def values(self, rows: Rows | None = None) -> list[Any]:
        """Those that occur, each once, without what is missing."""
        found: list[Any] = self._in(rows).unique().drop_null().to_pylist()
        return found

    def count(self, rows: Rows | None = None) -> int:
        """How many are not missing."""
        column = self._in(rows)
        return len(column) - int(column.null_count)

    def places_of(self, values: Iterable[str]) -> Rows:
        """Where one of these stands."""
        found = pc.is_in(self.column, value_set=pa.array(list(values), self._kind))
        return np.array(found.to_numpy(zero_copy_only=False), np.bool_) if len(found) else np.zeros(0, np.bool_)

    def replace(self, replace: Replace, rows: Rows | None = None) -> None:
        """Put something else in the place of each, where it stands in these rows; nothing else of it is left."""
        encoded, kind = _encoded(self.column), self.column.type
        wanted = np.ones(len(encoded), np.bool_) if rows is None else rows
        index = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        missing = encoded.indices.is_null().to_numpy(zero_copy_only=False)
        told = encoded.dictionary.to_pylist()
        new = [None] * len(told)
        for place in np.unique(index[wanted & ~missing]).tolist():
            new[place] = replace(told[place])
        # Those of the other rows stay: they stand behind the new ones.
        replaced = _array(new, encoded.dictionary.type)
        cells = pa.concat_arrays([replaced, encoded.dictionary.cast(replaced.type)])
        plain = cells.take(pa.array(np.where(wanted, index, index + len(new)), mask=missing))
        self.column = pa.chunked_array([_as(plain, kind)])
        self.is_changed = True

    def _in(self, rows: Rows | None) -> pa.ChunkedArray:
        return self.column if rows is None else self.column.filter(pa.array(rows))


_WORDS = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
)


_WITHOUT_WORDS = (
    *(pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    pa.types.is_temporal,
)


def is_plain(kind: pa.DataType) -> bool:
    """Whether cells of a type are one value each, and of a type that pseudonyms can have."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(is_one(kind) for is_one in (*_WORDS, *_WITHOUT_WORDS))


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The cells with a dictionary of those that occur."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks().dictionary_encode()


def _array(cells: list[Any], kind: pa.DataType) -> pa.Array:
    """Cells in a type, or in the widest one of integers where a pseudonym has no room in a narrow one."""
    try:
        return pa.array(cells, kind)
    except (pa.ArrowInvalid, OverflowError):
        return pa.array(cells, pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64())


def _as(plain: pa.Array, kind: pa.DataType) -> pa.Array:
    """The cells in the type that the column had."""
    if not pa.types.is_dictionary(kind):
        return plain
    encoded = plain.dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        encoded.indices.cast(kind.index_type), encoded.dictionary, ordered=kind.ordered
    )
