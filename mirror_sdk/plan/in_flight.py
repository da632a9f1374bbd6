"""Writes of a plan that are under way beside each other, on threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeAlias

from mirror_sdk._protocol.device_request import DeviceRequest, wait_for_answer

Stop: TypeAlias = threading.Event
InFlightWrite: TypeAlias = "Future[None]"

_LOOK_SECONDS = 1.0
"""How long an answer is waited for before it is looked whether the plan was stopped."""


def start_write(carry_out: Callable[[], None]) -> InFlightWrite:
    """Have something done beside what else is under way."""
    write: InFlightWrite = Future()

    def run() -> None:
        try:
            carry_out()
        except BaseException as error:
            write.set_exception(error)
        else:
            write.set_result(None)

    # A daemon, not a pool: a pool is waited for when the interpreter ends, and a device may take its time.
    threading.Thread(target=run, name="mirror-plan", daemon=True).start()
    return write


def wait_first(in_flight: Collection[InFlightWrite]) -> set[InFlightWrite]:
    """Wait until one has ended, or several."""
    return wait(in_flight, return_when=FIRST_COMPLETED).done


def wait_all(in_flight: Collection[InFlightWrite]) -> None:
    """Wait until what is under way has ended, which it does soon when the plan is stopped."""
    wait(in_flight)


def wait_or_stop(request: DeviceRequest, wait_seconds: float, stop: Stop) -> None:
    """Wait until a request has its answer, its time is over, or the plan is stopped."""
    deadline = time.monotonic() + wait_seconds
    while not stop.is_set() and (remaining_seconds := deadline - time.monotonic()) > 0:
        if wait_for_answer(request, min(remaining_seconds, _LOOK_SECONDS)):
            return
