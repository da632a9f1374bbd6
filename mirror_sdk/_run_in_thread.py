"""Runs work that would block an event loop in a thread, or in turns with the other tasks of the loop."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from mirror_sdk._fork import import_locked

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_TIME_SLICE_SECONDS = 0.005
"""The time for which one task runs before it yields to the others, equal to the switch interval of the interpreter."""

_imported: set[str] = set()


async def run_in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run work in a thread. If this is cancelled, it waits for the work to end and discards the result.

    Raises:
        Exception: What the work raised.
    """
    return await to_the_end(asyncio.to_thread(work, *arguments, **options))


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work that must not be interrupted: if this is cancelled, it waits for the work to end.

    Raises:
        Exception: What the work raised.
    """
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
        if not working.cancelled():
            # Otherwise asyncio reports an exception that was never retrieved.
            working.exception()


async def finish(work: Callable[P, None], *arguments: P.args, **options: P.kwargs) -> None:
    """Run work in a thread to its end, even if this is cancelled.

    An error of the work then takes precedence over the cancellation: nothing may follow a failed write.

    Raises:
        Exception: What the work raised.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **options))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.result()
        raise


async def all_of(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently until all have ended; if one fails, cancel the others.

    Raises:
        Exception: The error of the first that failed.
    """
    working = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*working)
    finally:
        for one in working:
            one.cancel()
        await asyncio.wait(working)


async def import_in_thread(*modules: str) -> None:
    """Import modules in a thread, so that their later use takes no time: pandas alone takes half a second.

    Raises:
        ImportError: One of the modules, or a dependency, is not installed.
    """
    for module in modules:
        # Not ``sys.modules``, which also has modules that another thread is still importing.
        if module not in _imported:
            await run_in_thread(_import, module)
            _imported.add(module)


def _import(module: str) -> None:
    """Import a module without garbage collections that visit all older objects.

    An import creates so many objects that the collector runs again and again, which stops all threads.
    """
    if gc.get_freeze_count():
        # The program has frozen objects itself, and they must stay frozen.
        import_locked(module)
        return
    gc.freeze()
    try:
        import_locked(module)
    finally:
        gc.unfreeze()


@asynccontextmanager
async def entered_in_thread(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a context manager, each in a thread. It must allow leaving even if entering failed."""
    try:
        # Within the block, because a cancelled call discards the result of an entry that succeeded.
        yield await run_in_thread(manager.__enter__)
    finally:
        await run_in_thread(manager.__exit__, None, None, None)


class TimeSlice:
    """A check that lets the other tasks of the loop run while one has much to do.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()

    async def yield_if_over(self) -> None:
        """Yield to the other tasks if this turn has been long; call this again and again."""
        if self._clock() - self._began >= LONGEST_TIME_SLICE_SECONDS:
            await asyncio.sleep(0)
            self._began = self._clock()
