"""Functions that run long work without blocking the event loop: in a thread, or in short slices of a task."""

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
"""The maximum time that a task runs before it yields to others. It equals the interpreter's switch interval."""

_imported: set[str] = set()


async def run_in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run a function in a thread and return its result. A cancelled call waits until the function has ended.

    Raises:
        Exception: Any error that the function raised.
    """
    return await to_the_end(asyncio.to_thread(work, *arguments, **options))


async def run_interruptible(work: Callable[[], T], interrupt: Callable[[], None]) -> T:
    """Run a function in a thread and return its result. A cancelled call interrupts the function and waits for its end.

    Raises:
        Exception: Any error that the function raised.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        interrupt()
        raise
    finally:
        await to_the_end(asyncio.wait([working]))
        # Otherwise asyncio would report that the exception of the work was never retrieved.
        working.exception()


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work that must not be interrupted. A cancelled call waits until the work has ended.

    Raises:
        Exception: Any error that the work raised.
    """
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
        if not working.cancelled():
            # Otherwise asyncio would report that the exception of the work was never retrieved.
            working.exception()


async def finish(work: Callable[P, None], *arguments: P.args, **options: P.kwargs) -> None:
    """Run a function in a thread until it has ended, even if the call is cancelled.

    If the call is cancelled and the function fails, the error of the function is raised. This prevents later steps from
    running after a failed write.

    Raises:
        Exception: Any error that the function raised.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **options))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.result()
        raise


async def all_of(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently until all of them have ended. If one fails, cancel the others.

    Raises:
        Exception: The error of the first coroutine that failed.
    """
    working = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*working)
    finally:
        for one in working:
            one.cancel()
        await asyncio.wait(working)


async def import_in_thread(*modules: str) -> None:
    """Import modules in a thread, so that later imports of them are fast. pandas alone takes half a second.

    Raises:
        ImportError: One of the modules, or a package that it needs, is not installed.
    """
    for module in modules:
        # ``sys.modules`` also contains modules that another thread is still importing, so it cannot be used here.
        if module not in _imported:
            await run_in_thread(_import, module)
            _imported.add(module)


def _import(module: str) -> None:
    """Import a module while the garbage collector ignores all older objects.

    An import creates so many objects that the collector runs many times. Each run visits all objects and stops all
    threads.
    """
    if gc.get_freeze_count():
        # The program has frozen objects itself. They would not stay frozen after gc.unfreeze().
        import_locked(module)
        return
    gc.freeze()
    try:
        import_locked(module)
    finally:
        gc.unfreeze()


@asynccontextmanager
async def entered_in_thread(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a context manager in a thread. It must be possible to leave it even if entering it has failed."""
    try:
        # Within the block, because a cancelled call discards the result even if entering succeeded.
        yield await run_in_thread(manager.__enter__)
    finally:
        await run_in_thread(manager.__exit__, None, None, None)


class TimeSlice:
    """A check that lets other tasks of the event loop run during a long computation.

    Args:
        clock: A function that returns the current time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()

    async def yield_if_over(self) -> None:
        """Yield to other tasks if this task has run for too long. Call this method often during the computation."""
        if self._clock() - self._began >= LONGEST_TIME_SLICE_SECONDS:
            await asyncio.sleep(0)
            self._began = self._clock()
