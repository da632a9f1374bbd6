"""The cells of a column, whichever library holds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = "npt.NDArray[np.bool_]"
Indices: TypeAlias = "npt.NDArray[np.int64]"
Replace: TypeAlias = Callable[[Any], Any]
"""Returns the replacement of a value; ``None`` leaves the cell empty."""


class Cells(ABC):
    """The cells of a column, as indices into the list of its distinct values. The index of an empty cell is -1.

    Attributes:
        is_changed: Whether :meth:`replace` was called.
    """

    def __init__(self) -> None:
        self.is_changed: bool = False

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Whether each cell is one value, not a list, a structure or another container."""

    @property
    @abstractmethod
    def has_texts(self) -> bool:
        """Whether cells may be texts or bytes."""

    @property
    @abstractmethod
    def is_temporal(self) -> bool:
        """Whether the cells are times or durations."""

    @abstractmethod
    def _encode(self) -> tuple[Indices, list[Any]]:
        """Return the index of each cell, and the distinct values."""

    @cached_property
    def _encoded(self) -> tuple[Indices, list[Any]]:
        return self._encode()

    def values(self, rows: Rows | None = None) -> list[Any]:
        """Return the distinct values in these rows, by default in all of them."""
        values = self._encoded[1]
        return [values[index] for index in np.unique(self._filled(rows)).tolist()]

    def count(self, rows: Rows | None = None) -> int:
        """Return the number of cells that are not empty."""
        return len(self._filled(rows))

    def rows_with(self, values: Iterable[str]) -> Rows:
        """Return the rows whose cell is one of these values."""
        indices, known = self._encoded
        searched = set(values)
        return np.isin(indices, [index for index, value in enumerate(known) if value in searched])

    def replace(self, replace: Replace, rows: Rows | None = None) -> None:
        """Replace each value in these rows. Values that no longer occur are not stored anywhere afterwards."""
        indices, values = self._encoded
        chosen = indices >= 0 if rows is None else rows & (indices >= 0)
        replaced, position = np.unique(indices[chosen], return_inverse=True)
        new = [replace(values[index]) for index in replaced.tolist()]
        # Rows that are not chosen keep the old values, so the new ones are appended.
        new_indices = [-1 if value is None else len(values) + at for at, value in enumerate(new)]
        indices[chosen] = np.array(new_indices, np.int64)[position]
        values += new
        self.is_changed = True

    def _filled(self, rows: Rows | None) -> Indices:
        indices = self._encoded[0] if rows is None else self._encoded[0][rows]
        return indices[indices >= 0]
