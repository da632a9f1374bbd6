"""Concurrent writes of a plan, on threads.

``async_in_flight_writes`` is the asynchronous counterpart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeAlias

InFlightWrite: TypeAlias = "Future[None]"


def start_write(carry_out: Callable[[], None]) -> InFlightWrite:
    """Start a write, which runs concurrently."""
    write: InFlightWrite = Future()

    def run() -> None:
        try:
            carry_out()
        # Every error is caught, because the plan waits for a result.
        except BaseException as error:
            write.set_exception(error)
        else:
            write.set_result(None)

    # A daemon thread is used instead of a pool, because the interpreter waits for pools when it exits, and a response
    # may be slow to arrive.
    threading.Thread(target=run, name="mirror-plan", daemon=True).start()
    return write


def wait_first(in_flight: Collection[InFlightWrite]) -> set[InFlightWrite]:
    """Wait until at least one write has ended."""
    return wait(in_flight, return_when=FIRST_COMPLETED).done


def wait_all(in_flight: Collection[InFlightWrite]) -> None:
    """Wait until the writes have ended. This is soon if the plan was stopped."""
    wait(in_flight)
