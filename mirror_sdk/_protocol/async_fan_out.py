"""Concurrent requests to many devices, a few at a time; the counterpart of :mod:`mirror_sdk._protocol.fan_out`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeVar

# Imported here, before a loop runs; otherwise the import would block the loop when the first client is made.
import mirror_sdk._protocol.async_sender  # noqa: F401
from mirror_sdk._protocol.event_loop import MAX_CONCURRENT
from mirror_sdk._run_in_thread import all_of

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def gather_requests(request: Callable[[K], Awaitable[T]], keys: Sequence[K]) -> list[T]:
    """Send a request for each key; return the results in the order of the keys.

    Raises:
        MirrorError: A request failed; no other request is sent.
    """
    results: dict[K, T] = {}
    waiting = iter(keys)

    async def work() -> None:
        for key in waiting:
            results[key] = await request(key)

    await all_of(work() for _ in range(MAX_CONCURRENT))
    return [results[key] for key in keys]


gather_concurrently = gather_requests
"""The same function: tasks need no extra resources, unlike the threads of the synchronous counterpart."""
