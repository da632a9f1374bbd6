"""Waiting for what other threads do."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

PATIENCE_SECONDS = 60
PAUSE = threading.Event()


def until(condition: Callable[[], object]) -> None:
    """Return when the condition is true; fail when it does not get true."""
    for _ in range(PATIENCE_SECONDS * 100):
        if condition():
            return
        PAUSE.wait(0.01)
    pytest.fail("it did not happen")


@contextmanager
def once(condition: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Beside what is done here, wait until the condition is true and do something then."""

    def wait_and_act() -> None:
        until(condition)
        act()

    with ThreadPoolExecutor(1) as pool:
        acted = pool.submit(wait_and_act)
        yield
        acted.result()
