"""The cells of a column, for tables of any library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = "npt.NDArray[np.bool_]"
Indices: TypeAlias = "npt.NDArray[np.int64]"
Replace: TypeAlias = Callable[[Any], Any]
"""A function that returns the replacement of a value. If it returns ``None``, the cell becomes empty."""


class Cells:
    """The cells of a column, as indices into the list of distinct values. The index of an empty cell is -1.

    Args:
        encode: A function that returns the index of each cell, and the distinct values.
        is_plain: Whether each cell is a single value, and not a list, a structure or another container.
        has_texts: Whether cells can be strings or bytes.
        is_temporal: Whether the cells are times or durations.

    Attributes:
        is_changed: Whether :meth:`replace` was called.
    """

    def __init__(
        self, encode: Callable[[], tuple[Indices, list[Any]]], *, is_plain: bool, has_texts: bool, is_temporal: bool
    ) -> None:
        self._encode = encode
        self.is_plain: bool = is_plain
        self.has_texts: bool = has_texts
        self.is_temporal: bool = is_temporal
        self.is_changed: bool = False

    @cached_property
    def encoded(self) -> tuple[Indices, list[Any]]:
        """The index of each cell, and the distinct values."""
        return self._encode()

    def values(self, rows: Rows | None = None) -> list[Any]:
        """Return the distinct values in these rows; by default in all rows."""
        values = self.encoded[1]
        return [values[index] for index in np.unique(self._filled(rows)).tolist()]

    def count(self, rows: Rows | None = None) -> int:
        """Return the number of cells that are not empty."""
        return len(self._filled(rows))

    def rows_with(self, values: Iterable[str]) -> Rows:
        """Return the rows whose cell contains one of these values."""
        indices, known = self.encoded
        searched = set(values)
        return np.isin(indices, [index for index, value in enumerate(known) if value in searched])

    def replace(self, replace: Replace, rows: Rows | None = None) -> None:
        """Replace each value in these rows.

        Values that no longer occur are not stored anywhere afterwards.
        """
        indices, values = self.encoded
        chosen = indices >= 0 if rows is None else rows & (indices >= 0)
        replaced, position = np.unique(indices[chosen], return_inverse=True)
        # The function is called once for each distinct value, because a pseudonym requires the computation of a hash.
        new = [replace(values[index]) for index in replaced.tolist()]
        # Rows that are not selected keep the old values, so the new values are appended.
        new_indices = [-1 if value is None else len(values) + at for at, value in enumerate(new)]
        indices[chosen] = np.array(new_indices, np.int64)[position]
        values += new
        self.is_changed = True

    def _filled(self, rows: Rows | None) -> Indices:
        indices = self.encoded[0] if rows is None else self.encoded[0][rows]
        return indices[indices >= 0]
