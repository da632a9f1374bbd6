"""Writes of a plan that are under way beside each other, on threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeAlias

from mirror_sdk._service.device_request import DeviceRequest, wait_for_answer

Stop: TypeAlias = threading.Event
Flight: TypeAlias = "Future[None]"

_LOOK_SECONDS = 1.0
"""How long an answer is waited for before it is looked whether the plan was stopped."""


def take_off(carry_out: Callable[[], None]) -> Flight:
    """Have something done beside what else is under way."""
    flight: Flight = Future()

    def fly() -> None:
        try:
            carry_out()
        except BaseException as error:
            flight.set_exception(error)
        else:
            flight.set_result(None)

    # A daemon, not a pool: a pool is waited for when the interpreter ends, and a device may take its time.
    threading.Thread(target=fly, name="mirror-plan", daemon=True).start()
    return flight


def first_landed(flying: Collection[Flight]) -> set[Flight]:
    """Wait until one has ended, or several."""
    return wait(flying, return_when=FIRST_COMPLETED).done


def land_all(flying: Collection[Flight]) -> None:
    """Wait until what is under way has ended, which it does soon when the plan is stopped."""
    wait(flying)


def wait_or_stop(request: DeviceRequest, wait_seconds: float, stop: Stop) -> None:
    """Wait until a request has its answer, its time is over, or the plan is stopped."""
    deadline = time.monotonic() + wait_seconds
    while not stop.is_set() and (remaining_seconds := deadline - time.monotonic()) > 0:
        if wait_for_answer(request, min(remaining_seconds, _LOOK_SECONDS)):
            return
