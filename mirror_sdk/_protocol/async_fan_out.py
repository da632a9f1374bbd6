"""Concurrent requests to many devices, a few at a time, on an event loop. Module ``fan_out`` does it with threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeVar

# Imported before a loop runs, because the import would otherwise block the loop when the first client is created.
import mirror_sdk._protocol.async_sender  # noqa: F401
from mirror_sdk._protocol.event_loop import MAX_CONCURRENT
from mirror_sdk._run_in_thread import all_of

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def gather_requests(request: Callable[[K], Awaitable[T]], keys: Sequence[K]) -> list[T]:
    """Send a request for each key concurrently, and return the results in the order of the keys.

    Raises:
        MirrorError: A request failed. No further requests are sent.
    """
    results: dict[K, T] = {}
    waiting = iter(keys)

    async def work() -> None:
        for key in waiting:
            results[key] = await request(key)

    await all_of(work() for _ in range(MAX_CONCURRENT))
    return [results[key] for key in keys]


gather_concurrently = gather_requests
"""The same function. Only the synchronous counterpart needs two, because threads need more resources than tasks."""
