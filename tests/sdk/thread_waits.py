"""Waits for other threads, and actions that run concurrently."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from waits import PATIENCE_SECONDS
from waits import wait_until as until

__all__ = ["PATIENCE_SECONDS", "PAUSE", "once", "until"]

PAUSE = threading.Event()


@contextmanager
def once(condition: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Run the block while a thread waits for a condition and then acts."""

    def wait_and_act() -> None:
        until(condition)
        act()

    with ThreadPoolExecutor(1) as pool:
        acted = pool.submit(wait_and_act)
        yield
        acted.result()
