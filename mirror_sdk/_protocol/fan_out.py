"""Requests to many devices, either one after the other or a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")

_MAX_THREADS = 8
"""The maximum number of concurrent requests. httpx becomes slower with more requests."""


def gather_requests(request: Callable[[K], T], keys: Sequence[K]) -> list[T]:
    """Send a request for each key, one after the other, and return the results in the order of the keys.

    Raises:
        MirrorError: A request failed. No further requests are sent.
    """
    return [request(key) for key in keys]


def gather_concurrently(request: Callable[[K], T], keys: Sequence[K]) -> list[T]:
    """Send a request for each key from several threads, and return the results in the order of the keys.

    Raises:
        MirrorError: A request failed. No further requests are started.
    """
    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        return list(pool.map(request, keys))
