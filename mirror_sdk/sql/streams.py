"""Tables that a thread or a task fetches while DuckDB reads them in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from mirror_sdk._run_in_thread import use_new_threads

_MOST_WAITING = 4

Put: TypeAlias = Callable[[pa.Table], None]
"""A function that passes a table on. It waits while several tables have not been read."""


class StreamClosed(Exception):
    """Raised by ``Put`` when no more tables are needed."""


class TableStream:
    """The tables of a fetch that runs at the same time, for one reader.

    Args:
        cancel: A function that cancels the fetch, if that is possible.
    """

    def __init__(self, cancel: Callable[[], object] = lambda: None) -> None:
        self._cancel = cancel
        self._changed = threading.Condition()
        self._tables: deque[pa.Table] = deque()
        self._error: BaseException | None = None
        self._is_complete = False
        self._is_closed = False

    def put(self, table: pa.Table) -> None:
        """Pass a table on.

        Raises:
            StreamClosed: The reader needs no more tables.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._tables) < _MOST_WAITING)
            if self._is_closed:
                raise StreamClosed
            self._tables.append(table)
            self._changed.notify_all()

    def finish(self, error: BaseException | None = None) -> None:
        """End the stream. The reader raises the error after it has read all tables."""
        with self._changed:
            self._is_complete, self._error = True, error
            self._changed.notify_all()

    def __iter__(self) -> Iterator[pa.Table]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._tables or self._is_complete or self._is_closed)
                if self._is_closed:
                    raise StreamClosed
                if not self._tables:
                    break
                table = self._tables.popleft()
                self._changed.notify_all()
            yield table
        if self._error is not None and not isinstance(self._error, StreamClosed):
            raise self._error

    def stop(self) -> None:
        """Stop the fetch, and let its reader raise ``StreamClosed``."""
        with self._changed:
            is_first, self._is_closed = not self._is_closed, True
            self._tables.clear()
            self._changed.notify_all()
        if is_first:
            self._cancel()

    def close(self) -> None:
        """Stop the fetch, and wait until it has ended."""
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: self._is_complete)


def fetch_in_thread(work: Callable[[Put], None]) -> TableStream:
    """Start to fetch tables in a thread. ``work`` passes them to its argument."""
    stream = TableStream()

    def run() -> None:
        try:
            work(stream.put)
        except BaseException as error:
            stream.finish(error)
        else:
            stream.finish()

    threading.Thread(target=run, name="mirror-sql", daemon=True).start()
    return stream


def fetch_on_loop(loop: asyncio.AbstractEventLoop, work: Callable[[Put], Awaitable[None]]) -> TableStream:
    """Start to fetch tables in a task of a loop that runs in another thread. ``work`` passes them to its argument."""
    tasks: list[asyncio.Task[None]] = []

    def cancel() -> None:
        # The loop calls this after ``start``.
        tasks[0].cancel()

    stream = TableStream(lambda: loop.call_soon_threadsafe(cancel))

    def end(task: asyncio.Task[None]) -> None:
        stream.finish(StreamClosed() if task.cancelled() else task.exception())

    def start() -> None:
        tasks.append(asyncio.ensure_future(_awaited(work(stream.put))))
        tasks[0].add_done_callback(end)

    loop.call_soon_threadsafe(start)
    return stream


async def _awaited(work: Awaitable[None]) -> None:
    # The fetch waits for DuckDB, which may first wait for the rows of another fetch.
    use_new_threads()
    await work


def thread_functions() -> tuple[Callable[[Callable[[Put], None]], TableStream], Callable[[int | None], int | None]]:
    """Return the functions to start a fetch and to wait for a request, for a synchronous client."""
    return fetch_in_thread, lambda result: result


def loop_functions() -> tuple[
    Callable[[Callable[[Put], Awaitable[None]]], TableStream],
    Callable[[Coroutine[object, object, int | None]], int | None],
]:
    """Return the functions to start a fetch and to wait for a request, for the running loop of another thread."""
    loop = asyncio.get_running_loop()
    return partial(fetch_on_loop, loop), lambda request: asyncio.run_coroutine_threadsafe(request, loop).result()
