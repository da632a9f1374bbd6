"""Work on a DuckDB connection in a thread, which a caller can interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from typing import Any, Generic, TypeVar

import duckdb

from mirror_sdk._protocol.deadline import Deadline
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
        self._result: Future[T] = Future()
        self._interrupted: Future[None] = Future()
        threading.Thread(target=self._run, args=(work,), name="mirror-sql-query", daemon=True).start()

    def interrupt(self) -> None:
        """Let :meth:`result` end soon."""
        self._interrupted.set_result(None)

    def result(self) -> T:
        """Return the result. If an exception ends the wait, the query is interrupted, and has ended afterwards.

        Raises:
            CallTimeout: The deadline has passed.
            Exception: The error of the query.
        """
        try:
            seconds = None if self._deadline is None else self._deadline.left
            either: list[Future[Any]] = [self._result, self._interrupted]
            done, _ = wait(either, seconds, FIRST_COMPLETED)
            if not done and self._deadline is not None:
                raise CallTimeout(f"SQL query: {self._deadline.overrun}")
        finally:
            while not self._result.done():
                self._stop_fetches()
                # A query that has just ended has closed its connection.
                with suppress(duckdb.Error):
                    self._connection.interrupt()
                wait([self._result], _INTERRUPT_SECONDS)
        return self._result.result()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            found = work()
        except BaseException as error:
            self._result.set_exception(error)
        else:
            self._result.set_result(found)
