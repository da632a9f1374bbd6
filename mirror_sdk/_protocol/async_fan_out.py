"""Asking the same of each of many devices, some at a time; the twin of :mod:`mirror_sdk._protocol.fan_out`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeVar

# With this module, which a program imports before a loop runs, and not on the loop when its first client is made.
import mirror_sdk._protocol.async_sender  # noqa: F401
from mirror_sdk._protocol.event_loop import MOST_AT_ONCE
from mirror_sdk._run_in_thread import all_of

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def gather_requests(ask: Callable[[K], Awaitable[T]], asked: Sequence[K]) -> list[T]:
    """What comes of asking each, in their order.

    Raises:
        MirrorError: One of them failed; nothing more is asked.
    """
    answers: dict[K, T] = {}
    waiting = iter(asked)

    async def work() -> None:
        for one in waiting:
            answers[one] = await ask(one)

    await all_of(work() for _ in range(MOST_AT_ONCE))
    return [answers[one] for one in asked]


gather_concurrently = gather_requests
"""Tasks cost nothing, other than the threads of the twin."""
