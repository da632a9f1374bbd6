"""Concurrent writes of a plan, as tasks of the caller's loop. The counterpart of ``in_flight``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeAlias

from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest, wait_for_answer

Stop: TypeAlias = asyncio.Event
InFlightWrite: TypeAlias = "asyncio.Task[None]"


def start_write(carry_out: Callable[[], Coroutine[Any, Any, None]]) -> InFlightWrite:
    """Start a write concurrently."""
    return asyncio.create_task(carry_out())


async def wait_first(in_flight: Collection[InFlightWrite]) -> set[InFlightWrite]:
    """Wait until at least one write has ended."""
    ended, _ = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
    return ended


async def wait_all(in_flight: Collection[InFlightWrite]) -> None:
    """Cancel the writes, and wait until they have ended."""
    for write in in_flight:
        write.cancel()
    if in_flight:
        await asyncio.wait(in_flight)


async def wait_or_stop(request: AsyncDeviceRequest, wait_seconds: float, stop: Stop) -> None:
    """Wait until a request has its response, its time is over, or the plan is stopped."""
    answered = asyncio.ensure_future(wait_for_answer(request, wait_seconds))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({answered, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            answered.result()
    finally:
        for one in (answered, stopped):
            one.cancel()
        await asyncio.wait({answered, stopped})
