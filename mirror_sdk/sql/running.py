"""Work on a DuckDB connection in a thread, which a caller can interrupt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import wait
from contextlib import suppress
from typing import Generic, TypeVar

import duckdb

from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._run_in_thread import run_in_new_thread, to_the_end
from mirror_sdk.errors import CallTimeout

T = TypeVar("T")

_INTERRUPT_SECONDS = 0.02
"""The time between two interrupts. One between two statements has no effect."""


class RunningQuery(Generic[T]):
    """A query that runs in a thread of its own.

    Args:
        work: The function that runs the query.
        connection: Its connection.
        stop_fetches: A function that stops all fetches of rows.
        deadline: The deadline of the call, or ``None``.
    """

    def __init__(
        self,
        work: Callable[[], T],
        connection: duckdb.DuckDBPyConnection,
        stop_fetches: Callable[[], None],
        deadline: Deadline | None,
    ) -> None:
        self._connection = connection
        self._stop_fetches = stop_fetches
        self._deadline = deadline
        self._result = run_in_new_thread(work, "mirror-sql-query")

    def result(self) -> T:
        """Return the result. If an exception ends the wait, the query is interrupted, and has ended afterwards.

        Raises:
            CallTimeout: The deadline has passed.
            Exception: The error of the query.
        """
        try:
            done, _ = wait([self._result], self._seconds_left)
            self._require(done)
        finally:
            while not self._result.done():
                self._interrupt()
                wait([self._result], _INTERRUPT_SECONDS)
        return self._result.result()

    async def result_on_loop(self) -> T:
        """Return the result as :meth:`result` does, while the event loop continues. This occupies none of its threads.

        Raises:
            CallTimeout: The deadline has passed.
            Exception: The error of the query.
        """
        ending = asyncio.wrap_future(self._result)
        try:
            done, _ = await asyncio.wait([ending], timeout=self._seconds_left)
            self._require(done)
        finally:
            await to_the_end(self._end(ending))
        return ending.result()

    async def _end(self, ending: asyncio.Future[T]) -> None:
        while not ending.done():
            self._interrupt()
            await asyncio.wait([ending], timeout=_INTERRUPT_SECONDS)
        # Otherwise asyncio would report that the exception of the query was never retrieved.
        ending.exception()

    @property
    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline.left

    def _require(self, done: Collection[object]) -> None:
        if not done and self._deadline is not None:
            raise CallTimeout(f"SQL query: {self._deadline.overrun}")

    def _interrupt(self) -> None:
        self._stop_fetches()
        # A query that has just ended has closed its connection.
        with suppress(duckdb.Error):
            self._connection.interrupt()
