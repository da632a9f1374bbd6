"""Concurrent writes of a plan, on threads. The counterpart of ``async_in_flight``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeAlias

from mirror_sdk._protocol.device_request import DeviceRequest, wait_for_answer

Stop: TypeAlias = threading.Event
InFlightWrite: TypeAlias = "Future[None]"

_POLL_SECONDS = 1.0
"""How long to wait for a response before checking whether the plan was stopped."""


def start_write(carry_out: Callable[[], None]) -> InFlightWrite:
    """Start a write concurrently."""
    write: InFlightWrite = Future()

    def run() -> None:
        try:
            carry_out()
        except BaseException as error:
            write.set_exception(error)
        else:
            write.set_result(None)

    # A daemon thread, not a pool: the interpreter waits for pools when it ends, and a response may take long.
    threading.Thread(target=run, name="mirror-plan", daemon=True).start()
    return write


def wait_first(in_flight: Collection[InFlightWrite]) -> set[InFlightWrite]:
    """Wait until at least one write has ended."""
    return wait(in_flight, return_when=FIRST_COMPLETED).done


def wait_all(in_flight: Collection[InFlightWrite]) -> None:
    """Wait until the writes have ended, which is soon if the plan is stopped."""
    wait(in_flight)


def wait_or_stop(request: DeviceRequest, wait_seconds: float, stop: Stop) -> None:
    """Wait until a request has its response, its time is over, or the plan is stopped."""
    deadline = time.monotonic() + wait_seconds
    while not stop.is_set() and (remaining_seconds := deadline - time.monotonic()) > 0:
        if wait_for_answer(request, min(remaining_seconds, _POLL_SECONDS)):
            return
