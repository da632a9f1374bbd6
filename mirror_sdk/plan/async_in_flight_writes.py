"""Concurrent writes of a plan, as tasks in the event loop of the caller.

``in_flight_writes`` is the synchronous counterpart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeAlias

InFlightWrite: TypeAlias = "asyncio.Task[None]"


def start_write(carry_out: Callable[[], Coroutine[Any, Any, None]]) -> InFlightWrite:
    """Start a write, which runs concurrently."""
    return asyncio.create_task(carry_out())


async def wait_first(in_flight: Collection[InFlightWrite]) -> set[InFlightWrite]:
    """Wait until at least one write has ended."""
    ended, _ = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
    return ended


async def wait_all(in_flight: Collection[InFlightWrite]) -> None:
    """Cancel the writes and wait until they have ended."""
    for write in in_flight:
        write.cancel()
    if in_flight:
        await asyncio.wait(in_flight)
