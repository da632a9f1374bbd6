"""Waiting for what other threads do."""

import threading
from collections.abc import Callable

import pytest

PATIENCE_SECONDS = 30
PAUSE = threading.Event()


def until(condition: Callable[[], object]) -> None:
    """Return when the condition is true; fail when it does not get true."""
    for _ in range(PATIENCE_SECONDS * 100):
        if condition():
            return
        PAUSE.wait(0.01)
    pytest.fail("it did not happen")
