"""A bounded part of a long list: one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Pages:
    """Which page of a list is shown. ``index`` may point behind the end after the list got shorter; it is mended then.

    Args:
        size: How many items a page has at most.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.index = 0
        self.count = 1

    def cut(self, items: Sequence[T]) -> Sequence[T]:
        """The items of the page."""
        self.count = max(1, -(-len(items) // self.size))
        self.index = min(max(0, self.index), self.count - 1)
        return items[self.index * self.size : (self.index + 1) * self.size]

    @property
    def text(self) -> str:
        """Which page it is; empty where there is only one."""
        return f"page {self.index + 1} of {self.count}" if self.count > 1 else ""
