"""Writes of a plan that are under way beside each other, as tasks of the caller's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeAlias

from mirror_sdk._service.async_device_request import AsyncDeviceRequest, wait_for_answer

Stop: TypeAlias = asyncio.Event
Flight: TypeAlias = "asyncio.Task[None]"


def take_off(carry_out: Callable[[], Coroutine[Any, Any, None]]) -> Flight:
    """Have something done beside what else is under way."""
    return asyncio.create_task(carry_out())


async def first_landed(flying: Collection[Flight]) -> set[Flight]:
    """Wait until one has ended, or several."""
    landed, _ = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
    return landed


async def land_all(flying: Collection[Flight]) -> None:
    """Break off what is under way, and wait until it has ended."""
    for flight in flying:
        flight.cancel()
    if flying:
        await asyncio.wait(flying)


async def wait_or_stop(request: AsyncDeviceRequest, wait_seconds: float, stop: Stop) -> None:
    """Wait until a request has its answer, its time is over, or the plan is stopped."""
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
