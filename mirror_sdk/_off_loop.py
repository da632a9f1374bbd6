"""What would hold an event loop is done beside it, in a thread, or in turns with the loop's other tasks."""

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

LONGEST_TURN_SECONDS = 0.005
"""How long one task goes on before it lets the others: as long as a thread may keep the interpreter."""

_imported: set[str] = set()


async def off_loop(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Do work in a thread. When this is cancelled, the work has ended before this does; what it gave is lost.

    Raises:
        Exception: What the work raised.
    """
    return await to_the_end(asyncio.to_thread(work, *arguments, **options))


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work that is not to be broken off: when this is cancelled, the work has ended before this does.

    Raises:
        Exception: What the work raised.
    """
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
        if not working.cancelled():
            # Else it is reported as what nobody has looked at.
            working.exception()


async def finish(work: Callable[P, None], *arguments: P.args, **options: P.kwargs) -> None:
    """Do work in a thread to its end, also when this is cancelled meanwhile.

    What the work raises is raised rather than that this was cancelled: what could not be written may not be followed.

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
    """Do several things beside each other. All have ended when this does: where one fails, the others are cancelled.

    Raises:
        Exception: What the first one raised.
    """
    working = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*working)
    finally:
        for one in working:
            one.cancel()
        await asyncio.wait(working)


async def import_off_loop(*modules: str) -> None:
    """Have modules imported, which then takes no time where they are used: pandas alone takes half a second.

    Raises:
        ImportError: One of them, or what it needs, is not installed.
    """
    for module in modules:
        # Not ``sys.modules``: there it also stands while another thread is at it, for whom an import waits.
        if module not in _imported:
            await off_loop(_import, module)
            _imported.add(module)


def _import(module: str) -> None:
    """Import a module, without the collections of garbage on the way going through all that was there before.

    What is made by an import is no garbage, but there is so much of it that it is looked through again and again, with
    all threads standing still.
    """
    if gc.get_freeze_count():
        # The program has set objects aside itself, and these must stay so.
        import_locked(module)
        return
    gc.freeze()
    try:
        import_locked(module)
    finally:
        gc.unfreeze()


@asynccontextmanager
async def entered_off_loop(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter a context manager and leave it, each in a thread; one that may be left wherever its entry ended."""
    try:
        yield await off_loop(manager.__enter__)
    finally:
        await off_loop(manager.__exit__, None, None, None)


class Turns:
    """Lets the other tasks of the loop have their turn while one has much to do.

    Args:
        clock: Tells seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()

    async def give(self) -> None:
        """Let the others go on, if this turn has been long; to be called again and again."""
        if self._clock() - self._began >= LONGEST_TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = self._clock()
