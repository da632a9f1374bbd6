"""Functions that run long work without blocking the event loop: in a thread, or in short slices of a task."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from mirror_sdk._fork import import_locked

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_TIME_SLICE_SECONDS = 0.005
"""The maximum time that a task runs before it yields to others. It equals the interpreter's switch interval."""

_imported: set[str] = set()
_uses_new_threads: ContextVar[bool] = ContextVar("uses_new_threads", default=False)


def run_in_new_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Start a function in a new thread with this name, and return its future result, which cannot be cancelled."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:
            result.set_exception(error)
        else:
            result.set_result(found)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


def use_new_threads() -> None:
    """Let this task, and the tasks that it starts, run functions in new threads instead of the few of the event loop.

    This is necessary for functions that wait for another task. Such functions could occupy all threads of the loop, and
    the other task would never continue.
    """
    _uses_new_threads.set(True)


async def to_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run a function in a thread and return its result; see :func:`use_new_threads`.

    Raises:
        Exception: Any error that the function raised.
    """
    if not _uses_new_threads.get():
        return await asyncio.to_thread(work, *arguments, **options)
    run: Callable[[], T] = partial(copy_context().run, work, *arguments, **options)
    return await asyncio.wrap_future(run_in_new_thread(run, "mirror-work"))


async def run_in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run a function in a thread and return its result. A cancelled call waits until the function has ended.

    Raises:
        Exception: Any error that the function raised.
    """
    return await to_the_end(to_thread(work, *arguments, **options))


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
