"""Asking the same of each of many devices, one after the other or some at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")

_MOST_AT_ONCE = 8
"""How many threads ask: httpx gets slower with more."""


def gather_requests(ask: Callable[[K], T], asked: Sequence[K]) -> list[T]:
    """What comes of asking each, one after the other.

    Raises:
        MirrorError: One of them failed; nothing more is asked.
    """
    return [ask(one) for one in asked]


def gather_concurrently(ask: Callable[[K], T], asked: Sequence[K]) -> list[T]:
    """The same from threads, in their order.

    Raises:
        MirrorError: One of them failed; nothing more is begun.
    """
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return list(pool.map(ask, asked))
